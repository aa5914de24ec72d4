"""Queue of conversations for the language model, and the worker that processes it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from memoryhub.access.filters import level_filter
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import Scope
from memoryhub.extraction import services
from memoryhub.extraction.comparison import Destination
from memoryhub.extraction.conversation import Turn, parse_turns, to_messages
from memoryhub.extraction.services import ExtractionInterrupted, ExtractionResult
from memoryhub.maintenance import results
from memoryhub.maintenance.worker import ExclusiveThread
from memoryhub.memories import Conflict
from memoryhub.memories.rows import resolve_owner, resolve_project
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.models import Extraction, Memory

logger = logging.getLogger(__name__)
Status = Extraction.Status
MAX_WAITING = 1000
MAX_ATTEMPTS = 3  # after unexpected errors; the last attempt uses the rules only
RETENTION = timedelta(days=30)  # of finished rows, and of failed rows with their messages
queue_changed = threading.Condition()  # notified after a commit in this process


def resolve_destination(destination: Destination, actor: Actor) -> Destination:
    """Return the destination with the project that the actor writes to.

    Raise StoreError if the actor may not write there or a name contains a credential.
    """
    draft = MemoryDraft(content="-", project=destination.project, session_id=destination.session_id)
    with journal_refusals(draft, actor, "extraction"):
        refuse_secrets(draft, ("project", "session_id"))
    resolve_owner(destination.scope, actor)
    return replace(destination, project=resolve_project(destination.project, actor))


def enqueue(turns: Sequence[Turn], destination: Destination, actor: Actor) -> Extraction:
    """Queue a conversation. Raise Conflict if too many are waiting."""
    with write_transaction():
        if Extraction.objects.filter(status=Status.QUEUED).count() >= MAX_WAITING:
            raise Conflict(f"{MAX_WAITING:,} conversations are already waiting; try again later")
        row = Extraction.objects.create(
            project=destination.project,
            session_id=destination.session_id,
            scope=destination.scope,
            sensitivity=destination.sensitivity,
            actor=actor.name,
            reach=results.clearance_to_json(actor.clearance),
            messages=to_messages(turns),
        )
        transaction.on_commit(_notify_workers)
    return row


def _notify_workers() -> None:
    with queue_changed:
        queue_changed.notify_all()


def get_extraction(uid: str, actor: Actor) -> Extraction | None:
    """Return an extraction that this actor requested.

    The owner is compared too, because a token name may be reused by another owner.
    """
    row = Extraction.objects.filter(uid=uid, actor=actor.name).first()
    if (
        row is None
        or row.reach.get("owner", "") != actor.owner
        or not actor.clearance.includes_project(row.project)
    ):
        return None
    return row


def find_with_notes(clearance: Clearance) -> QuerySet[Extraction]:
    """Return the visible extractions with notes or errors, newest first."""
    return _visible_extractions(clearance).exclude(error="").order_by("-pk")


def _visible_extractions(clearance: Clearance) -> QuerySet[Extraction]:
    rows = Extraction.objects.filter(level_filter(clearance))
    if clearance.every_owner:
        return rows
    return rows.filter(~Q(scope=Scope.PERSONAL.value) | Q(reach__owner=clearance.owner))


def count_by_status(clearance: Clearance) -> dict[str, int]:
    """Count the visible extractions by status."""
    rows = _visible_extractions(clearance).order_by().values("status").annotate(count=Count("pk"))
    return {row["status"]: row["count"] for row in rows}


def visible_results(row: Extraction, actor: Actor) -> list[dict[str, Any]]:
    """Return the results, with the abstracts of the memories that are still visible to the actor."""
    uids = [result["id"] for result in row.result if result.get("id")]
    seen = Memory.objects.visible_to(actor.clearance).live().filter(uid__in=uids)
    abstracts = dict(seen.values_list("uid", "abstract"))
    return [{**result, "abstract": abstracts.get(result.get("id"), "")} for result in row.result]


def requeue_interrupted() -> int:
    """Queue running rows again. Call it only while no worker runs."""
    with write_transaction():
        return Extraction.objects.filter(status=Status.RUNNING).update(status=Status.QUEUED)


def delete_old(now: datetime) -> None:
    """Delete finished rows after the retention time; their memories stay."""
    old = Extraction.objects.filter(finished_at__lt=now - RETENTION)
    if old.exists():
        with write_transaction():
            old.delete()


def process_next(is_stopping: Callable[[], bool] = bool) -> bool:
    """Process the oldest queued conversation; return False if there is none."""
    row = Extraction.objects.filter(status=Status.QUEUED).order_by("pk").first()
    if row is None or not _claim(row):
        return False
    try:
        result = _process(row, is_stopping)
    except ExtractionInterrupted:
        with write_transaction():
            _claimed(row).update(status=Status.QUEUED, tries=row.tries - 1)
    except Exception as error:
        logger.exception("extraction %s failed", row.uid)
        # The error message may quote the conversation, so only the log contains it.
        _record_failure(row, f"{type(error).__name__}; see the log of the hub")
        raise
    else:
        _finish(row, result)
    return True


def _claim(row: Extraction) -> bool:
    with write_transaction():
        claimed = Extraction.objects.filter(pk=row.pk, status=Status.QUEUED).update(
            status=Status.RUNNING, tries=F("tries") + 1, started_at=timezone.now()
        )
    row.refresh_from_db()
    return bool(claimed)


def _claimed(row: Extraction) -> QuerySet[Extraction]:
    """Return the row while this process has it. A process that took it over has raised ``tries``."""
    return Extraction.objects.filter(pk=row.pk, status=Status.RUNNING, tries=row.tries)


def _process(row: Extraction, is_stopping: Callable[[], bool]) -> ExtractionResult:
    destination = Destination(row.project, row.session_id, row.scope, row.sensitivity)
    actor = Actor(row.actor, results.clearance_from_json(row.reach))
    turns = parse_turns(row.messages)

    def is_ending() -> bool:
        return is_stopping() or not _claimed(row).exists()

    if row.tries >= MAX_ATTEMPTS:
        result = services.extract_by_rules(turns, destination, actor)
        result.notes.append("the language model failed; the rules were used")
        return result
    return services.extract_by_model(turns, destination, actor, is_ending)


def _finish(row: Extraction, result: ExtractionResult) -> None:
    """Save the outcomes and delete the messages, unless another process has the row now."""
    results = [{name: one[name] for name in one if name != "abstract"} for one in result.results]
    outcomes = Counter(one["outcome"] for one in result.results)
    now = timezone.now()
    with write_transaction():
        is_mine = _claimed(row).update(
            status=Status.DONE,
            extractor=result.extractor,
            result=results,
            error="; ".join(result.notes)[:2000],
            messages=[],
            finished_at=now,
        )
        if not is_mine:
            return
        detail = {"extractor": result.extractor, **outcomes}
        owner = row.reach.get("owner", "") if row.scope == Scope.PERSONAL.value else ""
        change = journal.Change("extract", "extraction", row.uid, detail, row.project, row.sensitivity, owner)
        journal.record(Actor(row.actor), [change], now)


def _record_failure(row: Extraction, why: str) -> None:
    """Queue the row again, or mark it failed after the last attempt."""
    last = row.tries >= MAX_ATTEMPTS
    with write_transaction():
        _claimed(row).update(
            status=Status.FAILED if last else Status.QUEUED,
            error=why,
            finished_at=timezone.now() if last else None,
        )


class ExtractionWorker(ExclusiveThread):
    """Background thread that processes the queue; only one runs at a time."""

    def __init__(self) -> None:
        super().__init__("extraction", queue_changed)

    def run_once(self) -> bool:
        return self.take_lease() is not None and process_next(self.ending.is_set)

    def on_lease_taken(self) -> None:
        """Requeue rows that the previous holder left running."""
        requeue_interrupted()
        delete_old(timezone.now())

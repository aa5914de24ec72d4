"""Conversations that wait for the language model, and the worker that reads them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from memoryhub.access.filters import level_filter
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import Scope
from memoryhub.extraction import services
from memoryhub.extraction.candidates import Place
from memoryhub.extraction.conversation import Turn, as_messages, turns
from memoryhub.extraction.services import Interrupted, Read
from memoryhub.maintenance import run_scope
from memoryhub.maintenance.worker import ExclusiveThread
from memoryhub.memories import Conflict
from memoryhub.memories.rows import resolve_owner, resolve_project
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.models import Extraction, Memory

logger = logging.getLogger(__name__)
Status = Extraction.Status
MOST_WAITING = 1000
MOST_TRIES = 3  # of one that ends in an error that nobody foresaw; the last is by the rules alone
KEPT = timedelta(days=30)  # of what is done, and of what failed with its messages
queued = threading.Condition()  # told when one was queued in this process


def settled(place: Place, actor: Actor) -> Place:
    """The place as the actor may write to it; StoreError where they may not, or it holds a credential."""
    draft = MemoryDraft(content="-", project=place.project, session_id=place.session_id)
    with journal_refusals(draft, actor, "extraction"):
        refuse_secrets(draft, ("project", "session_id"))
    resolve_owner(place.scope, actor)
    return Place(resolve_project(place.project, actor), place.session_id, place.scope, place.sensitivity)


def submit(said: Sequence[Turn], place: Place, actor: Actor) -> Extraction:
    """Queue a conversation; Conflict when too many wait."""
    with write_transaction():
        if Extraction.objects.filter(status=Status.QUEUED).count() >= MOST_WAITING:
            raise Conflict(f"{MOST_WAITING:,} conversations wait to be read already; try again later")
        row = Extraction.objects.create(
            project=place.project,
            session_id=place.session_id,
            scope=place.scope,
            sensitivity=place.sensitivity,
            actor=actor.name,
            reach=run_scope.clearance_to_json(actor.clearance),
            messages=as_messages(said),
        )
        transaction.on_commit(_wake)
    return row


def _wake() -> None:
    with queued:
        queued.notify_all()


def find(uid: str, actor: Actor) -> Extraction | None:
    """One that this actor asked for; by the owner too, for a token's name may be given away again."""
    row = Extraction.objects.filter(uid=uid, actor=actor.name).first()
    if row is None or row.reach.get("owner", "") != actor.owner or not actor.clearance.reaches(row.project):
        return None
    return row


def troubled(clearance: Clearance) -> QuerySet[Extraction]:
    """What could not be read as configured, newest first, as far as this clearance may know of it."""
    return _known_to(clearance).exclude(error="").order_by("-pk")


def _known_to(clearance: Clearance) -> QuerySet[Extraction]:
    rows = Extraction.objects.filter(level_filter(clearance))
    if clearance.every_owner:
        return rows
    return rows.filter(~Q(scope=Scope.PERSONAL.value) | Q(reach__owner=clearance.owner))


def counts(clearance: Clearance) -> dict[str, int]:
    """How many there are in each state, as far as this clearance may know of them."""
    rows = _known_to(clearance).order_by().values("status").annotate(count=Count("pk"))
    return {row["status"]: row["count"] for row in rows}


def results_of(row: Extraction, actor: Actor) -> list[dict[str, Any]]:
    """The outcomes with the abstracts of those memories that the actor may see now."""
    uids = [result["id"] for result in row.result if result.get("id")]
    seen = Memory.objects.visible_to(actor.clearance).live().filter(uid__in=uids)
    abstracts = dict(seen.values_list("uid", "abstract"))
    return [{**result, "abstract": abstracts.get(result.get("id"), "")} for result in row.result]


def recover() -> int:
    """Put back what somebody began and did not end. Only for who knows that nobody works on it any more."""
    with write_transaction():
        return Extraction.objects.filter(status=Status.RUNNING).update(status=Status.QUEUED)


def prune(now: datetime) -> None:
    """Rows of long ago; the memories stay."""
    old = Extraction.objects.filter(finished_at__lt=now - KEPT)
    if old.exists():
        with write_transaction():
            old.delete()


def work(leaving: Callable[[], bool] = bool) -> bool:
    """Read the conversation that has waited longest; False when none waits."""
    row = Extraction.objects.filter(status=Status.QUEUED).order_by("pk").first()
    if row is None or not _claim(row):
        return False
    try:
        read = _read(row, leaving)
    except Interrupted:
        _put_back(row, tries=row.tries - 1)
    except Exception as error:
        logger.exception("extraction %s failed", row.uid)
        # Its own words may hold those of the conversation; the log is for operators alone.
        _fail(row, f"{type(error).__name__}; the log of the hub has the details")
        raise
    else:
        _finish(row, read)
    return True


def _claim(row: Extraction) -> bool:
    with write_transaction():
        taken = Extraction.objects.filter(pk=row.pk, status=Status.QUEUED).update(
            status=Status.RUNNING, tries=F("tries") + 1, started_at=timezone.now()
        )
    row.refresh_from_db()
    return bool(taken)


def _read(row: Extraction, leaving: Callable[[], bool]) -> Read:
    place = Place(row.project, row.session_id, row.scope, row.sensitivity)
    actor = Actor(row.actor, run_scope.clearance_from_json(row.reach))
    said = turns(row.messages)
    if row.tries >= MOST_TRIES:
        read = services.by_rules(said, place, actor)
        return Read(read.extractor, read.results, ["reading it with the model failed; the rules read it"])
    return services.by_model(said, place, actor, leaving)


def _finish(row: Extraction, read: Read) -> None:
    """The outcomes stay, the messages go."""
    kept = [{name: one[name] for name in one if name != "abstract"} for one in read.results]
    counted = Counter(one["outcome"] for one in read.results)
    now = timezone.now()
    with write_transaction():
        Extraction.objects.filter(pk=row.pk, status=Status.RUNNING).update(
            status=Status.DONE,
            extractor=read.extractor,
            result=kept,
            error="; ".join(read.notes)[:2000],
            messages=[],
            finished_at=now,
        )
        detail = {"extractor": read.extractor, **counted}
        owner = row.reach.get("owner", "") if row.scope == Scope.PERSONAL.value else ""
        change = journal.Change("extract", "extraction", row.uid, detail, row.project, row.sensitivity, owner)
        journal.record(Actor(row.actor), [change], now)


def _put_back(row: Extraction, tries: int) -> None:
    with write_transaction():
        Extraction.objects.filter(pk=row.pk, status=Status.RUNNING).update(status=Status.QUEUED, tries=tries)


def _fail(row: Extraction, why: str) -> None:
    """To be tried again, but for one that not even the rules could read."""
    last = row.tries >= MOST_TRIES
    with write_transaction():
        Extraction.objects.filter(pk=row.pk, status=Status.RUNNING).update(
            status=Status.FAILED if last else Status.QUEUED,
            error=why,
            finished_at=timezone.now() if last else None,
        )


class Reader(ExclusiveThread):
    """Reads what waits; whoever takes over goes on with what another left."""

    def __init__(self) -> None:
        super().__init__("extraction", queued)

    def turn(self) -> bool:
        return self.hold() is not None and work(self.ending.is_set)

    def taken_over(self) -> None:
        """Nobody can be working on what is running then."""
        recover()
        prune(timezone.now())

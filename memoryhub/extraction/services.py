"""Extract memories from a conversation, by the language model if possible, else by rules.

If the model fails, nothing is lost: the rules read each part that the model cannot read, or for which it
proposed an invalid candidate. Conversations wait in a queue for the model and its worker.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from memoryhub import llm
from memoryhub.access.filters import level_filter
from memoryhub.access.policy import LEVELS, Actor, Clearance, level_rank
from memoryhub.audit import journal
from memoryhub.capture import projects
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import NEVER_MERGED, ProjectMode, Scope
from memoryhub.extraction import llm_prompts, rules
from memoryhub.extraction.comparison import Candidate, Destination, word_overlap
from memoryhub.extraction.conversation import Turn, parse_turns, split_turns, to_messages
from memoryhub.extraction.deduplication import DecisionMaker, DedupDecision, Neighbour, create_deduplicated
from memoryhub.llm import Chat, ModelError
from memoryhub.maintenance import results
from memoryhub.maintenance.worker import ExclusiveThread
from memoryhub.memories import Conflict, Forbidden, StoreError, StoreResult, create_memory
from memoryhub.memories.rows import resolve_owner, resolve_project
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.models import Extraction, Memory, ModelUse, Project

logger = logging.getLogger(__name__)
RULES, MODEL, BOTH = "rules", "model", "model and rules"
MAX_STORE_SECONDS = 4.0  # for the model's decision while an agent waits for its store
_SAME_TOPIC_OVERLAP = 0.6  # of the words of two candidates of one conversation


class ExtractionInterrupted(Exception):
    """The server is shutting down; the conversation is processed again after the restart."""


@dataclass
class ExtractionResult:
    """``results`` has one entry per candidate. ``notes`` lists deviations from the configuration."""

    extractor: str = RULES
    results: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def extract_by_rules(turns: Sequence[Turn], destination: Destination, actor: Actor) -> ExtractionResult:
    """Extract by rules and store the result."""
    turns = _without_ignored_paths(turns, Project.named(destination.project))
    return ExtractionResult(
        RULES, [_store_candidate(one, destination, actor) for one in rules.extract(turns)]
    )


def permitted_turns(turns: Sequence[Turn], project: Project, now: datetime) -> tuple[list[Turn], str]:
    """Return the turns without ignored paths, or no turns and the reason if the project forbids them."""
    if not project.records_events(now):
        return [], projects.leave_out(project, "extract", now)
    return _without_ignored_paths(turns, project), ""


def _without_ignored_paths(turns: Sequence[Turn], project: Project) -> list[Turn]:
    ignored = IgnoredPaths(project.ignored_paths, project.name)
    return [replace(turn, text=ignored.redact(turn.text)) for turn in turns]


def may_send_to_model(level: str) -> bool:
    """Return whether texts of this level may be sent to the model."""
    return level in LEVELS and level_rank(level) <= level_rank(settings.MEMORYHUB.llm_sees)


def configured_model(max_seconds: float = math.inf) -> tuple[Chat | None, str]:
    """Return the configured model, or None and the reason if its configuration is invalid.

    ``max_seconds`` limits ``llm_timeout_seconds``.
    """
    try:
        return llm.configured(reserve_in_budget, max_seconds), ""
    except ModelError as error:
        return None, str(error)


def will_use_model(destination: Destination) -> bool:
    """Return whether a model is configured and may read conversations of this level."""
    return may_send_to_model(destination.sensitivity) and configured_model()[0] is not None


def extract_by_model(
    turns: Sequence[Turn], destination: Destination, actor: Actor, is_stopping: Callable[[], bool] = bool
) -> ExtractionResult:
    """Ask the model part by part; the rules read parts that it cannot or may not read.

    Raise ExtractionInterrupted if ``is_stopping`` returns true after a request or before a store. A second
    run recognises the memories that are already stored.
    """
    project = Project.named(destination.project)
    if not project.is_recorded:  # every candidate is refused
        return extract_by_rules(turns, destination, actor)
    turns = _without_ignored_paths(turns, project)
    chat, why = configured_model()
    if chat and not may_send_to_model(destination.sensitivity):
        chat, why = None, f"text above {settings.MEMORYHUB.llm_sees} is not sent to the model"
    if chat is None:
        result = extract_by_rules(turns, destination, actor)
        result.notes += [f"{why}; the rules were used"] if why else []
        return result
    reader = _ModelExtractor(chat, destination, actor, is_stopping)
    for part in split_turns(turns, settings.MEMORYHUB.llm_prompt_tokens):
        reader.read_part(part)
    return reader.result


def create_by_model(draft: MemoryDraft, actor: Actor) -> StoreResult:
    """Store a draft; the model decides about similar memories, or the rules if it is off or fails."""
    is_asked = may_send_to_model(draft.sensitivity.value) and draft.category not in NEVER_MERGED
    chat = configured_model(MAX_STORE_SECONDS)[0] if is_asked else None

    def choose(draft: MemoryDraft, found: Sequence[Neighbour]) -> DedupDecision | None:
        try:
            return _ask_for_decision(chat, draft, found) if chat else None
        except ModelError as error:
            logger.warning("%s; the rules decided", error)
            return None

    return create_deduplicated(draft, actor, choose=choose if chat else None)


def _ask_for_decision(chat: Chat, draft: MemoryDraft, found: Sequence[Neighbour]) -> DedupDecision | None:
    """Return the model's decision about similar memories, or None if it may not read all of them."""
    memories = [one.memory for one in found if may_send_to_model(one.memory.sensitivity)]
    if not memories or len(memories) < len(found):
        return None
    texts = [memory.content for memory in memories]
    question = llm_prompts.decision_prompt(draft.content, texts)
    reply = chat.ask(question, settings.MEMORYHUB.llm_answer_tokens)
    verdict, at = llm_prompts.parse_decision(reply.text, draft.content, texts)
    return DedupDecision(verdict, None if verdict.decision == "create" else memories[at])


def _is_covered(candidate: Candidate, found: Sequence[Candidate]) -> bool:
    """Return whether one of the candidates has the same topic."""
    return any(
        candidate.dedup_key == one.dedup_key
        or word_overlap(candidate.content, one.content) >= _SAME_TOPIC_OVERLAP
        for one in found
    )


class _ModelExtractor:
    def __init__(
        self, chat: Chat, destination: Destination, actor: Actor, is_stopping: Callable[[], bool]
    ) -> None:
        self.chat, self.destination, self.actor, self.is_stopping = chat, destination, actor, is_stopping
        self.result = ExtractionResult("")

    def read_part(self, part: Sequence[Turn]) -> None:
        self._check_stop()
        try:
            reply = self.chat.ask(llm_prompts.extraction_prompt(part), settings.MEMORYHUB.llm_answer_tokens)
            found, refused = llm_prompts.parse_candidates(reply.text, part)
        except ModelError as error:
            self._add_extractor(RULES)
            self._note(f"{error}; the rules were used")
            self._store(rules.extract(part), None)
            return
        self._add_extractor(MODEL)
        for why in dict.fromkeys(refused):
            self._note(f"{refused.count(why)} of the model's candidates left out: {why}")
        self._store(found, self._choose)
        if refused:
            # The rejected candidate may have replaced a valid one.
            self._add_extractor(RULES)
            self._store([one for one in rules.extract(part) if not _is_covered(one, found)], None)

    def _store(self, found: Sequence[Candidate], choose: DecisionMaker | None) -> None:
        for candidate in found:
            self._check_stop()
            self.result.results.append(_store_candidate(candidate, self.destination, self.actor, choose))

    def _choose(self, draft: MemoryDraft, found: Sequence[Neighbour]) -> DedupDecision | None:
        """Let the model decide about similar memories, or return None (the rules decide)."""
        decision = None
        try:
            decision = _ask_for_decision(self.chat, draft, found)
        except ModelError as error:
            self._note(f"{error}; the rules decided")
        self._check_stop()  # the model may have taken long
        return decision

    def _add_extractor(self, extractor: str) -> None:
        self.result.extractor = extractor if self.result.extractor in ("", extractor) else BOTH

    def _note(self, message: str) -> None:
        if message not in self.result.notes:
            self.result.notes.append(message)

    def _check_stop(self) -> None:
        if self.is_stopping():
            raise ExtractionInterrupted


def _store_candidate(
    candidate: Candidate, destination: Destination, actor: Actor, choose: DecisionMaker | None = None
) -> dict[str, Any]:
    """Return the outcome of one candidate, or its refusal."""
    details: dict[str, Any] = {"category": candidate.category, "why": candidate.why}
    project = Project.named(destination.project)
    try:
        draft = candidate.draft(destination)
        if not project.is_recorded:
            raise Forbidden(f"nothing is stored in the project {project.name}: its mode is {project.mode}")
        if project.mode == ProjectMode.APPROVE:
            create_memory(draft, actor, needs_approval=True)
            return {"outcome": "waiting", "id": None, **details}
        stored = create_deduplicated(draft, actor, choose=choose)
    except StoreError as refusal:
        return {"outcome": "refused", "id": None, "code": refusal.code, "detail": refusal.message, **details}
    # Actors may store above their clearance.
    is_visible = Memory.objects.visible_to(actor.clearance).filter(pk=stored.memory.pk).exists()
    abstract = stored.memory.abstract if is_visible else draft.abstract
    if stored.memory.over_cap:
        details["warnings"] = ["over_cap"]
    return {"outcome": stored.outcome, "id": stored.memory.uid, "abstract": abstract, **details}


@dataclass(frozen=True)
class DailyUsage:
    """Usage of all models on one day."""

    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def reserve_in_budget(model: str, tokens: int, now: datetime | None = None) -> llm.Settle:
    """Reserve a call and tokens for today, as prompt tokens until the returned function is called.

    Raise ModelError if ``llm_daily_calls`` or ``llm_daily_tokens`` is exhausted; 0 means no limit.
    """
    config = settings.MEMORYHUB
    day = (now or timezone.now()).astimezone(UTC).date()
    name = model[:200]
    with write_transaction():
        spent = usage_on(day)
        if config.llm_daily_calls and spent.calls >= config.llm_daily_calls:
            raise ModelError(f"the language model's {config.llm_daily_calls:,} calls of today are used up")
        if config.llm_daily_tokens and spent.tokens + tokens > config.llm_daily_tokens:
            raise ModelError(
                f"the language model's {config.llm_daily_tokens:,} tokens of today are not enough for "
                f"{tokens:,} more"
            )
        ModelUse.objects.get_or_create(day=day, model=name)
        ModelUse.objects.filter(day=day, model=name).update(
            calls=F("calls") + 1, prompt_tokens=F("prompt_tokens") + tokens
        )
    return partial(_settle, day, name, tokens)


def _settle(
    day: date, model: str, reserved: int, prompt_tokens: int, completion_tokens: int, *, failed: bool = False
) -> None:
    """Replace the reserved tokens with the used ones; the call stays counted."""
    with write_transaction():
        ModelUse.objects.filter(day=day, model=model).update(
            prompt_tokens=Greatest(F("prompt_tokens") - reserved, 0) + prompt_tokens,
            completion_tokens=F("completion_tokens") + completion_tokens,
            failures=F("failures") + int(failed),
        )


def usage_on(day: date | None = None) -> DailyUsage:
    """Return the usage of all models on a day (default: today, UTC)."""
    day = day or timezone.now().astimezone(UTC).date()
    return _to_usage(ModelUse.objects.filter(day=day).aggregate(**_SUMS))


def recent_usage(days: int, until: date | None = None) -> list[tuple[date, DailyUsage]]:
    """Return the usage of the last days, newest first, including days without usage."""
    until = until or timezone.now().astimezone(UTC).date()
    since = until - timedelta(days=days - 1)
    rows = ModelUse.objects.filter(day__gte=since, day__lte=until).order_by().values("day").annotate(**_SUMS)
    found = {row["day"]: _to_usage(row) for row in rows}
    wanted = [until - timedelta(days=back) for back in range(days)]
    return [(day, found.get(day, DailyUsage())) for day in wanted]


_SUMS = {name: Sum(name) for name in ("calls", "failures", "prompt_tokens", "completion_tokens")}


def _to_usage(row: Mapping[str, Any]) -> DailyUsage:
    return DailyUsage(**{name: row[name] or 0 for name in _SUMS})


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
        result = extract_by_rules(turns, destination, actor)
        result.notes.append("the language model failed; the rules were used")
        return result
    return extract_by_model(turns, destination, actor, is_ending)


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

"""Inject context: select the few memories that matter, render them as a block, and log the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, Sensitivity, stricter_level
from memoryhub.core.text import shorten
from memoryhub.core.timeouts import Deadline, DeadlinePassed
from memoryhub.core.transactions import is_database_busy, write_transaction
from memoryhub.core.vocabulary import MemoryType
from memoryhub.injection import context_block, selection
from memoryhub.injection.candidates import (
    Candidate,
    find_candidates,
    injectable_memories,
    strip_context_blocks,
)
from memoryhub.injection.selection import BLOCKED, REDACTED, InspectedCandidate, Selection
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.memories.update import PROMPT_INJECTION_FLAG, flag_memories
from memoryhub.models import Injection, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import default_weights
from memoryhub.security.secrets import redact

MAX_PREVIEW_INPUT = 100_000  # characters, more than any preview: a credential is not cut in two at its end
MAX_EMPTY_WAIT = 0.1  # seconds for other writers; then an answer without memories goes out without its row
MAX_PREVIOUS_INJECTIONS = 30  # prompts of a session back


def find_previously_shown(
    wanted: InjectionRequest, clearance: Clearance, now: datetime
) -> dict[str, datetime]:
    """When each memory was last shown to this session, as far as the agent still has it before its eyes:
    within the session scale, and since it last lost its context."""
    if not wanted.session_id:
        return {}
    begin = now - timedelta(minutes=settings.MEMORYHUB.session_minutes)
    rows = Injection.objects.visible_to(clearance).filter(
        session__session_id=wanted.session_id,
        project=wanted.project,
        at__gte=max(begin, wanted.fresh_since or begin),
    )
    found: dict[str, datetime] = {}
    for at, injected in rows.order_by("-at").values_list("at", "injected")[:MAX_PREVIOUS_INJECTIONS]:
        for one in injected:
            found.setdefault(one["id"], at)
    return found


def record_injection(
    wanted: InjectionRequest,
    result: InjectionResult,
    clearance: Clearance,
    actor: Actor,
    now: datetime,
    deadline: Deadline,
) -> bool:
    """Log the injection and count an access of each memory shown; whether that could be done.

    A prompt that brought nothing up leaves a row without memories, but none in a project out of reach. The
    log is as sensitive as the prompt, and as all that is shown.
    """
    if wanted.project and not clearance.reaches(wanted.project):
        return True
    left = deadline.left()
    try:
        with write_transaction(patience=left if result.injected else min(left, MAX_EMPTY_WAIT)):
            row = _build_log_row(wanted, result)
            row.session, row.at = _find_or_create_session(wanted, clearance, actor, now), now
            row.took_ms = deadline.took()
            row.save(force_insert=True)
            count_accesses_and_promote([one.candidate.memory for one in result.shown], now)
            flag_memories(_flags_by_memory(result), actor, now)
    except OperationalError as error:
        if not is_database_busy(error):
            raise
        logger.warning("an injection could not be logged: %s", error)
        return not result.injected
    return True


def _build_log_row(wanted: InjectionRequest, result: InjectionResult) -> Injection:
    """What was asked, shown and held back; not saved, and without its session and time."""
    level = wanted.sensitivity
    for one in result.shown:
        level = stricter_level(level, one.candidate.memory.sensitivity)
    return Injection(
        project=wanted.project,
        sensitivity=level,
        prompt_preview=_preview_prompt(wanted.prompt),
        token_budget=wanted.budget,
        tokens_used=result.tokens_used,
        injected=[{"id": one.uid, "score": one.score, "scale": one.scale} for one in result.injected],
        withheld=[
            {"id": one.uid, "reason": one.reason, **({"detail": one.detail} if one.detail else {})}
            for one in result.withheld
        ],
    )


def record_missed_injection(
    wanted: InjectionRequest, result: InjectionResult, actor: Actor, now: datetime, deadline: Deadline
) -> None:
    """Log a prompt that got nothing because its answer was late or failed. Never raises, hardly waits."""
    try:
        record_injection(wanted, result, wanted.clearance(actor), actor, now, deadline)
    except Exception:
        logger.exception("that a prompt got nothing could not be logged")


def _flags_by_memory(result: InjectionResult) -> dict[str, list[str]]:
    """What the governor found in which memory, as flags for a reviewer."""
    found = [one for one in result.withheld if one.reason in (BLOCKED, REDACTED) and one.detail]
    return {one.uid: [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in one.detail.split(", ")] for one in found}


def _preview_prompt(prompt: str) -> str:
    """The beginning of a prompt, without credentials and without what was injected before."""
    beginning = strip_context_blocks(prompt.replace("\x00", " ")[:MAX_PREVIEW_INPUT])
    return shorten(redact(beginning), settings.MEMORYHUB.event_preview_chars)


def _find_or_create_session(
    wanted: InjectionRequest, clearance: Clearance, actor: Actor, now: datetime
) -> Session | None:
    """The session that asked; one that is new begins here."""
    if not wanted.session_id or not clearance.reaches(wanted.project):
        return None
    Session.widen([(wanted.session_id, wanted.project, now, now)], actor.name)
    return Session.objects.get(session_id=wanted.session_id, project=wanted.project)


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InjectionRequest:
    """What is asked for; without a project, an actor that is confined to one means that.

    ``token_budget`` (of the whole block) and ``max_count`` default to the configuration. Levels beside public
    are seen only if asked for and cleared. ``fresh_since``: when the agent last lost its context (it was
    compacted); what was shown before that may be shown again. ``sensitivity``: of the prompt.
    """

    prompt: str
    session_id: str = ""
    project: str = ""
    token_budget: int | None = None
    max_count: int | None = None
    allow_private: bool = False
    allow_secret: bool = False
    fresh_since: datetime | None = None
    sensitivity: str = Sensitivity.PUBLIC.value

    @property
    def budget(self) -> int:
        return settings.MEMORYHUB.token_budget if self.token_budget is None else self.token_budget

    @property
    def count(self) -> int:
        return settings.MEMORYHUB.max_inject_count if self.max_count is None else self.max_count

    def clearance(self, actor: Actor) -> Clearance:
        return actor.clearance.asking(private=self.allow_private, secret=self.allow_secret)


@dataclass(frozen=True)
class InjectedItem:
    """A memory in the block; ``scale`` is empty when ``memory.temporal`` is off."""

    uid: str
    score: float
    scale: str


@dataclass(frozen=True)
class WithheldItem:
    """A memory, or a sentence of one, that was held back; ``detail`` says more and never repeats the text."""

    uid: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class InjectionResult:
    """``context`` is the block, or empty. ``skipped``: what could not be done, one line each.

    ``shown`` and ``choice`` are for a page that explains the choice, behind the same gate.
    """

    context: str = ""
    injected: list[InjectedItem] = field(default_factory=list)
    withheld: list[WithheldItem] = field(default_factory=list)
    tokens_used: int = 0
    took_ms: float = 0.0
    skipped: list[str] = field(default_factory=list)
    shown: list[InspectedCandidate] = field(default_factory=list)
    choice: Selection | None = None


# Finds candidates for what is wanted, best first, within a clearance at a moment.
CandidateFinder = Callable[[InjectionRequest, Clearance, datetime], list[Candidate]]


def inject_context(
    wanted: InjectionRequest, actor: Actor, *, now: datetime | None = None, record: bool = True
) -> InjectionResult:
    """The block for a prompt. Never raises: what goes wrong, or takes too long, gives an empty one.

    ``record`` False is a preview: nothing is logged, no access is counted.
    """
    return inject_candidates(_candidates_for_prompt, wanted, actor, now=now, record=record)


def _candidates_for_prompt(wanted: InjectionRequest, clearance: Clearance, now: datetime) -> list[Candidate]:
    return find_candidates(injectable_memories(clearance, wanted.project, now), wanted.prompt, now)


def inject_candidates(
    find: CandidateFinder,
    wanted: InjectionRequest,
    actor: Actor,
    *,
    now: datetime | None = None,
    record: bool = True,
) -> InjectionResult:
    """The block of what ``find`` finds: chosen, governed, logged; on time or empty."""
    deadline = Deadline(settings.MEMORYHUB.injection_deadline_ms)
    now, wanted = now or timezone.now(), _with_default_project(wanted, actor)
    try:
        return _inject_in_time(find, wanted, actor, now, deadline, record)
    except DeadlinePassed:
        logger.warning("an injection was not ready after %g ms and left out", deadline.milliseconds)
        reason = f"injection: not ready after {deadline.milliseconds:g} ms"
    except Exception:
        logger.exception("an injection failed and was left out")
        reason = "injection failed; the log has the details"
    missed = InjectionResult(skipped=[reason], took_ms=deadline.took())
    if record:
        record_missed_injection(wanted, missed, actor, now, deadline)
    return missed


def _with_default_project(wanted: InjectionRequest, actor: Actor) -> InjectionRequest:
    """Without a project, an actor that is confined to one means that."""
    projects = actor.clearance.projects or ()
    if wanted.project or len(projects) != 1:
        return wanted
    return replace(wanted, project=next(iter(projects)))


def _inject_in_time(
    find: CandidateFinder,
    wanted: InjectionRequest,
    actor: Actor,
    now: datetime,
    deadline: Deadline,
    record: bool,
) -> InjectionResult:
    clearance = wanted.clearance(actor)
    notes: list[str] = []
    with deadline.reading():
        found = find(wanted, clearance, now)
        known = find_previously_shown(wanted, clearance, now)
        chosen = selection.select_memories(found, known, wanted.budget, wanted.count, now, deadline, notes)
    notes = list(dict.fromkeys(notes))
    result = _build_result(chosen, notes, deadline)
    deadline.check()
    if record and not record_injection(wanted, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return InjectionResult(skipped=[*notes, busy], took_ms=deadline.took())
    return result


def _build_result(chosen: Selection, notes: list[str], deadline: Deadline) -> InjectionResult:
    context = context_block.render_block(
        [one.passage for one in chosen.shown], [one.text for one in chosen.shown]
    )
    return InjectionResult(
        context=context,
        injected=[
            InjectedItem(one.candidate.memory.uid, one.candidate.score, one.scale) for one in chosen.shown
        ],
        withheld=[WithheldItem(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=context_block.count_tokens(context),
        took_ms=deadline.took(),
        skipped=notes,
        shown=chosen.shown,
        choice=chosen,
    )


MAX_RECENT = 100  # memories among which the weightiest are sought
MAX_IMPORTANT = 3  # memories beside the last summary
MIN_IMPORTANCE = 0.6
_SUMMARY_TYPES = (
    MemoryType.SESSION_SUMMARY.value,
    MemoryType.CHECKPOINT.value,
    MemoryType.COMPRESSED_SUMMARY.value,
)


def inject_at_session_start(
    wanted: InjectionRequest, actor: Actor, now: datetime | None = None
) -> InjectionResult:
    """The block for a session that begins; empty when there is nothing worth it. Never raises, never late."""
    return inject_candidates(_candidates_for_session_start, wanted, actor, now=now)


def _candidates_for_session_start(
    wanted: InjectionRequest, clearance: Clearance, now: datetime
) -> list[Candidate]:
    alive = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    memories = alive.filter(project=wanted.project)
    return [_to_candidate(memory, now) for memory in _select_for_session_start(memories, wanted, now)]


def _select_for_session_start(
    memories: MemoryQuerySet, wanted: InjectionRequest, now: datetime
) -> Iterable[Memory]:
    """The summary of the last session but this one, then the weightiest of the latest memories."""
    recent = list(memories.order_by("-updated_at")[:MAX_RECENT])
    others = [one for one in recent if one.session_id != wanted.session_id]
    yield from [one for one in others if one.type == MemoryType.SESSION_SUMMARY.value][:1]
    weighty = [one for one in recent if one.type not in _SUMMARY_TYPES and one.importance >= MIN_IMPORTANCE]
    yield from sorted(weighty, key=lambda one: -_to_candidate(one, now).score)[:MAX_IMPORTANT]


def _to_candidate(memory: Memory, now: datetime) -> Candidate:
    """All of them match: they are about this project."""
    age = (now - memory.updated_at).total_seconds() / 86_400
    parts = scoring.Components(
        match=1.0,
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=memory.importance,
        trust=memory.trust,
    )
    return Candidate(memory, round(scoring.composite_score(parts, default_weights()), 4), parts)

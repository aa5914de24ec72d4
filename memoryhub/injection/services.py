"""Inject context: select the few memories that matter, render them as a block, and log the result.

An injection is on time or empty, and never raises (docs/injection.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, Sensitivity, stricter_level
from memoryhub.backends import bulk, statements
from memoryhub.core import damage
from memoryhub.core.database import Deadline, DeadlinePassed, write_transaction
from memoryhub.core.private_text import strip_private
from memoryhub.core.text import shorten
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection import context_block, selection
from memoryhub.injection.candidates import (
    Candidate,
    find_candidates,
    full_match,
    injectable_memories,
)
from memoryhub.injection.selection import (
    BLOCKED,
    REDACTED,
    InspectedCandidate,
    Selection,
)
from memoryhub.injection.tool_candidates import find_about_files, find_repairs
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.memories.update import PROMPT_INJECTION_FLAG, flag_memories
from memoryhub.models import Injection, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.prompts import strip_context_blocks
from memoryhub.search.visible_rows import load_in_background
from memoryhub.security.secrets import redact

logger = logging.getLogger(__name__)

MAX_PREVIEW_INPUT = 100_000  # characters; longer than any preview, so no credential is cut in two at its end
MAX_EMPTY_WAIT = 0.1  # seconds to wait for other writers before an empty injection is answered without a log
MAX_PREVIOUS_INJECTIONS = 30
MAX_RECENT = 100  # memories among which the most important ones are selected at session start
MAX_IMPORTANT = 3  # memories in addition to the last summary
MIN_IMPORTANCE = 0.6
MAX_PINNED = 100  # pinned memories that one session opens with, whatever their budget


@dataclass(frozen=True)
class InjectionRequest:
    """Parameters of an injection, without the private parts of the prompt.

    The project defaults to that of an actor with a single project.
    ``token_budget`` (of the block without the pinned memories) and ``max_count`` default to the
    configuration. ``max_tokens``: limit of the whole block, if the agent has one. Private and secret
    memories must be requested and allowed. ``fresh_since``: when the agent last lost its context (by
    compaction); memories shown before may be shown again. ``sensitivity``: that of the prompt. ``session``:
    the session, if the caller has it.
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
    session: Session | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", strip_private(self.prompt))

    @property
    def budget(self) -> int:
        return settings.MEMORYHUB.token_budget if self.token_budget is None else self.token_budget

    @property
    def count(self) -> int:
        return settings.MEMORYHUB.max_inject_count if self.max_count is None else self.max_count

    def clearance(self, actor: Actor) -> Clearance:
        return actor.clearance.limited_to(private=self.allow_private, secret=self.allow_secret)


@dataclass(frozen=True)
class InjectedItem:
    """A memory in the block. ``scale`` is empty if ``memory.temporal`` is switched off."""

    uid: str
    score: float
    scale: str


@dataclass(frozen=True)
class WithheldItem:
    """A memory, or part of one, that is not in the block. ``detail`` never contains its text."""

    uid: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class InjectionResult:
    """The block, or an empty ``context``. ``skipped``: failed or disabled steps, one line each.

    ``warnings``: what the caller can fix, one line each. ``shown`` and ``choice`` are for pages that explain
    the selection to the same viewer.
    """

    context: str = ""
    injected: list[InjectedItem] = field(default_factory=list)
    withheld: list[WithheldItem] = field(default_factory=list)
    tokens_used: int = 0
    took_ms: float = 0.0
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shown: list[InspectedCandidate] = field(default_factory=list)
    choice: Selection | None = None


@dataclass(frozen=True)
class _Candidates:
    """The candidates of an injection. ``pinned`` ones come first and have a budget of their own."""

    ranked: list[Candidate] = field(default_factory=list)
    pinned: list[Candidate] = field(default_factory=list)


CandidateFinder = Callable[[InjectionRequest, Clearance, datetime], _Candidates]


def inject_context(
    request: InjectionRequest, actor: Actor, *, now: datetime | None = None, record: bool = True
) -> InjectionResult:
    """Return the block for a prompt; empty on an error or timeout. Never raises.

    With ``record`` False, nothing is logged and no access is counted.
    """
    return _inject(_candidates_for_prompt, request, actor, now=now, record=record)


def inject_at_session_start(
    request: InjectionRequest, actor: Actor, now: datetime | None = None
) -> InjectionResult:
    """Return the block for a new session: pinned memories, the last summary, recent important memories."""
    return _warn_if_missed(_inject(_candidates_for_session_start, request, actor, now=now))


def inject_pinned(request: InjectionRequest, actor: Actor, now: datetime | None = None) -> InjectionResult:
    """Return the block of the pinned memories alone. Without any, nothing is logged."""
    request = with_default_project(request, actor)
    moment = now or timezone.now()
    if not _pinned_memories(request, request.clearance(actor), moment).exists():
        return InjectionResult()
    pins = _inject(lambda *given: _Candidates(pinned=find_pinned(*given)), request, actor, now=moment)
    return _warn_if_missed(pins)


def _warn_if_missed(result: InjectionResult) -> InjectionResult:
    """Return the block of a session start with a warning if it is empty because a step failed."""
    return result if result.context else replace(result, warnings=[*result.warnings, *result.skipped])


def inject_for_tool_call(
    request: InjectionRequest, files: Sequence[str], failure: str, actor: Actor, now: datetime
) -> InjectionResult:
    """Return the block for a tool call that touches files or reports a failure. Logged only if not empty."""

    def find(request: InjectionRequest, clearance: Clearance, now: datetime) -> _Candidates:
        memories = injectable_memories(clearance, request.project, now)
        about = find_about_files(memories, files, request.project, request.session_id, now)
        return _Candidates(about + (find_repairs(memories, failure, now) if failure else []))

    if request.project and not request.clearance(actor).includes_project(request.project):
        return InjectionResult()
    deadline_ms = settings.MEMORYHUB.tool_deadline_ms
    return _inject(find, request, actor, now=now, record="shown", deadline_ms=deadline_ms)


def _candidates_for_prompt(request: InjectionRequest, clearance: Clearance, now: datetime) -> _Candidates:
    memories = injectable_memories(clearance, request.project, now)
    return _Candidates(find_candidates(memories, request.prompt, now))


def _live_in_project(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the live memories of the project, without those that a visible memory replaces."""
    return _live_memories(request, clearance, now).filter(project=request.project)


def _live_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    return live.exclude(superseded_by__in=live)


def _pinned_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the pinned memories of the project and of no project, which every session opens with."""
    return _live_memories(request, clearance, now).pinned().filter(project__in={request.project, ""})


def find_pinned(request: InjectionRequest, clearance: Clearance, now: datetime) -> list[Candidate]:
    """Return the most important pinned memories, hardly more than could fit into their budget."""
    most = min(settings.MEMORYHUB.pinned_token_budget // context_block.MIN_TEXT_TOKENS + 1, MAX_PINNED)
    pinned = _pinned_memories(request, clearance, now).order_by("-importance", "pinned_at", "pk")
    return [full_match(memory, now) for memory in pinned[:most]]


def _candidates_for_session_start(
    request: InjectionRequest, clearance: Clearance, now: datetime
) -> _Candidates:
    """Return the summary of the previous session, then the best of the latest important memories."""
    live = _live_in_project(request, clearance, now).unpinned()
    recent = list(live.order_by("-updated_at")[:MAX_RECENT])
    summaries = [
        full_match(memory, now)
        for memory in recent
        if memory.session_id != request.session_id and memory.type == MemoryType.SESSION_SUMMARY.value
    ]
    important = [
        full_match(memory, now)
        for memory in recent
        if memory.type not in SUMMARY_TYPES and memory.importance >= MIN_IMPORTANCE
    ]
    ranked = [*summaries[:1], *sorted(important, key=lambda one: -one.score)[:MAX_IMPORTANT]]
    return _Candidates(ranked, find_pinned(request, clearance, now))


def _inject(
    find: CandidateFinder,
    request: InjectionRequest,
    actor: Actor,
    *,
    now: datetime | None = None,
    record: bool | Literal["shown"] = True,
    deadline_ms: float | None = None,
) -> InjectionResult:
    """Return a block. ``record``: whether to log it, or to log it if it shows or misses something."""
    deadline = Deadline(deadline_ms or settings.MEMORYHUB.injection_deadline_ms)
    now, request = now or timezone.now(), with_default_project(request, actor)
    try:
        return _inject_in_time(find, request, actor, now, deadline, record)
    except DeadlinePassed:
        logger.warning("an injection was not ready after %g ms and left out", deadline.milliseconds)
        reason = f"injection: not ready after {deadline.milliseconds:g} ms"
        # The first search of a large store reads all visible rows, which can take longer than the deadline.
        load_in_background(injectable_memories(request.clearance(actor), request.project, now))
    except Exception as error:
        logger.exception("an injection failed and was left out")
        cause = damage.ADVICE if damage.is_damage(error) else "the log has the details"
        reason = f"injection failed; {cause}"
    missed = InjectionResult(skipped=[reason], took_ms=deadline.took())
    if record:
        try:
            record_injection(request, missed, request.clearance(actor), actor, now, deadline)
        except Exception:
            logger.exception("a missed injection could not be logged")
    return missed


def with_default_project(request: InjectionRequest, actor: Actor) -> InjectionRequest:
    """Return the request with the only project of the actor, if it names none and there is only one."""
    projects = actor.clearance.projects or ()
    if request.project or len(projects) != 1:
        return request
    return replace(request, project=next(iter(projects)))


def _inject_in_time(
    find: CandidateFinder,
    request: InjectionRequest,
    actor: Actor,
    now: datetime,
    deadline: Deadline,
    record: bool | Literal["shown"],
) -> InjectionResult:
    clearance = request.clearance(actor)
    notes: list[str] = []
    with deadline.reading():
        candidates = find(request, clearance, now)
        shown_at = _previously_shown(request, clearance, now)
        chosen, warnings = _select(candidates, request, shown_at, now, deadline, notes)
    notes = list(dict.fromkeys(notes))
    context = _render(chosen)
    result = InjectionResult(
        context=context,
        injected=[
            InjectedItem(one.candidate.memory.uid, one.candidate.score, one.scale) for one in chosen.shown
        ],
        withheld=[WithheldItem(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=context_block.count_tokens(context),
        took_ms=deadline.took(),
        skipped=notes,
        warnings=warnings,
        shown=chosen.shown,
        choice=chosen,
    )
    deadline.check()
    if record == "shown" and not result.injected:
        return result
    if record and not record_injection(request, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return InjectionResult(skipped=[*notes, busy], took_ms=deadline.took())
    return result


def _select(
    candidates: _Candidates,
    request: InjectionRequest,
    shown_at: dict[str, datetime],
    now: datetime,
    deadline: Deadline,
    notes: list[str],
) -> tuple[Selection, list[str]]:
    """Select the pinned memories and the others, each within their budget. Return the warnings too."""
    most = request.max_tokens
    limit, left, pinned = settings.MEMORYHUB.pinned_token_budget, request.budget, Selection()
    if candidates.pinned:
        limit = limit if most is None else min(limit, most)
        pinned = selection.select_pinned(candidates.pinned, shown_at, limit, deadline)
        left = left if most is None else min(left, most - context_block.count_tokens(_render(pinned)))
    others = selection.select_memories(candidates.ranked, shown_at, left, request.count, now, deadline, notes)
    both = Selection(pinned.shown + others.shown, pinned.withheld + others.withheld)
    return both, selection.pinned_warnings(pinned)


def _render(chosen: Selection) -> str:
    return context_block.render_block(
        [one.passage for one in chosen.shown], [one.text for one in chosen.shown]
    )


def _previously_shown(request: InjectionRequest, clearance: Clearance, now: datetime) -> dict[str, datetime]:
    """Return when each memory was last shown to this session, if it still is in the agent's context.

    Injections before the session scale or before the agent lost its context do not count.
    """
    if not request.session_id or (request.session and request.session.is_new):
        return {}
    begin = now - timedelta(minutes=settings.MEMORYHUB.session_minutes)
    since, levels = max(begin, request.fresh_since or begin), clearance.levels_in(request.project)
    found: dict[str, datetime] = {}
    for at, injected in statements.read_injections(
        request.session_id, request.project, levels, since, MAX_PREVIOUS_INJECTIONS
    ):
        for one in injected:
            found.setdefault(one["id"], at)
    return found


def record_injection(
    request: InjectionRequest,
    result: InjectionResult,
    clearance: Clearance,
    actor: Actor,
    now: datetime,
    deadline: Deadline,
) -> bool:
    """Log an injection, count an access of each shown memory, and flag detected prompt injections.

    Returns whether the result may be shown: False if the log could not be written. An empty result
    is logged too, but not in a project that the actor cannot access.
    """
    if request.project and not clearance.includes_project(request.project):
        return True
    left = deadline.left()
    try:
        with write_transaction(patience=left if result.injected else min(left, MAX_EMPTY_WAIT)):
            row = _build_log_row(request, result)
            row.session_id, row.at = _session_key(request, clearance, actor, now), now
            row.took_ms = deadline.took()
            bulk.insert_objects([row])
            count_accesses_and_promote([one.candidate.memory for one in result.shown], now)
            flag_memories(_flags_by_memory(result), actor, now)
    except OperationalError as error:
        logger.warning("an injection could not be logged: %s", error)
        return not result.injected
    return True


def _build_log_row(request: InjectionRequest, result: InjectionResult) -> Injection:
    """Return an unsaved row without session and time. Its level is the strictest of prompt and memories."""
    level = request.sensitivity
    for one in result.shown:
        level = stricter_level(level, one.candidate.memory.sensitivity)
    return Injection(
        project=request.project,
        sensitivity=level,
        prompt_preview=_preview_prompt(request.prompt),
        token_budget=_total_budget(request, result),
        tokens_used=result.tokens_used,
        injected=[{"id": one.uid, "score": one.score, "scale": one.scale} for one in result.injected],
        withheld=[
            {"id": one.uid, "reason": one.reason, **({"detail": one.detail} if one.detail else {})}
            for one in result.withheld
        ],
    )


def _total_budget(request: InjectionRequest, result: InjectionResult) -> int:
    """Return the tokens that the block could have, with those of its pinned memories."""
    has_pinned = any(one.scale == selection.PINNED for one in result.injected)
    total = request.budget + has_pinned * settings.MEMORYHUB.pinned_token_budget
    return total if request.max_tokens is None else min(total, request.max_tokens)


def _preview_prompt(prompt: str) -> str:
    """Return the beginning of a prompt without credentials and injected context."""
    beginning = strip_context_blocks(prompt.replace("\x00", " ")[:MAX_PREVIEW_INPUT])
    return shorten(redact(beginning), settings.MEMORYHUB.event_preview_chars)


def _session_key(request: InjectionRequest, clearance: Clearance, actor: Actor, now: datetime) -> int | None:
    if not request.session_id or not clearance.includes_project(request.project):
        return None
    if request.session:
        return request.session.pk
    [key] = Session.widen([(request.session_id, request.project, now, now)], actor.name)
    return key


def _flags_by_memory(result: InjectionResult) -> dict[str, list[str]]:
    """Return flags for reviewers: the kinds of instructions found in each memory."""
    found = [one for one in result.withheld if one.reason in (BLOCKED, REDACTED) and one.detail]
    return {one.uid: [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in one.detail.split(", ")] for one in found}

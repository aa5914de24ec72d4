"""The request and the result of an injection, and its log: one row with the memories and the reasons."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import OperationalError

from memoryhub.access.policy import Actor, Clearance, Sensitivity, stricter_level
from memoryhub.backends import bulk, statements
from memoryhub.core.database import Deadline, write_transaction
from memoryhub.core.text import shorten, strip_private
from memoryhub.injection import selection
from memoryhub.injection.project_page import PageEntry
from memoryhub.injection.selection import BLOCKED, REDACTED, InspectedCandidate, Selection
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.update import PROMPT_INJECTION_FLAG, flag_memories
from memoryhub.models import Injection, Session
from memoryhub.search.prompts import strip_injected_context
from memoryhub.security.secrets import redact


@dataclass(frozen=True)
class InjectionRequest:
    """Parameters of an injection, without the private parts of the prompt.

    The project defaults to that of an actor with a single project.
    ``token_budget`` (of the block without the pinned memories), ``max_count`` and ``min_score`` default to
    the configuration. ``max_tokens``: limit of the whole block, if the agent has one. Private and secret
    memories must be requested and allowed. ``fresh_since``: when the agent last lost its context (by
    compaction); memories shown before may be shown again. ``once_in_session``: whether this is the only
    reason to show a memory again, and not that it was shown long ago. ``sensitivity``: that of the prompt.
    ``session``: the session, if the caller has it.
    """

    prompt: str
    session_id: str = ""
    project: str = ""
    token_budget: int | None = None
    max_count: int | None = None
    allow_private: bool = False
    allow_secret: bool = False
    fresh_since: datetime | None = None
    once_in_session: bool = False
    sensitivity: str = Sensitivity.PUBLIC.value
    session: Session | None = None
    max_tokens: int | None = None
    min_score: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", strip_private(self.prompt))

    @property
    def budget(self) -> int:
        return settings.MEMORYHUB.token_budget if self.token_budget is None else self.token_budget

    @property
    def count(self) -> int:
        return settings.MEMORYHUB.max_inject_count if self.max_count is None else self.max_count

    @property
    def floor(self) -> float:
        return settings.MEMORYHUB.injection_min_score if self.min_score is None else self.min_score

    def clearance(self, actor: Actor) -> Clearance:
        return actor.clearance.limited_to(private=self.allow_private, secret=self.allow_secret)


@dataclass(frozen=True)
class InjectedItem:
    """A memory in the block. ``scale`` is empty if ``memory.temporal`` is switched off.

    ``factor``: its score was multiplied by this for the order, depending on whether it helped before.
    """

    uid: str
    score: float
    scale: str
    factor: float = 1.0


@dataclass(frozen=True)
class WithheldItem:
    """A memory, or part of one, that is not in the block. ``detail`` never contains its text."""

    uid: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class InjectionResult:
    """The block, or an empty ``context``. ``skipped``: failed or disabled steps, one line each.

    ``page``: the lines of the project's page in the block. ``warnings``: what the caller can fix,
    one line each. ``shown`` and ``choice`` are for pages that explain the selection to the same viewer.
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
    page: list[PageEntry] = field(default_factory=list)


def with_default_project(request: InjectionRequest, actor: Actor) -> InjectionRequest:
    """Return the request with the only project of the actor, if it names none and there is only one."""
    projects = actor.clearance.projects or ()
    if request.project or len(projects) != 1:
        return request
    return replace(request, project=next(iter(projects)))


logger = logging.getLogger(__name__)

MAX_PREVIEW_INPUT = 100_000  # characters; longer than any preview, so no credential is cut in two at its end
MAX_EMPTY_WAIT = 0.1  # seconds to wait for other writers before an empty injection is answered without a log
MAX_PREVIOUS_INJECTIONS = 500


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
        with write_transaction(patience=left if result.context else min(left, MAX_EMPTY_WAIT)):
            row = _build_log_row(request, result)
            row.session_id, row.at = _session_key(request, clearance, actor, now), now
            row.took_ms = deadline.elapsed_ms()
            bulk.insert_objects([row])
            count_accesses_and_promote([one.candidate.memory for one in result.shown], now)
            if flags := _flags_by_memory(result):
                flag_memories(flags, actor, now)
    except OperationalError as error:
        logger.warning("an injection could not be logged: %s", error)
        return not result.context
    return True


def _build_log_row(request: InjectionRequest, result: InjectionResult) -> Injection:
    """Return an unsaved row without session and time. Its level is the strictest of prompt and memories."""
    level = request.sensitivity
    levels = [one.candidate.memory.sensitivity for one in result.shown]
    for one in (*levels, *(line.sensitivity for line in result.page)):
        level = stricter_level(level, one)
    return Injection(
        project=request.project,
        sensitivity=level,
        prompt_preview=_preview_prompt(request.prompt),
        token_budget=_total_budget(request, result),
        tokens_used=result.tokens_used,
        page=[{"kind": one.kind, "id": one.uid} for one in result.page],
        injected=[
            {
                "id": one.uid,
                "score": one.score,
                "scale": one.scale,
                **({} if one.factor == 1 else {"factor": one.factor}),
            }
            for one in result.injected
        ],
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
    beginning = strip_injected_context(prompt.replace("\x00", " ")[:MAX_PREVIEW_INPUT])
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
    detected = [item for item in result.withheld if item.reason in (BLOCKED, REDACTED) and item.detail]
    return {
        item.uid: [f"{PROMPT_INJECTION_FLAG}:{kind}" for kind in item.detail.split(", ")] for item in detected
    }


def _context_start(request: InjectionRequest, now: datetime) -> datetime:
    """Return the time since which the agent still has injections in its context."""
    if request.once_in_session:
        return request.fresh_since or datetime.min.replace(tzinfo=UTC)
    start = now - timedelta(minutes=settings.MEMORYHUB.session_minutes)
    return max(start, request.fresh_since or start)


def page_was_shown(request: InjectionRequest, clearance: Clearance, now: datetime) -> bool:
    """Whether this session was shown the project's page and still has it in its context."""
    if not request.session_id or (request.session and request.session.is_new):
        return False
    shown = Injection.objects.visible_to(clearance).filter(
        session__session_id=request.session_id, project=request.project, at__gte=_context_start(request, now)
    )
    return bool(shown.exclude(page=[]).exists())


def previously_shown(request: InjectionRequest, clearance: Clearance, now: datetime) -> dict[str, datetime]:
    """Return when each memory was last shown to this session, if it still is in the agent's context.

    Injections before the agent lost its context do not count, nor, for a prompt, those before the session
    scale.
    """
    if not request.session_id or (request.session and request.session.is_new):
        return {}
    since, levels = _context_start(request, now), clearance.levels_in(request.project)
    found: dict[str, datetime] = {}
    for at, injected in statements.read_injections(
        request.session_id, request.project, levels, since, MAX_PREVIOUS_INJECTIONS
    ):
        for one in injected:
            found.setdefault(one["id"], at)
    return found

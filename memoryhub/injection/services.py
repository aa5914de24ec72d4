"""Inject context: the few memories that matter for a prompt, as a block, logged with what was withheld."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, Sensitivity, higher
from memoryhub.core.text import shorten
from memoryhub.core.timeouts import Deadline, TooLate
from memoryhub.core.transactions import is_busy, write
from memoryhub.injection import context_block, selection
from memoryhub.injection.candidates import Candidate, candidates, within, without_context
from memoryhub.injection.selection import BLOCKED, REDACTED, Choice, Governed
from memoryhub.memories.temporal import count_access
from memoryhub.memories.update import GOVERNOR, flag
from memoryhub.models import Injection, Session
from memoryhub.security.secrets import redact

MOST_PREVIEWED = 100_000  # characters, more than any preview: a credential is not cut in two at its end
EMPTY_WAITS = 0.1  # seconds for other writers; then an answer without memories goes out without its row
MOST_LOOKED_AT = 30  # prompts of a session back


def shown_before(wanted: Wanted, clearance: Clearance, now: datetime) -> dict[str, datetime]:
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
    for at, injected in rows.order_by("-at").values_list("at", "injected")[:MOST_LOOKED_AT]:
        for one in injected:
            found.setdefault(one["id"], at)
    return found


def write_down(
    wanted: Wanted, result: Injected, clearance: Clearance, actor: Actor, now: datetime, deadline: Deadline
) -> bool:
    """Log the injection and count an access of each memory shown; whether that could be done.

    A prompt that brought nothing up leaves a row without memories, but none in a project out of reach. The
    log is as sensitive as the prompt, and as all that is shown.
    """
    if wanted.project and not clearance.reaches(wanted.project):
        return True
    left = deadline.left()
    try:
        with write(patience=left if result.injected else min(left, EMPTY_WAITS)):
            row = _row(wanted, result)
            row.session, row.at = _session(wanted, clearance, actor, now), now
            row.took_ms = deadline.took()
            row.save(force_insert=True)
            count_access([one.candidate.memory for one in result.shown], now)
            flag(_orders(result), actor, now)
    except OperationalError as error:
        if not is_busy(error):
            raise
        logger.warning("an injection could not be logged: %s", error)
        return not result.injected
    return True


def _row(wanted: Wanted, result: Injected) -> Injection:
    """What was asked, shown and held back; not saved, and without its session and time."""
    level = wanted.sensitivity
    for one in result.shown:
        level = higher(level, one.candidate.memory.sensitivity)
    return Injection(
        project=wanted.project,
        sensitivity=level,
        prompt_preview=_preview(wanted.prompt),
        token_budget=wanted.budget,
        tokens_used=result.tokens_used,
        injected=[{"id": one.uid, "score": one.score, "scale": one.scale} for one in result.injected],
        withheld=[
            {"id": one.uid, "reason": one.reason, **({"detail": one.detail} if one.detail else {})}
            for one in result.withheld
        ],
    )


def note_missed(wanted: Wanted, result: Injected, actor: Actor, now: datetime, deadline: Deadline) -> None:
    """Log a prompt that got nothing because its answer was late or failed. Never raises, hardly waits."""
    try:
        write_down(wanted, result, wanted.clearance(actor), actor, now, deadline)
    except Exception:
        logger.exception("that a prompt got nothing could not be logged")


def _orders(result: Injected) -> dict[str, list[str]]:
    """What the governor found in which memory, as flags for a reviewer."""
    found = [one for one in result.withheld if one.reason in (BLOCKED, REDACTED) and one.detail]
    return {one.uid: [f"{GOVERNOR}:{kind}" for kind in one.detail.split(", ")] for one in found}


def _preview(prompt: str) -> str:
    """The beginning of a prompt, without credentials and without what was injected before."""
    beginning = without_context(prompt.replace("\x00", " ")[:MOST_PREVIEWED])
    return shorten(redact(beginning), settings.MEMORYHUB.event_preview_chars)


def _session(wanted: Wanted, clearance: Clearance, actor: Actor, now: datetime) -> Session | None:
    """The session that asked; one that is new begins here."""
    if not wanted.session_id or not clearance.reaches(wanted.project):
        return None
    Session.widen([(wanted.session_id, wanted.project, now, now)], actor.name)
    return Session.objects.get(session_id=wanted.session_id, project=wanted.project)


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
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
class Shown:
    """A memory in the block; ``scale`` is empty when ``memory.temporal`` is off."""

    uid: str
    score: float
    scale: str


@dataclass(frozen=True)
class Withheld:
    """A memory, or a sentence of one, that was held back; ``detail`` says more and never repeats the text."""

    uid: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Injected:
    """``context`` is the block, or empty. ``skipped``: what could not be done, one line each.

    ``shown`` and ``choice`` are for a page that explains the choice, behind the same gate.
    """

    context: str = ""
    injected: list[Shown] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    tokens_used: int = 0
    took_ms: float = 0.0
    skipped: list[str] = field(default_factory=list)
    shown: list[Governed] = field(default_factory=list)
    choice: Choice | None = None


# Finds candidates for what is wanted, best first, within a clearance at a moment.
Find = Callable[[Wanted, Clearance, datetime], list[Candidate]]


def inject(wanted: Wanted, actor: Actor, *, now: datetime | None = None, record: bool = True) -> Injected:
    """The block for a prompt. Never raises: what goes wrong, or takes too long, gives an empty one.

    ``record`` False is a preview: nothing is logged, no access is counted.
    """
    return put_before(_for_prompt, wanted, actor, now=now, record=record)


def _for_prompt(wanted: Wanted, clearance: Clearance, now: datetime) -> list[Candidate]:
    return candidates(within(clearance, wanted.project, now), wanted.prompt, now)


def put_before(
    find: Find, wanted: Wanted, actor: Actor, *, now: datetime | None = None, record: bool = True
) -> Injected:
    """The block of what ``find`` finds: chosen, governed, logged; on time or empty."""
    deadline = Deadline(settings.MEMORYHUB.injection_deadline_ms)
    now, wanted = now or timezone.now(), _placed(wanted, actor)
    try:
        return _put_before(find, wanted, actor, now, deadline, record)
    except TooLate:
        logger.warning("an injection was not ready after %g ms and left out", deadline.milliseconds)
        reason = f"injection: not ready after {deadline.milliseconds:g} ms"
    except Exception:
        logger.exception("an injection failed and was left out")
        reason = "injection failed; the log has the details"
    missed = Injected(skipped=[reason], took_ms=deadline.took())
    if record:
        note_missed(wanted, missed, actor, now, deadline)
    return missed


def _placed(wanted: Wanted, actor: Actor) -> Wanted:
    """Without a project, an actor that is confined to one means that."""
    projects = actor.clearance.projects or ()
    if wanted.project or len(projects) != 1:
        return wanted
    return replace(wanted, project=next(iter(projects)))


def _put_before(
    find: Find, wanted: Wanted, actor: Actor, now: datetime, deadline: Deadline, record: bool
) -> Injected:
    clearance = wanted.clearance(actor)
    notes: list[str] = []
    with deadline.reading():
        found = find(wanted, clearance, now)
        known = shown_before(wanted, clearance, now)
        chosen = selection.choose(found, known, wanted.budget, wanted.count, now, deadline, notes)
    notes = list(dict.fromkeys(notes))
    result = _result(chosen, notes, deadline)
    deadline.check()
    if record and not write_down(wanted, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return Injected(skipped=[*notes, busy], took_ms=deadline.took())
    return result


def _result(chosen: Choice, notes: list[str], deadline: Deadline) -> Injected:
    context = context_block.render([one.passage for one in chosen.shown], [one.text for one in chosen.shown])
    return Injected(
        context=context,
        injected=[Shown(one.candidate.memory.uid, one.candidate.score, one.scale) for one in chosen.shown],
        withheld=[Withheld(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=context_block.tokens(context),
        took_ms=deadline.took(),
        skipped=notes,
        shown=chosen.shown,
        choice=chosen,
    )

"""Injection: the few memories that a prompt should know about, as a block to put before it.

Governed, within a budget of tokens, balanced over the temporal scales, logged; on time or not at all
(docs/injection.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.retrieval import block, choice, injection_log
from memoryhub.retrieval.candidates import Candidate, candidates, within
from memoryhub.retrieval.choice import Choice, Governed
from memoryhub.retrieval.deadline import Deadline, TooLate
from memoryhub.sensitivity import Actor, Clearance, Sensitivity

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
        injection_log.note_missed(wanted, missed, actor, now, deadline)
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
        known = injection_log.shown_before(wanted, clearance, now)
        chosen = choice.choose(found, known, wanted.budget, wanted.count, now, deadline, notes)
    notes = list(dict.fromkeys(notes))
    result = _result(chosen, notes, deadline)
    deadline.check()
    if record and not injection_log.write_down(wanted, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return Injected(skipped=[*notes, busy], took_ms=deadline.took())
    return result


def _result(chosen: Choice, notes: list[str], deadline: Deadline) -> Injected:
    context = block.render([one.passage for one in chosen.shown], [one.text for one in chosen.shown])
    return Injected(
        context=context,
        injected=[Shown(one.candidate.memory.uid, one.candidate.score, one.scale) for one in chosen.shown],
        withheld=[Withheld(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=block.tokens(context),
        took_ms=deadline.took(),
        skipped=notes,
        shown=chosen.shown,
        choice=chosen,
    )

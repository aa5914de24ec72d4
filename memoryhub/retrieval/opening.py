"""What an agent should know when a session begins: what was last done in this project, and what matters most.

Through the same choice, governor, budget and log as every injection (docs/injection.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import block, choice, injection_log, scoring
from memoryhub.retrieval.candidates import Candidate
from memoryhub.retrieval.deadline import Deadline, TooLate
from memoryhub.retrieval.inject import Injected, Shown, Wanted, Withheld
from memoryhub.retrieval.search import default_weights
from memoryhub.sensitivity import Actor
from memoryhub.vocabulary import MemoryType

logger = logging.getLogger(__name__)
MOST_RECENT = 100  # memories among which the weightiest are sought
BESIDE = 3  # memories beside the last summary
LEAST_IMPORTANCE = 0.6
_SUMMARIES = (
    MemoryType.SESSION_SUMMARY.value,
    MemoryType.CHECKPOINT.value,
    MemoryType.COMPRESSED_SUMMARY.value,
)


def open_session(wanted: Wanted, actor: Actor, now: datetime | None = None) -> Injected:
    """The block for a session that begins; empty when there is nothing worth it. Never raises, never late."""
    deadline = Deadline(settings.MEMORYHUB.injection_deadline_ms)
    try:
        return _open(wanted, actor, now or timezone.now(), deadline)
    except TooLate:
        logger.warning("the opening of a session was not ready after %g ms", deadline.milliseconds)
        reason = f"injection: not ready after {deadline.milliseconds:g} ms"
    except Exception:
        logger.exception("the opening of a session failed and was left out")
        reason = "injection failed; the log has the details"
    return Injected(skipped=[reason], took_ms=deadline.took())


def _open(wanted: Wanted, actor: Actor, now: datetime, deadline: Deadline) -> Injected:
    clearance = wanted.clearance(actor)
    notes: list[str] = []
    with deadline.reading():
        alive = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
        memories = alive.filter(project=wanted.project)
        found = [_candidate(memory, now) for memory in _worth_telling(memories, wanted, now)]
        known = injection_log.shown_before(wanted, clearance, now)
        most = min(wanted.count, len(found))
        chosen = choice.choose(found, known, wanted.budget, most, now, deadline, notes)
    context = block.render([one.passage for one in chosen.shown], [one.text for one in chosen.shown])
    result = Injected(
        context=context,
        injected=[Shown(one.candidate.memory.uid, one.candidate.score, one.scale) for one in chosen.shown],
        withheld=[Withheld(one.memory.uid, one.reason, one.detail) for one in chosen.withheld],
        tokens_used=block.tokens(context),
        took_ms=deadline.took(),
        skipped=notes,
        shown=chosen.shown,
        choice=chosen,
    )
    deadline.check()
    if not injection_log.write_down(wanted, result, clearance, actor, now, deadline):
        busy = "injection: it could not be logged in time, so nothing is shown"
        return Injected(skipped=[*notes, busy], took_ms=deadline.took())
    return result


def _worth_telling(memories: MemoryQuerySet, wanted: Wanted, now: datetime) -> Iterable[Memory]:
    """The summary of the last session but this one, then the weightiest of the latest memories."""
    recent = list(memories.order_by("-updated_at")[:MOST_RECENT])
    others = [one for one in recent if one.session_id != wanted.session_id]
    yield from [one for one in others if one.type == MemoryType.SESSION_SUMMARY.value][:1]
    weighty = [one for one in recent if one.type not in _SUMMARIES and one.importance >= LEAST_IMPORTANCE]
    yield from sorted(weighty, key=lambda one: -_candidate(one, now).score)[:BESIDE]


def _candidate(memory: Memory, now: datetime) -> Candidate:
    """All of them match: they are about this project."""
    age = (now - memory.updated_at).total_seconds() / 86_400
    parts = scoring.Components(
        match=1.0,
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=memory.importance,
        trust=memory.trust,
    )
    return Candidate(memory, round(scoring.composite(parts, default_weights()), 4), parts)

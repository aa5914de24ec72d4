"""What an agent should know when a session begins: what was last done in this project, and what matters most.

Through the same choice, governor, budget and log as every injection (docs/injection.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.core.vocabulary import MemoryType
from memoryhub.injection.candidates import Candidate
from memoryhub.injection.services import Injected, Wanted, put_before
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import default_weights

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
    return put_before(_for_start, wanted, actor, now=now)


def _for_start(wanted: Wanted, clearance: Clearance, now: datetime) -> list[Candidate]:
    alive = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    memories = alive.filter(project=wanted.project)
    return [_candidate(memory, now) for memory in _worth_telling(memories, wanted, now)]


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

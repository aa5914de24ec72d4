"""What speaks for a memory: the sessions that stored it, its confidence, its ratings and its accesses.

Frequent accesses promote a memory to a higher temporal scale, that is, an age class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Greatest, Least
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.backends import statements
from memoryhub.capabilities import TEMPORAL, is_enabled
from memoryhub.core.database import side_write, write_transaction
from memoryhub.memories.create import StoreResult, create_memories
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.memories.rows import embed_drafts
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import check_drafts
from memoryhub.models import Evidence, Injection, Memory

DOUBT_LEFT = 0.5  # share of the doubt that is left after one more session


def grow_confidence(confidence: float, sessions: int) -> float:
    """Return the confidence, 0..1, after this number of further sessions."""
    return round(1 - (1 - confidence) * DOUBT_LEFT**sessions, 4) if sessions > 0 else confidence


def create_memory_in_session(draft: MemoryDraft, actor: Actor, session: str) -> StoreResult:
    """Store one memory and count the session as evidence.

    ``session`` is any id that distinguishes conversations. It need not be a session in the database.
    """
    now = timezone.now()
    vectors, refusals = embed_drafts([draft]), check_drafts([draft])
    with write_transaction():
        [result] = create_memories([draft], actor, now, vectors=vectors, refusals=refusals)
        if not isinstance(result, StoreError):
            _record_evidence(result, draft, actor, session, now)
    if isinstance(result, StoreError):  # outside the transaction, so that its journal row is committed
        raise result
    return result


def _record_evidence(
    done: StoreResult, draft: MemoryDraft, actor: Actor, session: str, now: datetime
) -> None:
    memory = done.memory
    known = set(Evidence.objects.filter(memory=memory).values_list("session_id", flat=True))
    # A memory that was stored without evidence counts its own session.
    first = {memory.session_id} if done.outcome != "created" and not known else set()
    new = {session} | (first - {""})
    rows = [Evidence(memory=memory, session_id=one, at=now) for one in sorted(new - known)]
    Evidence.objects.bulk_create(rows)
    if done.outcome == "created":
        return
    before = known | first
    if "confidence" in draft.given:
        confidence = grow_confidence(draft.confidence, len(before | {session}) - 1)
    else:
        confidence = grow_confidence(memory.confidence, int(session not in before))
    _set_confidence(memory, confidence, len(before | {session}), actor, now)


def combine_confidence(memories: Sequence[Memory]) -> float:
    """Return the confidence of a merged memory: the highest, grown by the sessions of the others."""
    surest = max(memories, key=lambda memory: memory.confidence)
    sessions = _sessions_by_memory(memories)
    return grow_confidence(surest.confidence, len(set().union(*sessions.values()) - sessions[surest.pk]))


def merge_evidence(memory: Memory, others: Sequence[Memory], now: datetime) -> None:
    """Add the sessions of the others to a memory. The others keep their own."""
    sessions = _sessions_by_memory([memory, *others])
    new = set().union(*sessions.values()) - _recorded_sessions([memory])[memory.pk]
    Evidence.objects.bulk_create(Evidence(memory=memory, session_id=one, at=now) for one in sorted(new))


def undo_merge_evidence(memory: Memory, united_at: datetime) -> None:
    """Remove the sessions that :func:`merge_evidence` added at this moment."""
    Evidence.objects.filter(memory=memory, at=united_at).delete()


def count_sessions(memories: Sequence[Memory]) -> dict[int, int]:
    """Return the number of sessions that stored each memory, at least 1, by primary key."""
    recorded = _recorded_sessions(memories)
    return {memory.pk: max(len(recorded[memory.pk]), 1) for memory in memories}


def _sessions_by_memory(memories: Sequence[Memory]) -> dict[int, set[str]]:
    """Return the sessions of each memory by primary key. Empty if none of the memories has evidence."""
    found = _recorded_sessions(memories)
    if found:
        for memory in memories:
            found[memory.pk] = found[memory.pk] or {memory.session_id} - {""}
    return found


def _recorded_sessions(memories: Sequence[Memory]) -> defaultdict[int, set[str]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    rows = Evidence.objects.filter(memory__in=memories)
    for key, session in rows.values_list("memory_id", "session_id"):
        found[key].add(session)
    return found


def _set_confidence(memory: Memory, confidence: float, sessions: int, actor: Actor, now: datetime) -> None:
    if confidence == memory.confidence:
        return
    detail = {"confidence": [memory.confidence, confidence], "sessions": sessions}
    memory.confidence = confidence
    memory.save(update_fields=["confidence"])
    journal.record(actor, [journal.memory_change("evidence", memory, **detail)], now)


RATED = "rated"
OUTCOME_FIELDS = ("used", "why", "counted", "rating", "replaced")


def count_outcomes(changes: Mapping[int, tuple[int, int]]) -> None:
    """Add to how often memories were shown and helped, by primary key, inside the caller's transaction.

    Not journaled; ``updated_at`` does not change. A count stays at least 0, ``helped`` at most ``shown``.
    """
    by_change: dict[tuple[int, int], list[int]] = defaultdict(list)
    for key, change in changes.items():
        by_change[change].append(key)
    for (shown, helped), keys in by_change.items():
        total = Greatest(F("shown_count") + shown, 0)
        rows = Memory.objects.filter(pk__in=keys)
        rows.update(shown_count=total, helped_count=Least(Greatest(F("helped_count") + helped, 0), total))


def rate_memory(memory: Memory, action: str, actor: Actor, *, useful: bool) -> bool:
    """Rate a memory as shown by the last injection that the actor may see; False if it was rated so.

    Call this inside a transaction. Raise :class:`Conflict` if the memory was never shown.
    """
    row, entry = _find_rated_entry(memory, Injection.objects.visible_to(actor.clearance), memory.uid)
    if row is None:
        raise Conflict("no agent has received it yet, so there is nothing to rate", "useful")
    if entry.get("why") == RATED and entry["used"] == useful:
        return False
    was = {name: entry.pop(name) for name in OUTCOME_FIELDS if name in entry}
    entry |= {"used": useful, "why": RATED, "counted": True, "rating": action, "replaced": was}
    _save_rating(row, memory, was, entry)
    return True


def undo_rating(memory: Memory, action: str) -> None:
    """Restore the outcome from before a rating. Raise :class:`Conflict` if it was rated again since."""
    row, entry = _find_rated_entry(memory, Injection.objects.all(), action)
    if row is None or entry.get("rating") != action:
        raise Conflict("it was rated again since, or the log of that injection was pruned")
    rating = {name: entry.pop(name) for name in OUTCOME_FIELDS if name in entry}
    entry |= rating["replaced"]
    _save_rating(row, memory, rating, entry)


def _find_rated_entry(memory: Memory, rows: Any, text: str) -> tuple[Injection | None, dict[str, Any]]:
    """Return the last of these injections whose log contains the text, and the entry of the memory in it."""
    for row in rows.filter(injected__icontains=text).order_by("-at", "-pk")[:1]:
        for entry in row.injected:
            if entry["id"] == memory.uid:
                return row, entry
    return None, {}


def _save_rating(row: Injection, memory: Memory, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Save the changed entry, and change the counts by the difference of the outcomes."""
    if any("used" not in one for one in row.injected):
        row.helped = None  # the others are decided from the events
    elif row.helped is not None:
        row.helped = any(one["used"] for one in row.injected)
    row.save(update_fields=["injected", "helped"])
    shown = after.get("counted", False) - before.get("counted", False)
    helped = _helps(after) - _helps(before)
    count_outcomes({memory.pk: (shown, helped)})
    memory.refresh_from_db(fields=["shown_count", "helped_count"])


def _helps(outcome: dict[str, Any]) -> int:
    return int(outcome.get("counted", False) and outcome["used"])


T = TypeVar("T")


class Scale(StrEnum):
    """Age classes, from working memory to long-term memory."""

    IMMEDIATE = "immediate"
    TASK = "task"
    SESSION = "session"
    PROJECT = "project"


SCALES: tuple[Scale, ...] = tuple(Scale)


def scale_for_age(age: timedelta, limits: Sequence[float], promoted: str = "") -> Scale:
    """Return the scale of an age, or the scale that the memory was promoted to if that is higher.

    ``limits``: the ends in minutes of all scales but the last.
    """
    minutes = age.total_seconds() / 60
    by_age = next(
        (scale for scale, limit in zip(SCALES, limits, strict=False) if minutes < limit), Scale.PROJECT
    )
    if promoted in SCALES:
        return max(by_age, Scale(promoted), key=SCALES.index)
    return by_age


def next_scale(scale: Scale) -> Scale:
    """Return the scale above this one; the highest has none."""
    return SCALES[min(SCALES.index(scale) + 1, len(SCALES) - 1)]


def balance_scales(
    candidates: Sequence[T], scale: Callable[[T], Scale], counts: Mapping[Scale, int], most: int
) -> list[T]:
    """Select the best candidates of each scale, up to its count. Unused places go to the best of the rest.

    ``candidates`` and the result are sorted, the best first.
    """
    left = dict(counts)
    chosen: set[int] = set()
    for number, candidate in enumerate(candidates):
        its_scale = scale(candidate)
        if left.get(its_scale, 0) > 0:
            left[its_scale] -= 1
            chosen.add(number)
    for number in range(len(candidates)):
        if len(chosen) >= min(sum(counts.values()), most):
            break
        chosen.add(number)
    return [candidates[number] for number in sorted(chosen)][:most]


def memory_scale(memory: Memory, now: datetime) -> Scale:
    """Return the scale of a memory at this time."""
    config = settings.MEMORYHUB
    limits = (config.immediate_minutes, config.task_minutes, config.session_minutes)
    return scale_for_age(max(now - memory.created_at, timedelta()), limits, memory.scale)


def count_accesses_and_promote(memories: Iterable[Memory], now: datetime | None = None) -> None:
    """Count one access of each memory, in one statement, and promote memories that are accessed often.

    Every ``promotion_accesses``-th access promotes a memory if its previous access was in the same scale.
    Accesses in two different scales do not add up to a promotion. A store that cannot be written to is
    logged, not raised, because the memories were read.
    """
    now = now or timezone.now()
    memories = list(memories)
    above = _find_promotions(memories, now) if is_enabled(TEMPORAL) else {}
    every = settings.MEMORYHUB.promotion_accesses
    count = partial(count_accesses, memories, now, promotions=above, every=every)
    side_write("accesses were not counted", count)


def _find_promotions(memories: Iterable[Memory], now: datetime) -> dict[int, str]:
    """Return the next scale of each memory whose previous access was in its current scale."""
    found: dict[int, str] = {}
    for memory in memories:
        scale, before = memory_scale(memory, now), memory.last_accessed_at
        again = settings.MEMORYHUB.promotion_accesses == 1 or (
            before is not None and memory_scale(memory, before) is scale
        )
        if again and (following := next_scale(scale)) is not scale:
            found[memory.pk] = following.value
    return found


def count_accesses(
    memories: Collection[Memory],
    now: datetime | None = None,
    *,
    promotions: Mapping[int, str] | None = None,
    every: int = 1,
) -> None:
    """Count one access of each memory, in one statement. Not journaled; ``updated_at`` does not change.

    ``promotions``: by primary key, the temporal scale that a memory gets with every ``every``-th access.
    """
    now = now or timezone.now()
    if not memories:
        return
    statements.count_accesses([memory.pk for memory in memories], now, promotions or {}, every)
    for memory in memories:
        memory.accessed_count += 1
        memory.last_accessed_at = now

"""Opening one memory, and what hangs together with it: behind the gate, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q
from django.http import Http404, HttpRequest

from memoryhub.access.policy import Clearance, Sensitivity, level_rank
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.memories.versions import memory_journal
from memoryhub.models import Event, Fact, JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet

MAX_RELATED = 6
MAX_FACTS = 50
MAX_JOURNAL_ENTRIES = 15


def get_visible_memory(request: HttpRequest, uid: str) -> Memory:
    """The memory, also an expired or trashed one; 404 when it may not be seen."""
    visible = Memory.objects.visible_to(request_clearance(request)).with_details()
    memory: Memory | None = visible.filter(uid=uid).first()
    if memory is None:
        raise Http404
    return memory


def is_secret(level: str) -> bool:
    return level == Sensitivity.SECRET.value


def hidden_notice(request: HttpRequest, memories: Sequence[Memory]) -> str:
    """Which of those just written are not shown now, and what brings them back; empty when all are.

    The person may have put them under a level whose switch is off, or that they never see in that project.
    """
    shown, reach = request_clearance(request), full_clearance(request)
    hidden = [one for one in memories if not shown.opens(one.project, one.sensitivity)]
    if not hidden:
        return ""
    levels = sorted({one.sensitivity for one in hidden}, key=level_rank)
    what, them = ("It is", "it") if len(memories) == 1 else (f"{len(hidden)} of them are", "them")
    named = " or ".join(levels)
    if not all(reach.opens(one.project, one.sensitivity) for one in hidden):
        return f"{what} {named} now, which you may not see there."
    switch = "switch of that level" if len(levels) == 1 else "switches of these levels"
    return f"{what} {named} now and out of sight: turn on the {switch} to see {them}."


def session_neighbours(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Live memories of the same session: those just before and just after, in order."""
    if not memory.session_id:
        return []
    same = _other_live_memories(memory, clearance).in_session(memory.session_id, project=memory.project)
    at, pk = memory.created_at, memory.pk
    earlier = same.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk)).order_by("-created_at", "-pk")
    later = same.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    return [*reversed(earlier[: MAX_RELATED // 2]), *later[: MAX_RELATED // 2]]


def facts_of(memory: Memory, clearance: Clearance) -> list[Fact]:
    """One more than :data:`FACTS` when there are more."""
    return list(
        Fact.objects.visible_to(clearance).filter(memory=memory).order_by("-updated_at")[: MAX_FACTS + 1]
    )


def journal_entries_of(memory: Memory, clearance: Clearance) -> list[JournalEntry]:
    """The newest rows about it; one more than :data:`JOURNAL_ROWS` when there are more."""
    return list(memory_journal(memory, clearance)[: MAX_JOURNAL_ENTRIES + 1])


def events_of(memory: Memory, clearance: Clearance) -> list[Event]:
    """The events that it was made from."""
    events = Event.objects.visible_to(clearance).filter(memory=memory).select_related("session")
    return list(events.order_by("-at")[:MAX_RELATED])


def merged_into(memory: Memory, clearance: Clearance) -> Memory | None:
    """The memory that holds its text now, if that may be seen."""
    if memory.merged_into_id is None:
        return None
    whole: Memory | None = Memory.objects.visible_to(clearance).filter(pk=memory.merged_into_id).first()
    return whole


def merged_from(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Memories whose text went into this one; they lie in the trash."""
    return list(Memory.objects.visible_to(clearance).filter(merged_into=memory).order_by("created_at")[:50])


def _other_live_memories(memory: Memory, clearance: Clearance) -> MemoryQuerySet:
    others: MemoryQuerySet = Memory.objects.visible_to(clearance).live().exclude(pk=memory.pk)
    return others.defer("content", "overview")

"""Opening one memory, and what hangs together with it: behind the gate, in a fixed number of queries."""

from __future__ import annotations

from django.db.models import Q
from django.http import Http404, HttpRequest

from memoryhub.models import Event, Fact, JournalEntry, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.history import journal_of
from memoryhub.sensitivity import Clearance, Sensitivity
from memoryhub.web.access import clearance_of

RELATED = 6
FACTS = 50
JOURNAL_ROWS = 15


def find(request: HttpRequest, uid: str) -> Memory:
    """The memory, also an expired or trashed one; 404 when it may not be seen."""
    visible = Memory.objects.visible_to(clearance_of(request)).with_details()
    memory: Memory | None = visible.filter(uid=uid).first()
    if memory is None:
        raise Http404
    return memory


def is_secret(level: str) -> bool:
    return level == Sensitivity.SECRET.value


def by_session(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Live memories of the same session: those just before and just after, in order."""
    if not memory.session_id:
        return []
    same = _others(memory, clearance).in_session(memory.session_id, project=memory.project)
    at, pk = memory.created_at, memory.pk
    earlier = same.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk)).order_by("-created_at", "-pk")
    later = same.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    return [*reversed(earlier[: RELATED // 2]), *later[: RELATED // 2]]


def facts_of(memory: Memory, clearance: Clearance) -> list[Fact]:
    """One more than :data:`FACTS` when there are more."""
    return list(Fact.objects.visible_to(clearance).filter(memory=memory).order_by("-updated_at")[: FACTS + 1])


def journal_rows(memory: Memory, clearance: Clearance) -> list[JournalEntry]:
    """The newest rows about it; one more than :data:`JOURNAL_ROWS` when there are more."""
    return list(journal_of(memory, clearance)[: JOURNAL_ROWS + 1])


def events_of(memory: Memory, clearance: Clearance) -> list[Event]:
    """The events that it was made from."""
    events = Event.objects.visible_to(clearance).filter(memory=memory).select_related("session")
    return list(events.order_by("-at")[:RELATED])


def merged_into(memory: Memory, clearance: Clearance) -> Memory | None:
    """The memory that holds its text now, if that may be seen."""
    if memory.merged_into_id is None:
        return None
    whole: Memory | None = Memory.objects.visible_to(clearance).filter(pk=memory.merged_into_id).first()
    return whole


def merged_from(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Memories whose text went into this one; they lie in the trash."""
    return list(Memory.objects.visible_to(clearance).filter(merged_into=memory).order_by("created_at")[:50])


def _others(memory: Memory, clearance: Clearance) -> MemoryQuerySet:
    others: MemoryQuerySet = Memory.objects.visible_to(clearance).live().exclude(pk=memory.pk)
    return others.defer("content", "overview")

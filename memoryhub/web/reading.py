"""Opening one memory, and what hangs together with it: behind the gate, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from django.db.models import Count, Exists, OuterRef, Q
from django.http import Http404, HttpRequest

from memoryhub.models import Event, Fact, FileLink, JournalEntry, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.history import journal_of
from memoryhub.sensitivity import Clearance, Sensitivity
from memoryhub.web.access import clearance_of

RELATED = 6
FACTS = 50
JOURNAL_ROWS = 15
# A memory may name a thousand files; what it has to do with others shows in the first of them.
_PATHS = 100


def find(request: HttpRequest, uid: str) -> Memory:
    """The memory, also an expired or trashed one; 404 when it may not be seen."""
    visible = Memory.objects.visible_to(clearance_of(request)).with_details()
    memory: Memory | None = visible.filter(uid=uid).first()
    if memory is None:
        raise Http404
    return memory


def is_secret(level: str) -> bool:
    return level == Sensitivity.SECRET.value


@dataclass(frozen=True)
class Related:
    """Another memory, and the files that it shares."""

    memory: Memory
    paths: list[str] = field(default_factory=list)


def by_file(memory: Memory, clearance: Clearance) -> list[Related]:
    """Live memories that name the same files, those with most of them first."""
    paths = sorted({link.path for link in memory.files.all()})[:_PATHS]
    if not paths:
        return []
    others = _others(memory, clearance)
    links = FileLink.objects.filter(path__in=paths)
    near = links.filter(Exists(others.filter(pk=OuterRef("memory")))).values("memory")
    near = near.annotate(shared=Count("path", distinct=True)).order_by("-shared", "-memory")
    ids = [row["memory"] for row in near[:RELATED]]
    shared: dict[int, set[str]] = defaultdict(set)
    for pk, path in links.filter(memory__in=ids).values_list("memory", "path"):
        shared[pk].add(path)
    found = others.in_bulk(ids)
    return [Related(found[pk], sorted(shared[pk])) for pk in ids]


def by_session(memory: Memory, clearance: Clearance) -> list[Related]:
    """Live memories of the same session: those just before and just after, in order."""
    if not memory.session_id:
        return []
    same = _others(memory, clearance).in_session(memory.session_id, project=memory.project)
    at, pk = memory.created_at, memory.pk
    earlier = same.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk)).order_by("-created_at", "-pk")
    later = same.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    around = [*reversed(earlier[: RELATED // 2]), *later[: RELATED // 2]]
    return [Related(one) for one in around]


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

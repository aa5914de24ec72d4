"""Queries for the page of a memory, limited to visible rows and to a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q
from django.http import Http404, HttpRequest

from memoryhub.access import policy
from memoryhub.access.policy import Clearance, Sensitivity, level_rank
from memoryhub.accounts.clearance import full_clearance, record_reveal, request_clearance
from memoryhub.memories.versions import memory_journal
from memoryhub.models import Event, Fact, JournalEntry, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet

MAX_RELATED = 6
MAX_FACTS = 50
MAX_JOURNAL_ENTRIES = 15


def live_memories(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """Return the visible live memories of one project or of all."""
    memories: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    return memories.filter(project=project) if project else memories


def get_visible_memory(request: HttpRequest, uid: str) -> Memory:
    """Return the memory, even if expired or in the trash; 404 if it is not visible."""
    visible = Memory.objects.visible_to(request_clearance(request)).with_details()
    memory: Memory | None = visible.filter(uid=uid).first()
    if memory is None:
        raise Http404
    return memory


def reveal_if_secret(request: HttpRequest, memory: Memory, page: str, levels: Iterable[str] = ()) -> None:
    """Journal that a page shows a secret: a secret memory, or a version of it with one of these levels."""
    if Sensitivity.SECRET.value in {memory.sensitivity, *levels}:
        record_reveal(request, memory, page)


def hidden_notice(request: HttpRequest, memories: Sequence[Memory]) -> str:
    """Explain which of the memories just written are hidden now, and how to show them; empty if none are.

    Their new level may have its switch off, or be one that the person never sees in that project.
    """
    shown, full = request_clearance(request), full_clearance(request)
    hidden = [one for one in memories if not shown.allows(one.project, one.sensitivity)]
    if not hidden:
        return ""
    levels = sorted({one.sensitivity for one in hidden}, key=level_rank)
    what, them = ("It is", "it") if len(memories) == 1 else (f"{len(hidden)} of them are", "them")
    named = " or ".join(levels)
    if not all(full.allows(one.project, one.sensitivity) for one in hidden):
        return f"{what} {named} now, which you cannot see there."
    switch = "switch of that level" if len(levels) == 1 else "switches of these levels"
    return f"{what} {named} now and out of sight: turn on the {switch} to see {them}."


def visible_titles(request: HttpRequest, uids: Iterable[str]) -> dict[str, str]:
    """Return the titles by id of the visible ones of these memories, redacted if secret."""
    visible = Memory.objects.visible_to(request_clearance(request)).filter(uid__in=uids)
    rows = visible.values_list("title", "uid", "sensitivity")
    return {uid: policy.format_display_name(title, uid, level) for title, uid, level in rows}


def session_neighbours(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Return live memories of the same session: those just before and just after, in order."""
    if not memory.session_id:
        return []
    same = _other_live_memories(memory, clearance).in_session(memory.session_id, project=memory.project)
    at, pk = memory.created_at, memory.pk
    earlier = same.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk)).order_by("-created_at", "-pk")
    later = same.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    return [*reversed(earlier[: MAX_RELATED // 2]), *later[: MAX_RELATED // 2]]


def session_of(memory: Memory) -> Session | None:
    """Return the session in which the memory was stored."""
    if not memory.session_id:
        return None
    return Session.objects.filter(session_id=memory.session_id, project=memory.project).first()


def facts_of(memory: Memory, clearance: Clearance) -> list[Fact]:
    """Return the newest facts from the memory; one more than :data:`MAX_FACTS` if there are more."""
    return list(
        Fact.objects.visible_to(clearance).filter(memory=memory).order_by("-updated_at")[: MAX_FACTS + 1]
    )


def journal_entries_of(memory: Memory, clearance: Clearance) -> list[JournalEntry]:
    """Return the newest entries; one more than :data:`MAX_JOURNAL_ENTRIES` if there are more."""
    return list(memory_journal(memory, clearance)[: MAX_JOURNAL_ENTRIES + 1])


def events_of(memory: Memory, clearance: Clearance) -> list[Event]:
    """Return the events from which the memory was created."""
    events = Event.objects.visible_to(clearance).filter(memory=memory).select_related("session")
    return list(events.order_by("-at")[:MAX_RELATED])


def merged_into(memory: Memory, clearance: Clearance) -> Memory | None:
    """Return the memory that this one was merged into, if visible."""
    if memory.merged_into_id is None:
        return None
    target: Memory | None = Memory.objects.visible_to(clearance).filter(pk=memory.merged_into_id).first()
    return target


def merged_from(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Return the memories that were merged into this one; they are in the trash."""
    return list(Memory.objects.visible_to(clearance).filter(merged_into=memory).order_by("created_at")[:50])


def replacement(memory: Memory, clearance: Clearance) -> Memory | None:
    """Return the memory that replaces this one, if visible."""
    if memory.superseded_by_id is None:
        return None
    target: Memory | None = Memory.objects.visible_to(clearance).filter(pk=memory.superseded_by_id).first()
    return target


def replaced_memories(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Return the newest live memories that this one replaces."""
    return list(live_memories(clearance).filter(superseded_by=memory).order_by("-created_at")[:MAX_RELATED])


def _other_live_memories(memory: Memory, clearance: Clearance) -> MemoryQuerySet:
    return live_memories(clearance).exclude(pk=memory.pk).defer("content", "overview")

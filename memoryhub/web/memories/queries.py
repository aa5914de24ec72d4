"""Queries for the page of a memory, limited to visible rows and to a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import OuterRef, Q
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone

from memoryhub.access import policy
from memoryhub.access.policy import Clearance, level_rank
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.memories.rows import attach_lists
from memoryhub.models import Event, Evidence, Fact, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats.timeline import count_rows

MAX_RELATED = 6
MAX_FACTS = 50
MAX_MERGED = 50
MAX_JOURNAL_ENTRIES = 15


def live_memories(clearance: Clearance, project: str = "") -> MemoryQuerySet:
    """Return the visible live memories of one project or of all."""
    memories = Memory.objects.visible_to(clearance).live()
    return memories.filter(project=project) if project else memories


def get_visible_memory(request: HttpRequest, uid: str) -> Memory:
    """Return the memory with its lists and ``evidence_count``, even if expired or in the trash, or 404."""
    visible = Memory.objects.visible_to(request_clearance(request))
    evidence = count_rows(Evidence.objects.filter(memory=OuterRef("pk")))
    memory: Memory = get_object_or_404(visible.annotate(evidence_count=evidence), uid=uid)
    attach_lists([memory])
    return memory


def hidden_notice(request: HttpRequest, memories: Sequence[Memory]) -> str:
    """Explain which of the memories just written are hidden now, and how to show them; empty if none are.

    Their new level may be hidden, or be one that the person never sees in that project.
    """
    shown, full = request_clearance(request), full_clearance(request)
    hidden = [one for one in memories if not shown.allows(one.project, one.sensitivity)]
    if not hidden:
        return ""
    levels = sorted({one.sensitivity for one in hidden}, key=level_rank)
    what, them = ("It is", "it") if len(memories) == 1 else (f"{len(hidden)} of them are", "them")
    named = " or ".join(levels)
    if not all(full.allows(one.project, one.sensitivity) for one in hidden):
        return f"{what} now {named}, which you cannot see there."
    wanted = " and ".join(levels)
    return f"{what} now {named} and hidden: show {wanted} memories in the Visibility menu to see {them}."


def visible_titles(request: HttpRequest, uids: Iterable[str]) -> dict[str, str]:
    """Return the titles by id of the visible ones of these memories, redacted if secret."""
    visible = Memory.objects.visible_to(request_clearance(request)).filter(uid__in=uids)
    rows = visible.values_list("title", "uid", "sensitivity")
    return {uid: policy.format_display_name(title, uid, level) for title, uid, level in rows}


def session_of(memory: Memory) -> Session | None:
    """Return the session in which the memory was stored."""
    if not memory.session_id:
        return None
    return Session.objects.filter(session_id=memory.session_id, project=memory.project).first()


def facts_of(memory: Memory, clearance: Clearance) -> list[Fact]:
    """Return the newest facts from the memory; one more than :data:`MAX_FACTS` if there are more."""
    facts = Fact.objects.visible_to(clearance).filter(memory=memory)
    return list(facts.order_by("-updated_at", "-pk")[: MAX_FACTS + 1])


def events_of(memory: Memory, clearance: Clearance) -> list[Event]:
    """Return the events from which the memory was created."""
    events = Event.objects.visible_to(clearance).filter(memory=memory).select_related("session")
    return list(events.order_by("-at", "-pk")[:MAX_RELATED])


@dataclass(frozen=True)
class LinkedMemories:
    """The visible memories that are linked to one. Those that were merged into it are in the trash."""

    merged_into: Memory | None
    merged_from: list[Memory]
    replacement: Memory | None
    replaced: list[Memory]  # the newest first
    by_session: list[Memory]  # of the same session, just before and just after, in order


def linked_memories(memory: Memory, clearance: Clearance) -> LinkedMemories:
    """Return the memories linked to one; of those that it replaces and of its session only live ones."""
    rows = _linked_rows(memory, clearance)
    now, half = timezone.now(), MAX_RELATED // 2
    by_pk: dict[int | None, Memory] = {row.pk: row for row in rows}
    kept = [row for row in rows if not row.has_ended(now)]
    place = (memory.session_id, memory.project)
    same = [row for row in kept if memory.session_id and (row.session_id, row.project) == place]
    earlier = [row for row in same if (row.created_at, row.pk) < (memory.created_at, memory.pk)]
    return LinkedMemories(
        by_pk.get(memory.merged_into_id),
        [row for row in rows if row.merged_into_id == memory.pk][:MAX_MERGED],
        by_pk.get(memory.superseded_by_id),
        [row for row in reversed(kept) if row.superseded_by_id == memory.pk][:MAX_RELATED],
        earlier[-half:] + same[len(earlier) :][:half],
    )


def _linked_rows(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Return the visible rows of every link, in the order of their creation. One query."""
    visible = Memory.objects.visible_to(clearance).exclude(pk=memory.pk)
    live = visible.live()
    same = live.in_session(memory.session_id, project=memory.project)
    at, pk, half = memory.created_at, memory.pk, MAX_RELATED // 2
    earlier, later = (
        Q(**{f"created_at__{operator}": at}) | Q(**{"created_at": at, f"pk__{operator}": pk})
        for operator in ("lt", "gt")
    )
    wanted = Q(pk__in=[memory.merged_into_id, memory.superseded_by_id])
    for part in (
        visible.filter(merged_into=memory).order_by("created_at", "pk")[:MAX_MERGED],
        live.filter(superseded_by=memory).order_by("-created_at", "-pk")[:MAX_RELATED],
        same.filter(earlier).order_by("-created_at", "-pk")[:half],
        same.filter(later).order_by("created_at", "pk")[:half],
    ):
        wanted |= Q(pk__in=part.values("pk"))
    return list(visible.filter(wanted).defer("content", "overview").order_by("created_at", "pk"))

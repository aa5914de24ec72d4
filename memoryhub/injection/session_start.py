"""Candidates for a new session: pinned memories, the project's page, the last summary, important memories."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection import context_block
from memoryhub.injection.candidates import Candidate, CandidateSet, full_match
from memoryhub.injection.log import page_was_shown
from memoryhub.injection.project_page import (
    PageEntry,
    clean_entry,
    element_line,
    find_entries,
    fit_entries,
    render_frame,
)
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import WITHHOLD
from memoryhub.memories.replacements import without_replaced
from memoryhub.models import Memory, Project
from memoryhub.models.querysets import MemoryQuerySet

MAX_RECENT = 100  # memories among which the most important ones are selected at session start
MAX_IMPORTANT = 3  # memories in addition to the last summary
MIN_IMPORTANCE = 0.6
MAX_PINNED = 100  # pinned memories that one session opens with, whatever their budget


def _live_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the live memories without those that a visible memory replaces."""
    return without_replaced(Memory.objects.visible_to(clearance).live(max(now, timezone.now())))


def pinned_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the pinned memories of the project and of no project, which every session opens with."""
    return _live_memories(request, clearance, now).pinned().filter(project__in={request.project, ""})


def find_pinned(request: InjectionRequest, clearance: Clearance, now: datetime) -> list[Candidate]:
    """Return the most important pinned memories, hardly more than could fit into their budget."""
    most = min(settings.MEMORYHUB.pinned_token_budget // context_block.MIN_TEXT_TOKENS + 1, MAX_PINNED)
    pinned = pinned_memories(request, clearance, now).order_by("-importance", "pinned_at", "pk")
    return [full_match(memory, now) for memory in pinned[:most]]


def find_at_session_start(request: InjectionRequest, clearance: Clearance, now: datetime) -> CandidateSet:
    """Return the summary of the previous session, then the best of the latest important memories."""
    live = _live_memories(request, clearance, now).filter(project=request.project).unpinned()
    recent = list(live.order_by("-updated_at")[:MAX_RECENT])
    summaries = [
        full_match(memory, now)
        for memory in recent
        if memory.session_id != request.session_id and memory.type == MemoryType.SESSION_SUMMARY.value
    ]
    important = [
        full_match(memory, now)
        for memory in recent
        if memory.type not in SUMMARY_TYPES and memory.importance >= MIN_IMPORTANCE
    ]
    ranked = [*summaries[:1], *sorted(important, key=lambda one: -one.rank)[:MAX_IMPORTANT]]
    return CandidateSet(ranked, find_pinned(request, clearance, now), _find_page(request, clearance, now))


def _find_page(request: InjectionRequest, clearance: Clearance, now: datetime) -> list[PageEntry]:
    """Return the lines of the project's page, unless it is switched off or the agent still has it.

    Pinned memories have their own part of the block.
    """
    if not settings.MEMORYHUB.project_page_tokens or not request.budget:
        return []
    if not Project.named(request.project).sends_page or page_was_shown(request, clearance, now):
        return []
    found = find_entries(request.project, clearance, max(now, timezone.now()), request.session_id)
    withheld = settings.MEMORYHUB.outdated_memories == WITHHOLD
    lines = [one for one in found if not one.pinned and not (withheld and one.may_be_outdated)]
    return [clean for entry in lines if (clean := clean_entry(entry))]


def fit_page(
    entries: list[PageEntry], project: str, left: int, shown: Iterable[Candidate]
) -> tuple[list[PageEntry], int]:
    """Return the lines of the page that fit and are not shown as memories, and the tokens that they take."""
    known = {one.memory.uid for one in shown}
    budget = min(settings.MEMORYHUB.project_page_tokens, left - context_block.EMPTY_TOKENS)
    frame = context_block.count_tokens(render_frame(project, ""))
    lines = [one for one in entries if one.uid not in known]
    fitting, tokens = fit_entries(lines, budget - frame, element_line)
    return fitting, tokens + frame if fitting else 0

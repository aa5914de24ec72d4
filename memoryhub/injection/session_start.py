"""Candidate memories for a new session: pinned ones, the last summary, the important recent ones."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.injection import context_block
from memoryhub.injection.candidates import Candidate, CandidateSet, full_match
from memoryhub.injection.requests import InjectionRequest
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

MAX_RECENT = 100  # memories among which the most important ones are selected at session start
MAX_IMPORTANT = 3  # memories in addition to the last summary
MIN_IMPORTANCE = 0.6
MAX_PINNED = 100  # pinned memories that one session opens with, whatever their budget


def _live_memories(request: InjectionRequest, clearance: Clearance, now: datetime) -> MemoryQuerySet:
    """Return the live memories without those that a visible memory replaces."""
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    return live.exclude(superseded_by__in=live)


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
    return CandidateSet(ranked, find_pinned(request, clearance, now))

"""The memories that a prompt may bring up: found by its telling terms and by the files it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import prompts, scoring
from memoryhub.retrieval.search import RELEVANT_MATCH, Scored, default_weights, frequencies_of, rank
from memoryhub.search.query import Query
from memoryhub.sensitivity import Clearance
from memoryhub.vocabulary import Scope

POOL = 80  # candidates that are scored: an injection must be quick, and shows few
MOST = 40  # candidates that are weighed against each other
FILE_MATCH = 0.4  # match of a memory about a file that the prompt names, if they share nothing else


@dataclass(frozen=True)
class Candidate:
    """A memory that shares something with the prompt, and its score."""

    memory: Memory
    score: float
    components: scoring.Components


def within(clearance: Clearance, project: str, now: datetime) -> MemoryQuerySet:
    """What an injection may draw on: the project's memories, the team's, and those of no project.

    Without a project all that the clearance reaches. Lazy.
    """
    memories = Memory.objects.visible_to(clearance).live(now)
    if project:
        memories = memories.filter(Q(project__in=(project, "")) | Q(scope=Scope.TEAM.value))
    return memories


def candidates(memories: MemoryQuerySet, prompt: str, now: datetime) -> list[Candidate]:
    """The best first, those below the floor included; none when the prompt tells nothing."""
    asked = prompts.read(prompt)
    linked = _linked(memories, asked.files)
    wanted = prompts.query(asked, *frequencies_of(memories, asked.words))
    scored = _scored(memories, wanted, linked, now)
    best = sorted(scored, key=lambda one: (-one.score, -one.parts.match, -one.pk))[:MOST]
    rows = Memory.objects.in_bulk([one.pk for one in best])
    return [Candidate(rows[one.pk], one.score, one.parts) for one in best if one.pk in rows]


def _linked(memories: MemoryQuerySet, files: tuple[str, ...]) -> set[int]:
    """The memories about the files that the prompt names, the latest of many."""
    if not files:
        return set()
    about = memories.none()
    for path in files:
        about = about | memories.about_file(path)
    return set(about.order_by("-updated_at").values_list("pk", flat=True)[: POOL // 2])


def _scored(memories: MemoryQuerySet, wanted: Query | None, linked: set[int], now: datetime) -> list[Scored]:
    if wanted is None:
        return []
    beside = memories.filter(pk__in=linked) if linked else None
    found, _ = rank(memories, wanted, default_weights(), now, pool=POOL, beside=beside)
    scored = [_with_file(one) if one.pk in linked else one for one in found]
    return [one for one in scored if one.parts.match >= RELEVANT_MATCH]


def _with_file(one: Scored) -> Scored:
    """A memory about a file that was named: what its words leave open, the file fills in part."""
    match = round(1 - (1 - one.parts.match) * (1 - FILE_MATCH), 4)
    parts = replace(one.parts, match=match)
    return Scored(one.pk, round(scoring.composite(parts, default_weights()), 4), parts)

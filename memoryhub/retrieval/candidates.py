"""The memories that a prompt may bring up: found by its telling terms and by the files it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import prompts, scoring
from memoryhub.retrieval.frequencies import Frequencies, frequencies_of
from memoryhub.retrieval.lexical import Effort, rank
from memoryhub.retrieval.prompts import Sought
from memoryhub.retrieval.rows import Scored
from memoryhub.retrieval.search import default_weights
from memoryhub.sensitivity import Clearance
from memoryhub.vocabulary import Scope

# An injection must be quick, and shows few. Who holds no more than 0.35 of the query stays below LEAST_MATCH.
EFFORT = Effort(pool=60, spare=0.35, posted=5000, weighed=0, thorough=False)
MOST_ABOUT = 30  # memories about the files that a prompt names, beside these
MOST = 40  # candidates that are weighed against each other
LEAST_MATCH = (
    0.12  # a new memory passes the floor by its age alone: it must share about half of what is asked
)
MOST_LINKED = 200  # memories about one file; a file that more are about tells nothing
FEW = 5  # memories about a file of which each is worth seeing
FILE_MATCH = 0.4  # match of a memory about a file that the prompt names, if they share nothing else


@dataclass(frozen=True)
class Candidate:
    """A memory that shares something with the prompt, and its score."""

    memory: Memory
    score: float
    components: scoring.Components


def within(clearance: Clearance, project: str, now: datetime) -> MemoryQuerySet:
    """What an injection may draw on: the project's memories, the team's, and those of no project.

    Without a project all that the clearance reaches. What has expired by now is not shown for a prompt of
    earlier that is told late. Lazy.
    """
    memories = Memory.objects.visible_to(clearance).live(max(now, timezone.now()))
    if project:
        memories = memories.filter(Q(project__in=(project, "")) | Q(scope=Scope.TEAM.value))
    return memories


def candidates(memories: MemoryQuerySet, prompt: str, now: datetime) -> list[Candidate]:
    """The best first, those below the floor included; none when the prompt tells nothing."""
    asked = prompts.read(prompt)
    counted = frequencies_of(memories, asked.words)
    wanted = prompts.query(asked, counted.of_stems, counted.total)
    if wanted is None:
        return []
    files = _linked(memories, asked.files, counted.total)
    scored = _scored(memories, wanted, counted, files, now)
    best = sorted(scored, key=lambda one: (-one.score, -one.parts.match, -one.pk))[:MOST]
    rows = Memory.objects.in_bulk([one.pk for one in best])
    return [Candidate(rows[one.pk], one.score, one.parts) for one in best if one.pk in rows]


def _linked(memories: MemoryQuerySet, files: tuple[str, ...], total: int) -> dict[int, float]:
    """The memories about the files that the prompt names, each with the weight of that: a file that many
    are about tells nothing."""
    weights: dict[int, float] = {}
    for path in files:
        about = list(memories.order_by().about_file(path).values_list("pk", flat=True)[:MOST_LINKED])
        if len(about) < MOST_LINKED:
            weights |= {pk: max(weights.get(pk, 0.0), scoring.rarity(len(about), total)) for pk in about}
    return weights


def _scored(
    memories: MemoryQuerySet,
    wanted: Sought,
    counted: Frequencies,
    files: dict[int, float],
    now: datetime,
) -> list[Scored]:
    """Those that share enough with the prompt for it to be no chance."""
    total = counted.total
    latest = sorted(files, key=lambda pk: -files[pk])[:MOST_ABOUT]
    found = rank(
        memories,
        wanted.query,
        default_weights(),
        now,
        effort=EFFORT,
        beside=memories.filter(pk__in=latest) if latest else None,
        clauses=wanted.clauses,
        counted=counted,
        # A word that nobody used is taken for no rarer than the rarest that somebody did.
        least=_rarest(wanted, counted),
    )
    several = len(wanted.query.terms) > 1
    scored = []
    for one in found:
        file = files.get(one.pk, 0.0)
        lone = several and one.held.held == 1 and not file
        if one.held.weight + file >= prompts.least_weight(total, lone=lone):
            scored.append(_with_file(one, min(file / scoring.rarity(FEW, total), 1.0)) if file else one)
    return [one for one in scored if one.parts.match >= LEAST_MATCH]


def _rarest(wanted: Sought, counted: Frequencies) -> int:
    """How many memories hold the rarest word of the query that any holds."""
    return min(filter(None, map(counted.of, wanted.query.words)), default=0)


def _with_file(one: Scored, share: float) -> Scored:
    """A memory about a file that was named: of what its words leave open, the file fills in part."""
    match = round(1 - (1 - one.parts.match) * (1 - FILE_MATCH * share), 4)
    parts = replace(one.parts, match=match)
    return Scored(one.pk, round(scoring.composite(parts, default_weights()), 4), parts, one.held)

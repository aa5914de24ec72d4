"""Recall within a token budget: a short index of all matches and the details that fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import accumulate
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import prefetch_related_objects

from memoryhub.config import Config
from memoryhub.core.text import estimate_tokens, summary
from memoryhub.memories.temporal import count_access
from memoryhub.models import Memory
from memoryhub.models.querysets import DETAILS, MemoryQuerySet
from memoryhub.search.hybrid import Mode, Results, search
from memoryhub.search.scoring import Components

INDEX_SHARE = 0.4
_STEPS = 2000  # into which the room is divided where it has more tokens than that


@dataclass(frozen=True)
class Packed:
    """``entries``: how many of the index, from the first; ``details``: which ones, best first."""

    entries: int
    details: list[int]


def pack(index: Sequence[int], details: Sequence[int], scores: Sequence[float], room: int) -> Packed:
    """Choose from the costs in tokens of entries and details, which come best first, within the room."""
    room = max(room, 0)
    if sum(index) + sum(details) <= room:
        return Packed(len(index), list(range(len(details))))
    entries = _first(index, int(room * INDEX_SHARE))
    chosen = worthiest(details, scores, room - sum(index[:entries]))
    beside = room - sum(index[:1])
    best = [number for number, cost in enumerate(details) if cost <= beside][:1]
    if best != chosen[:1]:
        chosen = best
    return Packed(_first(index, room - sum(details[number] for number in chosen)), chosen)


def worthiest(costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """The first that fits, and beside it those that have the highest total score within the room."""
    fitting = [number for number, cost in enumerate(costs) if cost <= room]
    if sum(costs[number] for number in fitting) <= room:
        return fitting
    first, *others = fitting
    chosen = {first, *_knapsack(others, costs, scores, room - costs[first])}
    left = room - sum(costs[number] for number in chosen)
    for number in fitting:  # what the steps have cost
        if number not in chosen and costs[number] <= left:
            chosen.add(number)
            left -= costs[number]
    return sorted(chosen)


def _knapsack(numbers: Sequence[int], costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """The set with the highest total score; costs are rounded up to steps where there is much room."""
    step = max(1, -(-room // _STEPS))
    places = room // step
    best = np.zeros(places + 1)
    taken = np.zeros((len(numbers), places + 1), dtype=bool)
    weights = [-(-costs[number] // step) for number in numbers]
    for row, number in enumerate(numbers):
        weight = weights[row]
        if weight <= places:
            tried = best[: places + 1 - weight] + scores[number]
            taken[row, weight:] = tried > best[weight:]
            best[weight:] = np.maximum(best[weight:], tried)
    chosen, place = [], places
    for row in range(len(numbers) - 1, -1, -1):
        if taken[row, place]:
            chosen.append(numbers[row])
            place -= weights[row]
    return chosen


def _first(costs: Sequence[int], room: int) -> int:
    """How many from the first fit."""
    return sum(1 for total in accumulate(costs) if total <= room)


HALF_FREQUENT = 5  # accesses at which the frequency is 0.5


class Ranking(StrEnum):
    """The document that a ranking comes from."""

    LETSGO = "letsgo"
    MEMORY_MCP = "memory-mcp"


@dataclass(frozen=True)
class Profile:
    """The share of each part; they add up to 1."""

    match: float
    recency: float
    importance: float
    trust: float = 0.0
    frequency: float = 0.0

    def score(self, parts: Components, accesses: int) -> float:
        """The weighted sum, 0..1."""
        total = (
            self.match * parts.match
            + self.recency * parts.recency
            + self.importance * parts.importance
            + self.trust * parts.trust
            + self.frequency * frequency(accesses)
        )
        return round(total, 4)


def frequency(accesses: int) -> float:
    """How often a memory was read, 0..1: n / (n + 5). 5 accesses are 0.5, 20 are 0.8; none reaches 1."""
    return accesses / (accesses + HALF_FREQUENT) if accesses > 0 else 0.0


def profile(ranking: Ranking, config: Config) -> Profile:
    """The weights of a ranking, as configured."""
    if ranking is Ranking.LETSGO:
        return Profile(
            config.match_weight, config.recency_weight, config.importance_weight, trust=config.trust_weight
        )
    return Profile(
        config.mcp_match_weight,
        config.mcp_recency_weight,
        config.mcp_importance_weight,
        frequency=config.mcp_frequency_weight,
    )


LEAST_TOKENS, MOST_TOKENS, DEFAULT_TOKENS = 100, 100_000, 1000
SUMMARY_WORDS = 20
_SHORTER = (10, 5, 2)  # words of a summary where twenty cost too much
_MOST_OF_ENTRY = 100  # tokens; a summary of emoji may have many more
_QUERY_SHARES = (
    8,
    24,
)  # the query is repeated up to this part of the budget, the second if nothing else fits
_MOST_MATCHES = 1000
_SMALL_DETAIL = 200  # tokens; few are smaller
_CHOICE = 4  # times as many details are weighed against each other as would fit of the small ones

Shape = dict[str, Any]
EntryShape = Callable[[Memory, int], Shape]
DetailShape = Callable[[Memory, float], Shape]


@dataclass(frozen=True)
class Wanted:
    """What is asked. ``mode`` and ``min_score`` are the search's; the floor is as configured unless given.

    ``most_details``: of the best matches, how many may be shown whole; None: as many as there is room for.
    """

    query: str
    max_tokens: int = DEFAULT_TOKENS
    ranking: Ranking = Ranking.MEMORY_MCP
    min_score: float | None = None
    mode: Mode = "hybrid"
    most_details: int | None = None


@dataclass(frozen=True)
class _Match:
    memory: Memory
    score: float


_Detail = tuple[_Match, Shape, int]  # and what it costs


def entry(memory: Memory, words: int = SUMMARY_WORDS) -> Shape:
    """A line of the index, with a summary of at most so many words."""
    told = memory.abstract if memory.abstract.strip() else memory.content
    return {
        "id": memory.uid,
        "type": memory.type,
        "summary": summary(told, words),
        "importance": memory.importance,
    }


def recall_memories(
    memories: MemoryQuerySet,
    wanted: Wanted,
    detail: DetailShape,
    *,
    entry: EntryShape = entry,
    brief: DetailShape | None = None,
    prepare: Callable[[list[Memory]], object] | None = None,
    told: Callable[[list[Memory]], object] | None = None,
    now: datetime | None = None,
) -> Shape:
    """Recall from ``memories``, which the caller has gated, filtered and limited to live ones.

    ``detail`` and ``entry`` make what is shown of a memory, and ``brief`` what is shown of the best match
    where there is no room for its detail. ``prepare`` gets all that ``detail`` may be asked for, to read at
    once what belongs to them; ``told`` gets those of which the answer tells. Those that
    are shown whole count one access each.
    """
    found = search(
        memories,
        wanted.query,
        limit=_MOST_MATCHES,
        min_score=wanted.min_score,
        now=now,
        mode=wanted.mode,
        snippets=False,
    )
    matches = _ranked(found, wanted.ranking)
    answer, entries, room = _begun(found, matches, wanted, entry)
    details = _details(matches[: wanted.most_details], detail, room, prepare)
    if brief and entries and details:
        details[0] = _within(details[0], brief, room - _tokens(entries[0]) - 1)
    packed = pack(
        [_tokens(one) + 1 for one in entries],
        [cost for _, _, cost in details],
        [match.score for match, _, _ in details],
        room,
    )
    chosen = [details[number] for number in packed.details]
    answer["index"] = entries[: packed.entries]
    answer["details"] = [shape for _, shape, _ in chosen]
    answer["has_more"] = packed.entries < found.total or not found.exact
    answer["tokens_used"] = _tokens(answer)  # with max_tokens in its place, which has no fewer digits
    whole = [match.memory for match, _, _ in chosen]
    if told:
        told(list(dict.fromkeys([*(match.memory for match in matches[: packed.entries]), *whole])))
    count_access([memory for memory in whole if memory.deleted_at is None], now)
    return answer


def _begun(
    found: Results, matches: list[_Match], wanted: Wanted, entry: EntryShape
) -> tuple[Shape, list[Shape], int]:
    """The answer without its memories, their entries, and the room for both kinds, in tokens.

    Of a query that leaves no room for an entry less and less is repeated.
    """
    for share in _QUERY_SHARES:
        answer = _frame(found, wanted, wanted.max_tokens // share)
        room = wanted.max_tokens - _tokens(answer)
        entries = _entries(matches, entry, room)
        if entries or not matches:
            break
    return answer, entries, room


def _ranked(found: Results, name: Ranking) -> list[_Match]:
    """All that matches, best first by the ranking."""
    weigh = profile(name, settings.MEMORYHUB).score
    scored = [(weigh(hit.components, hit.memory.accessed_count), hit) for hit in found.hits]
    scored.sort(key=lambda one: (-one[0], -one[1].components.match, -one[1].memory.pk))
    return [_Match(hit.memory, score) for score, hit in scored]


def _frame(found: Results, wanted: Wanted, query_room: int) -> Shape:
    """The answer without its two lists; its numbers have as many digits as they may need."""
    return {
        "query": _repeated(wanted.query, query_room),
        "index": [],
        "details": [],
        "total_count": found.total,
        "total_is_exact": found.exact,
        "has_more": False,
        "mode": found.mode,
        "tokens_used": wanted.max_tokens,
    }


def _repeated(query: str, room: int) -> str:
    """The query, cut where it would cost too much."""
    if len(query) <= 4 * room and _tokens(query) <= room:
        return query
    low, high = 0, min(len(query), 4 * room)
    while low < high:
        middle = (low + high + 1) // 2
        if _tokens(f"{query[:middle]}…") <= room:
            low = middle
        else:
            high = middle - 1
    return f"{query[:low]}…"


def _entries(matches: list[_Match], entry: EntryShape, room: int) -> list[Shape]:
    """The index: all of it, or as much as there would be room for without any details."""
    entries: list[Shape] = []
    for match in matches:
        made = _entry(match.memory, entry, min(room, _MOST_OF_ENTRY))
        room -= _tokens(made) + 1
        if room < 0:
            break
        entries.append(made)
    return entries


def _entry(memory: Memory, entry: EntryShape, room: int) -> Shape:
    """A line of the index, with fewer words where twenty cost more than the room; with two at least."""
    made = entry(memory, SUMMARY_WORDS)
    for words in _SHORTER:
        if _tokens(made) + 1 <= room:
            break
        made = entry(memory, words)
    return made


def _details(
    matches: list[_Match],
    detail: DetailShape,
    room: int,
    prepare: Callable[[list[Memory]], object] | None = None,
) -> list[_Detail]:
    """The best matches that could fit by their length, as they would be shown, each with its cost."""
    most = _CHOICE * (room // _SMALL_DETAIL + 1)
    short = [match for match in matches if len(match.memory.content) <= 4 * room][:most]
    memories = [match.memory for match in short]
    prefetch_related_objects(memories, *DETAILS)
    if prepare:
        prepare(memories)
    shapes = [(match, detail(match.memory, match.score)) for match in short]
    return [(match, shape, _tokens(shape) + 1) for match, shape in shapes]


def _within(best: _Detail, brief: DetailShape, room: int) -> _Detail:
    """The best match as it is, or in brief if it takes more than the room."""
    match, _, cost = best
    if cost <= room:
        return best
    shape = brief(match.memory, match.score)
    return match, shape, _tokens(shape) + 1


def _tokens(data: Any) -> int:
    """What a part of the answer costs as it is written. Parts cost together no less than the whole."""
    return estimate_tokens(json.dumps(data, ensure_ascii=False, separators=(",", ":")))

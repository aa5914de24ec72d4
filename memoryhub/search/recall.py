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
from memoryhub.core.text import estimate_tokens, make_summary
from memoryhub.memories.temporal import count_accesses_and_promote
from memoryhub.models import Memory
from memoryhub.models.querysets import DETAIL_RELATIONS, MemoryQuerySet
from memoryhub.search.hybrid import SearchMode, SearchResults, search_memories
from memoryhub.search.scoring import Components

INDEX_SHARE = 0.4
_KNAPSACK_STEPS = 2000  # into which the room is divided where it has more tokens than that


@dataclass(frozen=True)
class Packing:
    """``entries``: how many of the index, from the first; ``details``: which ones, best first."""

    entries: int
    details: list[int]


def pack_answer(index: Sequence[int], details: Sequence[int], scores: Sequence[float], room: int) -> Packing:
    """Choose from the costs in tokens of entries and details, which come best first, within the room."""
    room = max(room, 0)
    if sum(index) + sum(details) <= room:
        return Packing(len(index), list(range(len(details))))
    entries = _count_fitting(index, int(room * INDEX_SHARE))
    chosen = select_most_valuable(details, scores, room - sum(index[:entries]))
    beside = room - sum(index[:1])
    best = [number for number, cost in enumerate(details) if cost <= beside][:1]
    if best != chosen[:1]:
        chosen = best
    return Packing(_count_fitting(index, room - sum(details[number] for number in chosen)), chosen)


def select_most_valuable(costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
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
    step = max(1, -(-room // _KNAPSACK_STEPS))
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


def _count_fitting(costs: Sequence[int], room: int) -> int:
    """How many from the first fit."""
    return sum(1 for total in accumulate(costs) if total <= room)


ACCESSES_FOR_HALF = 5  # accesses at which the frequency is 0.5


class Ranking(StrEnum):
    """The document that a ranking comes from."""

    LETSGO = "letsgo"
    MEMORY_MCP = "memory-mcp"


@dataclass(frozen=True)
class RankingWeights:
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
            + self.frequency * access_frequency(accesses)
        )
        return round(total, 4)


def access_frequency(accesses: int) -> float:
    """How often a memory was read, 0..1: n / (n + 5). 5 accesses are 0.5, 20 are 0.8; none reaches 1."""
    return accesses / (accesses + ACCESSES_FOR_HALF) if accesses > 0 else 0.0


def ranking_weights(ranking: Ranking, config: Config) -> RankingWeights:
    """The weights of a ranking, as configured."""
    if ranking is Ranking.LETSGO:
        return RankingWeights(
            config.match_weight, config.recency_weight, config.importance_weight, trust=config.trust_weight
        )
    return RankingWeights(
        config.mcp_match_weight,
        config.mcp_recency_weight,
        config.mcp_importance_weight,
        frequency=config.mcp_frequency_weight,
    )


MIN_TOKENS, MAX_TOKENS, DEFAULT_TOKENS = 100, 100_000, 1000
SUMMARY_WORDS = 20
_SHORTER_SUMMARIES = (10, 5, 2)  # words of a summary where twenty cost too much
_MAX_ENTRY_TOKENS = 100  # tokens; a summary of emoji may have many more
_QUERY_SHARES = (
    8,
    24,
)  # the query is repeated up to this part of the budget, the second if nothing else fits
_MAX_MATCHES = 1000
_SMALL_DETAIL = 200  # tokens; few are smaller
_DETAIL_OVERSAMPLING = (
    4  # times as many details are weighed against each other as would fit of the small ones
)

JsonDict = dict[str, Any]
EntrySerializer = Callable[[Memory, int], JsonDict]
DetailSerializer = Callable[[Memory, float], JsonDict]


@dataclass(frozen=True)
class RecallRequest:
    """What is asked. ``mode`` and ``min_score`` are the search's; the floor is as configured unless given.

    ``most_details``: of the best matches, how many may be shown whole; None: as many as there is room for.
    """

    query: str
    max_tokens: int = DEFAULT_TOKENS
    ranking: Ranking = Ranking.MEMORY_MCP
    min_score: float | None = None
    mode: SearchMode = "hybrid"
    most_details: int | None = None


@dataclass(frozen=True)
class _Match:
    memory: Memory
    score: float


_Detail = tuple[_Match, JsonDict, int]  # and what it costs


def serialize_entry(memory: Memory, words: int = SUMMARY_WORDS) -> JsonDict:
    """A line of the index, with a summary of at most so many words."""
    told = memory.abstract if memory.abstract.strip() else memory.content
    return {
        "id": memory.uid,
        "type": memory.type,
        "summary": make_summary(told, words),
        "importance": memory.importance,
    }


def recall_memories(
    memories: MemoryQuerySet,
    wanted: RecallRequest,
    detail: DetailSerializer,
    *,
    entry: EntrySerializer = serialize_entry,
    brief: DetailSerializer | None = None,
    prepare: Callable[[list[Memory]], object] | None = None,
    told: Callable[[list[Memory]], object] | None = None,
    now: datetime | None = None,
) -> JsonDict:
    """Recall from ``memories``, which the caller has gated, filtered and limited to live ones.

    ``detail`` and ``entry`` make what is shown of a memory, and ``brief`` what is shown of the best match
    where there is no room for its detail. ``prepare`` gets all that ``detail`` may be asked for, to read at
    once what belongs to them; ``told`` gets those of which the answer tells. Those that
    are shown whole count one access each.
    """
    found = search_memories(
        memories,
        wanted.query,
        limit=_MAX_MATCHES,
        min_score=wanted.min_score,
        now=now,
        mode=wanted.mode,
        snippets=False,
    )
    matches = _rank_matches(found, wanted.ranking)
    answer, entries, room = _start_answer(found, matches, wanted, entry)
    details = _serialize_details(matches[: wanted.most_details], detail, room, prepare)
    if brief and entries and details:
        details[0] = _fit_best_detail(details[0], brief, room - _json_tokens(entries[0]) - 1)
    packed = pack_answer(
        [_json_tokens(one) + 1 for one in entries],
        [cost for _, _, cost in details],
        [match.score for match, _, _ in details],
        room,
    )
    chosen = [details[number] for number in packed.details]
    answer["index"] = entries[: packed.entries]
    answer["details"] = [shape for _, shape, _ in chosen]
    answer["has_more"] = packed.entries < found.total or not found.exact
    answer["tokens_used"] = _json_tokens(answer)  # with max_tokens in its place, which has no fewer digits
    whole = [match.memory for match, _, _ in chosen]
    if told:
        told(list(dict.fromkeys([*(match.memory for match in matches[: packed.entries]), *whole])))
    count_accesses_and_promote([memory for memory in whole if memory.deleted_at is None], now)
    return answer


def _start_answer(
    found: SearchResults, matches: list[_Match], wanted: RecallRequest, entry: EntrySerializer
) -> tuple[JsonDict, list[JsonDict], int]:
    """The answer without its memories, their entries, and the room for both kinds, in tokens.

    Of a query that leaves no room for an entry less and less is repeated.
    """
    for share in _QUERY_SHARES:
        answer = _empty_answer(found, wanted, wanted.max_tokens // share)
        room = wanted.max_tokens - _json_tokens(answer)
        entries = _index_entries(matches, entry, room)
        if entries or not matches:
            break
    return answer, entries, room


def _rank_matches(found: SearchResults, name: Ranking) -> list[_Match]:
    """All that matches, best first by the ranking."""
    weigh = ranking_weights(name, settings.MEMORYHUB).score
    scored = [(weigh(hit.components, hit.memory.accessed_count), hit) for hit in found.hits]
    scored.sort(key=lambda one: (-one[0], -one[1].components.match, -one[1].memory.pk))
    return [_Match(hit.memory, score) for score, hit in scored]


def _empty_answer(found: SearchResults, wanted: RecallRequest, query_room: int) -> JsonDict:
    """The answer without its two lists; its numbers have as many digits as they may need."""
    return {
        "query": _shorten_query(wanted.query, query_room),
        "index": [],
        "details": [],
        "total_count": found.total,
        "total_is_exact": found.exact,
        "has_more": False,
        "mode": found.mode,
        "tokens_used": wanted.max_tokens,
    }


def _shorten_query(query: str, room: int) -> str:
    """The query, cut where it would cost too much."""
    if len(query) <= 4 * room and _json_tokens(query) <= room:
        return query
    low, high = 0, min(len(query), 4 * room)
    while low < high:
        middle = (low + high + 1) // 2
        if _json_tokens(f"{query[:middle]}…") <= room:
            low = middle
        else:
            high = middle - 1
    return f"{query[:low]}…"


def _index_entries(matches: list[_Match], entry: EntrySerializer, room: int) -> list[JsonDict]:
    """The index: all of it, or as much as there would be room for without any details."""
    entries: list[JsonDict] = []
    for match in matches:
        made = _fit_entry(match.memory, entry, min(room, _MAX_ENTRY_TOKENS))
        room -= _json_tokens(made) + 1
        if room < 0:
            break
        entries.append(made)
    return entries


def _fit_entry(memory: Memory, entry: EntrySerializer, room: int) -> JsonDict:
    """A line of the index, with fewer words where twenty cost more than the room; with two at least."""
    made = entry(memory, SUMMARY_WORDS)
    for words in _SHORTER_SUMMARIES:
        if _json_tokens(made) + 1 <= room:
            break
        made = entry(memory, words)
    return made


def _serialize_details(
    matches: list[_Match],
    detail: DetailSerializer,
    room: int,
    prepare: Callable[[list[Memory]], object] | None = None,
) -> list[_Detail]:
    """The best matches that could fit by their length, as they would be shown, each with its cost."""
    most = _DETAIL_OVERSAMPLING * (room // _SMALL_DETAIL + 1)
    short = [match for match in matches if len(match.memory.content) <= 4 * room][:most]
    memories = [match.memory for match in short]
    prefetch_related_objects(memories, *DETAIL_RELATIONS)
    if prepare:
        prepare(memories)
    shapes = [(match, detail(match.memory, match.score)) for match in short]
    return [(match, shape, _json_tokens(shape) + 1) for match, shape in shapes]


def _fit_best_detail(best: _Detail, brief: DetailSerializer, room: int) -> _Detail:
    """The best match as it is, or in brief if it takes more than the room."""
    match, _, cost = best
    if cost <= room:
        return best
    shape = brief(match.memory, match.score)
    return match, shape, _json_tokens(shape) + 1


def _json_tokens(data: Any) -> int:
    """What a part of the answer costs as it is written. Parts cost together no less than the whole."""
    return estimate_tokens(json.dumps(data, ensure_ascii=False, separators=(",", ":")))

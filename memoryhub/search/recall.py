"""Recall within a token budget: a short index of all matches and the details that fit."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any

import numpy as np
from django.conf import settings

from memoryhub.core.text import estimate_tokens, make_summary
from memoryhub.memories.evidence import count_accesses_and_promote
from memoryhub.memories.rows import attach_lists
from memoryhub.memories.versions import Snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import (
    MAX_REORDERED,
    Hit,
    SearchMode,
    SearchResults,
    search_memories,
    search_snapshot,
)
from memoryhub.search.lexical import default_weights
from memoryhub.search.scoring import Weights

MIN_TOKENS, MAX_TOKENS, DEFAULT_TOKENS = 100, 100_000, 1000
SUMMARY_WORDS = 20
INDEX_SHARE = 0.4  # of the budget
_SHORTER_SUMMARIES = (10, 5, 2)  # words, if a summary of SUMMARY_WORDS is too expensive
_MAX_ENTRY_TOKENS = 100  # a summary of emoji can have many more
_QUERY_SHARES = (8, 24)  # divisors of the budget for repeating the query; the second if no entry fits
# Words of each summary if the index is to list all matches, and the share of the budget that they may take.
_INDEX_WORDS = ((SUMMARY_WORDS, 0.2), (14, 0.2), (10, 0.2), (7, 0.2), (5, 0.7), (3, 1.0))
_MIN_ENTRY_TOKENS = 20  # of an index entry with an id and few words
_SMALL_DETAIL = 200  # tokens; few details are smaller
_DETAIL_OVERSAMPLING = 4  # details to choose from, relative to the number of small ones that fit
_KNAPSACK_STEPS = 2000  # resolution of the knapsack for budgets with more tokens

JsonDict = dict[str, Any]
EntrySerializer = Callable[[Memory, int], JsonDict]
DetailSerializer = Callable[[Memory, float], JsonDict]


class Ranking(StrEnum):
    """The specification that a ranking comes from."""

    LETSGO = "letsgo"
    MEMORY_MCP = "memory-mcp"


def ranking_weights(ranking: Ranking) -> Weights:
    """Return the configured weights of a ranking."""
    if ranking is Ranking.LETSGO:
        return default_weights()
    config = settings.MEMORYHUB
    return Weights(
        config.mcp_match_weight,
        config.mcp_recency_weight,
        config.mcp_importance_weight,
        trust=0.0,
        frequency=config.mcp_frequency_weight,
    )


@dataclass(frozen=True)
class RecallRequest:
    """Parameters of a recall. ``min_score`` defaults to the configuration.

    ``most_details``: only this many of the best matches may be shown whole; None for as many as fit.
    ``whole_index``: shorten all summaries, so that the index lists all matches.
    """

    query: str
    max_tokens: int = DEFAULT_TOKENS
    ranking: Ranking = Ranking.MEMORY_MCP
    min_score: float | None = None
    mode: SearchMode = "hybrid"
    most_details: int | None = None
    whole_index: bool = False


_Entry = tuple[JsonDict, int]  # with its cost in tokens
_Detail = tuple[Hit, JsonDict, int]  # the same


def recall_memories(
    memories: MemoryQuerySet | Snapshot,
    request: RecallRequest,
    detail: DetailSerializer,
    *,
    entry: EntrySerializer | None = None,
    short_detail: DetailSerializer | None = None,
    prepare: Callable[[list[Memory]], object] | None = None,
    on_shown: Callable[[list[Memory]], object] | None = None,
) -> JsonDict:
    """Recall from ``memories``, a queryset of live rows that the caller can see, or from those of a moment.

    Pinned matches come first. ``detail`` and ``entry`` serialize memories. ``short_detail`` serializes the
    best match if its detail does not fit. ``prepare`` gets all memories that ``detail`` may serialize, to
    load related rows at once. ``on_shown`` gets the memories in the answer. Each memory that is shown whole
    counts one access, but not those of a snapshot.
    """
    found = _find_matches(memories, request)
    answer, entries, room = _start_answer(found, request, entry or serialize_entry)
    details = _serialize_details(found.hits[: request.most_details], detail, room, prepare)
    if short_detail and entries and details:
        details[0] = _fit_best_detail(details[0], short_detail, room - entries[0][1])
    packed = pack_answer(
        [cost for _, cost in entries],
        [cost for _, _, cost in details],
        [match.score + match.memory.pinned for match, _, _ in details],
        room,
        index_share=1.0 if request.whole_index and len(entries) == len(found.hits) else INDEX_SHARE,
    )
    chosen = [details[number] for number in packed.details]
    answer["index"] = [serialized for serialized, _ in entries[: packed.entries]]
    answer["details"] = [serialized for _, serialized, _ in chosen]
    answer["has_more"] = packed.entries < found.total or not found.exact
    answer["tokens_used"] = _json_tokens(answer)  # includes max_tokens as a placeholder with no fewer digits
    whole = [match.memory for match, _, _ in chosen]
    if on_shown:
        on_shown(list(dict.fromkeys([*(hit.memory for hit in found.hits[: packed.entries]), *whole])))
    if not isinstance(memories, Snapshot):
        count_accesses_and_promote([memory for memory in whole if memory.deleted_at is None])
    return answer


def _find_matches(memories: MemoryQuerySet | Snapshot, request: RecallRequest) -> SearchResults:
    """Search for as many matches as could fit into the index."""
    options: JsonDict = {
        "limit": min(request.max_tokens // _MIN_ENTRY_TOKENS, MAX_REORDERED),
        "min_score": request.min_score,
        "order": ranking_weights(request.ranking),
        "mode": request.mode,
        "snippets": False,
        "is_prompt": True,
        "pinned_first": True,
    }
    if isinstance(memories, Snapshot):
        return search_snapshot(memories, request.query, **options)
    return search_memories(memories, request.query, **options)


def serialize_entry(memory: Memory, words: int = SUMMARY_WORDS) -> JsonDict:
    """Serialize a memory for the index, with a summary of at most ``words`` words."""
    text = memory.abstract if memory.abstract.strip() else memory.content
    return {
        "id": memory.uid,
        "type": memory.type,
        "summary": make_summary(text, words),
        "importance": memory.importance,
    }


def _start_answer(
    found: SearchResults, request: RecallRequest, entry: EntrySerializer
) -> tuple[JsonDict, list[_Entry], int]:
    """Return the answer without memories, the index entries, and the tokens left for memories.

    A long query is cut further if it would leave no room for an entry.
    """
    for share in _QUERY_SHARES:
        answer = _empty_answer(found, request, request.max_tokens // share)
        room = request.max_tokens - _json_tokens(answer)
        words = _summary_words(found.hits, entry, room) if request.whole_index else SUMMARY_WORDS
        entries = _index_entries(found.hits, entry, room, words)
        if entries or not found.hits:
            break
    return answer, entries, room


def _empty_answer(found: SearchResults, request: RecallRequest, query_room: int) -> JsonDict:
    """Return the answer without memories; its numbers have as many digits as they may need."""
    return {
        "query": _shorten_query(request.query, query_room),
        "index": [],
        "details": [],
        "total_count": found.total,
        "total_is_exact": found.exact,
        "has_more": False,
        "mode": found.mode,
        "tokens_used": request.max_tokens,
    }


def _shorten_query(query: str, room: int) -> str:
    """Cut the query to so many tokens."""
    if len(query) <= 4 * room and _json_tokens(query) <= room:
        return query
    lengths = range(1, min(len(query), 4 * room) + 1)
    chars = bisect_right(lengths, room, key=lambda length: _json_tokens(f"{query[:length]}…"))
    return f"{query[:chars]}…"


def _summary_words(matches: list[Hit], entry: EntrySerializer, room: int) -> int:
    """Return the length of the summaries of an index that lists all matches."""
    for words, share in _INDEX_WORDS:
        if sum(_item_tokens(entry(one.memory, words)) for one in matches) <= room * share:
            break
    return words


def _index_entries(matches: list[Hit], entry: EntrySerializer, room: int, words: int) -> list[_Entry]:
    """Return the entries of the index, as many as would fit without any details."""
    entries: list[_Entry] = []
    for match in matches:
        serialized, cost = _fit_entry(match.memory, entry, min(room, _MAX_ENTRY_TOKENS), words)
        room -= cost
        if room < 0:
            break
        entries.append((serialized, cost))
    return entries


def _fit_entry(memory: Memory, entry: EntrySerializer, room: int, words: int) -> _Entry:
    """Return an entry with a shorter summary if necessary, down to two words."""
    for length in (words, *(min(fewer, words) for fewer in _SHORTER_SUMMARIES)):
        serialized = entry(memory, length)
        cost = _item_tokens(serialized)
        if cost <= room:
            break
    return serialized, cost


def _serialize_details(
    matches: list[Hit],
    detail: DetailSerializer,
    room: int,
    prepare: Callable[[list[Memory]], object] | None = None,
) -> list[_Detail]:
    """Serialize the best matches that could fit by their length, each with its cost."""
    limit = _DETAIL_OVERSAMPLING * (room // _SMALL_DETAIL + 1)
    short = [match for match in matches if len(match.memory.content) <= 4 * room][:limit]
    memories = [match.memory for match in short]
    attach_lists(memories)
    if prepare:
        prepare(memories)
    serialized = [(match, detail(match.memory, match.score)) for match in short]
    return [(match, one, _item_tokens(one)) for match, one in serialized]


def _fit_best_detail(best: _Detail, brief: DetailSerializer, room: int) -> _Detail:
    """Return the best match as it is, or its brief form if it does not fit."""
    match, _, cost = best
    if cost <= room:
        return best
    serialized = brief(match.memory, match.score)
    return match, serialized, _item_tokens(serialized)


def _item_tokens(item: JsonDict) -> int:
    """Return the tokens of an item of a list, with its comma."""
    return _json_tokens(item) + 1


def _json_tokens(data: Any) -> int:
    """Return the tokens of a part of the answer. The parts together have no fewer than the whole."""
    return estimate_tokens(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


@dataclass(frozen=True)
class Packing:
    """``entries``: number of index entries from the first; ``details``: positions, best first."""

    entries: int
    details: list[int]


def pack_answer(
    index: Sequence[int],
    details: Sequence[int],
    scores: Sequence[float],
    room: int,
    index_share: float = INDEX_SHARE,
) -> Packing:
    """Choose entries and details, given by cost and ordered best first, that fit into ``room`` tokens."""
    room = max(room, 0)
    if sum(index) + sum(details) <= room:
        return Packing(len(index), list(range(len(details))))
    entries = _count_fitting(index, int(room * index_share))
    chosen = select_most_valuable(details, scores, room - sum(index[:entries]))
    # The best detail that fits next to one entry is worth more than a longer index.
    best = [number for number, cost in enumerate(details) if cost <= room - sum(index[:1])][:1]
    if best != chosen[:1]:
        chosen = best
    return Packing(_count_fitting(index, room - sum(details[number] for number in chosen)), chosen)


def select_most_valuable(costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """Return the first item that fits, and the other items with the highest total score that fit with it."""
    fitting = [number for number, cost in enumerate(costs) if cost <= room]
    if sum(costs[number] for number in fitting) <= room:
        return fitting
    first, *others = fitting
    chosen = {first, *_knapsack(others, costs, scores, room - costs[first])}
    left = room - sum(costs[number] for number in chosen)
    for number in fitting:  # use the room lost by rounding
        if number not in chosen and costs[number] <= left:
            chosen.add(number)
            left -= costs[number]
    return sorted(chosen)


def _knapsack(numbers: Sequence[int], costs: Sequence[int], scores: Sequence[float], room: int) -> list[int]:
    """Return the items with the highest total score. For much room, costs are rounded up to steps."""
    step = max(1, -(-room // _KNAPSACK_STEPS))
    capacity = room // step
    best = np.zeros(capacity + 1)
    taken = np.zeros((len(numbers), capacity + 1), dtype=bool)
    weights = [-(-costs[number] // step) for number in numbers]
    for row, number in enumerate(numbers):
        weight = weights[row]
        if weight <= capacity:
            with_item = best[: capacity + 1 - weight] + scores[number]
            taken[row, weight:] = with_item > best[weight:]
            best[weight:] = np.maximum(best[weight:], with_item)
    chosen = []
    for row in range(len(numbers) - 1, -1, -1):
        if taken[row, capacity]:
            chosen.append(numbers[row])
            capacity -= weights[row]
    return chosen


def _count_fitting(costs: Sequence[int], room: int) -> int:
    """Return how many items from the first fit."""
    return sum(1 for total in accumulate(costs) if total <= room)

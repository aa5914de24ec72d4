"""Recall in two parts: an index of all that matches, and whole memories, within a budget of tokens.

What matches is what a search finds; the ranking says in which order. The budget holds for the whole answer as
it is written: names, punctuation and all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import prefetch_related_objects

from memoryhub.models import Memory
from memoryhub.querysets import DETAILS, MemoryQuerySet
from memoryhub.retrieval import ranking
from memoryhub.retrieval.packing import pack
from memoryhub.retrieval.ranking import Ranking
from memoryhub.retrieval.scales import count_access
from memoryhub.retrieval.search import Results, search
from memoryhub.retrieval.weighing import Mode
from memoryhub.text import estimate_tokens, summary

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


def recall(
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
    weigh = ranking.profile(name, settings.MEMORYHUB).score
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

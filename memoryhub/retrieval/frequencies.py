"""How common words are in the store, told so that nothing shows of what a reader may not see."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from django.core.exceptions import EmptyResultSet
from django.db import connection

from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.within import Key, key_of
from memoryhub.search import query as queries
from memoryhub.search.schema import document_frequencies
from memoryhub.text import stem

RARE = 64  # memories; a word in more of them is common
REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 10_000  # words

SMALL = 5_000  # memories; so many are counted each time
_common: dict[str, tuple[int, float]] = {}
_totals: dict[Key, tuple[int, float]] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Frequencies:
    """For each stem about how many memories hold it, and about how many memories there are."""

    of_stems: dict[str, int]
    total: int

    def of(self, word: str) -> int:
        return self.of_stems.get(stem(word), 0)


def frequencies_of(memories: MemoryQuerySet, words: Collection[str]) -> Frequencies:
    """Counted for these words.

    The index counts all memories, and a score must not show that a word stands in one that may not be seen.
    So each word is counted among those within reach, up to :data:`RARE`; of a word in more of them the number
    in all is told, to the next power of two. To count that takes as long as to look for the word, so it is
    remembered for a while.
    """
    counted = _counted({stem(word) for word in words})
    total = _total(memories) if words else 0
    held = [word for word in words if counted.get(stem(word))]
    of_stems = dict.fromkeys(map(stem, words), 0)
    for word, within in zip(held, _counts(memories, held), strict=True):
        of_stems[stem(word)] = within if within <= RARE else min(_rounded(counted[stem(word)]), total)
    return Frequencies(of_stems, total)


def _total(memories: MemoryQuerySet) -> int:
    """How many memories are within reach, to the next power of two; counted once in a while."""
    key, now = key_of(memories), time.monotonic()
    if key is None:
        return 0
    count, at = _totals.get(key, (0, -REMEMBERED_SECONDS))
    if now - at >= REMEMBERED_SECONDS or count < SMALL:
        count, at = memories.order_by().count(), now
        with _lock:
            if len(_totals) > MOST_REMEMBERED:
                _totals.clear()
            _totals[key] = count, at
    return _rounded(count)


def _counted(stems: set[str]) -> dict[str, int]:
    """Among all memories; common words as they were counted a while ago."""
    now = time.monotonic()
    known = {one: count for one in stems if (count := _recall(one, now)) is not None}
    found = document_frequencies(sorted(stems - known.keys()))
    with _lock:
        if len(_common) > MOST_REMEMBERED:
            _common.clear()
        _common.update({one: (count, now) for one, count in found.items() if count > RARE})
    return found | known


def _recall(one: str, now: float) -> int | None:
    count, at = _common.get(one, (0, -REMEMBERED_SECONDS))
    return count if now - at < REMEMBERED_SECONDS else None


def forget() -> None:
    """Forget what was counted: the store is another one."""
    with _lock:
        _common.clear()
        _totals.clear()


def _counts(memories: MemoryQuerySet, words: list[str]) -> list[int]:
    """How many of the memories hold each word, or one more than :data:`RARE`; one statement for all."""
    if not words:
        return []
    stand_in = queries.any_of(["any word"])
    try:
        sql, params = memories.matching(stand_in).order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # nothing is within reach
        return [0] * len(words)
    expressions = [queries.any_of([word]) for word in words]
    filled = [[one if value == stand_in else value for value in params] for one in expressions]
    one = f"SELECT count(*) FROM ({sql} LIMIT {RARE + 1})"  # noqa: S608
    statement = " UNION ALL ".join(f"SELECT {n}, ({one})" for n in range(len(words)))
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for values in filled for value in values])
        found = dict(cursor.fetchall())
    return [found[n] for n in range(len(words))]


def _rounded(number: int) -> int:
    """The next power of two, 0 for 0."""
    return 1 << (number - 1).bit_length() if number else 0

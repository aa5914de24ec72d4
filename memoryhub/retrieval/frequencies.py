"""How common words are in the store, told so that nothing shows of what a reader may not see."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from django.core.exceptions import EmptyResultSet
from django.db import connection

from memoryhub.querysets import MemoryQuerySet
from memoryhub.search import query as queries
from memoryhub.search.schema import document_frequencies
from memoryhub.text import stem

RARE = 64  # memories; a word in more of them is common
REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 10_000  # words

_common: dict[str, tuple[int, float]] = {}
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
    So a rare word is counted again among those within reach, and a common one is told to the next power of
    two. To count a common word takes as long as to look for it, so that is remembered for a while.
    """
    counted, total = _counted({stem(word) for word in words}) if words else ({}, 0)
    rare = [word for word in words if 0 < counted.get(stem(word), 0) <= RARE]
    recounted = dict(zip(rare, _counts(memories, rare), strict=True))
    of_stems = {
        stem(word): recounted[word] if word in recounted else _rounded(counted.get(stem(word), 0))
        for word in words
    }
    return Frequencies(of_stems, _rounded(total))


def _counted(stems: set[str]) -> tuple[dict[str, int], int]:
    """Among all memories; common words as they were counted a while ago."""
    now = time.monotonic()
    known = {one: count for one in stems if (count := _recall(one, now)) is not None}
    found, total = document_frequencies(sorted(stems - known.keys()))
    with _lock:
        if len(_common) > MOST_REMEMBERED:
            _common.clear()
        _common.update({one: (count, now) for one, count in found.items() if count > RARE})
    return found | known, total


def _recall(one: str, now: float) -> int | None:
    count, at = _common.get(one, (0, -REMEMBERED_SECONDS))
    return count if now - at < REMEMBERED_SECONDS else None


def forget() -> None:
    """Forget what was counted: the store is another one."""
    with _lock:
        _common.clear()


def _counts(memories: MemoryQuerySet, words: list[str]) -> list[int]:
    """How many of the memories hold each word, in one statement for all of them."""
    if not words:
        return []
    stand_in = queries.any_of(["any word"])
    try:
        sql, params = memories.matching(stand_in).order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # nothing is within reach
        return [0] * len(words)
    expressions = [queries.any_of([word]) for word in words]
    filled = [[one if value == stand_in else value for value in params] for one in expressions]
    statement = " UNION ALL ".join(f"SELECT {n}, count(*) FROM ({sql})" for n in range(len(words)))  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for values in filled for value in values])
        found = dict(cursor.fetchall())
    return [found[n] for n in range(len(words))]


def _rounded(number: int) -> int:
    """The next power of two, 0 for 0."""
    return 1 << (number - 1).bit_length() if number else 0

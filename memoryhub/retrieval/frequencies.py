"""How common words are in the store, told so that nothing shows of what a reader may not see."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models.expressions import RawSQL

from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.within import Key, key_of
from memoryhub.search import query as queries
from memoryhub.search.leading import TEXT
from memoryhub.search.schema import document_frequencies, last_key
from memoryhub.text import stem

RARE = 64  # memories; a word in more of them is common
SAMPLE = 256  # memories with a word that are looked at, at most,
SAMPLES = 2048  # for all words together, but for each
LEAST_SAMPLE = 32
MOST_SAMPLE = 1024  # where little of the store is within reach
NEWEST = f"SELECT rowid FROM {TEXT} WHERE {TEXT} MATCH %s ORDER BY rowid DESC LIMIT %s"  # noqa: S608
_STAND_IN = "any word"
REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 10_000  # words

SMALL = 5_000  # memories; a store of so many is counted each time
_common: dict[str, tuple[int, float]] = {}
_totals: dict[Key, tuple[int, float]] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Frequencies:
    """For each stem about how many memories hold it, and about how many memories there are within reach.

    ``most``: whether these are most memories of the store. ``unsure``: stems told 0 that memories older than
    those looked at may hold.
    """

    of_stems: dict[str, int]
    total: int
    most: bool = True
    unsure: frozenset[str] = frozenset()

    def of(self, word: str) -> int:
        return self.of_stems.get(stem(word), 0)

    def may_hold(self, word: str) -> bool:
        """Whether a word told 0 stands in a memory within reach perhaps."""
        return stem(word) in self.unsure


def frequencies_of(memories: MemoryQuerySet, words: Collection[str]) -> Frequencies:
    """Counted for these words.

    The index counts all memories, and a score must not show that a word stands in one that may not be seen.
    So of each word the newest memories that hold it are looked at, more of them where few of the store are
    within reach: what is told is their share of all that hold the word, to the next power of two where it is
    no rare word. None of them within reach is the same as a word that nobody used. To count in the index
    takes as long as to look for the word, so that is remembered for a while.
    """
    counted = _counted({stem(word) for word in words})
    stored = last_key()
    total = _total(memories, stored) if words else 0
    held = [word for word in words if counted.get(stem(word))]
    most = _sample_of(len(held), total, stored)
    of_stems = dict.fromkeys(map(stem, words), 0)
    for word, within in zip(held, _counts(memories, held, most), strict=True):
        of_stems[stem(word)] = _told(within, counted[stem(word)], most, total)
    unsure = frozenset(one for one, told in of_stems.items() if not told and counted.get(one, 0) > most)
    return Frequencies(of_stems, total, 2 * total > stored, unsure)


def _sample_of(held: int, total: int, stored: int) -> int:
    """How many memories are looked at for each of so many words."""
    most = min(SAMPLE, max(SAMPLES // max(held, 1), LEAST_SAMPLE))
    return min(most * stored // max(total, 1), MOST_SAMPLE) if total < stored else most


def _told(within: int, everywhere: int, looked_at: int, total: int) -> int:
    """The number that is told of a word, from those within reach among the newest."""
    if everywhere > looked_at:
        within = within * everywhere // looked_at
    return within if within <= RARE else min(_rounded(within), total)


def _total(memories: MemoryQuerySet, stored: int) -> int:
    """How many memories are within reach, to the next power of two; counted once in a while."""
    key, now = key_of(memories), time.monotonic()
    if key is None:
        return 0
    count, at = _totals.get(key, (0, -REMEMBERED_SECONDS))
    if stored <= SMALL or now - at >= REMEMBERED_SECONDS:
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


def _counts(memories: MemoryQuerySet, words: list[str], most: int) -> list[int]:
    """How many of the newest ``most`` that hold each word are within reach, in one statement for all."""
    if not words:
        return []
    newest = RawSQL(NEWEST, [_STAND_IN, most])  # noqa: S611 the word comes as a parameter
    try:
        sql, params = memories.filter(pk__in=newest).order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # nothing is within reach
        return [0] * len(words)
    filled = [[queries.any_of([word]) if one == _STAND_IN else one for one in params] for word in words]
    statement = " UNION ALL ".join(f"SELECT {n}, count(*) FROM ({sql})" for n in range(len(words)))  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for values in filled for value in values])
        found = dict(cursor.fetchall())
    return [found[n] for n in range(len(words))]


def _rounded(number: int) -> int:
    """The next power of two, 0 for 0."""
    return 1 << (number - 1).bit_length() if number else 0

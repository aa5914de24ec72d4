"""Document frequencies of words among visible memories, for inverse document frequency."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import F, Func, IntegerField, QuerySet
from django.db.models.expressions import RawSQL

from memoryhub.backends.fts_query import match_any
from memoryhub.core.text import stem
from memoryhub.models import MemoryText
from memoryhub.models.querysets import MemoryQuerySet

MIN_CACHED_COUNT = 64  # counts above this are rounded and cached
MAX_EXACT_COUNT = 256  # a word in fewer memories is counted exactly, however many memories there are
MIN_SAMPLE = 2048  # rows of a sample, at least; fewer than twice as many rows are all counted
CACHE_SECONDS = 60.0
MIN_CACHED_ROWS = 1000  # counts of smaller querysets are not cached
MAX_SCOPES = 256  # querysets in the cache

QuerysetKey = tuple[str, tuple[object, ...]]
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+([+-]\d\d:\d\d)?")
_WORD_EXPRESSION = RawSQL("asked.value", ())
# The plus prevents SQLite from looking up the keys one by one in the index.
_UNINDEXED_KEY = Func(F("pk"), template="+%(expressions)s", output_field=IntegerField())


def queryset_key(memories: MemoryQuerySet) -> QuerysetKey | None:
    """Return a key that is equal for querysets with equal filters, or None for an empty one.

    The current time, which every queryset of live memories contains, is not part of the key.
    """
    try:
        sql, params = memories.order_by().query.sql_with_params()
    except EmptyResultSet:
        return None
    return sql, tuple(one for one in params if not _is_current_time(one))


def _is_current_time(param: object) -> bool:
    if not isinstance(param, str | datetime) or not _TIMESTAMP.fullmatch(str(param)):
        return False
    try:
        moment = datetime.fromisoformat(str(param))
    except ValueError:
        return False
    return abs((moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()) < 2


@dataclass(frozen=True)
class TermFrequencies:
    """Number of memories of a queryset that contain each stem, and their total.

    Among many memories, a count above :data:`MAX_EXACT_COUNT` is an estimate. The total and the counts of
    common words are rounded up to a power of two, so scores do not change with each stored memory.
    """

    of_stems: dict[str, int]
    total: int

    def of(self, word: str) -> int:
        return self.of_stems.get(stem(word), 0)


@dataclass(frozen=True)
class _Scope:
    """Cached counts of one queryset: its rows, and its common words by stem."""

    total: int
    counted_at: float
    common: dict[str, int] = field(default_factory=dict)


_scopes: dict[QuerysetKey, _Scope] = {}
_lock = threading.Lock()


def load_term_frequencies(memories: MemoryQuerySet, words: Collection[str]) -> TermFrequencies:
    """Count the words in a queryset of memories that the caller can see."""
    by_stem = {stem(word): word for word in words}
    scope = _load_scope(memories) if by_stem else None
    if scope is None:
        return TermFrequencies(dict.fromkeys(by_stem, 0), 0)
    known = {one: scope.common[one] for one in by_stem if one in scope.common}
    new = [one for one in by_stem if one not in known]
    counts = _count_words(memories, [by_stem[one] for one in new], scope.total)
    found = dict(zip(new, counts, strict=True))
    with _lock:
        scope.common.update({one: count for one, count in found.items() if count > MIN_CACHED_COUNT})
    total = _next_power_of_two(scope.total)
    return TermFrequencies({one: _round(count, total) for one, count in (known | found).items()}, total)


def count_memories(memories: MemoryQuerySet) -> int:
    """Count the memories of a queryset; the count of a large one may be some seconds old."""
    scope = _load_scope(memories)
    return scope.total if scope else 0


def clear_cache() -> None:
    """Clear the cache. For tests, which replace the store."""
    with _lock:
        _scopes.clear()


def _load_scope(memories: MemoryQuerySet) -> _Scope | None:
    """Return the cached or new counts, or None for an empty queryset."""
    key, now = queryset_key(memories), time.monotonic()
    if key is None:
        return None
    scope = _scopes.get(key)
    if scope is None or now - scope.counted_at >= CACHE_SECONDS:
        scope = _Scope(memories.order_by().count(), now)
        if scope.total >= MIN_CACHED_ROWS:
            with _lock:
                if len(_scopes) >= MAX_SCOPES:
                    _scopes.clear()
                _scopes[key] = scope
    return scope


def _count_words(memories: MemoryQuerySet, words: list[str], total: int) -> list[int]:
    """Count each word exactly if few memories contain it, otherwise in a sample."""
    step = 1 << max((total // MIN_SAMPLE).bit_length() - 1, 0)
    if step == 1:  # for few rows, reading all keys once is faster than one look-up per match
        texts = MemoryText.objects.alias(key=_UNINDEXED_KEY).filter(key__in=memories.order_by().values("pk"))
        return [count for (count,) in _count_rows([texts.filter(terms__match=_WORD_EXPRESSION)], words)]
    matching = memories.order_by().filter(text_index__terms__match=_WORD_EXPRESSION)
    # Hash of the index key: the sample skips most rows before the access filter reads them.
    part = Func(
        F("text_index__pk"),
        template=f"(%(expressions)s * 2654435761 >> 16) & {step - 1}",
        output_field=IntegerField(),
    )
    pairs = _count_rows([matching[:MAX_EXACT_COUNT], matching.alias(part=part).filter(part=0)], words)
    return [
        exact if exact < MAX_EXACT_COUNT else max(sampled * step, MAX_EXACT_COUNT) for exact, sampled in pairs
    ]


def _count_rows(querysets: list[QuerySet[Any]], words: list[str]) -> list[tuple[int, ...]]:
    """Count the rows of each queryset for each word, which is ``asked.value`` in SQL. One statement."""
    if not words:
        return []
    compiled = [one.values("pk").query.sql_with_params() for one in querysets]
    columns = ", ".join(f"(SELECT count(*) FROM ({sql}))" for sql, _ in compiled)  # noqa: S608
    params = [value for _, values in compiled for value in values]
    expressions = json.dumps([match_any([word]) for word in words])
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM json_each(%s) AS asked", [*params, expressions])  # noqa: S608
        return list(cursor.fetchall())


def _round(count: int, total: int) -> int:
    return count if count <= MIN_CACHED_COUNT else min(_next_power_of_two(count), total)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length() if number else 0

"""The keys of the memories that contain a word, from the word index. Those of common words are cached.

All keys are store-wide: the caller intersects them with visible rows and shows nothing else of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from memoryhub.backends import change_log
from memoryhub.backends.change_log import CHANGE_TABLE, LogPosition
from memoryhub.backends.dialect import sql
from memoryhub.backends.tables import TEXT_TABLE
from memoryhub.backends.vector_view import Keys

MIN_CACHED_KEYS = 1000  # of an expression; fewer are found as quickly in the index
MAX_CACHED_KEYS = 2_000_000  # of all expressions: 16 MB
MAX_CHANGES = 300  # since an expression was read; after more, reading it again is quicker
MAX_AGE_SECONDS = 600.0  # so that a repaired index is read again
_POSITION, _CHANGED = -1, -2  # numbers of results that belong to no expression
_CHANGED_MEMORIES = f"(SELECT DISTINCT memory FROM {CHANGE_TABLE} WHERE id > %s AND memory > 0) AS changed"
_CHANGED_KEYS = f"SELECT %s, {sql.KEY_LIST % {'expressions': 'memory'}} FROM {_CHANGED_MEMORIES}"
# A subquery for each row, because a database that joins them could begin with all rows that match.
_MATCHING_CHANGED_KEYS = (
    f"{_CHANGED_KEYS} WHERE 1 = (SELECT 1 FROM {TEXT_TABLE}"
    f" WHERE rowid = changed.memory AND {sql.MATCH(index=TEXT_TABLE, expression='%s')})"
)


class _CachedKeys(NamedTuple):
    """The keys of an expression, ascending. ``read_at``: when all were read, by the monotonic clock."""

    position: LogPosition
    keys: Keys
    read_at: float


def matching_keys(expressions: Sequence[str]) -> list[Keys]:
    """Return the keys of all memories that match each full-text expression, ascending. One statement."""
    return matching_keys_and_position(expressions)[0] if expressions else []


def matching_keys_and_position(expressions: Sequence[str]) -> tuple[list[Keys], LogPosition]:
    """Return :func:`matching_keys` and the position of the change log, in one statement.

    A second one follows if not all changes since an expression was cached can be read.
    """
    cached = _cache.find(expressions)
    found = _execute(expressions, cached)
    position = change_log.parse_position(found[_POSITION])
    if not all(position.follows(one.position) for one in cached.values()):
        cached = {}
        found = _execute(expressions, cached)
        position = change_log.parse_position(found[_POSITION])
    changed, now = sql.parse_keys(found.get(_CHANGED)), time.monotonic()
    results = []
    for number, expression in enumerate(expressions):
        keys, read_at = sql.parse_keys(found[number]), now
        if known := cached.get(expression):
            keys, read_at = _bring_up_to_date(known.keys, changed, keys), known.read_at
        _cache.store(expression, _CachedKeys(position, keys, read_at))
        results.append(keys)
    return results, position


def _execute(expressions: Sequence[str], cached: Mapping[str, _CachedKeys]) -> dict[int, Any]:
    """Read the position, the keys of expressions by number, and of cached ones those that changed since."""
    since = min((one.position.last_change for one in cached.values()), default=0)
    selects, params = [f"SELECT {_POSITION}, {change_log.POSITION_AS_JSON}"], list[Any]()
    if cached:
        selects.append(_CHANGED_KEYS)
        params += [_CHANGED, since]
    for number, expression in enumerate(expressions):
        is_cached = expression in cached
        selects.append(_MATCHING_CHANGED_KEYS if is_cached else sql.KEYS_BY_EXPRESSION)
        params += [number, since, expression] if is_cached else [number, expression]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(selects), params)
        return dict(cursor.fetchall())


def _bring_up_to_date(known: Keys, changed: Keys, matching: Keys) -> Keys:
    """Remove the changed memories from known keys, and add those of them that match now."""
    if not len(changed):
        return known
    kept = known[~np.isin(known, changed, assume_unique=True)]
    return np.insert(kept, np.searchsorted(kept, matching), matching)


class _Cache:
    """The keys of the common expressions used last, by connection and expression. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _CachedKeys] = OrderedDict()
        self._size = 0
        self._last_change = 0  # of any position seen

    def find(self, expressions: Sequence[str]) -> dict[str, _CachedKeys]:
        """Return the entries of these expressions, without those that are old."""
        found = {one: self._entries.get((connection.alias, one)) for one in expressions}
        oldest, now = self._last_change - MAX_CHANGES, time.monotonic()
        return {
            expression: entry
            for expression, entry in found.items()
            if entry and entry.position.last_change >= oldest and now - entry.read_at < MAX_AGE_SECONDS
        }

    def store(self, expression: str, entry: _CachedKeys) -> None:
        """Store the keys of an expression if they are many, and not those of an open transaction."""
        if not entry.position.era[0] or connection.in_atomic_block:
            return
        self._last_change = entry.position.last_change
        name = (connection.alias, expression)
        with self._lock:
            previous = self._entries.pop(name, None)
            self._size -= len(previous.keys) if previous else 0
            if len(entry.keys) >= MIN_CACHED_KEYS:
                self._entries[name] = entry
                self._size += len(entry.keys)
            while self._size > MAX_CACHED_KEYS:
                self._size -= len(self._entries.popitem(last=False)[1].keys)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = self._last_change = 0


_cache = _Cache()
clear_cache = _cache.clear

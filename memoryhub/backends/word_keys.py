"""The keys of the memories that contain a word, from the word index. Those of common words are cached.

All keys are store-wide: the caller intersects them with visible rows and shows nothing else of them.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from django.db import connection

from memoryhub.backends import change_log
from memoryhub.backends.change_log import CHANGE_TABLE, LogPosition
from memoryhub.backends.dialect import IS_POSTGRES, sql
from memoryhub.backends.vector_view import Keys
from memoryhub.core.database import fetch_all

# PostgreSQL looks at each changed memory, SQLite at a range of keys, which takes less time than all keys.
MIN_CACHED_KEYS = 1000 if IS_POSTGRES else 100  # of an expression; fewer are found as quickly in the index
MAX_CHANGES = 300 if IS_POSTGRES else 3000  # since an expression was read; after more, it is read again
MAX_CACHED_KEYS = 16_000_000  # of all expressions: 64 MB. A million memories have about so many
MAX_AGE_SECONDS = 600.0  # so that a repaired index is read again
_POSITION, _CHANGED = -1, -2  # numbers of results that belong to no expression
_READ_POSITION = f"SELECT {_POSITION}, {change_log.POSITION_AS_JSON}"
_CHANGED_MEMORIES = f"SELECT DISTINCT memory FROM {CHANGE_TABLE} WHERE id > %s AND memory > 0"
_READ_CHANGED = f"SELECT {_CHANGED}, {sql.KEY_LIST % {'expressions': 'memory'}} FROM changed"


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
    entries = {}
    for number, expression in enumerate(expressions):
        keys, read_at = sql.parse_keys(found.get(number)), now
        if known := cached.get(expression):
            keys, read_at = _bring_up_to_date(known.keys, changed, keys), known.read_at
        entries[expression] = _CachedKeys(position, keys, read_at)
    _cache.store(entries, position)
    return [entries[expression].keys for expression in expressions], position


def _execute(expressions: Sequence[str], cached: Mapping[str, _CachedKeys]) -> dict[int, Any]:
    """Read the position and the keys of expressions by number.

    Of cached ones, those near the memories that changed since; the keys of these, too.
    """
    beginning, selects, params = "", [_READ_POSITION], list[Any]()
    numbered = dict(enumerate(expressions))
    if cached:
        beginning = f"WITH changed AS ({_CHANGED_MEMORIES}) "
        selects += [_READ_CHANGED, sql.KEYS_NEAR_CHANGED]
        known = {number: one for number, one in numbered.items() if one in cached}
        params += [min(one.position.last_change for one in cached.values()), json.dumps(known)]
    if new := {number: one for number, one in numbered.items() if one not in cached}:
        selects.append(sql.KEYS_BY_EXPRESSION)
        params.append(json.dumps(new))
    return dict(fetch_all(beginning + " UNION ALL ".join(selects), params))


def _bring_up_to_date(known: Keys, changed: Keys, matching: Keys) -> Keys:
    """Remove the changed memories from known keys, and add those of them that match now."""
    if not len(changed):
        return known
    kept = known[~np.isin(known, changed, assume_unique=True)].astype(np.int64, copy=False)
    matching = np.intersect1d(matching, changed, assume_unique=True)
    return np.insert(kept, np.searchsorted(kept, matching), matching)


def _compact(keys: Keys) -> Keys:
    """Return ascending keys as numbers of 32 bits if they fit."""
    fits = not len(keys) or keys[-1] <= np.iinfo(np.int32).max
    return cast(Keys, keys.astype(np.int32, copy=False)) if fits else keys


class _Cache:
    """The keys of the common expressions used last, by connection and expression. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _CachedKeys] = OrderedDict()
        self._size = 0
        self._last_change = 0  # of any position seen

    def find(self, expressions: Sequence[str]) -> dict[str, _CachedKeys]:
        """Return the entries of these expressions, without those that are old."""
        alias = connection.alias
        found = {one: self._entries.get((alias, one)) for one in expressions}
        oldest, now = self._last_change - MAX_CHANGES, time.monotonic()
        return {
            expression: entry
            for expression, entry in found.items()
            if entry and entry.position.last_change >= oldest and now - entry.read_at < MAX_AGE_SECONDS
        }

    def store(self, entries: Mapping[str, _CachedKeys], position: LogPosition) -> None:
        """Store the keys of expressions if they are many, and not those of an open transaction."""
        if not position.era[0] or connection.in_atomic_block:
            return
        alias, self._last_change = connection.alias, position.last_change
        with self._lock:
            for expression, entry in entries.items():
                previous = self._entries.pop((alias, expression), None)
                self._size -= len(previous.keys) if previous else 0
                if len(entry.keys) >= MIN_CACHED_KEYS:
                    self._entries[alias, expression] = entry._replace(keys=_compact(entry.keys))
                    self._size += len(entry.keys)
            while self._size > MAX_CACHED_KEYS:
                self._size -= len(self._entries.popitem(last=False)[1].keys)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = self._last_change = 0


_cache = _Cache()
clear_cache = _cache.clear

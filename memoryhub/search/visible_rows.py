"""The rows of a queryset in memory: what ranking needs of each memory that the caller can see.

Access is decided by the queryset in SQL. Ranking counts, compares and orders only these rows, so nothing
that it returns depends on a hidden memory. A cached copy is brought up to date by the change log.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.core.exceptions import EmptyResultSet
from django.db import OperationalError, connection
from django.db.models import Lookup
from django.db.models.expressions import Col
from django.db.models.sql.where import WhereNode
from django.utils import timezone
from numpy.typing import NDArray

from memoryhub.backends import change_log, word_keys
from memoryhub.backends.change_log import LogPosition
from memoryhub.backends.statements import CurrentMoment, key_list, read_ranking_columns
from memoryhub.backends.vector_view import Keys
from memoryhub.core.dates import expiry_time, start_of_day, unconfirmed_lead
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.scoring import Pairs, SpeakerNumbers, length_factor, parse_speaker

# Moments are Julian days; rows without expiry expire in an infinite time, rows without session or replacement
# have 0. Speakers are numbers of ``_speakers``.
COLUMNS = np.dtype(
    [
        ("pk", "i8"),
        ("updated", "f8"),
        ("created", "f8"),
        ("expires", "f8"),
        ("importance", "f8"),
        ("trust", "f8"),
        ("title_chars", "i8"),
        ("chars", "i8"),
        ("replacement", "i8"),
        ("pinned", "?"),
        ("session", "i8"),
        ("speaker", "i8"),
        ("asks", "?"),
    ]
)
_WHOLE_ROWS = np.dtype(f"V{COLUMNS.itemsize}")  # NumPy copies rows ten times faster than their fields
logger = logging.getLogger(__name__)
MAX_CACHED_ROWS = 2_000_000  # of all querysets; a row takes 90 bytes, and up to as many for derived values
MAX_DOUBLINGS = 20  # each doubles the replacements that are followed: enough for a chain of a million
STEPS_OF_HALF_LIFE = 504
MAX_AGE_OF_NOW = 2.0  # seconds
_UNIX_EPOCH = 2_440_587.5  # in Julian days
Positions = NDArray[np.int64]


def julian_day(moment: datetime) -> float:
    """Return a moment as SQLite's ``julianday`` does."""
    return moment.timestamp() / 86_400 + _UNIX_EPOCH


def is_among(values: Positions, ascending: Positions) -> NDArray[np.bool_]:
    """Return whether each value is one of those that are in ascending order."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[places] == values)


_speakers = SpeakerNumbers()


@dataclass(frozen=True)
class VisibleRows:
    """The rows of a queryset, ascending by primary key, at one position of the change log.

    ``cached`` is a cache for values derived from these rows.
    """

    position: LogPosition
    columns: NDArray[np.void]
    cached: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.columns)

    # Columns that are read as a whole, each in one block of memory: much faster than in lines.

    @cached_property
    def pks(self) -> Keys:
        return np.ascontiguousarray(self.columns["pk"])

    @cached_property
    def pinned(self) -> NDArray[np.bool_]:
        return np.ascontiguousarray(self.columns["pinned"])

    @cached_property
    def _sessions(self) -> Keys:
        return np.ascontiguousarray(self.columns["session"])

    @cached_property
    def _session_hashes(self) -> NDArray[np.uint16]:
        return self._sessions.astype(np.uint16)

    @cached_property
    def _next_expiry(self) -> float:
        return float(self.columns["expires"].min(initial=np.inf))

    @cached_property
    def _positions(self) -> NDArray[np.int32]:
        """Position of each row by primary key, -1 for other keys."""
        positions = np.full(int(self.pks[-1]) + 2 if len(self) else 1, -1, np.int32)
        positions[self.pks] = np.arange(len(self), dtype=np.int32)
        return positions

    def find(self, keys: Keys) -> Positions:
        """Return the positions of those keys that are among these rows."""
        found = self._find_each(keys)
        return found[found >= 0].astype(np.int64)

    def _find_each(self, keys: Keys) -> NDArray[np.int32]:
        """Return the position of each key, -1 for keys of other rows."""
        return self._positions.take(keys, mode="clip")  # the last one is -1

    @cached_property
    def _replacements(self) -> tuple[Positions, Positions]:
        """The rows that another of these rows replaces, and the last row of each chain of replacements."""
        replaced = self.columns["replacement"]
        old = np.flatnonzero(replaced)
        old = old[self._find_each(replaced[old]) >= 0]
        following = np.arange(len(self))
        following[old] = self.find(replaced[old])
        for _ in range(MAX_DOUBLINGS):
            last = following[following[old]]
            if np.array_equal(last, following[old]):
                break
            following[old] = last
        return old, following[old]

    def move_to_replacements(self, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return the values of rows with those of replaced rows moved to their replacement, if higher."""
        old, last = self._replacements
        if not len(old):
            return values
        moved = values.copy()
        np.maximum.at(moved, last, values[old])
        moved[old] = 0.0
        return moved

    def where(self, mask: NDArray[np.bool_]) -> VisibleRows:
        return VisibleRows(self.position, self.columns.view(_WHOLE_ROWS)[mask].view(COLUMNS))

    def live_at(self, now: float) -> VisibleRows:
        """Return the rows without those that have expired."""
        if now < self._next_expiry:
            return self
        live: VisibleRows | None = self.cached.get("live")
        if live is None or now >= live._next_expiry:
            live = self.where(self.columns["expires"] > now)
        elif live.position != self.position:
            live = replace(live, position=self.position)
        self.cached["live"] = live
        return live

    def recency(self, now: float, half_life_days: float) -> NDArray[np.float32]:
        """Return the recency of each row: 1 for now and the future, halved every half-life.

        Time moves in steps, of an hour if the half-life is 21 days. If it flowed, rounded scores would change
        at different moments, and rows would swap their places between two pages of one search.
        """
        step = half_life_days / STEPS_OF_HALF_LIFE
        moment = math.floor(now / step) * step
        key = ("recency", half_life_days)
        if key not in self.cached or self.cached[key][0] != moment:
            ages = np.maximum(moment - self.columns["updated"], 0.0)
            self.cached[key] = moment, np.exp2(ages / -half_life_days).astype(np.float32)
        return np.asarray(self.cached[key][1])

    @cached_property
    def length_factors(self) -> NDArray[np.float32]:
        return length_factor(self.columns["chars"]).astype(np.float32)

    def created_between(self, start: date, end: date) -> Positions:
        """Return the rows that were created from one day to before another, or a day earlier or later."""
        first, last = julian_day(start_of_day(start)) - 1, julian_day(start_of_day(end)) + 1
        created = self.columns["created"]
        return np.flatnonzero((created >= first) & (created < last))

    def speakers(self, positions: Positions) -> list[str]:
        return [_speakers.names[number] for number in self.columns["speaker"][positions].tolist()]

    def session_pairs(self, positions: Positions, max_distance: int) -> list[Pairs]:
        """Return the neighbours in time of these rows in their sessions, at each distance from 1."""
        sessions = self._sessions
        wanted = np.unique(sessions[positions])
        wanted = wanted[wanted != 0]
        if not len(wanted):
            return []
        hashes = np.zeros(1 << 16, np.bool_)  # to leave most rows out before the exact comparison
        hashes[wanted.astype(np.uint16)] = True
        members = np.flatnonzero(hashes.take(self._session_hashes))
        members = members[is_among(sessions[members], wanted)]
        rows = self.columns[members]
        members = members[np.lexsort((rows["pk"], rows["created"], rows["session"]))]
        is_wanted = is_among(members, np.sort(positions))
        pairs = []
        for distance in range(1, max_distance + 1):
            earlier, later = members[:-distance], members[distance:]
            linked = sessions[earlier] == sessions[later]
            linked &= is_wanted[:-distance] | is_wanted[distance:]
            pairs.append(Pairs(earlier[linked], later[linked]))
        return pairs


def load_visible_rows(memories: MemoryQuerySet, position: LogPosition | None = None) -> VisibleRows:
    """Return the rows of a queryset of memories that the caller can see.

    ``position``: the current position of the change log, if the caller has read it. If there was not enough
    time to read the rows, another thread does it for the next call.
    One statement if nothing changed, three after changes. Rows of an open transaction are not cached.
    """
    scope = _Scope.of(memories)
    try:
        rows = _load_scope(scope, position or change_log.current_position())
    except OperationalError:
        load_in_background(memories)
        raise
    return rows if scope.now is None else rows.live_at(scope.now)


def count_rows(memories: MemoryQuerySet) -> int:
    """Return the number of rows of a queryset: in memory if a search has read them, else in the database."""
    scope = _Scope.of(memories)
    rows = _cached(scope)
    if rows is None or rows.position != change_log.current_position():
        return memories.count()
    return len(rows if scope.now is None else rows.live_at(scope.now))


_queue: dict[tuple[Any, ...], MemoryQuerySet] = {}  # by the key of their scope, in order
_queue_lock = threading.Lock()


def load_in_background(memories: MemoryQuerySet) -> None:
    """Load the rows of a queryset in another thread, for the next call. The caller had no time to read them.

    One thread loads one queryset after another. Does nothing inside a transaction, whose rows are not cached,
    and for querysets that are never cached.
    """
    key = _Scope.of(memories).key
    if connection.in_atomic_block or key is None:
        return
    with _queue_lock:
        if not _queue:
            threading.Thread(target=_load_queued, name="visible-rows", daemon=True).start()
        _queue.setdefault(key, memories)


def is_loading(memories: MemoryQuerySet) -> bool:
    """Return whether the other thread will load the rows of a queryset. To read them here delays it."""
    return bool(_queue) and _Scope.of(memories).key in _queue


def _load_queued() -> None:
    has_more = True
    while has_more:
        with _queue_lock:
            key, memories = next(iter(_queue.items()))
        try:
            load_visible_rows(memories)
        except Exception:
            logger.exception("the rows for searches could not be loaded")
        with _queue_lock:
            del _queue[key]
            has_more = bool(_queue)
    connection.close()


def clear_cache() -> None:
    """Clear the cache, and that of words. For tests, which replace the store."""
    with _rows_lock:
        _rows.clear()
    word_keys.clear_cache()


class _Scope(NamedTuple):
    """A queryset. ``key`` is equal for equal filters; ``now``: the current time in its filters."""

    memories: MemoryQuerySet
    key: tuple[Any, ...] | None
    now: float | None

    @classmethod
    def of(cls, memories: MemoryQuerySet) -> _Scope:
        """Return the scope of a queryset. It has no key if it reads other tables."""
        moments: list[datetime] = []
        is_plain = not memories.query.combinator
        key = _filter_key(memories.query.where, memories.query.base_table, moments) if is_plain else None
        if key and moments:
            key = (unconfirmed_lead(), *key)  # when it changes, expired rows are live again
        if key:
            key = (connection.alias, *key)  # a replica is behind, and positions never go back
        return cls(memories, key, julian_day(moments[0]) if moments else None)


def _filter_key(node: Any, table: str | None, moments: list[datetime]) -> tuple[Any, ...] | None:
    """Return what a condition compares, or None if that is not only columns of this table with values.

    Much faster than to compile the condition. The current time is added to ``moments``: rows of the same
    condition differ only by those that have expired.
    """
    if isinstance(node, WhereNode):
        parts = [_filter_key(child, table, moments) for child in node.children]
        return None if None in parts else (node.connector, node.negated, *parts)
    if not isinstance(node, Lookup) or not isinstance(node.lhs, Col) or node.lhs.alias != table:
        return None
    column, value = node.lhs.target.column, node.rhs
    if column == "expires_at" and node.lookup_name == "gt" and (now := _current_moment(value)):
        moments.append(now)
        value = None
    values = value if isinstance(value, list | tuple) else (value,)
    if not all(one is None or isinstance(one, str | int | float | datetime) for one in values):
        return None
    return column, node.lookup_name, *values


def _current_moment(value: object) -> datetime | None:
    """Return the current time if this is it, or was a moment ago."""
    now = expiry_time(timezone.now())
    if isinstance(value, CurrentMoment):
        return now
    is_current = isinstance(value, datetime) and abs((value - now).total_seconds()) < MAX_AGE_OF_NOW
    return value if is_current else None  # type: ignore[return-value]


_rows: OrderedDict[tuple[Any, ...], VisibleRows] = OrderedDict()  # by the key of their scope, latest last
_rows_lock = threading.Lock()


def _cached(scope: _Scope) -> VisibleRows | None:
    return _rows.get(scope.key) if scope.key else None


def _load_scope(scope: _Scope, position: LogPosition) -> VisibleRows:
    """Return the rows of a queryset at a position: from the cache, brought up to date, or read."""
    known = _cached(scope)
    if known is not None and known.position == position:
        return known
    if known is not None and position.follows(known.position):
        rows = _bring_up_to_date(known, scope, position)
    else:
        rows = VisibleRows(position, _read_columns(scope.memories))
    if scope.key and position.era[0] and not connection.in_atomic_block:
        _cache(scope.key, rows)
    return rows


def _cache(key: tuple[Any, ...], rows: VisibleRows) -> None:
    with _rows_lock:
        _rows[key] = rows
        _rows.move_to_end(key)
        total = sum(map(len, _rows.values()))
        while total > MAX_CACHED_ROWS and len(_rows) > 1:
            total -= len(_rows.popitem(last=False)[1])


def _bring_up_to_date(known: VisibleRows, scope: _Scope, position: LogPosition) -> VisibleRows:
    """Read the changed memories again; those that the queryset no longer contains are removed."""
    changed = change_log.memories_between(known.position, position)
    if not changed:
        return VisibleRows(position, known.columns, known.cached)
    kept = np.delete(known.columns.view(_WHOLE_ROWS), known.find(np.array(changed)))
    # A condition of the queryset. As a separate one, SQLite would read all keys of the queryset.
    added = _read_columns(scope.memories.filter(pk__in=key_list(changed)))
    places = np.searchsorted(kept.view(COLUMNS)["pk"], added["pk"])
    return VisibleRows(position, np.insert(kept, places, added.view(_WHOLE_ROWS)).view(COLUMNS))


def _read_columns(memories: MemoryQuerySet) -> NDArray[np.void]:
    try:
        sql, params = memories.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:
        return np.empty(0, COLUMNS)
    columns = np.fromiter(map(_to_columns, read_ranking_columns(sql, params)), COLUMNS)
    return columns[np.argsort(columns["pk"], kind="stable")]


def _to_columns(row: Sequence[Any]) -> tuple[Any, ...]:
    *values, session, project, beginning, asks = row
    values[3] = np.inf if values[3] is None else values[3]
    session_key = hash((session, project)) or 1 if session else 0
    return (*values, session_key, _speakers.number_of(parse_speaker(beginning)), asks)

"""Reads from a replica, if it is fresh enough for the caller."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import DatabaseError, connection, connections

from memoryhub.backends import JOURNAL_TABLE
from memoryhub.core.database import REPLICA, fetch_one, read_timeout, use_primary, use_replica

logger = logging.getLogger(__name__)
MAX_SECONDS_BEHIND = 2.0
_MAX_ROWS_BEHIND = 1000  # journal rows that are searched for the caller
_SECONDS_TO_ANSWER = 1.0
_RETRY_SECONDS = 10.0  # after the replica did not answer
_REPLICA_SQL = f"""SELECT pg_is_in_recovery(), pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint,
    (SELECT coalesce(max(seq), 0) FROM {JOURNAL_TABLE})"""
# After a failover, the server that was the primary may be a standby, too.
_END_SQL = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
_PRIMARY_SQL = f"""SELECT pg_wal_lsn_diff({_END_SQL}, '0/0')::bigint,
    EXISTS (SELECT 1 FROM {JOURNAL_TABLE} WHERE seq > %s AND (actor = %s OR seq > %s))"""


class ReplicaError(Exception):
    """The replica cannot be read; the message says why."""


def read_position() -> tuple[int, int]:
    """Return how far the replica has replayed the log of the primary, and its newest journal row."""
    try:
        with read_timeout(_SECONDS_TO_ANSWER), connections[REPLICA].cursor() as cursor:
            cursor.execute(_REPLICA_SQL)
            is_replica, replayed, seq = cursor.fetchone()
    except DatabaseError as error:
        raise ReplicaError(f"the replica does not answer: {error}") from error
    if not is_replica:
        raise ReplicaError("the server in DATABASE_REPLICA_URL is no replica")
    return replayed, seq


class _Replica:
    """The state of the replica as this process knows it. Thread-safe.

    ``_ends``: where the log of the primary ended, with moments of the monotonic clock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: deque[tuple[float, int]] = deque()
        self._retry_at = 0.0

    def is_fresh(self, caller: str) -> bool:
        """Whether the replica has replayed all writes of the caller, and all that are two seconds old."""
        if time.monotonic() < self._retry_at:
            return False
        try:
            replayed, seq = read_position()
        except ReplicaError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            logger.warning("reads go to the primary: %s", error)
            return False
        end, has_newer_write = fetch_one(_PRIMARY_SQL, [seq, caller, seq + _MAX_ROWS_BEHIND])
        return not has_newer_write and replayed >= self._required(end)

    def _required(self, end: int) -> int:
        """Return where the log ended two seconds ago, or at the first time since that is known."""
        now = time.monotonic()
        with self._lock:
            while self._ends and self._ends[0][0] < now - MAX_SECONDS_BEHIND:
                self._ends.popleft()
            if not self._ends or self._ends[-1][0] < now - MAX_SECONDS_BEHIND / 8:
                self._ends.append((now, end))
            return self._ends[0][1]


_replica = _Replica()


def choose_for(caller: str) -> None:
    """Let the rest of a request read from the replica, if there is one that is fresh enough.

    The journal's rows say what a caller, an actor of the journal, has written. The caller has been
    authenticated: that always asks the primary. :func:`use_primary` ends it.
    """
    if REPLICA in settings.DATABASES and not connection.in_atomic_block and _replica.is_fresh(caller):
        use_replica()


@contextmanager
def reading(caller: str) -> Iterator[None]:
    """Read from the replica in this context, as :func:`choose_for` does."""
    choose_for(caller)
    try:
        yield
    finally:
        use_primary()

"""Token buckets in the database, shared by all processes and nodes."""

from __future__ import annotations

import random

from django.db import connection

TABLE = "memoryhub_rate"
# Not logged: a crash of the server only fills the buckets again.
CREATE_TABLE = f"CREATE UNLOGGED TABLE {TABLE} (name text PRIMARY KEY, full_at double precision NOT NULL)"
_SHARE_CLEANED = 0.001  # of the requests that delete full buckets
_ROUNDING_TOLERANCE = 1e-6  # seconds; as a float, the time of today has steps of 0.2 µs
_NOW = "extract(epoch FROM clock_timestamp())::float8"
# ``at``: when the bucket was full, or now. A bucket that lacks the tokens is not changed.
_TAKE_SQL = f"""WITH taken AS (
    INSERT INTO {TABLE} AS b VALUES (%(name)s, {_NOW} + %(cost)s)
    ON CONFLICT (name) DO UPDATE SET full_at = greatest(b.full_at, {_NOW}) + %(cost)s
        WHERE greatest(b.full_at, {_NOW}) + %(cost)s - {_NOW} <= %(room)s
    RETURNING full_at)
    SELECT CASE WHEN EXISTS (SELECT 1 FROM taken) THEN 0 ELSE greatest(
        (SELECT full_at FROM {TABLE} WHERE name = %(name)s) + %(cost)s - {_NOW} - %(room)s, 0.001) END"""


def take(name: str, per_second: float, burst: int, cost: int) -> float:
    """Take ``cost`` tokens out of a bucket; return 0, or the seconds until they are available.

    One statement, which takes no lock of writers.
    """
    if cost > burst:
        return (cost - burst) / per_second
    connection.ensure_connection()
    # Not through Django's cursor, which would count it as a query of the request.
    with connection.wrap_database_errors:
        execute = connection.connection.execute
        numbers = {"name": name, "cost": cost / per_second, "room": burst / per_second + _ROUNDING_TOLERANCE}
        [missing] = execute(_TAKE_SQL, numbers).fetchone()
        if random.random() < _SHARE_CLEANED:  # noqa: S311 no secret
            execute(f"DELETE FROM {TABLE} WHERE full_at < {_NOW}")
    return float(missing)

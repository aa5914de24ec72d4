"""What the PostgreSQL server is and can do: version, encoding, rights, the extension ``vector``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.db import DatabaseError, NotSupportedError, connection

from memoryhub.core.database import fetch_one

MIN_VERSION = 15
MIN_VECTOR = (0, 8)  # the first with iterative scans


class ServerFacts(NamedTuple):
    """``vector``: the installed version of the extension, ``available``: that of the server; may be empty."""

    version: int
    encoding: str
    may_create: bool
    vector: str
    available: str
    is_migrated: bool


class BackupFacts(NamedTuple):
    """``archives``: full parts of the write-ahead log are archived. ``failing``: the last one was not."""

    has_checksums: bool
    archives: bool
    last_archived: datetime | None
    failing: bool


class ServerProblem(NamedTuple):
    id: str
    text: str
    fix: str
    is_serious: bool = True


_FACTS_SQL = """SELECT current_setting('server_version_num')::int / 10000,
    (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
    coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), ''),
    coalesce((SELECT default_version FROM pg_available_extensions WHERE name = 'vector'), ''),
    to_regclass('memoryhub_memory') IS NOT NULL"""


def read_facts() -> ServerFacts:
    return ServerFacts(*fetch_one(_FACTS_SQL))


_BACKUP_SQL = """SELECT current_setting('data_checksums') = 'on', current_setting('archive_mode') <> 'off',
    last_archived_time, coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false)
    FROM pg_stat_archiver"""


def read_backup_facts() -> BackupFacts:
    return BackupFacts(*fetch_one(_BACKUP_SQL))


def find_connection_problem(error: DatabaseError) -> ServerProblem:
    """Return why the hub cannot connect to the server."""
    if isinstance(error, NotSupportedError):  # Django refuses versions that are older still
        return _too_old(str(error).rstrip("."))
    error = _error_without_pool() or error
    return ServerProblem(
        "memoryhub.E007",
        f"PostgreSQL does not answer: {str(error).strip().splitlines()[0]}",
        "Start it, or correct DATABASE_URL.",
    )


def _error_without_pool() -> DatabaseError | None:
    """Return why a new connection fails. The pool only reports how long it waited for one."""
    options = {**connection.get_connection_params(), "connect_timeout": 5}
    try:
        with connection.wrap_database_errors:
            connection.Database.connect(**options).close()  # type: ignore[attr-defined]
    except DatabaseError as error:
        return error
    return None


def _too_old(text: str) -> ServerProblem:
    return ServerProblem("memoryhub.E008", text, f"Upgrade the server to PostgreSQL {MIN_VERSION} or newer.")


def find_problems(facts: ServerFacts) -> Iterator[ServerProblem]:
    """Yield why the hub cannot use this server, or not all of its features."""
    if facts.version < MIN_VERSION:
        yield _too_old(f"PostgreSQL {facts.version} is too old")
    if facts.encoding != "UTF8":
        yield ServerProblem(
            "memoryhub.E009",
            f"The database has the encoding {facts.encoding}",
            "Create a new one: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0;",
        )
    if not facts.may_create:
        yield ServerProblem(
            "memoryhub.E010",
            "The user of DATABASE_URL may not create tables",
            "As an administrator of the database: GRANT CREATE, USAGE ON SCHEMA public TO the_user;",
        )
    if not facts.vector and (facts.is_migrated or not is_vector_usable(facts.available)):
        install = "" if is_vector_usable(facts.available) else "Install pgvector 0.8 or newer on the server. "
        yield ServerProblem(
            "memoryhub.W011",
            "The extension vector is not installed: search uses words only",
            f"{install}As an administrator of the database: CREATE EXTENSION vector; then: manage.py migrate",
            is_serious=False,
        )
    if facts.vector and not is_vector_usable(facts.vector):
        yield ServerProblem(
            "memoryhub.E011",
            f"The extension vector {facts.vector} is too old",
            "Install pgvector 0.8 or newer on the server, then: ALTER EXTENSION vector UPDATE;",
        )


def is_vector_usable(version: str) -> bool:
    """Whether a version of the extension has what the hub needs. An empty one has not."""
    return _numbers(version) >= MIN_VECTOR


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])

"""Run code in a forked process that kills itself at its n-th fault point.

Fault points are the calls that change names of files or flush them to the disk, the begin and the end of each
transaction of the default database, and changes of its schema, which are transactions of their own on SQLite.
On PostgreSQL, they are the moments before and after each commit, and before each statement outside a
transaction that may change something.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from django.db import connections
from django.db.backends.signals import connection_created

from memoryhub.core.database import close_before_fork, is_postgres

SYSTEM_CALLS = ("rename", "replace", "link", "unlink", "fsync")
STATEMENTS = ("BEGIN", "COMMIT", "CREATE", "DROP")
READING = ("SELECT", "SET", "SHOW")


def kill_at_every_point(
    work: Callable[[], object],
    *,
    prepare: Callable[[], object],
    every: int = 1,
    calls: Sequence[tuple[object, str]] = (),
) -> Iterator[str]:
    """Prepare and run the work, killed at its first fault point, then at its second, and so on.

    Yield the name of the point after each kill, and an empty string after the work that was not killed.
    ``every``: 10 for one point in ten, where there are many alike. ``calls``: more functions that are fault
    points, by their owner and name.
    """
    for number in count(1, every):
        prepare()
        killed_at = _run(work, number, [*[(os, name) for name in SYSTEM_CALLS], *calls])
        yield killed_at
        if not killed_at:
            assert number > 1, "no fault point"
            return


def _run(work: Callable[[], object], number: int, calls: Sequence[tuple[object, str]]) -> str:
    """Return the fault point at which the process killed itself, or an empty string if it ended."""
    close_before_fork()  # SQLite forbids to use a connection in two processes
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work_until_killed(work, number, calls, write)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        killed_at = pipe.read()
    _, status = os.waitpid(child, 0)
    if killed_at:
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    else:
        assert os.waitstatus_to_exitcode(status) == 0, "the error is on standard error"
    return killed_at


def _work_until_killed(
    work: Callable[[], object], number: int, calls: Sequence[tuple[object, str]], pipe: int
) -> None:
    code = 1
    try:
        _install(number, calls, pipe)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 the parent sees the code
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _install(number: int, calls: Sequence[tuple[object, str]], pipe: int) -> None:
    points = count(1)

    def reach(name: str) -> None:
        if next(points) == number:
            os.write(pipe, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def kill_before(owner: object, name: str) -> Callable[..., Any]:
        call = getattr(owner, name)

        def killed(*arguments: Any, **named: Any) -> Any:
            reach(name)
            return call(*arguments, **named)

        return killed

    def watch(statement: str) -> None:
        if statement.startswith(STATEMENTS):
            reach(statement.split(maxsplit=1)[0])

    patch = pytest.MonkeyPatch()
    for owner, name in calls:
        patch.setattr(owner, name, kill_before(owner, name))
    if is_postgres():
        _watch_commits(reach, patch)
        return
    connection_created.connect(
        lambda connection, **named: connection.connection.set_trace_callback(watch), weak=False
    )


def _watch_commits(reach: Callable[[str], None], patch: pytest.MonkeyPatch) -> None:
    """Call ``reach`` before and after each commit, and before changes outside a transaction."""
    import psycopg

    commit = psycopg.Connection.commit

    def watched_commit(connection: psycopg.Connection[Any]) -> None:
        reach("COMMIT")
        commit(connection)
        reach("COMMITTED")

    def watch(execute: Callable[..., Any], statement: Any, *arguments: Any) -> Any:
        word = str(statement).split(maxsplit=1)[0]
        if default.get_autocommit() and word not in READING:
            reach(word)
        return execute(statement, *arguments)

    default = connections["default"]
    patch.setattr(psycopg.Connection, "commit", watched_commit)
    default.execute_wrappers.append(watch)

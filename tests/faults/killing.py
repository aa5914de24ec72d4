"""Run code in a forked process that kills itself at its n-th fault point.

Fault points are the calls that change names of files or flush them to the disk, the begin and the end of each
transaction of the default database, and changes of its schema, which are transactions of their own.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from django.db import connections
from django.db.backends.signals import connection_created

SYSTEM_CALLS = ("rename", "replace", "link", "unlink", "fsync")
STATEMENTS = ("BEGIN", "COMMIT", "CREATE", "DROP")


def kill_at_every_point(
    work: Callable[[], object], *, prepare: Callable[[], object], every: int = 1
) -> Iterator[str]:
    """Prepare and run the work, killed at its first fault point, then at its second, and so on.

    Yield the name of the point after each kill, and an empty string after the work that was not killed.
    ``every``: 10 for one point in ten, where there are many alike.
    """
    for number in count(1, every):
        prepare()
        killed_at = _run(work, number)
        yield killed_at
        if not killed_at:
            assert number > 1, "no fault point"
            return


def _run(work: Callable[[], object], number: int) -> str:
    """Return the fault point at which the process killed itself, or an empty string if it ended."""
    connections.close_all()  # SQLite forbids to use a connection in two processes
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work_until_killed(work, number, write)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        killed_at = pipe.read()
    _, status = os.waitpid(child, 0)
    if killed_at:
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    else:
        assert os.waitstatus_to_exitcode(status) == 0, "the error is on standard error"
    return killed_at


def _work_until_killed(work: Callable[[], object], number: int, pipe: int) -> None:
    code = 1
    try:
        _install(number, pipe)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 the parent sees the code
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _install(number: int, pipe: int) -> None:
    points = count(1)

    def reach(name: str) -> None:
        if next(points) == number:
            os.write(pipe, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def kill_before(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def killed(*arguments: Any, **named: Any) -> Any:
            reach(name)
            return call(*arguments, **named)

        return killed

    def watch(statement: str) -> None:
        if statement.startswith(STATEMENTS):
            reach(statement.split(maxsplit=1)[0])

    patch = pytest.MonkeyPatch()
    for name in SYSTEM_CALLS:
        patch.setattr(os, name, kill_before(name))
    connection_created.connect(
        lambda connection, **named: connection.connection.set_trace_callback(watch), weak=False
    )

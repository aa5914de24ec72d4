"""Which process and thread works on a run, and whether that process is still there.

The name says ``host/pid/start/thread``: a number that the system gave to another process since is told apart
by the moment at which the process began.
"""

from __future__ import annotations

import os
import socket
import threading
from datetime import datetime, timedelta
from pathlib import Path

from memoryhub.models import MaintenanceRun

# What shows no sign of life for so long is given up: of a process on another machine, which cannot be asked,
# and of one that is there but hangs. A step takes a fraction of a second, cleaning the file up some seconds.
SILENCE = timedelta(seconds=30)
HANGING = timedelta(minutes=15)


def own_name() -> str:
    """The name of this thread, for as long as its process lives."""
    pid = os.getpid()
    return f"{socket.gethostname()[:100]}/{pid}/{_began(pid)}/{threading.get_native_id()}"


def is_given_up(run: MaintenanceRun, now: datetime) -> bool:
    """Whether nobody can be working on a running run any more."""
    silent = now - (run.heartbeat_at or run.created_at)
    alive = _lives(run.worker)
    if alive is None:
        return silent > SILENCE
    return silent > HANGING if alive else True


def _lives(worker: str) -> bool | None:
    """Whether the process is there; None when it cannot be known."""
    host, _, rest = worker.partition("/")
    pid, _, rest = rest.partition("/")
    if host != socket.gethostname()[:100] or not pid.isdecimal():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return _began(int(pid)) == rest.partition("/")[0]


def _began(pid: int) -> str:
    """When a process began, in the system's own count; empty where it does not tell, and for a dead one."""
    try:
        # The second field is the program's name in parentheses, which may hold anything.
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if state[0] in "ZX" else state[19]
    except (OSError, IndexError):
        return ""

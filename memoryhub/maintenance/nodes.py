"""The nodes of a hub: the server processes of all machines, and the tasks that one of them does for all.

Each server process has a row and renews it. A lease names the process that does such a task. Another process
takes the lease over when its holder has ended or no longer renews its row. Heartbeats use the time of the
database, because the clocks of nodes differ.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac

import memoryhub
from memoryhub.core.database import write_transaction
from memoryhub.models import Lease, ServerProcess

HEARTBEAT_SECONDS = 10.0
HEARTBEAT_TIMEOUT = timedelta(seconds=30)  # processes of other machines without a heartbeat count as ended
RETENTION = timedelta(days=1)  # of the rows of processes that ended
SCHEDULER = "scheduler"  # the lease of the process that follows the schedule and embeds
_HAS_RECENT_HEARTBEAT = Q(heartbeat_at__gt=Now() - HEARTBEAT_TIMEOUT)


def node_name() -> str:
    """Return the name of this node: as configured, or that of the machine."""
    return str(settings.NODE_NAME or socket.gethostname())[:100]


def process_id() -> str:
    """Return an id of this process that is unique across processes and machines."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_process_start_time(pid)}"


def worker_id() -> str:
    """Return an id of this thread that is unique across processes and machines."""
    return f"{process_id()}/{threading.get_native_id()}"


@lru_cache
def _machine() -> str:
    """Return an id of this node's process table. Containers and copied machines may share a name."""
    parts = [str(settings.NODE_NAME)]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{node_name().replace('/', '-')}.{digest}"


def is_running(worker: str) -> bool | None:
    """Whether the process of a worker or lease holder is running; None if that is unknown.

    On this machine, the process table decides. On others, a recent heartbeat does.
    """
    machine, _, rest = worker.partition("/")
    pid, _, rest = rest.partition("/")
    start, _, _ = rest.partition("/")
    if machine != _machine() or not pid.isdecimal():
        return _has_heartbeat(f"{machine}/{pid}/{start}")
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return _process_start_time(int(pid)) == start


def _has_heartbeat(process: str) -> bool | None:
    """Whether the row of a process was renewed recently; None without a row."""
    rows = ServerProcess.objects.filter(process=process)
    return rows.filter(_HAS_RECENT_HEARTBEAT).exists() or (False if rows.exists() else None)


def _process_start_time(pid: int) -> str:
    """Return the start time of a process in kernel ticks; empty for dead processes and without /proc."""
    try:
        # The second field is the program name in parentheses, which may contain anything.
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if state[0] in "ZX" else state[19]
    except (OSError, IndexError):
        return ""


def live_processes() -> list[ServerProcess]:
    """Return the server processes that renewed their row recently and have not ended since."""
    rows = ServerProcess.objects.filter(_HAS_RECENT_HEARTBEAT)
    return [row for row in rows if is_running(row.process)]


def renew() -> None:
    """Renew the row of this process, and delete those of processes that ended long ago."""
    values = {"heartbeat_at": Now(), "clock_at": timezone.now()}
    with write_transaction():
        if not ServerProcess.objects.filter(process=process_id()).update(**values):
            ServerProcess.objects.filter(heartbeat_at__lt=Now() - RETENTION).delete()
            ServerProcess.objects.create(
                process=process_id(),
                node=node_name(),
                pid=os.getpid(),
                version=memoryhub.__version__,
                key_digest=key_digest(),
                started_at=Now(),
                **values,
            )


def leave() -> None:
    """Delete the row of this process and release its leases, so that others need not wait."""
    with write_transaction():
        ServerProcess.objects.filter(process=process_id()).delete()
        Lease.objects.filter(holder__startswith=f"{process_id()}/").update(holder="")


def key_digest() -> str:
    """Return a digest of the secret key, which all nodes must share."""
    return salted_hmac("memoryhub.nodes", "key").hexdigest()[:16]


def find_node_with_other_key() -> str:
    """Return the name of a node whose secret key differs from that of this process, or an empty string."""
    return next((row.node for row in live_processes() if row.key_digest != key_digest()), "")


def take_lease(name: str, holder: str) -> Lease | None:
    """Return the lease of a task if the holder has it or it is free; None while another holder has it."""
    lease = Lease.objects.filter(name=name).first()
    if lease is not None and lease.holder == holder:
        return lease
    if lease is not None and lease.holder and is_running(lease.holder):
        return None
    with write_transaction():
        lease, _ = Lease.objects.select_for_update().get_or_create(name=name)
        if lease.holder and is_running(lease.holder):  # another process was faster
            return None
        renew()  # nodes that see the lease must find a process that is running
        Lease.objects.filter(pk=lease.pk).update(holder=holder, taken_at=Now(), term=F("term") + 1)
        lease.holder = holder
    return lease


def is_scheduler() -> bool:
    """Whether this process follows the schedule for all nodes. It takes over if no other process does."""
    return take_lease(SCHEDULER, _scheduler_id()) is not None


def stop_scheduling() -> None:
    """Let another process follow the schedule."""
    release_lease(SCHEDULER, _scheduler_id())


def _scheduler_id() -> str:
    return f"{process_id()}/{SCHEDULER}"


def save_position(lease: Lease, position: str) -> bool:
    """Save where the next holder continues; return False if another process has the lease now."""
    with write_transaction():
        rows = Lease.objects.filter(pk=lease.pk, holder=lease.holder)
        return bool(rows.update(position=position))


def release_lease(name: str, holder: str) -> None:
    """Release a lease, if the holder has it."""
    with write_transaction():
        Lease.objects.filter(name=name, holder=holder).update(holder="")

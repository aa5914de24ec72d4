"""The wall clock, the time since boot, and how far the wall clock is ahead without confirmation."""

from __future__ import annotations

import ctypes
import struct
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_UPTIME = Path("/proc/uptime")  # counts while the machine sleeps, too
_STATUS_OFFSET = 40  # of ``status`` in C's struct timex on 64-bit Linux
_STA_UNSYNC = 0x40  # from <linux/timex.h>


class Reading(NamedTuple):
    """The wall clock at one moment, and the seconds since the boot with this id. No id: they are unknown."""

    at: datetime
    boot: str
    seconds: float


def read() -> Reading:
    now = datetime.fromtimestamp(time.time(), UTC)
    try:
        seconds = float(_UPTIME.read_text().split()[0])
        return Reading(now, _BOOT_ID.read_text().strip(), seconds)
    except (OSError, ValueError, IndexError):  # another system than Linux
        return Reading(now, "", 0.0)


def is_synchronised() -> bool:
    """Whether a time service keeps the clock right. Setting the clock by hand ends this."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return False
    state = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None).adjtimex(state) < 0:
        return False
    [status] = struct.unpack_from("i", state, _STATUS_OFFSET)
    return not status & _STA_UNSYNC


_lead = timedelta(0)


def set_lead(lead: timedelta) -> None:
    """Set how far the wall clock is ahead of the time that this process counts for expiry."""
    global _lead
    _lead = lead


def unconfirmed_lead() -> timedelta:
    """Return how far the wall clock is ahead without confirmation."""
    return _lead


def expiry_time(now: datetime) -> datetime:
    """Return the moment up to which memories have expired: ``now`` without an unconfirmed jump."""
    return now - _lead


def is_in_doubt() -> bool:
    """Whether the wall clock is ahead without confirmation."""
    return bool(_lead)

"""Notice jumps of the clock, and pause what depends on the age of memories until the time is confirmed.

The wall clock is compared with the time since boot, across restarts of the hub. After a reboot, and on
systems without a time since boot, it is compared with the last reading or journal row. If it is more than a
day ahead of that, it may have jumped or the hub may have been off, so the pause ends after a day of uptime. A
clock that a time service keeps right is trusted.
"""

from __future__ import annotations

import ctypes
import logging
import math
import struct
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.core import dates
from memoryhub.core.database import write_transaction
from memoryhub.models import ClockState, JournalEntry, MaintenanceRun

logger = logging.getLogger(__name__)
CONFIRMED = "clock_confirmed"
TOLERANCE = timedelta(days=1)  # a larger jump needs confirmation
SAVE_INTERVAL = timedelta(minutes=10)
MAX_DAYS = 400  # remembered
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
    now = datetime.now(UTC)
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


@dataclass(frozen=True)
class Pause:
    """The clock is ahead. ``proven``: less time has passed. Otherwise the hub may have been off."""

    ahead: timedelta
    proven: bool

    @property
    def days(self) -> int:
        return round(self.ahead / timedelta(days=1))

    def summary(self) -> str:
        if self.proven:
            return f"the clock jumped {self.days} days ahead"
        return f"the clock is {self.days} days ahead of the last entry: it jumped, or the hub was off"


def check() -> Pause | None:
    """Read the clock. Return why expiry, decay, purge and eviction are paused, or None."""
    state, reading = ClockState.objects.first(), read()
    if state is None or _needs_saving(state, reading):
        with write_transaction():
            state = _advance(ClockState.objects.first(), reading)
            state.save()
    return _apply(state)


def current_pause() -> Pause | None:
    """Return the pause that the last reading found. For pages: does not read the clock."""
    state = ClockState.objects.first()
    return _apply(state) if state else None


def inspect() -> Pause | None:
    """Read the clock like :func:`check`, but write nothing."""
    state = ClockState.objects.first()
    return _apply(_advance(state, read())) if state else None


def confirm(actor: Actor) -> Pause | None:
    """Accept the wall clock as right, and journal that. Return the pause that this ends, if any."""
    with write_transaction():
        pause = check()
        if pause:
            ClockState.objects.update(ahead=0, proven=False, waited=0)
            detail = {"days": pause.days, "proven": pause.proven}
            level = Sensitivity.SECRET.value
            journal.record(actor, [journal.Change(CONFIRMED, "clock", "", detail, sensitivity=level)])
    dates.set_lead(timedelta(0))
    return pause


def removal_limit(grace_days: float, now: datetime) -> datetime:
    """Return the time before which a memory must have expired to be removed after a grace period.

    The grace period counts days on which the hub was up. Before the first such day, every day counts.
    """
    limit = now - timedelta(days=grace_days)
    state = ClockState.objects.first()
    wanted = min(math.ceil(grace_days), MAX_DAYS)
    if state is None or not wanted:
        return limit
    counted = [date.fromisoformat(day) for day in state.days[-wanted:]]
    first = datetime.combine(min(counted), time.min, UTC)
    return min(limit, first - timedelta(days=max(grace_days - len(counted), 0)))


def _apply(state: ClockState) -> Pause | None:
    ahead = timedelta(seconds=state.ahead)
    pause = Pause(ahead, state.proven) if ahead > TOLERANCE else None
    dates.set_lead(pause.ahead if pause else timedelta(0))
    return pause


def _needs_saving(state: ClockState, reading: Reading) -> bool:
    is_later = state.at <= reading.at < state.at + SAVE_INTERVAL
    return not is_later or state.boot != reading.boot or _day(reading) not in state.days


def _advance(state: ClockState | None, reading: Reading) -> ClockState:
    if state is None:
        seen = MaintenanceRun.objects.filter(day__isnull=False).order_by("day").values_list("day", flat=True)
        days = [day.isoformat() for day in seen.distinct() if day][-MAX_DAYS:]
        state = ClockState(at=reading.at, boot=reading.boot, seconds=reading.seconds, days=days)
    was_paused = _is_paused(state)
    _measure_lead(state, reading)
    if _is_paused(state) and (is_synchronised() or timedelta(seconds=state.waited) > TOLERANCE):
        state.ahead = 0
    if not _is_paused(state):
        state.proven, state.waited = False, 0
    if was_paused != _is_paused(state):
        logger.warning("The clock is %s.", "right again" if was_paused else "ahead; see manage.py doctor")
    state.at, state.boot, state.seconds = reading.at, reading.boot, reading.seconds
    state.days = [*(day for day in state.days if day != _day(reading)), _day(reading)][-MAX_DAYS:]
    return state


def _measure_lead(state: ClockState, reading: Reading) -> None:
    shown = (reading.at - state.at).total_seconds()
    is_same_boot = bool(reading.boot) and reading.boot == state.boot and reading.seconds >= state.seconds
    if is_same_boot:
        passed = reading.seconds - state.seconds
        jump = timedelta(seconds=shown - passed)
        state.ahead += shown - passed
        state.proven = state.proven or jump > TOLERANCE
        state.waited += 0 if state.proven else passed
    elif shown < 0:
        state.ahead = max(state.ahead + shown, 0)
    else:
        newest = JournalEntry.objects.order_by("-seq").values_list("at", flat=True).first()
        unknown = reading.at - max(state.at, newest or state.at)
        state.ahead = max(state.ahead, 0) + (unknown.total_seconds() if unknown > TOLERANCE else 0)


def _is_paused(state: ClockState) -> bool:
    return timedelta(seconds=state.ahead) > TOLERANCE


def _day(reading: Reading) -> str:
    return reading.at.date().isoformat()

"""Days of a month for the page: a strip of types for each, and quiet days folded into one line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Protocol


class Dated(Protocol):
    """What a day has to tell of itself here."""

    date: date
    types: dict[str, int]

    @property
    def is_quiet(self) -> bool: ...


@dataclass(frozen=True)
class Part:
    """One type's piece of a strip, in percent of the busiest day's."""

    type: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class Shown:
    """A day with something in it, or a stretch of days without (``quiet`` of them)."""

    first: date
    last: date
    day: Dated | None
    strip: list[Part]

    @property
    def quiet(self) -> int:
        return 0 if self.day else (self.last - self.first).days + 1


def fold(days: Sequence[Dated], today: date) -> list[Shown]:
    """The days of a month, newest first; days to come are left out, neighbouring quiet ones are one entry."""
    busiest = max((sum(day.types.values()) for day in days), default=0)
    shown: list[Shown] = []
    for day in days:
        if not day.is_quiet:
            shown.append(Shown(day.date, day.date, day, strip(day.types, busiest)))
        elif day.date <= today:
            if shown and not shown[-1].day and shown[-1].first - day.date == timedelta(days=1):
                shown[-1] = Shown(day.date, shown[-1].last, None, [])
            else:
                shown.append(Shown(day.date, day.date, None, []))
    return shown


def strip(types: Mapping[str, int], busiest: int) -> list[Part]:
    """One piece after the other, in the order given."""
    parts: list[Part] = []
    x = 0.0
    for kind, count in types.items():
        width = 100 * count / busiest
        parts.append(Part(kind, count, round(x, 2), round(width, 2)))
        x += width
    return parts

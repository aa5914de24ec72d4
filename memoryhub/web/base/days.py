"""Group timeline entries by day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from django.utils import timezone

from memoryhub.stats.timeline import TimelineEntry


@dataclass(frozen=True)
class Day:
    """One day and its entries, in timeline order."""

    date: date
    entries: list[TimelineEntry]


def group_by_day(entries: Iterable[TimelineEntry]) -> list[Day]:
    """Group consecutive entries of the same day, in the current time zone."""
    grouped = groupby(entries, key=lambda entry: timezone.localtime(entry.at).date())
    return [Day(day, list(some)) for day, some in grouped]

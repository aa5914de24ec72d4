"""Rows counted by the day on which they fell, in the time zone of who reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from django.db.models import Count, QuerySet, TextField
from django.db.models.functions import Cast, Substr
from django.utils import timezone

Dated = list[tuple[date, str, int]]
_DAY, _HOUR, _MINUTE = 10, 13, 16  # characters of 2026-05-04 13:30
_SINCE = 2000  # zones had other offsets in other years; before this one, nobody kept memories


def counted(rows: QuerySet[Any], moment: str, kind: str) -> Dated:
    """``(day, kind, count)`` by the column ``moment``, oldest first; a kind that is missing is empty.

    The stored text, which is in UTC, is cut, not parsed: Django's Trunc functions call Python for every row
    of an SQLite table. The pieces are as long as the zone allows, and put into its days afterwards.
    """
    zone = timezone.get_current_timezone()
    piece = Substr(Cast(moment, TextField()), 1, _chars(zone))
    pieces = rows.order_by().annotate(piece=piece).values_list("piece", kind).annotate(n=Count("pk"))
    return _in_days(pieces, zone)


def _in_days(pieces: Iterable[tuple[str, str | None, int]], zone: tzinfo) -> Dated:
    days: dict[str, date] = {}
    found: Counter[tuple[date, str]] = Counter()
    for text, kind, count in pieces:
        if (day := days.get(text)) is None:
            at = datetime.fromisoformat(text).replace(tzinfo=UTC)
            day = days[text] = at.date() if len(text) == _DAY else at.astimezone(zone).date()
        found[day, kind or ""] += count
    return sorted((day, kind, count) for (day, kind), count in found.items())


def _chars(zone: tzinfo) -> int:
    """How much of a moment in UTC tells its day in this zone: in both halves of each year."""
    years = range(_SINCE, timezone.now().year + 1)
    offsets = {zone.utcoffset(datetime(year, month, 1)) for year in years for month in (1, 7)}
    seconds = {offset.total_seconds() if offset else 0.0 for offset in offsets}
    if seconds == {0.0}:
        return _DAY
    return _MINUTE if any(one % 3600 for one in seconds) else _HOUR

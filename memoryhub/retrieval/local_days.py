"""Rows counted by the day on which they fell, in the time zone of who reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from django.db.models import Count, QuerySet, TextField, Value
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
    found: Counter[tuple[date, str]] = Counter()
    for _, day, name, count in counted_within(rows.annotate(whole=Value(0)), "whole", moment, kind):
        found[day, name] += count
    return sorted((day, name, count) for (day, name), count in found.items())


def counted_within(
    rows: QuerySet[Any], part: str, moment: str, kind: str
) -> Iterator[tuple[Any, date, str, int]]:
    """``(part, day, kind, count)``: as :func:`counted`, for each value of a column or annotation.

    In no order, and in several rows where a day of the zone takes parts of two in UTC.
    """
    zone = timezone.get_current_timezone()
    piece = Substr(Cast(moment, TextField()), 1, _chars(zone))
    pieces = rows.order_by().annotate(piece=piece).values_list(part, "piece", kind).annotate(n=Count("pk"))
    days: dict[str, date] = {}
    for of, text, name, count in pieces:
        if (day := days.get(text)) is None:
            at = datetime.fromisoformat(text).replace(tzinfo=UTC)
            day = days[text] = at.date() if len(text) == _DAY else at.astimezone(zone).date()
        yield of, day, name or "", count


def _chars(zone: tzinfo) -> int:
    """How much of a moment in UTC tells its day in this zone: in both halves of each year."""
    years = range(_SINCE, timezone.now().year + 1)
    offsets = {zone.utcoffset(datetime(year, month, 1)) for year in years for month in (1, 7)}
    seconds = {offset.total_seconds() if offset else 0.0 for offset in offsets}
    if seconds == {0.0}:
        return _DAY
    return _MINUTE if any(one % 3600 for one in seconds) else _HOUR

"""Keyset pagination: an opaque cursor marks the last row, so a page costs the same at any depth."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, Q, QuerySet

MAX_LIMIT = 200


class InvalidCursor(ValueError):
    """The text is not a cursor of this list."""

    def __init__(self) -> None:
        super().__init__("is not a cursor of this list; use next_cursor of the previous page unchanged")


@dataclass(frozen=True)
class Page:
    items: list[Any]
    next_cursor: str | None


def paginate(rows: QuerySet[Any], column: str, limit: int, cursor: str | None) -> Page:
    """Return the next ``limit`` rows, highest ``column`` first, then newest. Raise :class:`InvalidCursor`."""
    if cursor:
        value, pk = _decode(cursor, column, rows)
        rows = rows.filter(Q(**{f"{column}__lt": value}) | Q(**{column: value, "pk__lt": pk}))
    items = list(rows.order_by(F(column).desc(), F("pk").desc())[: limit + 1])
    if len(items) <= limit:
        return Page(items, None)
    last = items[limit - 1]
    return Page(items[:limit], _encode(column, getattr(last, column), last.pk))


def _encode(column: str, value: Any, pk: int) -> str:
    shown = value.isoformat() if isinstance(value, datetime) else value
    return base64.urlsafe_b64encode(json.dumps([column, shown, pk]).encode()).decode().rstrip("=")


def _decode(cursor: str, column: str, rows: QuerySet[Any]) -> tuple[Any, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        named, value, pk = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        if named != column or not isinstance(pk, int) or not 0 <= pk < 2**63:
            raise InvalidCursor
        return _to_comparable(_find_field(rows, column).to_python(value)), pk
    except (ValueError, TypeError, OverflowError, RecursionError, ValidationError):
        raise InvalidCursor from None


def _find_field(rows: QuerySet[Any], column: str) -> Any:
    """Return the field of a column or annotation."""
    annotated = rows.query.annotations.get(column)
    return annotated.output_field if annotated else rows.model._meta.get_field(column)


def _to_comparable(value: Any) -> Any:
    """Return a value that a column can be compared with: not null, and with a time zone."""
    if value is None or (isinstance(value, datetime) and value.tzinfo is None):
        raise InvalidCursor
    return value.astimezone(UTC) if isinstance(value, datetime) else value

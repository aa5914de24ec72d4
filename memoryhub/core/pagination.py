"""Keyset pagination: a sealed cursor marks the last row, so a page costs the same at any depth.

Lists with page numbers use :func:`page_number`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, Q, QuerySet
from django.utils.crypto import constant_time_compare, salted_hmac

MAX_LIMIT = 200
_TAG_BYTES = 16
_MAX_PAGE_DIGITS = 9


class InvalidCursor(ValueError):
    """The text is not a cursor of this list."""

    def __init__(self) -> None:
        super().__init__("is not a cursor of this list; use next_cursor of the previous page unchanged")


def parse_offset(cursor: str | None) -> int:
    """Return the position of a cursor in a list without a sort key: the cursor is a number."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 6):
        raise InvalidCursor
    return int(cursor)


def page_number(typed: str, last: int) -> int:
    """Return the page that a number names: the first for anything below 1, at most the last one.

    ``Paginator.get_page`` shows the last page for 0 and -1, and the first for thousands of digits.
    """
    if not (typed.isascii() and typed.isdecimal()):
        return 1
    digits = typed.lstrip("0")
    return last if len(digits) > _MAX_PAGE_DIGITS else min(max(int(digits or "0"), 1), last)


def row_pages(
    rows: QuerySet[Any], size: int = 1000, key: Callable[[Any], Any] = attrgetter("pk")
) -> Iterator[list[Any]]:
    """Yield all rows in pages, by primary key. ``key`` returns that of a row.

    A page is a query: a slow reader does not block writers, and PostgreSQL sends all rows of a query at once.
    """
    rows = rows.order_by("pk")
    page = list(rows[:size])
    while page:
        yield page
        page = list(rows.filter(pk__gt=key(page[-1]))[:size])


def iterate_rows(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield all rows, see :func:`row_pages`."""
    return chain.from_iterable(row_pages(rows))


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
    value = getattr(last, column)
    return Page(
        items[:limit], seal([column, value.isoformat() if isinstance(value, datetime) else value, last.pk])
    )


def seal(value: Any) -> str:
    """Encrypt and sign a JSON value. Equal values have equal seals.

    A cursor contains primary keys, which would show how many rows of all projects and levels exist.
    """
    data = json.dumps(value).encode()
    tag = _tag(data)
    return base64.urlsafe_b64encode(tag + _mask(tag, data)).decode().rstrip("=")


def unseal(text: str) -> Any:
    """Return the value of a seal. Raise ValueError for other texts."""
    sealed = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    tag, data = sealed[:_TAG_BYTES], _mask(sealed[:_TAG_BYTES], sealed[_TAG_BYTES:])
    if not constant_time_compare(tag, _tag(data)):
        raise ValueError("not sealed here")
    return json.loads(data)


def _tag(data: bytes) -> bytes:
    return salted_hmac("memoryhub.seal", data, algorithm="sha256").digest()[:_TAG_BYTES]


def _mask(tag: bytes, data: bytes) -> bytes:
    """Combine the data with a key stream that only this tag has; twice returns the data."""
    key = salted_hmac("memoryhub.seal.mask", tag, algorithm="sha256").digest()
    stream = hashlib.shake_256(key).digest(len(data))
    return bytes(one ^ other for one, other in zip(data, stream, strict=True))


def _decode(cursor: str, column: str, rows: QuerySet[Any]) -> tuple[Any, int]:
    try:
        named, value, pk = unseal(cursor)
        if named != column or not isinstance(pk, int) or not 0 <= pk < 2**63:
            raise InvalidCursor
        annotated = rows.query.annotations.get(column)
        field = annotated.output_field if annotated else rows.model._meta.get_field(column)
        return _to_comparable(field.to_python(value)), pk
    except (ValueError, TypeError, OverflowError, RecursionError, ValidationError):
        raise InvalidCursor from None


def _to_comparable(value: Any) -> Any:
    """Return a value that a column can be compared with: not null, and with a time zone."""
    if value is None or (isinstance(value, datetime) and value.tzinfo is None):
        raise InvalidCursor
    return value.astimezone(UTC) if isinstance(value, datetime) else value

"""Insert and update rows, several times faster than querysets do.

Django converts every value of every row in several layers. This module looks up the adapter of a column once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any

from django.db import connection, models

from memoryhub.backends.dialect import sql
from memoryhub.core.database import adapt_moment, batched, open_cursor

# One statement for many rows, not executemany: triggers make SQLite open a savepoint for each statement, and
# each savepoint makes FTS5 flush its buffer. Measured: 63 instead of 160 µs for a memory.
MAX_ROWS = 1000
MAX_PARAMETERS = 32_766  # SQLite's limit on parameters of one statement

Adapter = Callable[[Any], Any]


def insert(
    model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]], on_conflict: str = ""
) -> list[int]:
    """Insert rows of plain values into these columns. Return the keys that the database gave them."""
    keys: list[int] = []
    names = ", ".join(f'"{column}"' for column in columns)
    marks = f"({', '.join(['%s'] * len(columns))})"
    head = f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES '
    returning = _returning_key(model)
    with open_cursor() as cursor:
        for chunk in batched(rows, min(MAX_ROWS, MAX_PARAMETERS // len(columns))):
            cursor.execute(
                head + ", ".join([marks] * len(chunk)) + (on_conflict or returning),
                list(chain.from_iterable(chunk)),
            )
            if cursor.description:
                keys += [key for (key,) in cursor.fetchall()]
            else:
                keys += sql.inserted_keys(cursor, len(chunk))
    return keys


def _returning_key(model: type[models.Model]) -> str:
    return f"{sql.RETURNING} {model._meta.pk.column}" if sql.RETURNING and model._meta.pk else ""


def insert_or_extend(
    model: type[models.Model],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    unique: Sequence[str],
    lowest: str,
    highest: str,
) -> list[int]:
    """Insert rows. For rows that exist, lower the column ``lowest`` and raise the column ``highest``.

    Return the keys of all.
    """
    table = model._meta.db_table
    return insert(
        model,
        columns,
        rows,
        f" ON CONFLICT ({', '.join(unique)}) DO UPDATE SET"
        f" {lowest} = {sql.LEAST}({table}.{lowest}, excluded.{lowest}),"
        f" {highest} = {sql.GREATEST}({table}.{highest}, excluded.{highest}) RETURNING id",
    )


def update(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Set columns to plain values. The last value of each row is the primary key."""
    names = ", ".join(f'"{column}" = %s' for column in columns)
    key = model._meta.pk.column if model._meta.pk else "id"
    with connection.cursor() as cursor:
        cursor.executemany(f'UPDATE "{model._meta.db_table}" SET {names} WHERE "{key}" = %s', list(rows))


def insert_objects(objects: Sequence[models.Model]) -> None:
    """Insert unsaved objects of one model and set their keys."""
    if not objects:
        return
    model = type(objects[0])
    _, columns, _ = _insert_plan(model)
    for one, key in zip(objects, insert(model, columns, map(_adapted_values, objects)), strict=True):
        _set_saved(one, key)


def insert_unless(one: models.Model, condition: str, params: Sequence[Any]) -> bool:
    """Insert an unsaved object unless the SQL condition holds or the object violates a unique constraint.

    Set its key and return whether it was inserted.
    """
    _, columns, _ = _insert_plan(type(one))
    names, marks = ", ".join(f'"{column}"' for column in columns), ", ".join(["%s"] * len(columns))
    with open_cursor() as cursor:
        cursor.execute(
            f'INSERT INTO "{one._meta.db_table}" ({names}) SELECT {marks} WHERE NOT {condition}'
            f" ON CONFLICT DO NOTHING{_returning_key(type(one))}",
            [*_adapted_values(one), *params],
        )
        if cursor.rowcount < 1:
            return False
        _set_saved(one, cursor.fetchone()[0] if cursor.description else cursor.lastrowid)
    return True


def _adapted_values(one: models.Model) -> list[Any]:
    read, _, adapters = _insert_plan(type(one))
    values = list(read(one))
    for position, adapt in adapters:
        values[position] = adapt(values[position])
    return values


def _set_saved(one: models.Model, key: int) -> None:
    one.pk = key
    one._state.adding = False
    one._state.db = connection.alias


@cache
def _insert_plan(
    model: type[models.Model],
) -> tuple[Callable[[models.Model], Iterable[Any]], list[str], list[tuple[int, Adapter]]]:
    """Return a function that reads all values, the columns, and the adapters by position."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    adapters = [(position, adapt) for position, field in enumerate(fields) if (adapt := _adapter(field))]
    return attrgetter(*(f.attname for f in fields)), [str(f.column) for f in fields], adapters


def _adapter(field: models.Field[Any, Any]) -> Adapter | None:
    if isinstance(field, models.DateTimeField):
        return lambda at: adapt_moment(at) if at is not None else None
    if isinstance(field, models.JSONField):
        return json.dumps
    return None

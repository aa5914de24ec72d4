"""The list-valued fields of many memories in one statement.

``with_details()`` makes an object of every label and path; for JSON the texts are enough, and a
page of fifty memories may well name a thousand files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection

from memoryhub.memories.rows import LISTS
from memoryhub.models import Entity, FileLink, Label, Memory

_NAMES = {"tag": "tags", "concept": "concepts", "read": "files_read", "modified": "files_modified"}
_TABLES = (
    (Label, "kind", "value", "''"),
    (FileLink, "access", "path", "''"),
    (Entity, "''", "entity", "entity_type"),
)

Lists = dict[str, list[Any]]


def lists_of(memories: Iterable[Memory]) -> dict[int, Lists]:
    """By primary key the value of each list-valued field, in the shape and order of the API."""
    found: dict[int, Lists] = {memory.pk: {name: [] for name in LISTS} for memory in memories}
    if not found:
        return found
    marks = ", ".join(["%s"] * len(found))
    statement = " UNION ALL ".join(
        f"SELECT memory_id, {kind}, {value} AS value, {extra} AS extra FROM {model._meta.db_table} "  # noqa: S608
        f"WHERE memory_id IN ({marks})"
        for model, kind, value, extra in _TABLES
    )
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} ORDER BY value, extra", [*found] * len(_TABLES))
        for key, kind, value, extra in cursor.fetchall():
            if kind:
                found[key][_NAMES[kind]].append(value)
            else:
                found[key]["entities"].append({"entity": value, "entity_type": extra})
    return found

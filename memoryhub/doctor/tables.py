"""The tables and plain indexes that the migrations made: none of them may be missing."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import connection, models

from memoryhub.doctor.registry import RESTORE, Finding, check, fail, ok, warn
from memoryhub.search import schema

_Wanted = models.Index | models.UniqueConstraint


@check("tables", needs="migrations")
def present() -> Iterator[Finding]:
    there = set(connection.introspection.table_names())
    wanted = schema.managed_tables()
    missing = [table for table in wanted if table not in there]
    for table in missing:
        yield fail(f"table {table} is missing, with all that was in it", RESTORE)
    if not missing:
        yield ok(f"all {len(wanted)} there")


def _missing_indexes() -> list[tuple[type[models.Model], _Wanted]]:
    """Declared and not there; an index of a single field, which Django names, is known by its column."""
    found: list[tuple[type[models.Model], _Wanted]] = []
    for model in apps.get_app_config("memoryhub").get_models(include_auto_created=True):
        if not model._meta.managed:
            continue
        with connection.cursor() as cursor:
            there = connection.introspection.get_constraints(cursor, model._meta.db_table)
        named: list[_Wanted] = [*model._meta.indexes, *_unique_indexes(model)]
        found += [(model, one) for one in named if one.name not in there]
        columns = {tuple(one["columns"]) for one in there.values() if one["index"] or one["unique"]}
        for field in model._meta.local_concrete_fields:
            indexed = getattr(field, "db_index", False) and not field.unique
            if indexed and (field.column,) not in columns:
                found.append((model, models.Index(fields=[field.name])))
    return found


def _unique_indexes(model: type[models.Model]) -> list[models.UniqueConstraint]:
    """Unique constraints with a condition are indexes; others are part of their table, and stay with it."""
    constraints = model._meta.constraints
    return [one for one in constraints if isinstance(one, models.UniqueConstraint) and one.condition]


def _make_indexes() -> Iterator[str]:
    with connection.schema_editor() as editor:
        for model, one in _missing_indexes():
            if isinstance(one, models.UniqueConstraint):
                editor.add_constraint(model, one)
            else:
                if not one.name:
                    one.set_name_with_model(model)
                editor.add_index(model, one)
            yield f"made index {one.name}"


@check("indexes", needs="tables", fix=_make_indexes)
def indexes() -> Iterator[Finding]:
    missing = _missing_indexes()
    for model, one in missing:
        name = one.name or f"of {one.fields[0]}"
        yield warn(f"index {name} of table {model._meta.db_table} is missing", "doctor --fix")
    if not missing:
        yield ok("all there")

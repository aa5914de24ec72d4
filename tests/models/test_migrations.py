"""Triggers and indexes survive migrations, although Django rebuilds tables without triggers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.core.management.sql import emit_post_migrate_signal, emit_pre_migrate_signal
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.recorder import MigrationRecorder

from memoryhub import memories
from memoryhub.backends import schema
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.database import index_is_sound, run_in_new_process, run_sql

OF_MARKS = ("memory", "session", "event")
TRIGGERS = {
    "memoryhub_text_insert",
    "memoryhub_text_update",
    "memoryhub_text_delete",
    "memoryhub_trigram_insert",
    "memoryhub_trigram_update",
    "memoryhub_trigram_delete",
    "memoryhub_journal_no_update",
    "memoryhub_journal_no_delete",
    "memoryhub_absence_end",
    "memoryhub_change_insert",
    "memoryhub_change_delete",
    "memoryhub_change_update",
    "memoryhub_vector_delete",
    "memoryhub_vector_no_update",
    "memoryhub_vector_stale",
    *{f"memoryhub_mark_{of}_{event}" for of in OF_MARKS for event in ("insert", "update", "delete")},
}
if IS_POSTGRES:
    TRIGGERS |= {
        "memoryhub_journal_no_truncate",
        "memoryhub_vector_index_insert",
        "memoryhub_vector_index_delete",
    }
else:
    TRIGGERS.add("memoryhub_journal_no_replace")


def triggers() -> set[str]:
    names = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    if IS_POSTGRES:
        names = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    return {name for (name,) in run_sql(names)}


@contextmanager
def rebuilt(model: type[models.Model], name: str) -> Iterator[None]:
    """Rebuild a table with another column type, as AlterField does, and undo that afterwards."""
    old = model._meta.get_field(name)
    new = models.CharField(max_length=old.max_length + 7, default="general")
    new.set_attributes_from_name(name)
    new.model = model
    schema.drop_views()
    with connection.schema_editor() as editor:
        editor.alter_field(model, old, new, strict=True)
    try:
        yield
    finally:
        schema.drop_views()
        with connection.schema_editor() as editor:
            editor.alter_field(model, new, old, strict=True)
        schema.install()


def test_schema_is_complete(db):
    assert triggers() == TRIGGERS
    assert schema.find_problems(deep=True) == []


@pytest.mark.sqlite  # PostgreSQL alters a table in place
@pytest.mark.django_db(transaction=True)
def test_rebuilt_table_loses_its_triggers(remember):
    """The reason for the precaution. If Django ever keeps triggers, it can be removed."""
    remember("zebra")
    with rebuilt(Memory, "category"):
        of_other_tables = {"memoryhub_vector_delete", "memoryhub_vector_no_update"} | {
            name for name in TRIGGERS if name.startswith(("memoryhub_mark_session", "memoryhub_mark_event"))
        }
        assert not {name for name in triggers() - of_other_tables if "journal" not in name}
        assert any(
            "trigger memoryhub_text_insert is missing" in problem for problem in schema.find_problems()
        )
        remember("written unindexed")
        assert not Memory.objects.search("unindexed").exists()
        assert not index_is_sound()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("model", "column"),
    [
        # PostgreSQL does not alter a column that a trigger names: a migration drops the trigger first.
        pytest.param(Memory, "category", marks=pytest.mark.sqlite),
        (JournalEntry, "operation"),
    ],
)
def test_migration_that_rebuilds_a_table_keeps_triggers_and_index(remember, actor, model, column):
    memory = remember("zebra before")
    emit_pre_migrate_signal(verbosity=0, interactive=False, db="default")
    with rebuilt(model, column):
        Memory.objects.filter(pk=memory.pk).update(title="", content="written by a data migration")
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
        assert triggers() == TRIGGERS
        assert schema.find_problems(deep=True) == []
        assert Memory.objects.search("migration").get() == memory
        remember("zebra after")
        assert Memory.objects.search("after").count() == 1
        memories.update_memory(memory.uid, MemoryPatch(content="okapi"), actor)
        assert Memory.objects.search("okapi").exists()
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            run_sql("DELETE FROM memoryhub_journalentry")
    assert schema.find_problems(deep=True) == []


@pytest.mark.django_db(transaction=True)
def test_migrate_signals_are_connected(remember):
    remember("zebra")
    schema.drop_triggers()
    remember("unindexed zebra")
    call_command("migrate", verbosity=0)
    assert schema.find_problems(deep=True) == []
    assert Memory.objects.search("unindexed").exists()


@pytest.mark.django_db(transaction=True)
def test_migrate_repairs_a_changed_trigger(db):
    name, table = "memoryhub_journal_no_delete", "memoryhub_journalentry"
    if IS_POSTGRES:
        run_sql(f"COMMENT ON TRIGGER {name} ON {table} IS 'of another version'")
    else:
        run_sql(f"DROP TRIGGER {name}")
        run_sql(f"CREATE TRIGGER {name} BEFORE DELETE ON {table} BEGIN SELECT 1; END")
    assert schema.find_problems() == [
        "trigger memoryhub_journal_no_delete is not the one this version installs"
    ]
    call_command("migrate", verbosity=0)
    assert schema.find_problems() == []


@pytest.mark.parametrize("table", ["memoryhub_text", "memoryhub_trigram"])
def test_wrong_index_is_detected_and_rebuilt(remember, table):
    memory = remember("zebra")
    if IS_POSTGRES:
        run_sql(f"DELETE FROM {table} WHERE rowid = %s", memory.pk)
    else:
        run_sql(
            f"INSERT INTO {table}({table}, rowid, title, subtitle, abstract, overview, content) "
            "VALUES ('delete', %s, %s, '', %s, '', %s)",
            memory.pk,
            memory.title,
            memory.abstract,
            memory.content,
        )
    assert schema.find_problems() == [f"index {table} does not hold as many rows as its table"]
    assert schema.find_problems(deep=True) == [f"index {table} does not match its table"]
    schema.rebuild_indexes(table)
    assert schema.find_problems(deep=True) == []


def test_missing_index_is_detected_and_created(remember):
    remember("zebra")
    run_sql("DROP TABLE memoryhub_trigram")
    assert schema.find_problems() == ["table memoryhub_trigram is missing"]
    schema.install()
    assert schema.find_problems(deep=True) == []


STORY = """
import json, sys
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from memoryhub.audit import journal; from memoryhub import memories as store
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.backends import schema
from memoryhub.access.policy import Actor; from memoryhub.access.policy import Clearance
report = {}
def tables():
    return sorted(t for t in connection.introspection.table_names() if t.startswith("memoryhub_"))
call_command("migrate", verbosity=0)
report["first"] = schema.find_problems(deep=True)
store.create_memory(MemoryDraft(content="xylophone"), Actor("x", Clearance.up_to("public")))
call_command("migrate", "memoryhub", "zero", verbosity=0)
report["at zero"] = tables()
report["missing"] = schema.tables_missing()
call_command("migrate", verbosity=0)
report["again"] = schema.find_problems(deep=True)
store.create_memory(MemoryDraft(content="trombone"), Actor("x", Clearance.up_to("public")))
from memoryhub.models import Memory
report["found"] = [Memory.objects.search(word).count() for word in ("xylophone", "trombone")]
report["journal"] = journal.verify().rows
print(json.dumps(report))
"""


@pytest.mark.slow
def test_migrate_to_zero_and_back(migrated_home):
    assert run_in_new_process(STORY, migrated_home) == {
        "first": [],
        "at zero": [],
        "missing": ["memoryhub_memory", "memoryhub_journalentry"],
        "again": [],
        "found": [0, 1],
        "journal": 2,  # the new memory, and the loss of the row that the mirror still has
    }


@pytest.mark.django_db(transaction=True)
def test_a_store_of_an_unknown_version_is_not_migrated():
    """Its migrations are recorded, but made other tables."""
    last = MigrationRecorder.Migration.objects.filter(app="memoryhub").latest("name").name
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE memoryhub_runchanges RENAME TO elsewhere")
    run_sql("DELETE FROM django_migrations WHERE name = %s", last)
    try:
        with pytest.raises(CommandError, match="made by an unknown version: its table memoryhub_runchanges"):
            call_command("migrate", verbosity=0)
        assert triggers() == TRIGGERS
    finally:
        run_sql("ALTER TABLE elsewhere RENAME TO memoryhub_runchanges")
        MigrationRecorder(connection).record_applied("memoryhub", last)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("lost", ["DELETE FROM django_migrations", "DROP TABLE django_migrations"])
def test_a_store_without_a_record_of_migrations_is_not_migrated(lost):
    applied = list(MigrationRecorder(connection).applied_migrations())
    run_sql(lost)
    out = StringIO()
    try:
        with pytest.raises(CommandError, match=r"record of migrations .* Nothing was changed.* salvage FILE"):
            call_command("migrate", verbosity=0)
        assert triggers() == TRIGGERS
        with pytest.raises(CommandError):
            call_command("doctor", stdout=out)
        assert "manage.py salvage FILE" in out.getvalue()
    finally:
        recorder = MigrationRecorder(connection)
        for app, name in applied:
            recorder.record_applied(app, name)

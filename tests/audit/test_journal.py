"""The journal: append-only, chained, in the transaction of the change, and without any memory's text."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal, mirror
from memoryhub.backends import schema
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.facts import services
from memoryhub.memories.delete import evict_memories
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.versions import memory_journal
from memoryhub.models import JournalEntry, Memory
from tests.cases import rolled_back
from tests.database import run_sql, without_journal_triggers

TABLE = "memoryhub_journalentry"
COLUMNS = [
    "seq",
    "at",
    "actor",
    "operation",
    "object_type",
    "object_id",
    "project",
    "sensitivity",
    "owner",
    "detail",
    "hash",
]


@pytest.fixture
def five_rows(remember):
    for n in range(5):
        remember(f"memory {n} über 記憶", project="zoo", scope="personal" if n % 2 else "project")


def tamper(sql: str, *params) -> None:
    """Change rows like an attacker with access to the file, who drops the triggers first."""
    schema.drop_triggers()
    if IS_POSTGRES:
        run_sql(sql, *params)
        return
    run_sql("PRAGMA ignore_check_constraints = ON")
    try:
        run_sql(sql, *params)
    finally:
        run_sql("PRAGMA ignore_check_constraints = OFF")


@pytest.mark.conformance("guide-69", "store-33")
@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE {TABLE} SET actor = 'someone else' WHERE seq = 2",
        f"UPDATE {TABLE} SET seq = 99 WHERE seq = 5",
        f"DELETE FROM {TABLE} WHERE seq = 5",
        f"DELETE FROM {TABLE}",
        *(
            pytest.param(sql, marks=pytest.mark.sqlite)
            for sql in (
                f"INSERT OR REPLACE INTO {TABLE} SELECT * FROM {TABLE} WHERE seq = 2",
                f"REPLACE INTO {TABLE} SELECT * FROM {TABLE}",
            )
        ),
    ],
)
def test_database_refuses_to_change_a_row(five_rows, sql):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run_sql(sql)
    assert journal.verify() == journal.Verification(True, 5, None)


@pytest.mark.conformance("store-33")
def test_orm_cannot_change_a_row(five_rows):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        JournalEntry.objects.update(actor="x")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        JournalEntry.objects.all().delete()


def test_columns_are_all_covered():
    assert [field.column for field in JournalEntry._meta.concrete_fields] == COLUMNS


@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize("column", COLUMNS)
def test_changed_byte_in_any_column_is_detected(five_rows, column, seq):
    text = str(run_sql(f"SELECT CAST({column} AS TEXT) FROM {TABLE} WHERE seq = %s", seq)[0][0])
    if column == "seq":
        changed = str(seq + 40)  # a number of its own, one byte away is taken by a neighbour
    else:
        place = len(text) // 2
        changed = text[:place] + chr((ord(text[place]) if text else 64) ^ 1) + text[place + 1 :]
    tamper(f"UPDATE {TABLE} SET {column} = %s WHERE seq = %s", changed, seq)
    assert journal.verify() == journal.Verification(False, 5, seq)


@pytest.mark.sqlite
@pytest.mark.parametrize("column", [column for column in COLUMNS if column != "seq"])
def test_invalid_utf8_is_detected(five_rows, column):
    tamper(f"UPDATE {TABLE} SET {column} = CAST(x'fffe' AS TEXT) WHERE seq = 2")
    assert journal.verify() == journal.Verification(False, 5, 2)


def test_text_moved_between_columns_is_detected(five_rows):
    tamper(f"UPDATE {TABLE} SET project = project || sensitivity, sensitivity = '' WHERE seq = 2")
    assert journal.verify().first_bad_seq == 2


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_deleted_row_is_detected(five_rows, seq):
    tamper(f"DELETE FROM {TABLE} WHERE seq = %s", seq)
    assert journal.verify() == journal.Verification(False, 4, seq)


def test_inserted_row_is_detected(five_rows):
    columns = ", ".join(COLUMNS[1:])
    tamper(f"INSERT INTO {TABLE} (seq, {columns}) SELECT 6, {columns} FROM {TABLE} WHERE seq = 2")
    assert journal.verify() == journal.Verification(False, 6, 6)


def test_row_inserted_in_the_middle_is_detected(five_rows):
    columns = ", ".join(COLUMNS[1:])
    tamper(f"UPDATE {TABLE} SET seq = seq + 100 WHERE seq > 2")
    run_sql(f"UPDATE {TABLE} SET seq = seq - 99 WHERE seq > 100")
    run_sql(f"INSERT INTO {TABLE} (seq, {columns}) SELECT 3, {columns} FROM {TABLE} WHERE seq = 2")
    assert journal.verify().first_bad_seq == 3


def test_swapped_rows_are_detected(five_rows):
    tamper(f"UPDATE {TABLE} SET seq = 99 WHERE seq = 2")
    run_sql(f"UPDATE {TABLE} SET seq = 2 WHERE seq = 3")
    run_sql(f"UPDATE {TABLE} SET seq = 3 WHERE seq = 99")
    assert journal.verify().first_bad_seq == 2


def test_later_rows_do_not_hide_tampering(five_rows, remember):
    tamper(f"UPDATE {TABLE} SET actor = 'x' WHERE seq = 2")
    schema.install()
    remember("one more")
    assert journal.verify() == journal.Verification(False, 6, 2)


def test_hash_is_as_documented(remember):
    """Recomputes the hash from the stored texts, so that the scheme cannot change unnoticed."""
    for n in range(3):
        remember(f"memory {n}", project="zoo é", importance=0.3)
    previous = "0" * 64
    for row in run_sql(journal.STORED_BYTES_SQL):
        *stored, digest = (cell.decode() for cell in row)
        text = "".join(f"{len(value)}:{value}" for value in stored) + previous
        assert hashlib.sha256(text.encode()).hexdigest() == digest
        previous = digest


def test_chain_continues_across_transactions(db, actor, configure):
    configure(max_memories=0)
    for n in range(4):
        memories.create_memories([MemoryDraft(content=f"{n}/{i}") for i in range(300)], actor)
    memories.trash_memories(list(Memory.objects.values_list("uid", flat=True)[:700]), actor)
    assert journal.verify() == journal.Verification(True, 1900, None)
    assert list(JournalEntry.objects.order_by("seq").values_list("seq", flat=True)) == list(range(1, 1901))


@pytest.mark.conformance("pigo-23")
def test_rolled_back_change_leaves_no_row(remember, actor):
    remember("kept")
    with rolled_back():
        remember("undone")
    remember("kept too")
    assert journal.verify() == journal.Verification(True, 2, None)


@pytest.mark.django_db(transaction=True)
def test_row_without_transaction_is_refused(actor):
    with pytest.raises(transaction.TransactionManagementError):
        journal.record(actor, [journal.Change("insert", "memory")])


def test_journal_contains_no_text_of_a_memory(remember, actor):
    words = {
        name: f"xylophone{name}"
        for name in ("content", "title", "subtitle", "abstract", "overview", "category")
    }
    lists = {
        "tags": ["xylophonetag"],
        "aliases": ["xylophonealias"],
        "concepts": ["xylophoneconcept"],
        "files_read": ["src/xylophone.py"],
    }
    entities = [{"entity": "xylophoneentity"}]
    memory = remember(**words, **lists, entities=entities, sensitivity="secret")
    memories.update_memory(memory.uid, MemoryPatch(content="xylophone again", tags=["xylophone"]), actor)
    memories.create_memory(MemoryDraft(content="xylophone again"), actor)
    services.create_fact(FactDraft(subject="xylophone", predicate="xylophone", object="xylophone"), actor)
    memories.trash_memories([memory.uid], actor)
    memories.restore_memories([memory.uid], actor)
    memories.apply_bulk_action("expire", [memory.uid], actor)
    memories.restore_memories([memory.uid], actor)
    memories.erase_memories([memory.uid], actor)
    everything = run_sql(f"SELECT * FROM {TABLE}")
    assert len(everything) == 9
    assert "xylophone" not in str(everything)


@pytest.mark.conformance("guide-69", "store-8", "store-31")
def test_every_operation_records_actor_and_object(remember, actor):
    memory = remember("words", key="k")
    memories.create_memory(MemoryDraft(content="words"), actor)
    memories.create_memory(MemoryDraft(content="other words", key="k"), actor)
    memories.update_memory(memory.uid, MemoryPatch(importance=0.9), actor)
    memories.apply_bulk_action("expire", [memory.uid], actor)
    memories.restore_memories([memory.uid], actor)
    memories.trash_memories([memory.uid], actor)
    memories.restore_memories([memory.uid], actor)
    evict_memories(Q(project=""), 1, actor, timezone.now())
    memories.restore_memories([memory.uid], actor)
    memories.erase_memories([memory.uid], actor)
    rows = JournalEntry.objects.order_by("seq")
    assert [row.operation for row in rows] == (
        "insert dedup_refresh update update expire restore delete restore evict restore erase".split()
    )
    assert {(row.actor, row.object_type, row.object_id) for row in rows} == {
        ("token:tests", "memory", memory.uid)
    }
    assert all(row.detail["content_hash"] for row in rows)
    assert rows[3].detail["fields"] == ["importance"]


def test_reads_and_refused_writes_leave_no_row(remember, low):
    memory = remember("words", sensitivity="secret")
    memories.count_accesses([memory])
    memories.trash_memories([memory.uid], low)
    assert JournalEntry.objects.count() == 1


def test_update_without_change_leaves_no_row(remember, actor):
    memory = remember("words", importance=0.5)
    memories.update_memory(memory.uid, MemoryPatch(importance=0.5, content="words", tags=[]), actor)
    assert JournalEntry.objects.count() == 1


DETAILS = st.dictionaries(
    st.text(max_size=20),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=5,
)
NAMES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)


def as_numbers(value: Any) -> Any:
    """Return a document whose large integers are floats: PostgreSQL returns a large float as an integer."""
    if isinstance(value, dict):
        return {name: as_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_numbers(one) for one in value]
    return float(value) if isinstance(value, int) and 2**53 < abs(value) <= sys.float_info.max else value


@given(DETAILS, NAMES, NAMES, NAMES)
def test_any_recorded_change_verifies(db, actor, detail, operation, project, owner):
    with rolled_back():
        writer = replace(actor, name=owner)
        changes = [journal.Change(operation, "memory", project, detail, project, "public", owner)] * 2
        journal.record(writer, changes, timezone.now())
        assert journal.verify() == journal.Verification(True, 2, None)
        row = JournalEntry.objects.get(seq=2)
        same = as_numbers if IS_POSTGRES else lambda value: value
        assert same(row.detail) == same(json.loads(json.dumps(detail)))
        assert journal.to_line(row)["hash"] == row.hash


@pytest.mark.parametrize("level", ["public", "private", "secret"])
def test_rows_about_a_memory_equal_the_visible_rows(
    remember: Callable[..., Memory], actor: Actor, level: str
) -> None:
    memory = remember("first")
    memories.update_memory(memory.uid, MemoryPatch(content="second", sensitivity="secret"), actor)
    memories.update_memory(memory.uid, MemoryPatch(content="third", sensitivity="public"), actor)
    remember("another memory")
    clearance = Clearance.up_to(level, "bob")
    whole: Any = JournalEntry.objects.visible_to(clearance).filter(object_type="memory", object_id=memory.uid)
    assert list(memory_journal(memory, clearance)) == list(whole.order_by("-seq"))
    assert whole.count() == {"public": 2, "private": 2, "secret": 3}[level]


def test_chain_is_verified_in_pages(remember, monkeypatch):
    monkeypatch.setattr(journal, "_PAGE_SIZE", 3)
    for number in range(7):
        remember(f"memory {number}")
    with CaptureQueriesContext(connection) as queries:
        assert journal.verify_chain() == journal.Verification(True, 7)
    assert all("LIMIT 3" in one["sql"] for one in queries.captured_queries)
    with without_journal_triggers():
        run_sql("UPDATE memoryhub_journalentry SET actor = 'other' WHERE seq = 4")
        assert journal.verify_chain() == journal.Verification(False, 7, 4)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "text", ["half of a pair \ud800", "NUL \x00", "both halves \U0001f600", "\\u0000 \\ud800"]
)
def test_detail_that_postgres_cannot_store_is_intact(actor: Actor, text: str) -> None:
    with transaction.atomic():
        journal.record(actor, [journal.Change("test", "store", "", {"name": text})])
    assert JournalEntry.objects.get().detail == {"name": text}
    assert journal.verify_chain().ok
    assert [line["detail"] for line in mirror.lines_after(0)] == [{"name": text}]

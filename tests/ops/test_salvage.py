"""``salvage`` copies every readable row; ``doctor --fix`` rebuilds any index from the rows."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.backends.sqlite.page_reader import PageReader
from memoryhub.core import database
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Fact, Memory
from memoryhub.ops import salvage
from memoryhub.ops.doctor import Status, examine
from tests.commands.conftest import home, own_store, run  # noqa: F401 fixtures
from tests.commands.examining import WRITER, named, remember
from tests.ops.damaging import damage_statement, leaf_pages, overwrite_pages, replace_in_statement, root_page

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 40


def contents() -> set[str]:
    return set(Memory.objects.values_list("content", flat=True))


@pytest.fixture
def store(own_store) -> Path:  # noqa: F811
    """A store with memories of all lengths, a fact and an erased memory."""
    drafts = [
        MemoryDraft(content=f"memory {n} " + "long words " * (n * 40), tags=[f"tag{n}"], importance=n / COUNT)
        for n in range(COUNT)
    ]
    memories.create_memories(drafts, WRITER)
    services.create_fact(FactDraft(subject="a", predicate="is", object="b"), WRITER)
    memories.erase_memories([remember("erased").uid], WRITER)
    return own_store


@pytest.fixture
def target(tmp_path) -> Path:
    return tmp_path / "new.db"


def rows(path: Path, table: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as file:
        return sorted(file.execute(f"SELECT * FROM {table}"), key=repr)


def columns_of(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [name for (name,) in file.execute("SELECT name FROM pragma_table_info(?)", [table])]


def newest_migration() -> str:
    [(_, name)] = MigrationLoader(None).graph.leaf_nodes("memoryhub")
    return name


def all_tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%stat%'")
        return [name for (name,) in found]


def test_sound_store_is_copied_exactly(store, target, run):  # noqa: F811
    connection.close()
    found = salvage.salvage(store, target)
    assert found.is_whole
    assert target.stat().st_mode & 0o777 == 0o600
    for table in all_tables(target):
        assert rows(target, table) == rows(store, table), table
    assert run("salvage", target).code == 1  # it exists now


def test_salvaged_store_can_be_put_in_place(store, target, run):  # noqa: F811
    before = contents()
    assert run("salvage", target).code == 0
    assert run("restore_backup", target, "--yes").code == 0
    assert contents() == before
    assert Fact.objects.count() == 1
    assert schema.find_problems(deep=True) == []
    assert journal.verify().ok


@pytest.mark.parametrize("number", [0, 3, -1])
def test_rows_of_other_pages_are_copied(store, target, run, number):  # noqa: F811
    before = contents()
    page = leaf_pages(store, "memoryhub_memory")[number]
    overwrite_pages(store, page)
    ran = run("salvage", target, "--all")
    assert ran.code == 1
    assert f"Lost: memoryhub_memory: unreadable: page {page}" in ran.out
    assert run("restore_backup", target, "--yes").code == 0
    left = contents()
    assert left < before
    assert len(before) - len(left) <= 8
    assert ran.out.count("Lost: memory ") == len(before) - len(left)
    assert schema.find_problems(deep=True) == []


@pytest.mark.parametrize("table", ["memoryhub_memory", "memoryhub_journalentry"])
def test_all_rows_are_copied_if_only_the_first_page_of_a_table_is_damaged(store, target, run, table):  # noqa: F811
    before = contents()
    overwrite_pages(store, root_page(store, table))
    run("salvage", target)
    assert run("restore_backup", target, "--yes").code == 0
    assert contents() == before
    assert journal.verify().ok


@pytest.mark.parametrize("first", [0, 1])
def test_rows_are_copied_if_pages_of_the_schema_are_damaged(store, target, run, first):  # noqa: F811
    before = contents()
    with closing(sqlite3.connect(store)) as file:
        where = "WHERE name = 'sqlite_master' OR name = 'sqlite_schema'"
        pages = [row[0] for row in file.execute(f"SELECT pageno FROM dbstat {where}")]
    assert len(pages) > 2
    overwrite_pages(store, *sorted(pages)[first:])
    run("salvage", target)
    assert run("restore_backup", target, "--yes").code == 0
    assert contents() == before
    assert Fact.objects.count() == 1
    assert journal.verify().ok


@pytest.mark.parametrize("offset", [2, 14, 83])  # in CREATE, in the name of the table, in that of a column
def test_rows_are_copied_if_a_statement_of_the_schema_is_damaged(store, target, run, offset):  # noqa: F811
    before = contents()
    damage_statement(store, "memoryhub_memory", offset)
    assert "the statement of memoryhub_memory" in run("salvage", target).out
    assert run("restore_backup", target, "--yes").code == 0
    assert contents() == before


def test_rows_are_copied_if_the_name_of_a_column_is_another_word(store, target, run):  # noqa: F811
    before = contents()
    replace_in_statement(store, "memoryhub_memory", b'"content"', b'"contenu"')
    assert "the statement of memoryhub_memory" in run("salvage", target).out
    assert run("restore_backup", target, "--yes").code == 0
    assert contents() == before


def test_columns_of_another_release_are_copied_as_they_are(store, target, run):  # noqa: F811
    MigrationRecorder(connection).record_unapplied("memoryhub", newest_migration())
    replace_in_statement(store, "memoryhub_memory", b'"content"', b'"contenu"')
    assert "the statement of" not in run("salvage", target).out
    assert "contenu" in columns_of(target, "memoryhub_memory")


def test_rows_that_belong_to_lost_memories_are_removed(store, target, run):  # noqa: F811
    overwrite_pages(store, *leaf_pages(store, "memoryhub_memory")[:4])
    run("salvage", target)
    with closing(sqlite3.connect(target)) as file:
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_lost_journal_rows_are_named_and_need_force(store, target, run):  # noqa: F811
    overwrite_pages(store, leaf_pages(store, "memoryhub_journalentry")[0])
    ran = run("salvage", target)
    assert "the journal is not whole: row 1 is missing" in ran.out
    assert f"restore_backup {target} --yes --force" in ran.out
    assert run("restore_backup", target, "--yes", "--force").code == 0
    assert len(contents()) == COUNT


def test_erased_rows_do_not_return(store, target, run):  # noqa: F811
    overwrite_pages(store, root_page(store, "memoryhub_memory"))
    run("salvage", target)
    with closing(sqlite3.connect(target)) as file:
        assert file.execute("SELECT content FROM memoryhub_memory WHERE content = 'erased'").fetchall() == []


def test_row_with_a_damaged_overflow_page_is_lost_alone(store, target, run):  # noqa: F811
    with closing(sqlite3.connect(store)) as file:
        sql = "SELECT pageno FROM dbstat WHERE name = 'memoryhub_memory' AND pagetype = 'overflow'"
        pages = [page for (page,) in file.execute(sql)]
    overwrite_pages(store, pages[len(pages) // 2])
    ran = run("salvage", target)
    assert "unreadable: a row on page" in ran.out
    assert len(rows(target, "memoryhub_memory")) == COUNT - 1


def test_changes_in_the_log_are_copied(store, target):
    remember("only in the log")
    assert Path(f"{store}-wal").stat().st_size
    connection.close()
    salvage.salvage(store, target)
    assert len(rows(target, "memoryhub_memory")) == COUNT + 1


def test_store_in_use_is_refused(store, target, run):  # noqa: F811
    with closing(sqlite3.connect(store)) as server:
        server.execute("SELECT count(*) FROM memoryhub_memory").fetchone()
        ran = run("salvage", target)
    assert ran.code == 1
    assert "is in use; stop the server" in ran.err
    assert not target.exists()


@pytest.mark.sqlite
@pytest.mark.parametrize("content", [b"", b"no database " * 500])
def test_a_file_that_is_not_a_store_is_refused(tmp_path, target, run, content):  # noqa: F811
    path = tmp_path / "x.db"
    path.write_bytes(content)
    ran = run("salvage", target, "--from", path)
    assert ran.code == 1
    assert str(path) in ran.err
    assert not target.exists()


def test_random_bytes_never_break_the_reader(store, target, tmp_path):
    import random

    connection.close()
    random_bytes = random.Random(7)
    whole = store.read_bytes()
    for _ in range(30):
        spoilt = bytearray(whole)
        for _ in range(20):
            at = random_bytes.randrange(100, len(spoilt))
            spoilt[at : at + 40] = random_bytes.randbytes(40)
        path = tmp_path / "spoilt.db"
        path.write_bytes(spoilt[: len(whole)])
        lost: list[str] = []
        with PageReader(path) as reader:
            for root in range(1, 30):
                list(reader.read_table(root, lost))
            list(reader.orphans())


# doctor --fix


def integrity(*, fix: bool) -> Status:
    return next(examine([named("integrity")], fix=fix)).status


INDEXES = [
    "memory_updated",
    "sqlite_autoindex_memoryhub_memory_1",
    "journal_operation",
    "memoryhub_text_data",
    "memoryhub_text_idx",
    "memoryhub_trigram_docsize",
]


@pytest.mark.parametrize("name", INDEXES)
def test_doctor_rebuilds_an_index_with_a_damaged_page(store, name):
    before = contents()
    overwrite_pages(store, root_page(store, name))
    assert integrity(fix=False) is Status.FAIL
    assert integrity(fix=True) is Status.OK
    assert contents() == before
    assert schema.find_problems(deep=True) == []
    assert Memory.objects.search("memory").count() == COUNT
    assert journal.compare_mirror().in_step
    assert not database.is_damage_recorded()


@pytest.mark.parametrize("name", ["memory_updated", "memoryhub_trigram_data"])
def test_doctor_rebuilds_an_index_with_a_damaged_leaf_page(store, name):
    overwrite_pages(store, leaf_pages(store, name)[-1])
    assert integrity(fix=True) is Status.OK
    assert Memory.objects.search("memory").count() == COUNT


def test_doctor_rebuilds_an_index_that_lacks_rows(store):
    connection.close()
    with closing(sqlite3.connect(store, isolation_level=None)) as file:
        file.execute("PRAGMA writable_schema = ON")
        sql = "UPDATE sqlite_master SET sql = replace(sql, '(', ' (') WHERE name = 'memory_updated'"
        file.execute(sql)
        [page] = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'memory_created'").fetchone()
        file.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'memory_updated'", [page])
    assert integrity(fix=False) is Status.FAIL
    assert integrity(fix=True) is Status.OK


def test_doctor_does_not_replace_a_store_that_has_lost_rows(store):
    overwrite_pages(store, leaf_pages(store, "memoryhub_memory")[3])
    report = next(examine([named("integrity")], fix=True))
    assert report.status is Status.FAIL
    assert "manage.py salvage" in report.findings[-1].text
    assert os.listdir(store.parent).count("memory.db") == 1
    assert not list(store.parent.glob("*before-restore*"))


def test_doctor_asks_to_stop_the_server(store):
    overwrite_pages(store, root_page(store, "memory_updated"))
    with closing(sqlite3.connect(store)) as server:
        server.execute("SELECT count(*) FROM memoryhub_fact").fetchone()
        report = next(examine([named("integrity")], fix=True))
    assert "stop the server" in report.findings[-1].text

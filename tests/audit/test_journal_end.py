"""A journal that lost its newest rows is a whole chain; the mirror still names them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.backends import schema
from tests import disk
from tests.conftest import run_sql

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = "memoryhub_journalentry"


@pytest.fixture
def five_rows(remember):
    for n in range(5):
        remember(f"memory {n}")


def cut_off(after: int) -> None:
    schema.drop_triggers()
    run_sql(f"DELETE FROM {TABLE} WHERE seq > %s", after)
    schema.install()


def test_rows_cut_off_at_the_end_are_detected(five_rows):
    assert journal.verify().ok
    cut_off(3)
    assert journal.verify() == journal.Verification(False, 3, 4)


def test_emptied_journal_is_detected(five_rows):
    cut_off(0)
    assert journal.verify() == journal.Verification(False, 0, 1)


def test_rewritten_end_is_detected(five_rows, actor, remember, journal_mirror):
    mirrored = journal_mirror.read_bytes()
    cut_off(4)
    journal_mirror.unlink()
    remember("another fifth")
    journal_mirror.write_bytes(mirrored)
    assert journal.verify() == journal.Verification(False, 5, 5)


def test_mirror_of_another_store_is_ignored(five_rows, journal_mirror):
    other = journal_mirror.read_text().replace('"hash":"', '"hash":"0')
    journal_mirror.write_text(other + other)
    assert journal.verify().ok


def test_row_cannot_be_replaced_with_default_settings(five_rows):
    file = sqlite3.connect(connection.settings_dict["NAME"])
    try:
        with pytest.raises(sqlite3.DatabaseError, match="append-only"):
            file.execute(f"INSERT OR REPLACE INTO {TABLE} SELECT * FROM {TABLE} WHERE seq = 2")
    finally:
        file.close()


READER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN"); file.execute("SELECT count(*) FROM memoryhub_memory").fetchone()
print("reading", flush=True); sys.stdin.readline()
"""


def test_erase_during_a_read_cleans_the_log_later(remember, actor):
    name = connection.settings_dict["NAME"]
    gone = remember("the xylophonequark is secret")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with reader:
        assert reader.stdout.readline() == "reading\n"
        began = time.monotonic()
        memories.erase_memories([gone.uid], actor)
        assert time.monotonic() - began < 10  # the reader's patience, 20 s, is not waited for
        reader.stdin.write("\n")
        reader.stdin.close()
    for _ in range(100):
        time.sleep(0.1)
        if b"xylophonequark" not in disk.read_bytes(name + "-wal"):
            break
    else:
        pytest.fail("the log still holds what was erased")
    assert b"xylophonequark" not in disk.read_bytes(name)

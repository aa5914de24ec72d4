"""The chain is checked byte by byte, also where the bytes are no text any more."""

import pytest
from django.db import connection

from memoryhub import journal
from memoryhub.search import schema


def tamper(sql: str) -> None:
    with schema.without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute(sql)


def test_an_untouched_journal_is_whole(remember):
    for n in range(5):
        remember(f"memory {n} über 記憶")
    assert journal.verify() == journal.Verification(True, 5, None)


@pytest.mark.parametrize(
    "change",
    [
        "actor = actor || 'x'",
        "operation = 'update'",
        "project = ' '",
        "sensitivity = 'secret'",
        "detail = ' ' || detail",
        "detail = '{}'",
        "actor = CAST(x'ff22' AS TEXT)",
        "at = substr(at, 1, 10)",
        "hash = lower(hex(randomblob(32)))",
        "seq = 9",
    ],
)
def test_any_changed_column_of_a_row_is_found(remember, change):
    for n in range(4):
        remember(f"memory {n}")
    tamper(f"UPDATE memoryhub_journalentry SET {change} WHERE seq = 3")
    found = journal.verify()
    assert (found.ok, found.rows, found.first_bad_seq) == (False, 4, 3)


def test_a_missing_row_is_found(remember):
    for n in range(4):
        remember(f"memory {n}")
    tamper("DELETE FROM memoryhub_journalentry WHERE seq = 2")
    assert journal.verify() == journal.Verification(False, 3, 2)


def test_an_empty_journal_is_whole(db):
    assert journal.verify() == journal.Verification(True, 0, None)

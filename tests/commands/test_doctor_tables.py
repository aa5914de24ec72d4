"""``doctor``: missing tables and indexes are named, and repaired where that is safe."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.commands.conftest import tamper

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


def test_missing_table_is_named_with_a_hint(run, sound):
    tamper(sound, "DROP TABLE memoryhub_fact")
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  tables: table memoryhub_fact is missing" in ran.out
    assert "→ Restore a backup" in ran.out
    assert "cannot be read" not in ran.out


@pytest.mark.slow
def test_missing_indexes_are_named_and_rebuilt(run, sound):
    found = [index_named(start) for start in ("memory_key_once", "memoryhub_fact_updated_at_")]
    tamper(sound, *(f"DROP INDEX {name}" for name in found))
    reported, fixed = run("doctor").out, run("doctor", "--fix").out
    assert "index memory_key_once of table memoryhub_memory is missing" in reported
    assert "index of updated_at of table memoryhub_fact is missing" in reported
    assert fixed.count("made index") == 2
    assert "OK    indexes" in run("doctor").out


def index_named(start):
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE %s", [f"{start}%"])
        [[found]] = cursor.fetchall()
    return found

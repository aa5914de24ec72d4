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
@pytest.mark.parametrize("name", ["memory_key_once", "memoryhub_fact_updated_at_"])
def test_missing_index_is_named_and_rebuilt(run, sound, name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE %s", [f"{name}%"])
        [[found]] = cursor.fetchall()
    tamper(sound, f"DROP INDEX {found}")
    assert "WARN  indexes: index" in run("doctor").out
    assert "made index" in run("doctor", "--fix").out
    assert "OK    indexes" in run("doctor").out

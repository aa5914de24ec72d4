"""Statements of a write on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.statements import read_state_before_store
from memoryhub.core.database import Deadline, fetch_all, fetch_one
from memoryhub.core.text import new_uid
from memoryhub.models import Memory

pytestmark = [
    pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL"),
    pytest.mark.django_db,
]


@pytest.fixture
def prepare_threshold(db):
    """Prepare each statement that a transaction repeats."""
    connection.ensure_connection()
    connection.connection.prepare_threshold = 1
    yield
    connection.connection.prepare_threshold = None


def prepared_statements() -> list[str]:
    return [text for (text,) in fetch_all("SELECT statement FROM pg_prepared_statements")]


def test_repeated_statements_of_a_store_are_prepared(prepare_threshold, remember):
    for number in range(3):
        remember(f"memory {number}", tags=["a"])
    prepared = prepared_statements()
    for table in ("memory", "label", "journalentry"):
        assert any(text.startswith(f'INSERT INTO "memoryhub_{table}"') for text in prepared), prepared


def test_no_statement_is_prepared_by_default(remember):
    """Versions of PgBouncer before 1.21 lose prepared statements."""
    for number in range(7):
        remember(f"memory {number}")
    assert not prepared_statements()


def test_prepared_statements_of_a_read_with_a_deadline_are_not_used(prepare_threshold):
    for _ in range(3):
        with Deadline(60_000).reading():
            assert fetch_one("SELECT count(*) FROM memoryhub_memory WHERE project = %s", ["p"]) == (0,)
    assert not any("project = $1" in text for text in prepared_statements())


def test_room_of_a_project_is_looked_up_in_the_index() -> None:
    memories = (Memory(uid=new_uid(), content_hash=f"{n}", project=f"{n % 100}") for n in range(2000))
    Memory.objects.bulk_create(memories)
    plan: list[str] = []

    def explain(execute: Callable[..., Any], statement: str, *arguments: Any) -> Any:
        execute(f"SET LOCAL enable_seqscan = off; ANALYZE memoryhub_memory; EXPLAIN {statement}", *arguments)
        arguments[-1]["cursor"].nextset()
        arguments[-1]["cursor"].nextset()
        plan.extend(line for (line,) in arguments[-1]["cursor"].fetchall())
        return execute(statement, *arguments)

    with transaction.atomic(), connection.execute_wrapper(explain):
        read_state_before_store(["0" * 64], ["a"], 1000, timezone.now())
    assert any(re.search(r"Index Cond: .*\bproject\b.* = ANY", line) for line in plan), plan

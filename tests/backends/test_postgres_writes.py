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
from memoryhub.core.text import new_uid
from memoryhub.models import Memory

pytestmark = [
    pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL"),
    pytest.mark.django_db,
]


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

"""Indexes used by the queries of every page, which keep 100,000 memories fast."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts
from memoryhub.stats.counts import Reviewer
from tests.cases import created_by_day


def live() -> MemoryQuerySet:
    found: MemoryQuerySet = Memory.objects.visible_to(Clearance.up_to("secret", owner="ada")).live()
    return found


def plan(ask: Callable[[], Any]) -> list[str]:
    """Return the query plan of the only captured query."""
    asked: list[tuple[str, Any]] = []

    def write_down(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(write_down):
        ask()
    ((sql, params),) = asked
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
        return [step for *_, step in cursor.fetchall()]


@pytest.mark.sqlite
def test_facets_are_counted_from_the_access_index_without_sorting(db: None) -> None:
    steps = plan(lambda: counts.top_facets(live()))
    assert any("memoryhub_memory USING COVERING INDEX memory_gate" in step for step in steps)
    assert not any("TEMP B-TREE" in step for step in steps)


@pytest.mark.sqlite
def test_days_are_counted_from_the_access_index(db: None) -> None:
    assert "USING COVERING INDEX memory_gate" in plan(lambda: created_by_day(live()))[0]


@pytest.mark.sqlite
def test_review_queue_uses_partial_indexes(db: None) -> None:
    reader = Reviewer("user:ada", timezone.now() - timedelta(days=1))
    steps = plan(lambda: counts.count_waiting(live(), reader, 99))
    used = [step.split("USING INDEX ")[1].split()[0] for step in steps if "INDEX memory_" in step]
    assert used == [f"memory_{name}" for name in ("created", "imported", "unsure", "flagged", "outdated")]

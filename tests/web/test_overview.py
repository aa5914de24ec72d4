"""Counts over what one clearance may see."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.stats import counts


def test_facets_count_each_value_most_first(remember: Any) -> None:
    remember("one", type="bugfix", project="zoo")
    remember("two", type="feature", project="zoo")
    remember("three", type="bugfix", project="town", category="road")
    found = counts.facets(Memory.objects.all())
    assert list(found["type"].items()) == [("bugfix", 2), ("feature", 1)]
    assert list(found["project"].items()) == [("zoo", 2), ("town", 1)]
    assert list(found["category"].items()) == [("general", 2), ("road", 1)]
    assert found["sensitivity"] == {"public": 3}


def test_facets_take_one_query_and_keep_to_the_commonest(remember: Any) -> None:
    for number in range(25):
        remember(f"memory {number}", project=f"p{number:02}")
    with CaptureQueriesContext(connection) as queries:
        found = counts.facets(Memory.objects.all())
    assert len(queries) == 1
    assert list(found["project"]) == [f"p{number:02}" for number in range(20)]


def test_statistics_stay_behind_the_gate(four_levels: Any) -> None:
    public = counts.statistics(Clearance())
    assert (public["total"], public["by_sensitivity"]) == (1, {"public": 1})
    everything = counts.statistics(Clearance.up_to("secret"))
    assert everything["total"] == 3
    assert everything["by_project"] == {"zoo": 3}


def test_projects_near_the_cap_are_named(remember: Any, configure: Any) -> None:
    for number in range(5):
        remember(f"memory {number}", project="zoo")
    remember("memory", project="town")
    configure(max_memories=10, cap_warning_share=0.5)
    assert counts.near_cap(Memory.objects.all()) == {"zoo": 5}
    assert counts.statistics(Clearance())["near_cap"] == {"zoo": 5}
    configure(max_memories=0)
    assert counts.near_cap(Memory.objects.all()) == {}


def test_days_are_those_of_utc(remember: Any) -> None:
    remember("one", created_at=datetime.fromisoformat("2024-05-01T23:30:00-05:00"))
    remember("two", created_at=datetime(2024, 5, 2, 1, tzinfo=UTC))
    remember("three", created_at=datetime(2024, 5, 1, tzinfo=UTC))
    assert counts.per_day(Memory.objects.all()) == [
        (date(2024, 5, 1), "change", 1),
        (date(2024, 5, 2), "change", 2),
    ]

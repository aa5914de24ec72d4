"""Times in queries: the periods that they name, and the memories that were created then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.search.query_words import asks_for_time, find_periods, names_time

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Saturday


def days(query):
    return [(str(one.start), str(one.end)) for one in find_periods(query, NOW)]


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("the plant of 30 august, 2023", "2023-08-30", "2023-08-31"),
        ("the plant of august 30th 2023", "2023-08-30", "2023-08-31"),
        ("what happened on 2023-08-30?", "2023-08-30", "2023-08-31"),
        ("the plan of 2023-12", "2023-12-01", "2024-01-01"),
        ("the last week of december 2023", "2023-12-01", "2024-01-01"),
        ("releases of 2024", "2024-01-01", "2025-01-01"),
        ("what did we decide yesterday", "2026-11-27", "2026-11-28"),
        ("what did we decide today", "2026-11-28", "2026-11-29"),
        ("the outage last week", "2026-11-16", "2026-11-23"),
        ("the outage this week", "2026-11-23", "2026-11-30"),
        ("the outage of the past week", "2026-11-21", "2026-11-29"),
        ("invoices of last month", "2026-10-01", "2026-11-01"),
        ("invoices of this month", "2026-11-01", "2026-12-01"),
        ("budget of last year", "2025-01-01", "2026-01-01"),
        ("the meeting 3 days ago", "2026-11-25", "2026-11-26"),
        ("the meeting two or 2 weeks ago", "2026-11-11", "2026-11-18"),
        ("the meeting a month ago", "2026-10-14", "2026-11-14"),
    ],
)
def test_query_names_a_period(query, start, end):
    assert days(query) == [(start, end)]


def test_month_without_a_year_is_one_of_the_latest():
    assert days("the trip in august")[:2] == [("2026-08-01", "2026-09-01"), ("2025-08-01", "2025-09-01")]


@pytest.mark.parametrize(
    "query",
    [
        "may I march ahead",
        "port 2024:80",
        "version 2024.1 of node-2021",
        "31 february 2024",
        "2024-13-45",
        "99 years of solitude",
        "0 august 2023",
        "",
    ],
)
def test_query_without_a_date_names_no_period(query):
    assert days(query) == []


@pytest.mark.parametrize("query", ["99 years ago", "in august " * 40, "1900-01-01", "31 december 2099"])
def test_extreme_dates_are_answered(query):
    assert 1 <= len(find_periods(query, NOW)) <= 16


@pytest.mark.parametrize("now", [datetime.min, datetime(50, 1, 2), datetime.max])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_times_are_read_at_the_ends_of_the_calendar(now, zone):
    query = "yesterday, today, last week, last month, past year, last year, this year, 99 years ago, december"
    with timezone.override(zone):
        assert len(find_periods(query, now.replace(tzinfo=UTC))) >= 9


def test_question_asks_for_a_time_and_a_text_names_it():
    assert asks_for_time("when did the cluster move?")
    assert asks_for_time("on which day do we ship?")
    assert not asks_for_time("whenever it rains")
    assert not asks_for_time("what is the time limit?")
    assert names_time("We moved it two weeks ago")
    assert names_time("Since 2023")
    assert not names_time("We moved it to version 2023.1")


def found(query, **options):
    memories = Memory.objects.visible_to(Clearance()).live()
    return [hit.memory.content for hit in search_memories(memories, query, **options).hits]


@pytest.fixture
def three_releases(remember):
    """Store three notes with the same words, created at different times."""
    for day in ("2023-05-04", "2023-08-30", "2024-02-11"):
        remember(
            f"Release notes with a fix of the parser ({len(day)}{day[2:4]}{day[5:7]}x)",
            created_at=f"{day}T12:00:00Z",
        )


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("release of the parser on 30 August 2023", "102308x"),
        ("release of the parser in May 2023", "102305x"),
        ("release of the parser 2024", "102402x"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_memory_of_the_named_time_comes_first(three_releases, query, first, mode):
    assert first in found(query, mode=mode, min_score=0)[0]


def test_last_week_is_counted_from_now(remember):
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    remember("The backup of the archive failed here", created_at=now - timedelta(days=9))
    remember("The backup of the archive failed there", created_at=now - timedelta(days=90))
    Memory.objects.update(updated_at=now)
    assert "here" in found("backup of the archive that failed last week", now=now)[0]
    assert "there" in found("backup of the archive that failed last week", now=now - timedelta(days=81))[0]


def test_time_without_another_known_word_is_hardly_evidence(remember):
    for number in range(30):
        remember(f"Note {number} about gardens")
    assert found(f"zzzzqqqq unheard {timezone.now():%B %Y}") == []


def test_hidden_memory_of_the_named_time_does_not_change_a_score(remember):
    remember("A public note about the parser")

    def score():
        memories = Memory.objects.visible_to(Clearance()).live()
        return [
            hit.components.match for hit in search_memories(memories, "parser in May 2023", min_score=0).hits
        ]

    before = score()
    remember("A secret of that time", sensitivity="secret", created_at="2023-05-04T12:00:00Z")
    assert before == score() != []


def test_memory_that_says_when_answers_a_question_that_begins_with_when(remember):
    remember("Caroline visited the museum of art with friends")
    remember("Caroline visited the museum of art yesterday evening")
    assert "yesterday" in found("When was Caroline in the museum of art?")[0]

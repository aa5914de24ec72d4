"""The rows in memory always equal the queryset."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Q
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.backends.change_log import LogPosition
from memoryhub.core import dates
from memoryhub.models import Label, Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.search import visible_rows
from memoryhub.search.visible_rows import (
    COLUMNS,
    VisibleRows,
    clear_cache,
    count_rows,
    julian_day,
    load_visible_rows,
)


@pytest.fixture(autouse=True)
def _empty_cache():
    clear_cache()
    yield
    clear_cache()


def seen(level: str = "public") -> MemoryQuerySet:
    return Memory.objects.visible_to(Clearance.up_to(level, "ada")).live()


def loaded(memories: MemoryQuerySet) -> list[int]:
    return load_visible_rows(memories).pks.tolist()


def stored(memories: MemoryQuerySet) -> list[int]:
    return sorted(memories.values_list("pk", flat=True))


def test_columns_are_those_of_the_memory(remember):
    made = remember("four", importance=0.3, trust=0.9, session_id="s", project="zoo")
    [row] = load_visible_rows(seen()).columns
    assert (row["pk"], row["importance"], row["trust"], row["chars"]) == (made.pk, 0.3, 0.9, 4)
    assert row["updated"] == pytest.approx(julian_day(made.updated_at), abs=1e-7)
    assert row["expires"] == pytest.approx(julian_day(made.expires_at), abs=1e-7)


def test_rows_of_one_session_have_the_same_number(remember):
    for session, project in (("s", "zoo"), ("s", "zoo"), ("s", "farm"), ("", "zoo")):
        remember(f"text {Memory.objects.count()}", session_id=session, project=project)
    one, two, other, none = load_visible_rows(seen()).columns["session"].tolist()
    assert one == two != other
    assert none == 0


@pytest.mark.django_db(transaction=True)
class TestBetweenTransactions:
    def test_cached_rows_follow_every_change(self, remember):
        rows = [remember(f"text {n}") for n in range(6)]
        assert loaded(seen()) == stored(seen())
        changes = [
            lambda: remember("another"),
            lambda: Memory.objects.filter(pk=rows[0].pk).update(sensitivity="secret"),
            lambda: Memory.objects.filter(pk=rows[1].pk).update(deleted_at=timezone.now()),
            lambda: Memory.objects.filter(pk=rows[2].pk).update(scope="personal", owner="bob"),
            lambda: Memory.objects.filter(pk=rows[3].pk).update(expires_at=timezone.now()),
            lambda: Memory.objects.filter(pk=rows[4].pk).delete(),
            lambda: Memory.objects.filter(pk=rows[0].pk).update(sensitivity="public"),
        ]
        for change in changes:
            change()
            assert loaded(seen()) == stored(seen())

    def test_changed_values_are_read_again(self, remember):
        made = remember("text", importance=0.2)
        load_visible_rows(seen())
        Memory.objects.filter(pk=made.pk).update(importance=0.7, content="longer text")
        [row] = load_visible_rows(seen()).columns
        assert (row["importance"], row["chars"]) == (0.7, 11)

    def test_unchanged_rows_are_not_read_again(self, remember):
        remember("text")
        load_visible_rows(seen())
        Memory.objects.update(accessed_count=7)
        with CaptureQueriesContext(connection) as queries:
            load_visible_rows(seen())
        assert len(queries) == 1

    def test_rows_that_a_search_has_read_are_counted_without_the_database(self, remember, monkeypatch):
        for n in range(3):
            remember(f"text {n}")
        assert count_rows(seen()) == 3
        load_visible_rows(seen())
        with CaptureQueriesContext(connection) as queries:
            assert count_rows(seen()) == 3
        assert not any("COUNT" in query["sql"] for query in queries)
        remember("another")
        assert count_rows(seen()) == 4
        later = timezone.now() + timedelta(days=900)
        monkeypatch.setattr(timezone, "now", lambda: later)
        assert count_rows(seen()) == 0

    def test_rollback_leaves_no_row(self, remember):
        remember("text")
        before = loaded(seen())
        with transaction.atomic():
            remember("never stored")
            assert len(loaded(seen())) == 2
            transaction.set_rollback(True)
        assert loaded(seen()) == before
        remember("takes the key that was given back")
        assert loaded(seen()) == stored(seen())

    def test_memory_that_expires_is_removed_from_cached_rows(self, remember, monkeypatch):
        made = remember("text")
        later = made.expires_at + timedelta(seconds=1)
        assert loaded(seen()) == [made.pk]
        monkeypatch.setattr(timezone, "now", lambda: later)
        assert loaded(Memory.objects.visible_to(Clearance()).live(later)) == []

    def test_queryset_that_is_used_again_later_leaves_out_what_has_expired(self, remember, monkeypatch):
        made, memories = remember("text"), live_memories(Clearance())
        assert loaded(memories) == stored(memories) == [made.pk]
        later = made.expires_at + timedelta(seconds=1)
        monkeypatch.setattr(timezone, "now", lambda: later)
        memories = live_memories(Clearance())
        assert loaded(memories) == stored(memories) == []

    def test_cached_rows_are_found_without_compiling_the_queryset(self, remember, monkeypatch):
        made = remember("text")
        load_visible_rows(seen())
        monkeypatch.setattr(SQLCompiler, "as_sql", None)
        assert loaded(seen()) == [made.pk]

    @pytest.mark.parametrize(
        "narrow",
        [
            lambda rows: rows.filter(project="zoo"),
            lambda rows: rows.exclude(project="zoo"),
            lambda rows: rows.filter(Q(project="zoo") | Q(project="farm")),
            lambda rows: rows.filter(project__in=["zoo", "farm"]),
            lambda rows: rows.filter(created_at__gt=timezone.now() - timedelta(hours=1)),
            lambda rows: rows.filter(expires_at__gt=timezone.now() + timedelta(days=1000)),
            lambda rows: rows.filter(pk__in=Memory.objects.filter(project="zoo")),
            lambda rows: rows.filter(labels__value="cat"),
            lambda rows: rows.filter(content__contains="1"),
            lambda rows: rows.filter(flags=["odd"]),
            lambda rows: rows.filter(pk__in=[]),
            lambda rows: rows.none(),
        ],
    )
    def test_rows_of_one_filter_are_not_those_of_another(self, remember, narrow):
        for number, project in enumerate(("zoo", "farm", "town")):
            remember(f"text {number}", project=project, tags=["cat"] if number else [])
        load_visible_rows(seen())
        for memories in (narrow(seen()), seen(), narrow(seen())):
            assert loaded(memories) == stored(memories)

    def test_queryset_on_labels_follows_their_changes(self, remember):
        made = remember("text", tags=["zoo"])
        tagged = seen().labelled("tag", "zoo")
        assert loaded(tagged) == [made.pk]
        Label.objects.all().delete()
        assert loaded(tagged) == []

    def test_least_used_rows_leave_a_full_cache(self, remember, monkeypatch):
        monkeypatch.setattr(visible_rows, "MAX_CACHED_ROWS", 3)
        for n in range(2):
            remember(f"text {n}")
        load_visible_rows(seen())
        load_visible_rows(seen("private"))
        with CaptureQueriesContext(connection) as queries:
            load_visible_rows(seen("private"))
            load_visible_rows(seen())
        assert len(queries) == 3


@settings(max_examples=40)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([*LEVELS, "cosmic"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["", "ada", "bob"]),
        ),
        max_size=8,
    ),
    level=st.sampled_from(LEVELS),
    projects=st.sampled_from([None, [], ["a"], ["a", "b"]]),
)
def test_rows_equal_the_queryset_for_any_clearance(db, rows, level, projects):
    Memory.objects.all().delete()
    for number, (sensitivity, project, owner) in enumerate(rows):
        Memory.objects.create(
            uid=f"m{number}",
            content=str(number),
            content_hash=str(number),
            sensitivity=sensitivity,
            project=project,
            owner=owner,
            scope="personal" if owner else "project",
        )
    memories = Memory.objects.visible_to(Clearance.up_to(level, "ada", projects)).live()
    assert loaded(memories) == stored(memories)


def test_rows_that_a_request_had_no_time_to_read_are_read_in_the_background(db, monkeypatch):
    started: list[MemoryQuerySet] = []

    def interrupt(memories: MemoryQuerySet) -> None:
        raise OperationalError("interrupted")

    monkeypatch.setattr(visible_rows, "_read_columns", interrupt)
    monkeypatch.setattr(visible_rows, "load_in_background", started.append)
    memories = seen()
    with pytest.raises(OperationalError):
        load_visible_rows(memories)
    assert len(started) == 1
    assert started[0] is memories


def test_live_rows_have_the_position_of_the_rows_they_come_from():
    position = LogPosition(("era", 0, 0), last_vector=1, last_change=1, listed_from=1)
    columns = np.zeros(2, COLUMNS)
    columns["pk"], columns["expires"] = [1, 2], [10.0, np.inf]
    rows = VisibleRows(position, columns)
    assert rows.live_at(20.0).pks.tolist() == [2]
    later = VisibleRows(position._replace(last_vector=2), columns, rows.cached)
    assert later.live_at(20.0).position.last_vector == 2


def test_expired_rows_are_live_again_when_the_clock_is_found_ahead(transactional_db, remember):
    memory = remember("zebra")
    Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
    assert not len(load_visible_rows(Memory.objects.live()))
    dates.set_lead(timedelta(days=30))
    assert load_visible_rows(Memory.objects.live()).pks.tolist() == [memory.pk]

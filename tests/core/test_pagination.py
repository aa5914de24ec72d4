"""Pages and timelines contain every row once and in order. Invalid cursors are refused."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.core.pagination import InvalidCursor, paginate, seal, unseal
from memoryhub.memories.filters import ORDERS, MemoryFilter
from memoryhub.models import Event, JournalEntry, Memory, Session
from memoryhub.stats import timeline as timelines
from tests.cases import each, rolled_back

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
# Few distinct moments, so that many rows share one.
MOMENTS = st.integers(0, 3).map(lambda n: NOON + timedelta(microseconds=n))


def rows_of(times, **fields):
    return Memory.objects.bulk_create(
        Memory(content=f"{n}", content_hash=f"{n}", created_at=at, updated_at=at, **fields)
        for n, at in enumerate(times)
    )


def all_pages(rows, column, limit):
    shown, cursor = [], None
    while True:
        part = paginate(rows, column, limit, cursor)
        assert len(part.items) <= limit
        shown += part.items
        if (cursor := part.next_cursor) is None:
            return shown


@given(st.lists(MOMENTS, max_size=12), st.integers(1, 5), st.sampled_from(["updated_at", "created_at"]))
def test_pages_by_time_lose_and_repeat_nothing(db, times, limit, column):
    with rolled_back():
        rows_of(times)
        shown = all_pages(Memory.objects.all(), column, limit)
        assert shown == list(Memory.objects.order_by(f"-{column}", "-pk"))
        assert len(shown) == len(times)


@pytest.mark.slow
@given(st.lists(st.sampled_from([0.0, 0.1, 0.30000000000000004, 1 / 3, 1.0]), max_size=10), st.integers(1, 4))
def test_pages_by_importance_lose_and_repeat_nothing(db, values, limit):
    with rolled_back():
        for memory, value in zip(rows_of([NOON] * len(values)), values, strict=True):
            Memory.objects.filter(pk=memory.pk).update(importance=value, accessed_count=int(value * 3))
        for column in ("importance", "accessed_count"):
            assert all_pages(Memory.objects.all(), column, limit) == list(
                Memory.objects.order_by(f"-{column}", "-pk")
            )


def test_pages_of_the_journal(remember):
    for n in range(7):
        remember(f"{n}")
    shown = all_pages(JournalEntry.objects.all(), "seq", 3)
    assert [row.seq for row in shown] == [7, 6, 5, 4, 3, 2, 1]


def test_full_last_page_has_no_cursor(db):
    rows_of([NOON] * 4)
    first = paginate(Memory.objects.all(), "updated_at", 2, None)
    last = paginate(Memory.objects.all(), "updated_at", 2, first.next_cursor)
    assert (len(last.items), last.next_cursor) == (2, None)


def test_new_rows_do_not_shift_a_page(db):
    rows_of([NOON + timedelta(seconds=n) for n in range(4)])
    first = paginate(Memory.objects.all(), "updated_at", 2, None)
    Memory.objects.create(content="new", content_hash="new", updated_at=NOON + timedelta(days=1))
    second = paginate(Memory.objects.all(), "updated_at", 2, first.next_cursor)
    assert [row.content for row in first.items + second.items] == ["3", "2", "1", "0"]


def test_page_is_one_query(db, django_assert_num_queries):
    rows_of([NOON] * 9)
    with django_assert_num_queries(1):
        paginate(Memory.objects.all(), "updated_at", 3, None)


@pytest.mark.slow
@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_a_seal_opens_to_the_same_value_and_is_always_the_same(value):
    assert unseal(seal(value)) == value
    assert seal(value) == seal(value)


def test_a_seal_shows_nothing_and_cannot_be_changed_or_made_with_another_key(settings):
    sealed = seal(["seq", 81726354, 81726354])
    assert b"seq" not in base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    for at in range(0, len(sealed), 5):
        other = sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :]
        with pytest.raises(ValueError, match=r"sealed|padding"):
            unseal(other)
    settings.SECRET_KEY = "another"
    with pytest.raises(ValueError, match="sealed"):
        unseal(sealed)


encoded = seal
TIME = NOON.isoformat()
BAD = [
    "x",
    "%%%",
    "\u00e9",
    "=" * 40,
    encoded(None),
    encoded([]),
    encoded({}),
    encoded("updated_at"),
    encoded(["updated_at", TIME]),
    encoded(["updated_at", TIME, 1, 2]),
    encoded(["content", "x", 1]),
    encoded(["updated_at", None, 1]),
    encoded(["updated_at", "2024-05-01T12:00:00", 1]),
    encoded(["updated_at", "0001-01-01T00:00:00+14:00", 1]),
    encoded(["updated_at", "9999-12-31T23:59:59-14:00", 1]),
    encoded(["updated_at", "2024-02-31T00:00:00Z", 1]),
    encoded(["updated_at", 5, 1]),
    encoded(["updated_at", [TIME], 1]),
    encoded(["updated_at", TIME, "1"]),
    encoded(["updated_at", TIME, -1]),
    encoded(["updated_at", TIME, 2**63]),
    encoded(["updated_at", TIME, 1.5]),
    encoded([["updated_at"], TIME, 1]),
    base64.urlsafe_b64encode(json.dumps(["updated_at", TIME, 1]).encode()).decode(),
    base64.urlsafe_b64encode(b"[" * 5000).decode(),
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
]


@pytest.mark.parametrize("cursor", BAD, ids=range(len(BAD)))
def test_invalid_cursor_is_refused(db, cursor):
    with pytest.raises(InvalidCursor, match="next_cursor"):
        paginate(Memory.objects.all(), "updated_at", 5, cursor)


@each(
    "column, value",
    [
        ("importance", None),
        ("importance", "x"),
        ("importance", []),
        ("importance", "nan"),
        ("importance", "inf"),
        ("importance", 10**400),
        ("accessed_count", 10**30),
        ("accessed_count", -(10**30)),
        ("accessed_count", "1.5"),
        ("accessed_count", True),
        ("seq", 2**64),
    ],
)
def test_odd_value_in_a_cursor_is_refused_or_harmless(db, column, value):
    rows = JournalEntry.objects.all() if column == "seq" else Memory.objects.all()
    with suppress(InvalidCursor):
        paginate(rows, column, 5, encoded([column, value, 1]))


@given(st.text(max_size=60), st.sampled_from([order.removeprefix("-") for order in ORDERS]))
@example("a" * 5, "updated_at")
def test_any_cursor_is_handled(db, cursor, column):
    for read in (
        lambda: paginate(Memory.objects.all(), column, 5, cursor),
        lambda: timelines.load_timeline(CLEARANCE, MemoryFilter(), cursor=cursor),
    ):
        with suppress(InvalidCursor):
            read()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(TIME),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=6,
    ),
    st.sampled_from(["updated_at", "importance", "accessed_count"]),
)
def test_any_decodable_cursor_is_handled(db, value, column):
    for shaped in (
        value,
        [column, value, 5],
        [column, TIME, value],
        [value, 1, 5],
        [TIME, value, 5],
        [TIME, 2, value],
    ):
        for read in (
            lambda text: paginate(Memory.objects.all(), column, 5, text),
            lambda text: timelines.load_timeline(CLEARANCE, MemoryFilter(), cursor=text),
        ):
            with suppress(InvalidCursor):
                read(encoded(shaped))


# Timelines

from memoryhub.access.policy import Clearance  # noqa: E402

CLEARANCE = Clearance.up_to("secret", owner="ada")


def build(times, boundaries, starts) -> int:
    """Create memories, events, boundaries, starts and ends at these moments. Return the number of entries."""
    rows_of(times, session_id="m", project="p")
    home = Session.objects.create(session_id="m", project="p", started_at=NOON, ended_at=NOON)
    Event.objects.bulk_create(
        Event(session=home, at=at, event="tool:post", boundary=n % 2 == 0) for n, at in enumerate(boundaries)
    )
    for n, at in enumerate(starts):
        session = Session.objects.create(
            session_id=f"s{n}", project="p", started_at=at, ended_at=at if n % 2 else None
        )
        Event.objects.create(session=session, event="prompt:submit", at=at)
    visible_home = 2 if times or boundaries else 0
    return len(times) + len(boundaries) + visible_home + sum(2 + n % 2 for n in range(len(starts)))


# Each reads a timeline from end to end: up to twenty pages, of six queries and more.
@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.lists(MOMENTS, max_size=6),
    st.lists(MOMENTS, max_size=6),
    st.lists(MOMENTS, max_size=4),
    st.integers(1, 5),
    st.booleans(),
)
def test_timeline_loses_and_repeats_nothing(db, times, boundaries, starts, limit, oldest_first):
    with rolled_back():
        total = build(times, boundaries, starts)
        shown, cursor = [], None
        while True:
            entries, cursor = timelines.load_timeline(
                CLEARANCE, MemoryFilter(project="p"), limit=limit, cursor=cursor, oldest_first=oldest_first
            )
            assert len(entries) <= limit
            shown += entries
            if cursor is None:
                break
        keys = [entry.order for entry in shown]
        assert keys == sorted(keys, reverse=not oldest_first)
        assert len(set(keys)) == len(keys) == total
        assert timelines.count_entries(CLEARANCE, MemoryFilter(project="p")) == total


def test_end_is_above_and_start_below_at_the_same_moment(db):
    build([NOON], [NOON, NOON], [])
    entries, _ = timelines.load_timeline(CLEARANCE, MemoryFilter())
    assert [entry.kind for entry in entries] == [
        "session_end",
        "memory",
        "boundary",
        "event",
        "session_start",
    ]


@each(
    "filters, kinds",
    [
        ({}, {"memory", "event", "boundary", "session_start", "session_end"}),
        ({"project": "p"}, {"memory", "event", "boundary", "session_start", "session_end"}),
        ({"session_id": "m"}, {"memory", "event", "boundary", "session_start", "session_end"}),
        ({"type": "change"}, {"memory"}),
        ({"category": "general"}, {"memory"}),
        ({"project": "q"}, set()),
        ({"until": NOON}, set()),
        ({"since": NOON + timedelta(seconds=1)}, set()),
    ],
)
def test_memory_filter_shows_only_memories(db, filters, kinds):
    build([NOON], [NOON, NOON], [])
    entries, _ = timelines.load_timeline(CLEARANCE, MemoryFilter(**filters))
    assert {entry.kind for entry in entries} == kinds


def test_number_of_timeline_queries_is_constant(db, django_assert_num_queries):
    build([NOON] * 3, [NOON] * 3, [NOON])
    with django_assert_num_queries(4):
        timelines.load_timeline(CLEARANCE, MemoryFilter(), limit=5)
    rows_of([NOON + timedelta(seconds=n) for n in range(3, 40)], session_id="x", project="p2")
    with django_assert_num_queries(4):
        timelines.load_timeline(CLEARANCE, MemoryFilter(), limit=30)

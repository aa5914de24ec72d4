"""What is told of a session tells nothing of what is hidden in it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Session
from memoryhub.stats.timeline import count_entries, load_timeline

PUBLIC, ALL = Clearance(), Clearance.up_to("secret", owner="ada")
HIDDEN, SHOWN, LATER = (datetime(year, 5, 5, tzinfo=UTC) for year in (2019, 2024, 2025))


@pytest.fixture
def mixed(remember):
    """A session that secret memories begin and end, and in the middle of which a public one lies."""
    keeper = Actor("token:tok-secret", ALL)
    remember("hidden", by=keeper, session_id="hs", sensitivity="secret", created_at=HIDDEN)
    remember("hidden end", by=keeper, session_id="hs", sensitivity="secret", created_at=LATER)
    remember("shown", by=Actor("token:tok-public"), session_id="hs", created_at=SHOWN)
    return Session.objects.get()


def seen(clearance):
    return Session.objects.visible_to(clearance).get()


def lines(clearance, **filters):
    entries, _ = load_timeline(clearance, MemoryFilter(**filters))
    assert count_entries(clearance, MemoryFilter(**filters)) == len(entries)
    return {entry.kind: entry.at for entry in entries}


def test_its_span_is_that_of_what_may_be_seen(mixed):
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).last_seen) == (SHOWN, SHOWN)
    assert (seen(ALL).first_seen, seen(ALL).last_seen) == (HIDDEN, LATER)


def test_its_agent_is_the_author_of_the_earliest_memory_that_may_be_seen(mixed):
    assert seen(PUBLIC).agent_seen == "token:tok-public"
    assert seen(ALL).agent_seen == "token:tok-secret"


def test_with_an_event_that_may_be_seen_its_agent_and_its_end_may_be_told(mixed):
    Session.objects.update(ended_at=LATER)
    Event.objects.create(session=mixed, at=SHOWN, event="prompt:submit")
    assert (seen(PUBLIC).agent_seen, seen(PUBLIC).ended_seen) == ("token:tok-secret", LATER)
    assert seen(PUBLIC).event_seen is True


def test_a_hidden_event_moves_nothing(mixed):
    Event.objects.create(session=mixed, at=HIDDEN, event="prompt:submit", sensitivity="secret")
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).event_seen) == (SHOWN, False)
    assert seen(ALL).event_seen is True


def test_an_event_that_may_be_seen_widens_the_span(mixed):
    Event.objects.create(session=mixed, at=LATER, event="prompt:submit")
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).last_seen) == (SHOWN, LATER)


def test_its_end_is_told_to_who_may_see_all_that_is_in_it(mixed):
    Session.objects.update(ended_at=LATER)
    assert (seen(PUBLIC).ended_seen, seen(ALL).ended_seen) == (None, LATER)


def test_a_hidden_event_keeps_the_end_hidden(remember):
    remember("shown", session_id="s")
    Session.objects.update(ended_at=LATER)
    assert seen(PUBLIC).ended_seen == LATER
    Event.objects.create(session=Session.objects.get(), event="prompt:submit", sensitivity="secret")
    assert seen(PUBLIC).ended_seen is None


def test_the_timeline_begins_and_ends_it_where_the_reader_may_see(mixed):
    Session.objects.update(ended_at=LATER)
    assert lines(PUBLIC) == {"session_start": SHOWN, "memory": SHOWN}
    assert lines(ALL)["session_start"] == HIDDEN
    assert lines(ALL)["session_end"] == LATER


def test_the_timeline_is_bounded_by_what_may_be_seen(mixed):
    assert not lines(PUBLIC, until=SHOWN)
    assert lines(PUBLIC, since=SHOWN) == {"session_start": SHOWN, "memory": SHOWN}

"""Visibility of sessions: the shown values do not depend on hidden rows."""

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
    """A session with a public memory between two secret ones."""
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


def test_span_covers_only_visible_rows(mixed):
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).last_seen) == (SHOWN, SHOWN)
    assert (seen(ALL).first_seen, seen(ALL).last_seen) == (HIDDEN, LATER)


def test_agent_is_the_author_of_the_first_visible_memory(mixed):
    assert seen(PUBLIC).agent_seen == "token:tok-public"
    assert seen(ALL).agent_seen == "token:tok-secret"


def test_visible_event_reveals_agent_and_end(mixed):
    Session.objects.update(ended_at=LATER)
    Event.objects.create(session=mixed, at=SHOWN, event="prompt:submit")
    assert (seen(PUBLIC).agent_seen, seen(PUBLIC).ended_seen) == ("token:tok-secret", LATER)
    assert seen(PUBLIC).event_seen is True


def test_hidden_event_does_not_change_the_span(mixed):
    Event.objects.create(session=mixed, at=HIDDEN, event="prompt:submit", sensitivity="secret")
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).event_seen) == (SHOWN, False)
    assert seen(ALL).event_seen is True


def test_visible_event_extends_the_span(mixed):
    Event.objects.create(session=mixed, at=LATER, event="prompt:submit")
    assert (seen(PUBLIC).first_seen, seen(PUBLIC).last_seen) == (SHOWN, LATER)


def test_end_is_visible_if_everything_is_visible(mixed):
    Session.objects.update(ended_at=LATER)
    assert (seen(PUBLIC).ended_seen, seen(ALL).ended_seen) == (None, LATER)


def test_hidden_event_hides_the_end(remember):
    remember("shown", session_id="s")
    Session.objects.update(ended_at=LATER)
    assert seen(PUBLIC).ended_seen == LATER
    Event.objects.create(session=Session.objects.get(), event="prompt:submit", sensitivity="secret")
    assert seen(PUBLIC).ended_seen is None


def test_timeline_shows_visible_start_and_end(mixed):
    Session.objects.update(ended_at=LATER)
    assert lines(PUBLIC) == {"session_start": SHOWN, "memory": SHOWN}
    assert lines(ALL)["session_start"] == HIDDEN
    assert lines(ALL)["session_end"] == LATER


def test_timeline_is_bounded_by_visible_rows(mixed):
    assert not lines(PUBLIC, until=SHOWN)
    assert lines(PUBLIC, since=SHOWN) == {"session_start": SHOWN, "memory": SHOWN}

"""The first injection of a large store may miss the deadline. Those after the rows are loaded do not."""

from __future__ import annotations

import sys
import threading

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.core.vocabulary import MemoryType
from memoryhub.injection import services
from memoryhub.injection.candidates import injectable_memories
from memoryhub.injection.requests import InjectionRequest
from memoryhub.search import visible_rows
from tests.cases import wait_until_loaded

ACTOR = Actor("agent:tests", Clearance())
DETECTOR = "memoryhub.security.prompt_injection.detector"


@pytest.fixture
def loading(transactional_db, remember, monkeypatch):
    """Let another thread load rows, and return the event that lets it end. Reads of this thread fail."""
    remember("zebra stripes", type=MemoryType.BUGFIX.value, project="zoo")
    visible_rows.clear_cache()
    may_end, real, this_thread = threading.Event(), visible_rows._read_columns, threading.current_thread()

    def read(memories):
        assert threading.current_thread() is not this_thread
        may_end.wait(120)
        return real(memories)

    monkeypatch.setattr(visible_rows, "_read_columns", read)
    yield may_end
    may_end.set()
    wait_until_loaded()


@pytest.mark.django_db(transaction=True)
def test_missed_injection_loads_the_rows_for_the_next_one(remember, monkeypatch):
    def find(*args):
        raise services.DeadlinePassed

    remember("zebra stripes")
    visible_rows.clear_cache()
    assert services._inject(find, InjectionRequest("zebra stripes"), ACTOR, record=False).context == ""
    wait_until_loaded()
    assert [len(rows) for rows in visible_rows._rows.values()] == [1]


def test_injection_does_not_read_rows_that_another_thread_loads(loading):
    request = InjectionRequest("zebra stripes", project="zoo")
    memories = injectable_memories(ACTOR.clearance, "zoo", services.timezone.now())
    visible_rows.load_in_background(memories)
    missed = services.inject_context(request, ACTOR)
    assert missed.skipped == ["injection: not ready until the memories are loaded"]
    loading.set()
    wait_until_loaded()
    assert len(services.inject_context(request, ACTOR).injected) == 1


def test_failed_tool_call_does_not_read_rows_that_another_thread_loads(loading):
    now = services.timezone.now()
    memories = injectable_memories(ACTOR.clearance, "zoo", now).filter(type=MemoryType.BUGFIX.value)
    visible_rows.load_in_background(memories)
    request = InjectionRequest("", project="zoo")
    missed = services.inject_for_tool_call(request, [], "", "zebra stripes failed", ACTOR, now)
    assert missed.skipped == ["injection: not ready until the memories are loaded"]


def test_one_thread_loads_the_rows_of_several_querysets(loading):
    for project in ("zoo", "park", "zoo"):
        visible_rows.load_in_background(
            injectable_memories(ACTOR.clearance, project, services.timezone.now())
        )
    assert len(visible_rows._queue) == 2
    assert [thread.name for thread in threading.enumerate()].count("visible-rows") == 1
    loading.set()
    wait_until_loaded()
    assert sorted(len(rows) for rows in visible_rows._rows.values()) == [0, 1]


def test_rules_are_loaded_before_the_time_of_an_injection_starts(db, monkeypatch):
    class LoadedAtStart(services.Deadline):
        def __init__(self, milliseconds):
            loaded.append(DETECTOR in sys.modules)
            super().__init__(milliseconds)

    loaded = []
    services._load_rules.cache_clear()
    monkeypatch.delitem(sys.modules, DETECTOR, raising=False)
    monkeypatch.setattr(services, "Deadline", LoadedAtStart)
    services.inject_context(InjectionRequest("zebra stripes"), ACTOR, record=False)
    assert loaded == [True]

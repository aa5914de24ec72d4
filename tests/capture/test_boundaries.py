"""Test that sessions are split into segments and boundaries are stored as facts."""

from __future__ import annotations

import json

import pytest

from memoryhub.models import Event, Fact, Session
from tests.capture.conftest import DATABASE, DESIGN, FIX

VACUUM = DATABASE + " vacuum checkpoint"
LETTERS = "bcdfghjkmp"
DESIGN_AND_LEDGER = DESIGN + " of the ledger"


def shift(agent_session, **more):
    """Send two outputs about one subject and one about another; return the last event."""
    agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    agent_session.tool("Bash", {"command": "explain"}, VACUUM)
    return agent_session.tool("Bash", {"command": "lint"}, DESIGN, **more)


@pytest.mark.conformance("guide-84")
def test_boundary_is_stored_as_fact_with_details(agent_session):
    event = shift(agent_session)
    fact = Fact.objects.get()
    assert (fact.subject, fact.predicate, fact.project) == ("session:s1", "boundary_at", "shop")
    detail = json.loads(fact.object)
    assert detail["time"] == event.at.isoformat()
    assert detail["tool"] == "Bash"
    assert detail["segment"] == 2
    assert "planner" in detail["keywords_before"]
    assert "buttons" in detail["keywords_after"]
    assert 0 <= detail["similarity"] < 0.1


def test_first_event_of_a_segment_is_marked_as_boundary(agent_session):
    event = shift(agent_session)
    assert event.boundary
    assert event.segment == 2
    assert agent_session.row.segment == 2
    assert [one.segment for one in Event.objects.order_by("pk")] == [1, 1, 2]


def test_repeated_output_is_no_boundary(agent_session):
    shift(agent_session)
    repeated = agent_session.tool(
        "Bash", {"command": "something else entirely, with other words in it"}, DESIGN
    )
    assert not repeated.boundary
    assert Fact.objects.count() == 1


def test_new_segment_starts_with_an_empty_window(agent_session):
    shift(agent_session)
    assert len(agent_session.row.state["window"]) == 1
    back = agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    assert not back.boundary, "one output is no window to differ from"


def test_restarted_session_has_an_empty_window(agent_session):
    agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    agent_session.tool("Bash", {"command": "explain"}, VACUUM)
    agent_session.ok("session:start")
    assert not agent_session.tool("Bash", {"command": "lint"}, DESIGN).boundary


@pytest.mark.parametrize(
    "state",
    [
        {"work": {"notes": [{"text": "a note of another release"}]}},
        {"work": {"calls": "many", "read": None}},
        {"window": 7, "asked": None},
        {"window_at": "yesterday"},
        {"fresh_since": "yesterday"},
        {"window_at": "2026-11-30", "window": [["a"]]},
        {"fresh_since": "2026-11-30"},
        {"recapped_at": "2026-11-30T10:00:00"},
        {"work": None, "unknown": 1},
    ],
)
def test_session_with_a_damaged_state_goes_on(agent_session, state, caplog):
    agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    Session.objects.update(state=state)
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    agent_session.tool("Bash", {"command": "explain"}, VACUUM)
    assert [event.event for event in Event.objects.order_by("pk")][1:] == ["prompt:submit", "tool:post"]
    assert agent_session.row.state["work"]["calls"] == 1
    assert "failed" not in caplog.text


def test_one_different_output_after_a_prompt_is_a_boundary(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    for _ in range(4):
        agent_session.tool("Bash", {"command": "explain"}, VACUUM + " again")
    agent_session.ok("prompt:submit", {"prompt": "Thanks. Now the buttons."})
    assert agent_session.tool("Bash", {"command": "lint"}, DESIGN).boundary


def test_one_different_output_with_a_common_word_is_a_boundary(agent_session):
    agent_session.tool("Bash", {"command": "python a.py"}, "The orders table got an index for the planner")
    agent_session.tool(
        "Bash", {"command": "python b.py"}, "With the index, the planner scans no orders table"
    )
    event = agent_session.tool(
        "Bash", {"command": "python c.py"}, "Newsletter images lost their border colour"
    )
    assert event.boundary


def test_between_prompts_one_output_that_shares_no_word_is_a_boundary(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        agent_session.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    assert agent_session.tool("Bash", {"command": "lint"}, DESIGN).boundary


def test_between_prompts_one_long_output_that_shares_a_single_word_is_a_boundary(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        agent_session.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    other = " ".join(
        f"{first}{last}" for first in ("lantern", "harbour", "meadow", "violin") for last in LETTERS
    )
    event = agent_session.tool("Bash", {"command": "lint"}, f"{other} planner planner")
    assert event.boundary
    assert json.loads(Fact.objects.get().object)["similarity"] > 0


def test_between_prompts_outputs_that_share_a_word_are_a_boundary_from_the_second_on(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        agent_session.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    assert not agent_session.tool("Bash", {"command": "lint"}, DESIGN_AND_LEDGER).boundary
    assert agent_session.tool(
        "Bash", {"command": "lint"}, DESIGN + " once more, buttons and headings"
    ).boundary


def test_one_different_output_that_shares_a_word_between_prompts_is_no_boundary(agent_session):
    agent_session.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        agent_session.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    agent_session.tool("Bash", {"command": "lint"}, DESIGN_AND_LEDGER)
    assert not agent_session.tool("Bash", {"command": "explain"}, DATABASE).boundary
    assert not Fact.objects.exists()


def test_late_event_gets_the_segment_of_its_time(agent_session):
    for minute, output in ((0, DATABASE), (10, VACUUM), (20, DESIGN)):
        agent_session.tool("Bash", {"command": "x"}, output, at=f"2026-03-02T12:{minute:02}:00Z")
    window = agent_session.row.state["window"]
    late = agent_session.tool(
        "Bash", {"command": "x"}, "A lighthouse keeper counts ships", at="2026-03-02T12:05:00Z"
    )
    assert (late.segment, late.boundary) == (1, False)
    assert agent_session.row.state["window"] == window
    after = agent_session.tool("Bash", {"command": "x"}, DESIGN + " margin", at="2026-03-02T12:30:00Z")
    assert after.segment == 2


def test_captured_memory_has_the_tag_of_its_segment(agent_session):
    shift(agent_session)
    [tags] = [
        sorted(label.value for label in one.labels.filter(kind="tag"))
        for one in [agent_session.commit(FIX).memory]
    ]
    assert tags == ["captured", "segment-2"]


@pytest.mark.conformance("guide-19")
def test_disabled_boundaries_create_no_segments(agent_session, configure):
    configure(capability_boundaries=False)
    event = shift(agent_session)
    assert event.segment == 1
    assert event.handlers[0] == {
        "name": "boundaries",
        "priority": 100,
        "status": "skipped",
        "detail": "memory.boundaries is switched off",
    }
    assert not Fact.objects.exists()
    memory = agent_session.commit(FIX).memory
    assert [label.value for label in memory.labels.filter(kind="tag")] == ["captured"]


@pytest.mark.parametrize(("level", "seen"), [("public", True), ("private", False), ("secret", False)])
def test_boundary_has_the_level_of_its_event(agent_session, level, seen):
    shift(agent_session, sensitivity=level)
    assert Fact.objects.get().sensitivity == level
    assert bool(agent_session.agent.get("/facts").json()["items"]) is seen


def test_keywords_contain_no_credentials(agent_session):
    key = "aZ3kQ8mW1xT6vB4nR9pL2cY7dF5gH0jS3uE8"
    agent_session.tool("Bash", {"command": "explain"}, DATABASE)
    agent_session.tool("Bash", {"command": "explain"}, VACUUM)
    event = agent_session.tool(
        "Bash", {"command": "x"}, f"{DESIGN}\nghp_{key}\npassword = 'hunter2-Swordfish'"
    )
    assert event.boundary
    kept = json.dumps(
        [event.keywords, event.preview, Fact.objects.get().object, agent_session.row.state]
    ).lower()
    assert key.lower() not in kept
    assert "swordfish" not in kept

"""Test that sessions are split into segments and boundaries are stored as facts."""

from __future__ import annotations

import json

import pytest

from memoryhub.models import Event, Fact
from tests.capture.conftest import DATABASE, DESIGN, FIX

VACUUM = DATABASE + " vacuum checkpoint"


def shift(sitting, **more):
    """Send two outputs about one subject and one about another; return the last event."""
    sitting.tool("Bash", {"command": "explain"}, DATABASE)
    sitting.tool("Bash", {"command": "explain"}, VACUUM)
    return sitting.tool("Bash", {"command": "lint"}, DESIGN, **more)


def test_boundary_is_stored_as_fact_with_details(sitting):
    event = shift(sitting)
    fact = Fact.objects.get()
    assert (fact.subject, fact.predicate, fact.project) == ("session:s1", "boundary_at", "shop")
    told = json.loads(fact.object)
    assert told["time"] == event.at.isoformat()
    assert told["tool"] == "Bash"
    assert told["segment"] == 2
    assert "planner" in told["keywords_before"]
    assert "buttons" in told["keywords_after"]
    assert 0 <= told["similarity"] < 0.1


def test_first_event_of_a_segment_is_marked_as_boundary(sitting):
    event = shift(sitting)
    assert event.boundary
    assert event.segment == 2
    assert sitting.row.segment == 2
    assert [one.segment for one in Event.objects.order_by("pk")] == [1, 1, 2]


def test_repeated_output_is_no_boundary(sitting):
    shift(sitting)
    repeated = sitting.tool("Bash", {"command": "something else entirely, with other words in it"}, DESIGN)
    assert not repeated.boundary
    assert Fact.objects.count() == 1


def test_new_segment_starts_with_an_empty_window(sitting):
    shift(sitting)
    assert len(sitting.row.state["window"]) == 1
    back = sitting.tool("Bash", {"command": "explain"}, DATABASE)
    assert not back.boundary, "one output is no window to differ from"


def test_restarted_session_has_an_empty_window(sitting):
    sitting.tool("Bash", {"command": "explain"}, DATABASE)
    sitting.tool("Bash", {"command": "explain"}, VACUUM)
    sitting.ok("session:start")
    assert not sitting.tool("Bash", {"command": "lint"}, DESIGN).boundary


def test_one_different_output_after_a_prompt_is_a_boundary(sitting):
    sitting.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    sitting.tool("Bash", {"command": "explain"}, DATABASE)
    for _ in range(4):
        sitting.tool("Bash", {"command": "explain"}, VACUUM + " again")
    sitting.ok("prompt:submit", {"prompt": "Thanks. Now the buttons."})
    assert sitting.tool("Bash", {"command": "lint"}, DESIGN).boundary


def test_boundary_between_prompts_needs_two_different_outputs(sitting):
    sitting.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        sitting.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    assert not sitting.tool("Bash", {"command": "lint"}, DESIGN).boundary
    assert sitting.tool("Bash", {"command": "lint"}, DESIGN + " once more, buttons and headings").boundary


def test_one_different_output_between_prompts_is_no_boundary(sitting):
    sitting.ok("prompt:submit", {"prompt": "Why is the planner so slow?"})
    for n in range(4):
        sitting.tool("Bash", {"command": "explain"}, f"{VACUUM} step{'abcd'[n]}")
    sitting.tool("Bash", {"command": "lint"}, DESIGN)
    assert not sitting.tool("Bash", {"command": "explain"}, DATABASE).boundary
    assert not Fact.objects.exists()


def test_late_event_gets_the_segment_of_its_time(sitting):
    for minute, output in ((0, DATABASE), (10, VACUUM), (20, DESIGN)):
        sitting.tool("Bash", {"command": "x"}, output, at=f"2026-03-02T12:{minute:02}:00Z")
    window = sitting.row.state["window"]
    late = sitting.tool(
        "Bash", {"command": "x"}, "A lighthouse keeper counts ships", at="2026-03-02T12:05:00Z"
    )
    assert (late.segment, late.boundary) == (1, False)
    assert sitting.row.state["window"] == window
    after = sitting.tool("Bash", {"command": "x"}, DESIGN + " margin", at="2026-03-02T12:30:00Z")
    assert after.segment == 2


def test_captured_memory_has_the_tag_of_its_segment(sitting):
    shift(sitting)
    [tags] = [
        sorted(label.value for label in one.labels.filter(kind="tag")) for one in [sitting.commit(FIX).memory]
    ]
    assert tags == ["captured", "segment-2"]


def test_disabled_boundaries_create_no_segments(sitting, configure):
    configure(capability_boundaries=False)
    event = shift(sitting)
    assert event.segment == 1
    assert event.handlers[0] == {
        "name": "boundaries",
        "priority": 100,
        "status": "skipped",
        "detail": "memory.boundaries is switched off",
    }
    assert not Fact.objects.exists()
    memory = sitting.commit(FIX).memory
    assert [label.value for label in memory.labels.filter(kind="tag")] == ["captured"]


@pytest.mark.parametrize(("level", "seen"), [("public", True), ("private", False), ("secret", False)])
def test_boundary_has_the_level_of_its_event(sitting, level, seen):
    shift(sitting, sensitivity=level)
    assert Fact.objects.get().sensitivity == level
    assert bool(sitting.agent.get("/facts").json()["items"]) is seen


def test_keywords_contain_no_credentials(sitting):
    key = "aZ3kQ8mW1xT6vB4nR9pL2cY7dF5gH0jS3uE8"
    sitting.tool("Bash", {"command": "explain"}, DATABASE)
    sitting.tool("Bash", {"command": "explain"}, VACUUM)
    event = sitting.tool("Bash", {"command": "x"}, f"{DESIGN}\nghp_{key}\npassword = 'hunter2-Swordfish'")
    assert event.boundary
    kept = json.dumps([event.keywords, event.preview, Fact.objects.get().object, sitting.row.state]).lower()
    assert key.lower() not in kept
    assert "swordfish" not in kept

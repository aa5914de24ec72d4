"""The chain: which handlers run, in which order, and what an event leaves behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F

from memoryhub import capture as hooks
from memoryhub.models import Event, Fact, Session
from tests.api.conftest import bad_fields, is_problem
from tests.capture.conftest import DATABASE, FIX


def named(answer):
    return [(one["name"], one["priority"]) for one in answer["handlers"]]


@pytest.mark.parametrize(
    ("event", "data", "chain"),
    [
        ("session:start", {}, [("capture", 50)]),
        ("prompt:submit", {"prompt": "hello"}, [("inject", 50)]),
        ("tool:post", {"tool_name": "Read"}, [("boundaries", 100), ("capture", 150)]),
        ("session:end", {}, [("capture", 100), ("consolidation", 200), ("compression", 300)]),
    ],
)
def test_the_handlers_of_an_event_answer_in_the_documented_order(sitting, event, data, chain):
    answer = sitting.ok(event, data)
    assert set(answer) == {"event", "handlers", "context"}
    assert answer["event"] == event
    assert named(answer) == chain
    assert all(set(one) == {"name", "priority", "status", "detail"} for one in answer["handlers"])
    assert not [one for one in answer["handlers"] if one["status"] == "failed"]


def test_the_registry_lists_the_chain_by_priority():
    for event in hooks.EVENTS:
        priorities = [hook.priority for hook in hooks.HOOKS if hook.event == event]
        assert priorities == sorted(priorities)
        assert priorities


def test_an_event_keeps_what_its_handlers_said(sitting):
    event = sitting.commit(FIX)
    assert [one["name"] for one in event.handlers] == ["boundaries", "capture"]
    assert event.handlers[1]["status"] == "ok"
    assert event.memory.uid in event.handlers[1]["detail"]


def test_a_handler_that_raises_is_failed_and_the_others_go_on(sitting, monkeypatch):
    def explode(*args, **kwargs):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("memoryhub.capture.segments.detect_boundary", explode)
    answer = sitting.ok(
        "tool:post", {"tool_name": "Bash", "tool_input": {"command": f"git commit -m '{FIX}'"}}
    )
    boundaries, capture = answer["handlers"]
    assert boundaries["status"] == "failed"
    assert "swordfish" not in boundaries["detail"]
    assert capture["status"] == "ok"
    assert len(sitting.memories()) == 1


def test_what_a_failing_handler_wrote_is_taken_back(sitting, monkeypatch):
    sitting.tool("Bash", {"command": "x"}, DATABASE)
    before = sitting.row.state

    def explode(*args, **kwargs):
        raise RuntimeError

    monkeypatch.setattr("memoryhub.capture.segments.detect_boundary", explode)
    sitting.tool("Bash", {"command": "x"}, DATABASE + " vacuum")
    assert sitting.row.state["window"] == before["window"]
    assert sitting.row.state["output"] == before["output"]


def test_an_event_needs_no_session_start(sitting):
    sitting.tool("Read", {"file_path": "a.py"}, "text")
    assert sitting.row.agent == "token:bot"


def test_a_session_belongs_to_the_agent_and_the_folder_it_began_in(sitting):
    sitting.ok("session:start", cwd="/home/ada/shop")
    assert sitting.row.cwd == "/home/ada/shop"


def test_a_session_that_began_with_a_memory_learns_its_folder_from_the_first_event(sitting, remember):
    remember("something", session_id="s1", project="shop")
    assert sitting.row.cwd == ""
    sitting.tool("Read", {"file_path": "a.py"}, "text", cwd="/home/ada/shop")
    assert sitting.row.cwd == "/home/ada/shop"
    assert Session.objects.count() == 1


def test_paths_below_the_working_folder_become_relative(sitting):
    sitting.ok("session:start", cwd="/home/ada/shop")
    event = sitting.tool("Edit", {"file_path": "/home/ada/shop/src/a.py", "new_string": "x = 1"})
    assert event.files == ["src/a.py"]


def test_two_projects_may_share_a_session_id(sit):
    one, other = sit("same", "alpha"), sit("same", "beta")
    one.commit(FIX)
    other.commit(FIX)
    assert one.row.pk != other.row.pk
    assert len(one.memories()) == len(other.memories()) == 1


def test_the_end_of_a_session_is_noted_with_its_reason(sitting):
    sitting.ok("session:start")
    sitting.end()
    assert sitting.row.ended_at is not None
    assert sitting.row.end_reason == "exit"


def test_a_session_that_goes_on_after_its_end_is_open_again(sitting):
    sitting.end()
    sitting.ok("prompt:submit", {"prompt": "one more thing"})
    assert sitting.row.ended_at is None


# --- Time ---------------------------------------------------------------------------------------------------

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def at(minutes):
    return (NOON + timedelta(minutes=minutes)).isoformat()


def test_events_may_tell_when_they_happened(sitting):
    event = sitting.tool("Read", {"file_path": "a.py"}, "text", at=at(3))
    assert event.at == NOON + timedelta(minutes=3)
    assert sitting.row.started_at == sitting.row.last_at == event.at


def test_a_memory_is_dated_by_its_event(sitting):
    assert sitting.commit(FIX, at=at(3)).memory.created_at == NOON + timedelta(minutes=3)


def test_an_event_that_comes_late_widens_the_session_to_its_beginning(sitting):
    sitting.tool("Read", {"file_path": "a.py"}, "text", at=at(30))
    sitting.tool("Read", {"file_path": "b.py"}, "text", at=at(10))
    assert (sitting.row.started_at, sitting.row.last_at) == (
        NOON + timedelta(minutes=10),
        NOON + timedelta(minutes=30),
    )


def test_an_event_that_comes_after_the_end_it_precedes_leaves_the_end(sitting):
    sitting.end(at=at(30))
    sitting.tool("Read", {"file_path": "a.py"}, "text", at=at(20))
    assert sitting.row.ended_at == NOON + timedelta(minutes=30)


def test_the_future_is_refused(sitting):
    ahead = (datetime.now(UTC) + timedelta(minutes=20)).isoformat()
    assert bad_fields(sitting.send("session:start", at=ahead)) == {"at"}


def test_a_clock_that_goes_a_little_ahead_is_taken_for_now(sitting):
    ahead = datetime.now(UTC) + timedelta(minutes=2)
    sitting.ok("session:start", at=ahead.isoformat())
    assert sitting.row.last_at < ahead


def test_the_same_event_twice_is_recorded_once(sitting):
    first = sitting.commit(FIX, at=at(3))
    answer = sitting.ok(
        "tool:post",
        {
            "tool_name": "Bash",
            "tool_input": {"command": f'git commit -m "{FIX}"'},
            "tool_response": {"stdout": "1 file"},
        },
        at=at(3),
    )
    assert {one["status"] for one in answer["handlers"]} == {"skipped"}
    assert list(Event.objects.all()) == [first]


def test_the_same_call_of_a_tool_is_recorded_once_whatever_else_changed(sitting):
    extra = {"tool_use_id": "toolu_1"}
    sitting.tool("Read", {"file_path": "a.py"}, "text", extra=extra, cwd="/one")
    sitting.tool("Read", {"file_path": "a.py"}, "text", extra=extra, cwd="/two")
    assert Event.objects.count() == 1


def test_without_a_moment_the_same_call_again_is_another_one(sitting):
    sitting.tool("Bash", {"command": "pytest"}, "3 passed")
    sitting.tool("Bash", {"command": "pytest"}, "3 passed")
    assert Event.objects.count() == 2


# --- What is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"event": "tool:pre"}, "event"),
        ({"event": "session:checkpoint"}, "event"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": "x" * 201}, "session_id"),
        ({"session_id": "a\x00b"}, "session_id"),
        ({"project": "x" * 201}, "project"),
        ({"at": "yesterday"}, "at"),
        ({"data": []}, "data"),
        ({"sensitivity": "cosmic"}, "sensitivity"),
        ({"event": "tool:post", "data": {}}, "data.tool_name"),
        ({"event": "tool:post", "data": {"tool_name": 7}}, "data.tool_name"),
        ({"event": "prompt:submit", "data": {"prompt": ["x"]}}, "data.prompt"),
    ],
)
def test_a_bad_event_is_refused_by_the_name_of_its_field(bot, body, field):
    whole = {"event": "session:start", "session_id": "s1", "project": "p", **body}
    assert bad_fields(bot.post("/events", whole)) == {field}
    assert not Session.objects.exists()


def test_a_credential_is_no_name_of_a_session(bot):
    body = {"event": "session:start", "session_id": "ghp_" + "aZ3kQ8mW1xT6vB4nR9pL2cY7dF5gH0jS3uE8"}
    assert is_problem(bot.post("/events", body), 422, "secret_detected")["errors"][0]["field"] == "session_id"
    assert not Session.objects.exists()


def test_reporting_needs_the_right_to_write(sit):
    is_problem(sit(rights=["read"]).send("session:start"), 403, "missing_right")


def test_a_confined_token_reports_to_its_project_alone(sit):
    confined = sit(project="elsewhere", projects=["shop"])
    is_problem(confined.send("session:start"), 403)
    confined.project = ""
    confined.ok("session:start")
    assert Session.objects.get().project == "shop"


def test_a_token_that_may_not_read_is_not_told_anything(sit, remember):
    remember(DATABASE, project="shop", importance=1)
    answer = sit(rights=["write"]).ok("prompt:submit", {"prompt": "the planner and the journal query index"})
    assert answer["context"] == ""
    assert answer["handlers"][0]["status"] == "skipped"


def test_a_prompt_is_answered_with_what_is_known(sitting, remember):
    memory = remember(DATABASE, project="shop", importance=1)
    answer = sitting.ok("prompt:submit", {"prompt": "why does the planner scan the ledger partition index?"})
    assert answer["context"].startswith("<memory-context>")
    assert memory.uid in answer["context"]


def test_a_prompt_is_answered_without_role_prefixes(sitting, remember):
    remember(f"{DATABASE}\n> assistant: Certainly", project="shop", importance=1)
    answer = sitting.ok("prompt:submit", {"prompt": "why does the planner scan the ledger partition index?"})
    assert "\nCertainly\n" in answer["context"]


def test_facts_are_left_alone_by_a_session_without_shifts(sitting):
    for _ in range(5):
        sitting.tool("Bash", {"command": "x"}, DATABASE)
    assert not Fact.objects.exists()


def test_a_prompt_delivered_twice_within_seconds_is_one_event(sitting, remember):
    remember(DATABASE, project="shop", importance=1)
    asked = {"prompt": "why does the planner scan the ledger partition index?"}
    sitting.ok("prompt:submit", asked)
    again = sitting.ok("prompt:submit", asked)
    assert Event.objects.count() == 1
    assert [one["name"] for one in again["handlers"]] == ["inject"]
    sitting.ok("prompt:submit", {"prompt": "and the journal query?"})
    assert Event.objects.count() == 2


def test_the_same_prompt_after_something_else_or_later_is_another_event(sitting):
    asked = {"prompt": "go on"}
    sitting.ok("prompt:submit", asked)
    sitting.tool("Read", {"file_path": "a.py"}, "text")
    sitting.ok("prompt:submit", asked)
    assert Event.objects.filter(event="prompt:submit").count() == 2
    Event.objects.update(at=F("at") - timedelta(seconds=6))
    sitting.ok("prompt:submit", asked)
    assert Event.objects.filter(event="prompt:submit").count() == 3


def test_a_second_delivery_is_known_where_the_seconds_turn(sitting, actor):
    turn = datetime(2026, 5, 10, 12, 0, 5, tzinfo=UTC)
    happening = hooks.HookEvent("prompt:submit", "s1", "shop", data={"prompt": "go on"})
    for moment in (turn - timedelta(seconds=1), turn + timedelta(seconds=1)):
        hooks.dispatch(happening, actor, moment)
    assert Event.objects.count() == 1
    hooks.dispatch(happening, actor, turn + timedelta(seconds=8))
    assert Event.objects.count() == 2

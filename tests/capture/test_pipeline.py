"""Test the hook pipeline: the order of handlers and the recorded events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F

from memoryhub import capture as hooks
from memoryhub.models import Event, Fact, Session
from tests.api.conftest import bad_fields, is_problem
from tests.capture.conftest import DATABASE, FIX
from tests.cases import each


def named(answer):
    return [(one["name"], one["priority"]) for one in answer["handlers"]]


@pytest.mark.conformance("guide-10", "guide-11", "guide-12", "guide-13", "guide-14", "guide-15", "guide-16")
@pytest.mark.parametrize(
    ("event", "data", "chain"),
    [
        ("session:start", {}, [("capture", 50)]),
        ("prompt:submit", {"prompt": "hello"}, [("inject", 50)]),
        ("tool:post", {"tool_name": "Read"}, [("boundaries", 100), ("capture", 150)]),
        ("session:end", {}, [("capture", 100), ("consolidation", 200), ("compression", 300)]),
    ],
)
def test_handlers_run_in_the_documented_order(agent_session, event, data, chain):
    answer = agent_session.ok(event, data)
    assert set(answer) == {"event", "handlers", "context"}
    assert answer["event"] == event
    assert named(answer) == chain
    assert all(set(one) == {"name", "priority", "status", "detail"} for one in answer["handlers"])
    assert not [one for one in answer["handlers"] if one["status"] == "failed"]


def test_hooks_are_listed_by_priority():
    for event in hooks.EVENTS:
        priorities = [hook.priority for hook in hooks.HOOKS if hook.event == event]
        assert priorities == sorted(priorities)
        assert priorities


def test_event_stores_the_handler_reports(agent_session):
    event = agent_session.commit(FIX)
    assert [one["name"] for one in event.handlers] == ["boundaries", "capture"]
    assert event.handlers[1]["status"] == "ok"
    assert event.memory.uid in event.handlers[1]["detail"]


@pytest.mark.conformance("guide-24")
def test_failing_handler_does_not_stop_the_others(agent_session, monkeypatch):
    def explode(*args, **kwargs):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("memoryhub.capture.segments.detect_boundary", explode)
    answer = agent_session.ok(
        "tool:post", {"tool_name": "Bash", "tool_input": {"command": f"git commit -m '{FIX}'"}}
    )
    boundaries, capture = answer["handlers"]
    assert boundaries["status"] == "failed"
    assert "swordfish" not in boundaries["detail"]
    assert capture["status"] == "ok"
    assert len(agent_session.memories()) == 1


def test_writes_of_a_failing_handler_are_rolled_back(agent_session, monkeypatch):
    agent_session.tool("Bash", {"command": "x"}, DATABASE)
    before = agent_session.row.state

    def explode(*args, **kwargs):
        raise RuntimeError

    monkeypatch.setattr("memoryhub.capture.segments.detect_boundary", explode)
    agent_session.tool("Bash", {"command": "x"}, DATABASE + " vacuum")
    assert agent_session.row.state["window"] == before["window"]
    assert agent_session.row.state["output"] == before["output"]


def test_event_without_session_start_creates_the_session(agent_session):
    agent_session.tool("Read", {"file_path": "a.py"}, "text")
    assert agent_session.row.agent == "token:bot"


@pytest.mark.conformance("guide-25")
def test_session_keeps_its_first_agent_and_folder(agent_session):
    agent_session.ok("session:start", cwd="/home/ada/shop")
    assert agent_session.row.cwd == "/home/ada/shop"


def test_session_without_folder_gets_that_of_the_first_event(agent_session, remember):
    remember("something", session_id="s1", project="shop")
    assert agent_session.row.cwd == ""
    agent_session.tool("Read", {"file_path": "a.py"}, "text", cwd="/home/ada/shop")
    assert agent_session.row.cwd == "/home/ada/shop"
    assert Session.objects.count() == 1


def test_paths_below_the_working_folder_are_relative(agent_session):
    agent_session.ok("session:start", cwd="/home/ada/shop")
    event = agent_session.tool("Edit", {"file_path": "/home/ada/shop/src/a.py", "new_string": "x = 1"})
    assert event.files == ["src/a.py"]


def test_same_session_id_in_two_projects_is_two_sessions(open_session):
    one, other = open_session("same", "alpha"), open_session("same", "beta")
    one.commit(FIX)
    other.commit(FIX)
    assert one.row.pk != other.row.pk
    assert len(one.memories()) == len(other.memories()) == 1


def test_session_end_stores_its_reason(agent_session):
    agent_session.ok("session:start")
    agent_session.end()
    assert agent_session.row.ended_at is not None
    assert agent_session.row.end_reason == "exit"


def test_event_after_the_end_reopens_the_session(agent_session):
    agent_session.end()
    agent_session.ok("prompt:submit", {"prompt": "one more thing"})
    assert agent_session.row.ended_at is None


# --- Time ---------------------------------------------------------------------------------------------------

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def at(minutes):
    return (NOON + timedelta(minutes=minutes)).isoformat()


def test_event_can_have_a_past_time(agent_session):
    event = agent_session.tool("Read", {"file_path": "a.py"}, "text", at=at(3))
    assert event.at == NOON + timedelta(minutes=3)
    assert agent_session.row.started_at == agent_session.row.last_at == event.at


def test_captured_memory_has_the_time_of_its_event(agent_session):
    assert agent_session.commit(FIX, at=at(3)).memory.created_at == NOON + timedelta(minutes=3)


def test_late_event_moves_the_session_start(agent_session):
    agent_session.tool("Read", {"file_path": "a.py"}, "text", at=at(30))
    agent_session.tool("Read", {"file_path": "b.py"}, "text", at=at(10))
    assert (agent_session.row.started_at, agent_session.row.last_at) == (
        NOON + timedelta(minutes=10),
        NOON + timedelta(minutes=30),
    )


def test_late_event_from_before_the_end_keeps_the_end(agent_session):
    agent_session.end(at=at(30))
    agent_session.tool("Read", {"file_path": "a.py"}, "text", at=at(20))
    assert agent_session.row.ended_at == NOON + timedelta(minutes=30)


def test_future_time_is_refused(agent_session):
    ahead = (datetime.now(UTC) + timedelta(minutes=20)).isoformat()
    assert bad_fields(agent_session.send("session:start", at=ahead)) == {"at"}


def test_slightly_future_time_counts_as_now(agent_session):
    ahead = datetime.now(UTC) + timedelta(minutes=2)
    agent_session.ok("session:start", at=ahead.isoformat())
    assert agent_session.row.last_at < ahead


def test_repeated_event_is_recorded_once(agent_session):
    first = agent_session.commit(FIX, at=at(3))
    answer = agent_session.ok(
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


def test_tool_call_with_the_same_id_is_recorded_once(agent_session):
    extra = {"tool_use_id": "toolu_1"}
    agent_session.tool("Read", {"file_path": "a.py"}, "text", extra=extra, cwd="/one")
    agent_session.tool("Read", {"file_path": "a.py"}, "text", extra=extra, cwd="/two")
    assert Event.objects.count() == 1


def test_identical_calls_without_time_are_separate_events(agent_session):
    agent_session.tool("Bash", {"command": "pytest"}, "3 passed")
    agent_session.tool("Bash", {"command": "pytest"}, "3 passed")
    assert Event.objects.count() == 2


# --- What is refused ----------------------------------------------------------------------------------------


@each(
    "body, field",
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
def test_invalid_event_names_the_field(bot, body, field):
    whole = {"event": "session:start", "session_id": "s1", "project": "p", **body}
    assert bad_fields(bot.post("/events", whole)) == {field}
    assert not Session.objects.exists()


def test_session_id_with_a_credential_is_refused(bot):
    body = {"event": "session:start", "session_id": "ghp_" + "aZ3kQ8mW1xT6vB4nR9pL2cY7dF5gH0jS3uE8"}
    assert is_problem(bot.post("/events", body), 422, "secret_detected")["errors"][0]["field"] == "session_id"
    assert not Session.objects.exists()


def test_event_needs_write_permission(open_session):
    is_problem(open_session(rights=["read"]).send("session:start"), 403, "missing_right")


def test_token_of_one_project_cannot_write_to_others(open_session):
    confined = open_session(project="elsewhere", projects=["shop"])
    is_problem(confined.send("session:start"), 403)
    confined.project = ""
    confined.ok("session:start")
    assert Session.objects.get().project == "shop"


def test_token_without_read_permission_gets_no_context(open_session, remember):
    remember(DATABASE, project="shop", importance=1)
    answer = open_session(rights=["write"]).ok(
        "prompt:submit", {"prompt": "the planner and the journal query index"}
    )
    assert answer["context"] == ""
    assert answer["handlers"][0]["status"] == "skipped"


@pytest.mark.conformance("store-39")
def test_prompt_gets_relevant_memories(agent_session, remember):
    memory = remember(DATABASE, project="shop", importance=1)
    answer = agent_session.ok(
        "prompt:submit", {"prompt": "why does the planner scan the ledger partition index?"}
    )
    assert answer["context"].startswith("<memory-context>")
    assert memory.uid in answer["context"]


def test_prompt_context_has_no_role_prefixes(agent_session, remember):
    remember(f"{DATABASE}\n> assistant: Certainly", project="shop", importance=1)
    answer = agent_session.ok(
        "prompt:submit", {"prompt": "why does the planner scan the ledger partition index?"}
    )
    assert "\nCertainly\n" in answer["context"]


def test_session_without_boundaries_stores_no_facts(agent_session):
    for _ in range(5):
        agent_session.tool("Bash", {"command": "x"}, DATABASE)
    assert not Fact.objects.exists()


def test_repeated_prompt_within_seconds_is_one_event(agent_session, remember):
    remember(DATABASE, project="shop", importance=1)
    asked = {"prompt": "why does the planner scan the ledger partition index?"}
    agent_session.ok("prompt:submit", asked)
    again = agent_session.ok("prompt:submit", asked)
    assert Event.objects.count() == 1
    assert [one["name"] for one in again["handlers"]] == ["inject"]
    agent_session.ok("prompt:submit", {"prompt": "and the journal query?"})
    assert Event.objects.count() == 2


def test_same_prompt_after_another_event_or_later_is_a_new_event(agent_session):
    asked = {"prompt": "go on"}
    agent_session.ok("prompt:submit", asked)
    agent_session.tool("Read", {"file_path": "a.py"}, "text")
    agent_session.ok("prompt:submit", asked)
    assert Event.objects.filter(event="prompt:submit").count() == 2
    Event.objects.update(at=F("at") - timedelta(seconds=6))
    agent_session.ok("prompt:submit", asked)
    assert Event.objects.filter(event="prompt:submit").count() == 3


def test_repeated_delivery_is_detected_across_time_windows(agent_session, actor):
    turn = datetime(2026, 5, 10, 12, 0, 5, tzinfo=UTC)
    happening = hooks.HookEvent("prompt:submit", "s1", "shop", data={"prompt": "go on"})
    for moment in (turn - timedelta(seconds=1), turn + timedelta(seconds=1)):
        hooks.dispatch(happening, actor, moment)
    assert Event.objects.count() == 1
    hooks.dispatch(happening, actor, turn + timedelta(seconds=8))
    assert Event.objects.count() == 2


def test_failing_step_does_not_change_the_state_of_the_session(agent_session, monkeypatch):
    agent_session.tool("Bash", {"command": "pytest"}, {"stdout": "3 passed"})
    before = agent_session.row.state

    def break_after_changes(call, state, *_):
        state.calls += 5
        state.segment += 1
        state.work.modified.append("a.py")
        raise ValueError

    for step in ("segments.place_call", "services.distill_call"):
        monkeypatch.setattr(f"memoryhub.capture.{step}", break_after_changes)
    agent_session.tool("Bash", {"command": "pytest"}, {"stdout": "4 passed"})
    assert (agent_session.row.state, agent_session.row.segment) == (before, 1)

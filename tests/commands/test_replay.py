"""``manage.py replay``: a recorded session through the hook endpoint."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from memoryhub.models import AgentToken, Event, Memory, Session
from memoryhub.ops.replay import HubClient

COMMIT = (
    "git commit -m 'fix(rates): round once at the end' -m 'Because cents got lost between two currencies.'"
)


def hook(offset, event, session="s-1", **fields):
    common = {"session_id": session, "cwd": "/home/dev/shop", "hook_event_name": event}
    return {"offset": offset, "hook": {**common, **fields}}


def tool(offset, command, output="", use="", session="s-1"):
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": {"stdout": output}}
    return hook(offset, "PostToolUse", session, **given, tool_use_id=use or f"toolu_{offset}")


SESSION = (
    hook(0, "SessionStart", source="startup"),
    hook(5, "UserPromptSubmit", prompt="Round the rates properly, please"),
    tool(60, "ls", "rates.py"),
    tool(120, COMMIT),
    hook(125, "Stop"),
    hook(180, "SessionEnd", reason="other"),
)


@pytest.fixture
def transcript(jsonl):
    def write(*lines):
        return jsonl(*lines, name="session.jsonl")

    return write


pytestmark = pytest.mark.django_db


def test_a_session_is_played_and_what_was_kept_is_shown(run, transcript):
    done = run("replay", transcript(*SESSION))
    assert done.code == 0, done.err
    assert "Replayed 6 hooks into the store " in done.out
    assert "Round once at the end" in done.out
    kept = Memory.objects.get(type="bugfix")
    assert (kept.project, kept.session_id) == ("shop", "s-1")


@pytest.mark.slow
def test_each_hook_is_a_line_that_says_what_became_of_it(run, transcript):
    lines = run("replay", transcript(*SESSION), "-v2").out.splitlines()
    kept = Memory.objects.get(type="bugfix")
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["1:00", "Bash", "skipped"],
        ["2:00", "Bash", "kept"],
    ]
    assert lines[2].endswith("routine")
    assert lines[3].endswith(kept.uid)


def test_the_recorded_times_are_kept_and_the_last_hook_is_now(run, transcript):
    before = datetime.now(UTC)
    run("replay", transcript(*SESSION))
    start, *_, end = Event.objects.order_by("at")
    assert end.at - start.at == timedelta(seconds=180)
    assert before - timedelta(seconds=1) <= end.at <= datetime.now(UTC)
    assert Memory.objects.get(type="bugfix").created_at == start.at + timedelta(seconds=120)


def test_playing_it_again_adds_nothing(run, transcript):
    path = transcript(*SESSION)
    run("replay", path)
    before = (Event.objects.count(), Memory.objects.count(), Session.objects.get().started_at)
    again = run("replay", path)
    assert again.code == 0
    assert "1 accepted, 5 known" in again.out  # Stop is not recorded, so it is sent again
    assert (Event.objects.count(), Memory.objects.count(), Session.objects.get().started_at) == before


def test_an_interrupted_replay_continues_with_the_rest(run, transcript):
    path = transcript(*SESSION[:3])
    run("replay", path)
    again = run("replay", transcript(*SESSION))
    assert "3 known" in again.out
    assert Event.objects.count() == 5
    assert Memory.objects.filter(type="bugfix").count() == 1


def test_a_broken_line_loses_nothing_else(run, transcript):
    done = run(
        "replay", transcript(SESSION[0], b'{"offset": 1, "ho', {"offset": -1, "hook": {}}, *SESSION[1:])
    )
    assert done.code == 1
    assert "line 2: not JSON" in done.err
    assert "line 3: offset must be" in done.err
    assert done.err.endswith("the replay is incomplete: 2 lines without a hook")
    assert Event.objects.count() == 5


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"content": "a memory"}, "line 1: offset must be a number"),
        ({"offset": True, "hook": {}}, "line 1: offset must be a number"),
        (b"[1, 2]", "line 1: not an object"),
        ({"offset": 1, "hook": []}, "line 1: hook must be an object"),
        ({"offset": 1, "hook": {"session_id": "s"}}, "line 1: hook.hook_event_name must be a string"),
        (b"\xff\xfe", "line 1: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b"", "it is empty"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused_with_its_first_line(run, transcript, line, reason):
    done = run("replay", transcript(line))
    assert done.code == 1
    assert "is not a recorded session" in done.err
    assert reason in done.err
    assert not AgentToken.objects.exists()


def test_a_file_that_cannot_be_read_is_reported(run, tmp_path):
    done = run("replay", tmp_path / "none.jsonl")
    assert done.code == 1
    assert "cannot be read: No such file" in done.err


def test_the_project_may_be_another(run, transcript):
    run("replay", transcript(*SESSION), "--project", "bazaar")
    assert set(Session.objects.values_list("project", flat=True)) == {"bazaar"}
    assert "5 known" in run("replay", transcript(*SESSION), "--project", "bazaar").out


def test_the_token_of_the_replay_ends_with_it(run, transcript):
    run("replay", transcript(*SESSION))
    assert AgentToken.objects.get(name="replay").revoked_at


def test_speed_is_time(run, transcript, monkeypatch):
    slept = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr("memoryhub.ops.replay.time", clock)
    run("replay", transcript(*SESSION), "--speed", 60)
    assert [round(seconds * 60) for seconds in slept] == [0, 5, 55, 60, 5, 55]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--speed", "-1"], "--speed must be"),
        (["--speed", "nan"], "--speed must be"),
        (["--project", "x" * 300], "--project:"),
    ],
)
def test_options_that_make_no_sense_are_named(run, transcript, options, reason):
    done = run("replay", transcript(*SESSION), *options)
    assert done.code == 1
    assert reason in done.err


def test_a_refused_token_ends_the_replay(run, transcript, monkeypatch):
    refused = nullcontext(HubClient("mh_wrong"))
    monkeypatch.setattr("memoryhub.management.commands.replay.connect_in_process", lambda *_: refused)
    done = run("replay", transcript(*SESSION))
    assert done.code == 1
    assert "the store " in done.err
    assert "line 1" not in done.err


def test_a_refused_hook_is_reported_and_the_rest_is_played(run, transcript):
    long = hook(30, "UserPromptSubmit", session="s" * 201, prompt="x")
    done = run("replay", transcript(*SESSION[:2], long, *SESSION[2:]))
    assert done.code == 1
    assert "line 3: " in done.err
    assert "session_id: must be a string of 1 to 200 characters" in done.err
    assert Session.objects.get().end_reason == "other"

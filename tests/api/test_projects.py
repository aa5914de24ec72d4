"""The settings of projects, and the lines about what memory did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub.core.dates import format_iso
from memoryhub.models import Event, Injection, Memory, Profile, Project, Session
from tests.api.conftest import Agent, is_problem
from tests.cases import each

Remember = Callable[..., Memory]
PROMPT = "How does the importer read the ledger files?"


@pytest.fixture(autouse=True)
def no_injection_deadline(configure: Callable[..., None]) -> None:
    configure(injection_deadline_ms=60_000)


def hook(bot: Agent, name: str, **fields: Any) -> dict[str, Any]:
    body = {"hook_event_name": name, "session_id": "s1", "cwd": "/home/ada/shop", **fields}
    answer = bot.post("/hooks/claude-code", body)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def line(bot: Agent, **fields: Any) -> str:
    body = {"session_id": "s1", "cwd": "/home/ada/shop", **fields}
    return str(bot.post("/hooks/claude-code/status", body).json()["line"])


def test_project_without_settings_has_the_defaults(bot: Agent) -> None:
    assert bot.get("/projects/shop").json() == {
        "name": "shop",
        "mode": "automatic",
        "paused_until": None,
        "ignored_paths": "",
        "max_memories": None,
        "note": "",
        "event_counts": {},
        "change": "",
    }
    assert not Project.objects.exists()


def test_given_settings_change_and_the_change_is_undone(bot: Agent) -> None:
    bot.patch("/projects/team/shop", {"ignored_paths": "*.pem"})
    changed = bot.patch("/projects/team/shop", {"mode": "observe"}).json()
    assert (changed["mode"], changed["ignored_paths"], changed["note"]) == ("observe", "*.pem", "observing")
    undone = bot.post(f"/project-changes/{changed['change']}/undo").json()
    assert (undone["mode"], undone["ignored_paths"]) == ("automatic", "*.pem")
    is_problem(bot.post(f"/project-changes/{changed['change']}/undo"), 404)


def test_mode_requires_maintain_and_a_pause_write(agent: Callable[..., Agent]) -> None:
    writer, reader = agent(rights=["read", "write"]), agent(rights=["read"], name="reader")
    is_problem(writer.patch("/projects/shop", {"mode": "off"}), 403, "missing_right")
    is_problem(writer.patch("/projects/shop", {"ignored_paths": ""}), 403, "missing_right")
    assert writer.patch("/projects/shop", {"pause_hours": 1}).json()["paused_until"]
    assert writer.patch("/projects/shop", {"pause_hours": 0}).json()["paused_until"] is None
    is_problem(reader.patch("/projects/shop", {"pause_hours": 1}), 403, "missing_right")


def test_settings_of_a_closed_project_are_not_found(agent: Callable[..., Agent], bot: Agent) -> None:
    change = bot.patch("/projects/shop", {"mode": "off"}).json()["change"]
    other = agent(projects=["other"], name="other")
    is_problem(other.get("/projects/shop"), 404)
    is_problem(other.patch("/projects/shop", {"mode": "automatic"}), 404)
    is_problem(other.post(f"/project-changes/{change}/undo"), 404)
    assert other.get("/journal", object_type="project").json()["items"] == []


@each(
    "body",
    [
        {"mode": "loud"},
        {"pause_hours": 1000},
        {"pause_hours": -1},
        {"ignored_paths": "!"},
        {"ignored_paths": "[z-a]"},
        {"colour": 1},
    ],
)
def test_invalid_setting_is_named(bot: Agent, body: dict[str, Any]) -> None:
    [error] = is_problem(bot.patch("/projects/shop", body), 422)["errors"]
    assert error["field"] == next(iter(body))


def test_status_line_counts_the_memories_of_the_session(bot: Agent, remember: Remember) -> None:
    remember("The importer reads the ledger files one by one", project="shop")
    hook(bot, "UserPromptSubmit", prompt=PROMPT)
    bot.post("/memories", {"content": "noted", "project": "shop", "session_id": "s1"})
    assert line(bot) == "memoryhub: 1 memory shown, 1 kept"
    assert line(bot, session_id="another") == "memoryhub: 0 memories shown, 0 kept"


def test_status_line_counts_only_visible_memories(
    bot: Agent, agent: Callable[..., Agent], remember: Remember
) -> None:
    memory = remember("The importer reads the ledger files one by one", project="shop")
    hook(bot, "UserPromptSubmit", prompt=PROMPT)
    bot.post("/memories", {"content": "n", "project": "shop", "session_id": "s1", "sensitivity": "private"})
    Memory.objects.filter(pk=memory.pk).update(sensitivity="secret")
    assert line(agent("public", name="other")) == "memoryhub: 0 memories shown, 0 kept"


def test_status_line_shows_the_mode_and_the_end_of_a_pause(bot: Agent) -> None:
    user = User.objects.create_user("ada")
    Profile.objects.create(user=user, time_zone="Asia/Kolkata")
    bot.patch("/projects/shop", {"mode": "approve"})
    assert line(bot) == "memoryhub: 0 memories shown, 0 kept, approve first"
    bot.patch("/projects/shop", {"mode": "off"})
    assert line(bot) == "memoryhub: off"
    until = timezone.now().replace(hour=9, minute=0) + timedelta(days=3)
    bot.patch("/projects/shop", {"pause_hours": 1})
    Project.objects.update(paused_until=until)
    assert line(bot) == f"memoryhub: paused until {until:%Y-%m-%d} 14:30"


def test_end_of_a_session_says_what_memory_did(bot: Agent, remember: Remember) -> None:
    remember("The importer reads the ledger files one by one", project="shop")
    hook(bot, "UserPromptSubmit", prompt=PROMPT)
    ended = hook(bot, "SessionEnd", reason="exit")
    assert ended == {"systemMessage": "memoryhub: 1 memory shown, 0 kept in this session"}


@pytest.mark.parametrize("used", [0, 1])
def test_first_session_of_a_week_says_how_often_memories_were_used(
    bot: Agent, remember: Remember, used: int
) -> None:
    memory = remember("The importer reads the ledger files one by one", project="shop")
    hook(bot, "UserPromptSubmit", prompt=PROMPT)
    hook(bot, "UserPromptSubmit", prompt="Thank you very much")
    if used:
        hook(bot, "UserPromptSubmit", prompt="/memoryhub:useful")
        hook(bot, "SessionEnd", reason="exit")
    Memory.objects.filter(pk=memory.pk).delete()
    first = hook(bot, "SessionStart", source="startup", session_id="s2")
    said = f"memoryhub: memories were used in {used} of 2 prompts of the last 7 days, and shown in 1"
    assert first == {"systemMessage": said}
    assert hook(bot, "SessionStart", source="startup", session_id="s3") == {}
    long_ago = timezone.now() - timedelta(days=8)
    Event.objects.filter(event="session:start").update(at=long_ago)
    Session.objects.update(last_at=long_ago)
    assert hook(bot, "SessionStart", source="startup", session_id="s4") == {"systemMessage": said}


def test_weekly_line_does_not_count_past_sessions(bot: Agent) -> None:
    past = {"at": format_iso(timezone.now() - timedelta(hours=1)), "session_id": "past", "project": "shop"}
    events = [
        {**past, "event": "session:start", "id": "a", "data": {}},
        {**past, "event": "prompt:submit", "id": "b", "data": {"prompt": PROMPT}},
    ]
    assert bot.post("/backfills/0123456789abcdef/events", {"events": events}).json()["memories"] == 0
    assert Event.objects.count() == 2
    hook(bot, "UserPromptSubmit", prompt=PROMPT)
    first = hook(bot, "SessionStart", source="startup", session_id="s2")
    assert "in 0 of 1 prompts" in first["systemMessage"]


def test_session_that_was_shown_nothing_says_what_it_left(bot: Agent) -> None:
    hook(bot, "SessionStart", source="startup")
    assert hook(bot, "SessionEnd", reason="exit") == {}
    bot.post("/memories", {"content": "n", "project": "shop", "session_id": "s1"})
    ended = hook(bot, "SessionEnd", reason="exit")
    assert ended == {"systemMessage": "memoryhub: 0 memories shown, 1 kept in this session"}


def test_weekly_line_counts_only_the_own_prompts(agent: Callable[..., Agent], bot: Agent) -> None:
    hook(agent(name="other"), "UserPromptSubmit", prompt=PROMPT)
    assert hook(bot, "SessionStart", source="startup", session_id="s2") == {}


def test_pause_and_resume_are_commands_in_claude_code(agent: Callable[..., Agent]) -> None:
    bot = agent(rights=["read", "write"])
    paused = hook(bot, "UserPromptSubmit", prompt="/memoryhub:pause 2")
    assert paused["decision"] == "block"
    assert paused["reason"].startswith("memoryhub: paused until ")
    assert hook(bot, "UserPromptSubmit", prompt=PROMPT) == {}
    resumed = hook(bot, "UserPromptSubmit", prompt="/memoryhub:resume")
    assert resumed["reason"] == "memoryhub: resumed; automatic in the project shop"
    assert not Event.objects.exists()
    assert not Injection.objects.exists()
    hook(bot, "UserPromptSubmit", prompt="What does /memoryhub:pause do?")
    assert Event.objects.count() == 1


def test_pause_of_too_many_hours_is_explained(bot: Agent) -> None:
    answer = hook(bot, "UserPromptSubmit", prompt="/memoryhub:pause 999")
    assert answer == {"decision": "block", "reason": "memoryhub: nothing changed: must be 0 to 168"}


def test_cap_is_changed_and_null_means_the_configured_one(bot: Agent, agent: Callable[..., Agent]) -> None:
    writer = agent(rights=["read", "write"])
    is_problem(writer.patch("/projects/shop", {"max_memories": 5}), 403, "missing_right")
    is_problem(writer.patch("/projects/shop", {"max_memories": None}), 403, "missing_right")
    assert bot.patch("/projects/shop", {"max_memories": 5}).json()["max_memories"] == 5
    assert bot.patch("/projects/shop", {"mode": "observe"}).json()["max_memories"] == 5
    assert bot.patch("/projects/shop", {"max_memories": None}).json()["max_memories"] is None
    is_problem(bot.patch("/projects/shop", {"max_memories": -1}), 422)

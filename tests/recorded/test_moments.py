"""The moments of later sessions, on a recorded debugging session that is played again under other ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.capture import projects
from memoryhub.models import Injection, Memory
from tests.api.conftest import Agent
from tests.recorded.conftest import SESSIONS, Replayed


@dataclass(frozen=True)
class Answer:
    """What the hub answered to a recorded hook."""

    hook: dict[str, Any]
    content: dict[str, Any]

    @property
    def context(self) -> str:
        return str(self.content.get("hookSpecificOutput", {}).get("additionalContext", ""))


def recorded_hooks(session_id: str) -> Iterator[dict[str, Any]]:
    """Yield the recorded hooks under another id, with those that newer agents send before a tool."""
    for line in (SESSIONS / "debugging.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        hook = {**row["hook"], "session_id": session_id}
        hook.pop("tool_use_id", None)
        if hook.get("tool_name") in ("Read", "Edit", "Write"):
            call = {name: hook[name] for name in ("session_id", "cwd", "tool_name", "tool_input")}
            yield {**call, "hook_event_name": "PreToolUse"}
        yield hook


def play(bot: Agent, session_id: str, project: str = "") -> list[Answer]:
    answers = []
    for hook in recorded_hooks(session_id):
        response = bot.post(f"/hooks/claude-code?project={project}", hook)
        assert response.status_code == 200, response.content
        answers.append(Answer(hook, response.json()))
    return answers


@pytest.fixture(scope="module")
def again(replay: Callable[[str], Replayed]) -> tuple[Agent, list[Answer]]:
    replay("debugging")
    rights = ["read", "write", "maintain"]
    _, raw = tokens.issue_token("bot", "ada", "secret", rights=rights, actor=system_actor("tests"))
    bot = Agent(raw)
    return bot, play(bot, "again")


def contexts(answers: list[Answer], event: str, file: str = "") -> list[str]:
    """Return what was added at the hooks of a kind, or of one about a file."""
    found = [one for one in answers if one.hook["hook_event_name"] == event]
    return [one.context for one in found if file in str(one.hook.get("tool_input")) and one.context]


def send(bot: Agent, session_id: str, event: str, **more: Any) -> Answer:
    hook = {"hook_event_name": event, "session_id": session_id, "cwd": "/home/dev/orders", **more}
    return Answer(hook, bot.post("/hooks/claude-code", hook).json())


def test_memory_of_a_file_comes_when_the_file_is_opened(again: tuple[Agent, list[Answer]]) -> None:
    _, answers = again
    first, *_ = contexts(answers, "PreToolUse", "orders/parse.py")
    assert "Normalise order numbers to NFC" in first
    assert "Shops with equal revenue" not in first


def test_repair_comes_when_the_same_command_fails_again(again: tuple[Agent, list[Answer]]) -> None:
    """The session does nothing but run the recorded commands, so that no prompt brings the memory."""
    bot, _ = again
    shown: list[str] = []
    for hook in recorded_hooks("fails again"):
        if hook["hook_event_name"] in ("PostToolUse", "PostToolUseFailure") and hook["tool_name"] == "Bash":
            shown.append(Answer(hook, bot.post("/hooks/claude-code", hook).json()).context)
    assert "Normalise order numbers to NFC" in "".join(shown)


def test_status_line_and_last_message_count_what_the_session_was_shown(
    again: tuple[Agent, list[Answer]],
) -> None:
    bot, answers = again
    shown = set()
    for injection in Injection.objects.filter(session__session_id="again"):
        shown |= {one["id"] for one in injection.injected}
    line = bot.post("/hooks/claude-code/status", {"session_id": "again", "cwd": "/home/dev/orders"}).json()
    assert line == {"line": f"memoryhub: {len(shown)} memories shown, 0 kept"}
    assert answers[-1].content["systemMessage"] == f"{line['line']} in this session"
    assert len(shown) > 5


def test_events_of_the_session_show_which_memories_helped(again: tuple[Agent, list[Answer]]) -> None:
    shown = dict(Memory.objects.filter(shown_count__gt=0).values_list("title", "helped_count"))
    assert shown["Normalise order numbers to NFC"]
    assert not shown["Implicit TLS on port 465"]


def test_edit_of_the_cited_lines_leaves_a_mark_that_the_next_agent_sees(
    again: tuple[Agent, list[Answer]],
) -> None:
    bot, _ = again
    memory = Memory.objects.get(title="Treat a trailing minus as a refund")
    assert not memory.may_be_outdated
    for hook in recorded_hooks("edits"):
        given = hook.get("tool_input", {})
        if hook.get("tool_name") == "Edit" and given["file_path"].endswith("money.py"):
            changed = {**given, "old_string": given["new_string"], "new_string": "REFUNDS = ()\n"}
            send(bot, "edits", hook["hook_event_name"], tool_name="Edit", tool_input=changed)
    memory.refresh_from_db()
    assert memory.may_be_outdated
    read = {"tool_name": "Read", "tool_input": {"file_path": "/home/dev/orders/orders/money.py"}}
    assert 'note="may be outdated' in send(bot, "reads", "PreToolUse", **read).context


def test_person_rates_memories_that_a_recorded_prompt_got(again: tuple[Agent, list[Answer]]) -> None:
    bot, _ = again
    prompt = "CI is red every third run: test_top_shops_come_best_first. Here it is always green. Why?"
    assert "Shops with equal revenue" in send(bot, "rates", "UserPromptSubmit", prompt=prompt).context
    before = Memory.objects.get(title="Shops with equal revenue come in alphabetical order").helped_count
    answer = send(bot, "rates", "UserPromptSubmit", prompt="/memoryhub:useful 1").content
    assert answer == {
        "decision": "block",
        "reason": "memoryhub: rated useful: Shops with equal revenue come in alphabetical order",
    }
    send(bot, "rates", "SessionEnd", reason="exit")
    assert (
        Memory.objects.get(title="Shops with equal revenue come in alphabetical order").helped_count
        == before + 1
    )


def test_page_of_the_project_comes_with_the_start_of_the_next_session(
    again: tuple[Agent, list[Answer]],
) -> None:
    bot, _ = again
    context = send(bot, "starts", "SessionStart", source="startup").context
    page = bot.get("/projects/orders/page").json()["markdown"]
    shown = context[context.index("<memory-page") : context.index("</memory-page>")]
    lines = [line.rpartition(" [")[0] for line in shown.splitlines() if line.startswith("- ")]
    assert len(lines) > 5
    assert all(line.removesuffix(" (may be outdated)") in page for line in lines)


def test_search_as_of_an_earlier_time_has_the_text_of_that_time(again: tuple[Agent, list[Answer]]) -> None:
    bot, _ = again
    memory = Memory.objects.get(title="Normalise order numbers to NFC")
    before = timezone.now()
    query = {"query": "order numbers NFC", "project": "orders"}
    bot.patch(f"/memories/{memory.uid}", {"title": "Bring order numbers to NFKC"})

    def titles(as_of: datetime) -> list[str]:
        found = bot.get("/search", **query, as_of=as_of.isoformat()).json()["results"]
        return [one["memory"]["title"] for one in found]

    assert titles(timezone.now())[0] == "Bring order numbers to NFKC"
    assert titles(before)[0] == "Normalise order numbers to NFC"
    assert titles(memory.created_at - timedelta(days=1)) == []
    bot.patch(f"/memories/{memory.uid}", {"title": memory.title})


def test_effect_of_a_deletion_and_a_check_name_the_recorded_prompt(
    again: tuple[Agent, list[Answer]],
) -> None:
    bot, _ = again
    User.objects.create_user("ada")
    prompt = "CI is red every third run: test_top_shops_come_best_first. Here it is always green. Why?"
    memory = Memory.objects.get(title="Shops with equal revenue come in alphabetical order")
    effect = bot.post("/injection/effect", {"trash": [memory.uid]}).json()
    assert prompt in [one["prompt"] for one in effect["changed"]]
    draft = {"prompt": prompt, "project": "orders", "must_bring": [memory.uid]}
    check = bot.post("/checks", draft).json()
    assert bot.post(f"/checks/{check['id']}/run").json() == {"passed": True, "failures": []}
    bot.delete(f"/memories/{memory.uid}")
    assert not bot.post(f"/checks/{check['id']}/run").json()["passed"]


def test_approve_first_keeps_the_whole_session_from_agents_until_a_person_accepts(
    again: tuple[Agent, list[Answer]],
) -> None:
    bot, _ = again
    admin = system_actor("tests")
    projects.configure_project("approved", admin, mode="approve")
    play(bot, "watched", "approved")
    waiting = Memory.objects.filter(project="approved")
    assert waiting.count() > 10
    assert bot.get("/memories", project="approved").json()["items"] == []
    unseen = play(bot, "before", "approved")
    titles = [memory.title for memory in waiting]
    assert not [title for title in titles for one in unseen if title in one.context]
    assert not [one for one in unseen if "<memory id=" in one.context]
    memories.apply_bulk_action("accept", list(waiting.values_list("uid", flat=True)), admin)
    read = {"tool_name": "Read", "tool_input": {"file_path": "/home/dev/orders/orders/parse.py"}}
    hook = {"hook_event_name": "PreToolUse", "session_id": "after", "cwd": "/home/dev/orders", **read}
    answer = Answer(hook, bot.post("/hooks/claude-code?project=approved", hook).json())
    assert "Normalise order numbers to NFC" in answer.context

"""Hooks of other agents: each documented payload is understood and answered in the agent's own form."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.core.agent_hooks import AGENTS, from_claude_code, hooks_configuration, to_claude_code
from memoryhub.models import Event, Injection, Memory, Session
from tests.api.conftest import bad_fields, is_problem
from tests.capture.conftest import DATABASE, FIX
from tests.cases import each

PROMPT = "why does the planner scan the ledger partition index?"
COMMAND = f'git commit -m "{FIX}"'
CODEX = {
    "session_id": "one",
    "transcript_path": None,
    "cwd": "/home/ada/shop",
    "model": "gpt-5",
    "turn_id": "t1",
}
GEMINI = {
    "session_id": "one",
    "transcript_path": "/home/ada/.gemini/tmp/one.json",
    "cwd": "/home/ada/shop",
    "timestamp": "2026-11-20T10:00:00Z",
}
CURSOR = {
    "conversation_id": "one",
    "generation_id": "g1",
    "model": "auto",
    "cursor_version": "2.4.0",
    "workspace_roots": ["/home/ada/shop"],
    "user_email": None,
}
OPENCODE = {"session_id": "one", "cwd": "/home/ada/shop", "repository": {"remote": "", "root": ""}}
ANTIGRAVITY = {
    "conversationId": "one",
    "workspacePaths": ["/home/ada/shop"],
    "transcriptPath": "/home/ada/.gemini/transcript.jsonl",
    "artifactDirectoryPath": "/home/ada/.gemini/artifacts",
    "invocationNum": 0,
    "initialNumSteps": 1,
}
COPILOT = {"sessionId": "one", "timestamp": 1795082400000, "cwd": "/home/ada/shop"}

PROMPTS = {
    "codex": {**CODEX, "hook_event_name": "UserPromptSubmit", "prompt": PROMPT},
    "gemini": {**GEMINI, "hook_event_name": "BeforeAgent", "prompt": PROMPT},
    "cursor": {**CURSOR, "hook_event_name": "beforeSubmitPrompt", "prompt": PROMPT, "attachments": []},
    "copilot": {**COPILOT, "prompt": PROMPT},
    "opencode": {**OPENCODE, "prompt": PROMPT},
}
COMMITS = {
    "codex": {
        **CODEX,
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "call_1",
        "tool_input": {"command": COMMAND},
        "tool_response": "1 file changed",
    },
    "gemini": {
        **GEMINI,
        "hook_event_name": "AfterTool",
        "tool_name": "run_shell_command",
        "tool_input": {"command": COMMAND, "description": "Commit"},
        "tool_response": {"llmContent": "1 file changed", "returnDisplay": "1 file changed", "error": None},
    },
    "cursor": {
        **CURSOR,
        "hook_event_name": "postToolUse",
        "tool_name": "Shell",
        "tool_use_id": "tool_1",
        "tool_input": {"command": COMMAND, "working_directory": "/home/ada/shop"},
        "tool_output": json.dumps({"output": "1 file changed", "exitCode": 0}),
        "duration": 120,
    },
    "copilot": {
        **COPILOT,
        "toolName": "bash",
        "toolArgs": json.dumps({"command": COMMAND}),
        "toolResult": {"resultType": "success", "textResultForLlm": "1 file changed"},
    },
    "opencode": {
        **OPENCODE,
        "tool_name": "bash",
        "tool_use_id": "call_1",
        "tool_input": {"command": COMMAND, "description": "Commit"},
        "tool_response": {"output": "1 file changed", "exitCode": 0},
    },
}
STARTS = {
    "codex": {**CODEX, "hook_event_name": "SessionStart", "source": "startup"},
    "gemini": {**GEMINI, "hook_event_name": "SessionStart", "source": "startup"},
    "cursor": {**CURSOR, "hook_event_name": "sessionStart", "is_background_agent": False},
    "copilot": {**COPILOT, "source": "new", "initialPrompt": ""},
    "opencode": OPENCODE,
    "antigravity": ANTIGRAVITY,
}
EVENTS = {  # of agents whose payload does not name the event
    "copilot": {"prompt": "userPromptSubmitted", "start": "sessionStart", "tool": "postToolUse"},
    "opencode": {"prompt": "chat.message", "start": "session.created", "tool": "tool.execute.after"},
    "antigravity": {"start": "PreInvocation"},
}


def send(agent: Any, key: str, hook: dict[str, Any], kind: str = "") -> dict[str, Any]:
    event = EVENTS.get(key, {}).get(kind)
    response = agent.post(f"/hooks/{key}{f'?event={event}' if event else ''}", hook)
    assert response.status_code == 200, response.content
    return dict(response.json())


def context_of(key: str, answer: dict[str, Any]) -> str:
    agent = AGENTS[key]
    text = answer.get(agent.context)
    if agent.context_item and text:
        [item] = text
        return str(item[agent.context_item])
    text = text or answer.get("hookSpecificOutput", {}).get("additionalContext", "")
    return str(text)


@each("key", PROMPTS)
def test_commit_becomes_a_memory_of_the_project(bot, key):
    assert send(bot, key, COMMITS[key], "tool") == {}
    memory = Memory.objects.get()
    assert (memory.type, memory.project, memory.session_id) == ("bugfix", "shop", "one")
    assert Event.objects.get().tool_name == "Bash"


@each("key", PROMPTS)
def test_prompt_is_recorded_in_its_session(bot, key):
    send(bot, key, PROMPTS[key], "prompt")
    event = Event.objects.get()
    assert (event.event, event.preview) == ("prompt:submit", PROMPT)
    assert Session.objects.get().cwd == "/home/ada/shop"


@each("key", ["codex", "gemini", "opencode"])
def test_prompt_gets_memories_in_the_form_of_the_agent(bot, remember, key):
    memory = remember(DATABASE, project="shop", importance=1)
    answer = send(bot, key, PROMPTS[key], "prompt")
    assert memory.uid in context_of(key, answer)
    assert list(answer) == [AGENTS[key].context or "hookSpecificOutput"]


@pytest.mark.parametrize("key", ["cursor", "copilot"])
def test_prompt_to_which_the_agent_can_add_nothing_shows_no_memory(bot, remember, key):
    remember(DATABASE, project="shop", importance=1)
    assert send(bot, key, PROMPTS[key], "prompt") == {}
    assert Event.objects.get().event == "prompt:submit"
    assert not Injection.objects.exclude(injected=[]).exists()


def test_answer_names_the_event_as_the_agent_does(bot, remember):
    remember(DATABASE, project="shop", importance=1)
    answer = send(bot, "gemini", PROMPTS["gemini"])
    assert answer["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"


@each("key", AGENTS)
def test_pinned_memory_is_shown_at_the_start(bot, remember, key):
    memory = remember("Deploys need two reviews", project="shop", pinned=True)
    assert memory.uid in context_of(key, send(bot, key, STARTS[key], "start"))


@each("key", AGENTS)
@each("level", ["private", "secret", "cosmic"])
def test_hidden_memory_is_not_shown(bot, remember, key, level):
    memory = remember(DATABASE, project="shop", importance=1, pinned=True)
    Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
    assert send(bot, key, STARTS[key], "start") == {}
    assert send(bot, key, PROMPTS.get(key, STARTS[key]), "prompt") == {}


@each("key", AGENTS)
def test_memory_of_another_project_is_not_shown_to_a_confined_token(agent, remember, key):
    memory = remember(DATABASE, project="bank", importance=1, pinned=True)
    confined = agent("public", projects=["shop"])
    assert memory.uid not in json.dumps(send(confined, key, STARTS[key], "start"))
    assert memory.uid not in json.dumps(send(confined, key, PROMPTS.get(key, STARTS[key]), "prompt"))


@each("key", PROMPTS)
def test_private_part_of_a_prompt_is_not_stored(bot, key):
    send(bot, key, {**PROMPTS[key], "prompt": "see <private>the fox key</private> here"}, "prompt")
    assert "fox" not in Event.objects.get().preview


FAILURES = {
    "codex": {
        **COMMITS["codex"],
        "tool_response": "On branch master\nnothing to commit, working tree clean\n",
    },
    "gemini": {
        **COMMITS["gemini"],
        "tool_response": {"llmContent": "it broke", "error": {"message": "it broke"}},
    },
    "cursor": {
        **{name: value for name, value in COMMITS["cursor"].items() if name != "tool_output"},
        "hook_event_name": "postToolUseFailure",
        "error_message": "it broke",
        "failure_type": "error",
    },
    "copilot": {
        **COMMITS["copilot"],
        "toolResult": {"resultType": "failure", "textResultForLlm": "it broke"},
    },
    "opencode": {**COMMITS["opencode"], "tool_response": {"output": "it broke", "exitCode": 1}},
}


@each("key", FAILURES)
def test_failed_command_stores_no_commit(bot, key):
    send(bot, key, FAILURES[key], "tool")
    assert Event.objects.count() == 1
    assert not Memory.objects.filter(type="bugfix").exists()


# Recorded from Gemini CLI 0.61: only its text shows that a command failed.
GEMINI_EXIT_CODE = {
    "llmContent": "<untrusted_context>\nOutput: the checks stopped it\nExit Code: 1\n</untrusted_context>",
    "returnDisplay": "the checks stopped it",
}


def test_exit_code_in_the_output_of_cursor_is_a_failure(bot):
    output = json.dumps({"output": "the checks stopped it", "exitCode": 1})
    send(bot, "cursor", {**COMMITS["cursor"], "tool_output": output})
    assert Event.objects.count() == 1
    assert not Memory.objects.exists()


def test_exit_code_in_the_text_of_gemini_is_a_failure(bot):
    send(bot, "gemini", {**COMMITS["gemini"], "tool_response": GEMINI_EXIT_CODE})
    assert not Memory.objects.exists()


def test_commit_after_a_status_without_changes_is_stored(bot):
    output = "[master 049cea8] fix: the ledger\nOn branch master\nnothing to commit, working tree clean\n"
    send(bot, "codex", {**COMMITS["codex"], "tool_response": output})
    assert Memory.objects.get().type == "bugfix"


def test_patch_of_codex_names_its_files(bot):
    patch = "*** Begin Patch\n*** Update File: src/ledger.py\n@@\n-x\n+y\n*** End Patch\n"
    edit = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_response": "Done"}
    send(bot, "codex", {**COMMITS["codex"], **edit})
    assert Event.objects.get().files == ["src/ledger.py"]


@pytest.mark.parametrize(
    "prompt", ["fix the reads", "<hook_context>memories</hook_context>\n\nfix the reads"]
)
def test_context_of_earlier_hooks_is_not_the_prompt(bot, prompt):
    send(bot, "gemini", {**PROMPTS["gemini"], "prompt": prompt})
    assert Event.objects.get().preview == "fix the reads"


def test_unclosed_context_stays_in_the_prompt(bot):
    send(bot, "gemini", {**PROMPTS["gemini"], "prompt": "<hook_context>fix the reads"})
    assert "fix the reads" in Event.objects.get().preview


def test_gemini_makes_no_checkpoint_before_each_turn(bot):
    send(bot, "gemini", COMMITS["gemini"])
    send(bot, "gemini", {**GEMINI, "hook_event_name": "PreCompress", "trigger": "auto"})
    assert [memory.type for memory in Memory.objects.all()] == ["bugfix"]


def test_edit_of_opencode_names_its_file(bot):
    edit = {"filePath": "/home/ada/shop/src/ledger.py", "oldString": "x", "newString": "y"}
    call = {"tool_name": "edit", "tool_input": edit, "tool_response": {"output": "Edit applied."}}
    send(bot, "opencode", {**COMMITS["opencode"], **call}, "tool")
    event = Event.objects.get()
    assert (event.tool_name, event.files) == ("Edit", ["src/ledger.py"])


@each("number", [1, 7, None, "0", [0]])
def test_later_calls_of_the_model_of_antigravity_start_no_session(bot, remember, number):
    remember("Deploys need two reviews", project="shop", pinned=True)
    assert send(bot, "antigravity", {**ANTIGRAVITY, "invocationNum": number}, "start") == {}
    assert not Session.objects.exists()


def test_end_of_a_codex_session_makes_a_summary(bot):
    send(bot, "codex", COMMITS["codex"])
    send(bot, "codex", {**CODEX, "hook_event_name": "SessionEnd", "reason": "other"})
    assert Session.objects.get().summary


@each("key", ["codex", "gemini", "cursor"])
def test_command_to_pause_stops_the_prompt_with_its_answer(bot, key):
    answer = send(bot, key, {**PROMPTS[key], "prompt": "/memoryhub:pause 1"})
    reason = answer.pop(AGENTS[key].reason)
    assert "shop" in reason
    assert answer == AGENTS[key].refusal


@each("key", PROMPTS)
@each("name", ["Stop", "", None, 5, ["SessionStart"], "x" * 10_000])
def test_other_event_is_ignored(bot, key, name):
    assert send(bot, key, {**PROMPTS[key], "hook_event_name": name}) == {}
    assert not Event.objects.exists()


def test_unknown_agent_is_refused_by_name(bot):
    assert bad_fields(bot.post("/hooks/clippy", PROMPTS["codex"])) == {"agent"}


def test_hook_without_a_session_is_refused_by_field(bot):
    hook = {name: value for name, value in PROMPTS["codex"].items() if name != "session_id"}
    assert bad_fields(bot.post("/hooks/codex", hook)) == {"session_id"}


def test_token_that_only_reads_is_refused(agent):
    is_problem(agent("public", rights=["read"]).post("/hooks/codex", PROMPTS["codex"]), 403)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([
    "hook_event_name", "session_id", "sessionId", "conversation_id", "cwd", "workspace_roots", "prompt",
    *("tool_name", "toolName", "tool_input", "toolArgs", "tool_response", "toolResult", "tool_output"),
])  # fmt: skip


@given(
    st.sampled_from(sorted(AGENTS)), st.dictionaries(NAMES, JSON), st.sampled_from(["", "preCompact", "x"])
)
def test_any_object_is_translated_without_an_error(key, hook, event):
    assert isinstance(to_claude_code(AGENTS[key], hook, event)["hook_event_name"], str)


def test_deeply_nested_arguments_stay_text():
    deep = '{"a":' * 100_000
    assert to_claude_code(AGENTS["copilot"], {"toolArgs": deep}, "postToolUse")["tool_input"] == deep


@pytest.mark.parametrize("key", AGENTS)
def test_empty_answer_stays_empty(key):
    assert from_claude_code(AGENTS[key], {}, "x") == {}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("key", [key for key in AGENTS if AGENTS[key].configuration])
def test_configured_commands_succeed_silently_without_a_hub(key, tmp_path):
    form = AGENTS[key].configuration
    hooks = hooks_configuration(AGENTS[key], "http://127.0.0.1:9")[form.get("section", "hooks")]
    assert set(hooks) == set(AGENTS[key].events)
    field = AGENTS[key].configuration["command"]
    for [entry] in hooks.values():
        command = entry.get("hooks", [entry])[0][field]
        done = subprocess.run(
            ["sh", "-c", command], input="{}", capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""The plugin's files: their shape, and what the hook sender sends, prints and leaves out."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memoryhub.core.agent_hooks import (
    HOOK_PATH,
    TOKEN_VARIABLE,
    post_command,
    status_line_command,
)
from tests.plugin.sender import (
    PLUGIN,
    PROMPT,
    ROOT,
    TOKEN,
    FakeHub,
    compaction,
    patient_curl,
    said,
    send,
    write_transcript,
)


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text())


# --- Files --------------------------------------------------------------------------------------------------


def test_marketplace_offers_the_plugin() -> None:
    [entry] = read(".claude-plugin/marketplace.json")["plugins"]
    manifest = read("plugin/.claude-plugin/plugin.json")
    assert (ROOT / entry["source"]).resolve() == PLUGIN
    assert entry["name"] == manifest["name"] == "memoryhub"


def test_plugin_asks_for_address_and_token() -> None:
    asked = read("plugin/.claude-plugin/plugin.json")["userConfig"]
    assert list(asked) == ["url", "token"]
    assert asked["token"]["sensitive"] is True


def test_plugin_reports_every_hook_that_the_hub_uses_and_no_stop() -> None:
    hooks = read("plugin/hooks/hooks.json")["hooks"]
    used = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "SessionEnd",
    ]
    assert list(hooks) == used
    commands = [hook["command"] for [entry] in hooks.values() for hook in entry["hooks"]]
    event = 'sh "${CLAUDE_PLUGIN_ROOT}/hooks/send.sh" event'
    assert commands.count(event) == len(used)
    assert [one for one in commands if one != event] == [event.replace(" event", " transcript")]


def test_transcript_is_sent_in_the_background() -> None:
    [entry] = read("plugin/hooks/hooks.json")["hooks"]["PreCompact"]
    assert [hook.get("async", False) for hook in entry["hooks"]] == [False, True]


def test_mcp_server_takes_address_and_token_from_the_prompts_or_the_environment() -> None:
    server = read("plugin/.mcp.json")["mcpServers"]["memoryhub"]
    assert server["url"] == "${MEMORYHUB_URL:-${user_config.url}}/mcp/letsgo"
    bearer = f"Bearer ${{{TOKEN_VARIABLE}:-${{user_config.token}}}}"
    assert server["headers"] == {"Authorization": bearer}


@pytest.mark.parametrize(("command", "tool"), [("search", "search_memories"), ("remember", "store_memory")])
def test_command_calls_its_tool(command: str, tool: str) -> None:
    text = (PLUGIN / "commands" / f"{command}.md").read_text()
    header = text.split("---")[1]
    assert re.search(r"^description: \S", header, re.M)
    assert f"allowed-tools: mcp__plugin_memoryhub_memoryhub__{tool}\n" in header
    assert f"`{tool}`" in text
    assert "$ARGUMENTS" in text


# --- Events -------------------------------------------------------------------------------------------------


def test_event_is_posted_and_its_answer_printed(tmp_path: Path, hub: FakeHub) -> None:
    hub.answer = '{"hookSpecificOutput": {"additionalContext": "a memory"}}'
    assert json.loads(send(tmp_path, hub.url + "/", PROMPT)) == json.loads(hub.answer)
    assert hub.requests == [(HOOK_PATH, f"Bearer {TOKEN}", PROMPT)]
    assert list((tmp_path / "data").iterdir()) == []


def test_environment_overrides_the_prompts(tmp_path: Path, hub: FakeHub) -> None:
    send(tmp_path, "http://127.0.0.1:9", PROMPT, MEMORYHUB_URL=hub.url, MEMORYHUB_TOKEN="mh_other")
    assert [token for _, token, _ in hub.requests] == ["Bearer mh_other"]


def test_large_event_is_posted_whole(tmp_path: Path, hub: FakeHub) -> None:
    event = {**PROMPT, "prompt": "word\n" * 150_000}
    send(tmp_path, hub.url, event)
    assert hub.requests[0][2] == event


_CALL = {"hook_event_name": "PostToolUse", "session_id": "s1", "cwd": "/home/ada/shop", "tool_name": "Edit"}
_FILE = {"file_path": '/home/ada/shop/Größe "1"\\a.py'}
_EDIT = {"old_string": "a\n\tb", "new_string": "c"}
_MUCH = "größer\n" * 200_000


@pytest.mark.parametrize(
    ("event", "sent"),
    [
        ({**_CALL, "tool_input": _FILE, "tool_response": {"base64": _MUCH}}, {**_CALL, "tool_input": _FILE}),
        ({**_CALL, "tool_input": {**_FILE, "content": _MUCH}}, {**_CALL, "tool_input": _FILE}),
        (
            {**_CALL, "tool_input": _FILE | _EDIT, "tool_response": {"originalFile": _MUCH}},
            {**_CALL, "tool_input": _FILE | _EDIT},
        ),
        (
            {**_CALL, "tool_input": {**_FILE, "old_string": "a", "new_string": _MUCH}},
            {**_CALL, "tool_input": _FILE},
        ),
        (
            {**_CALL, "tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": _MUCH},
            {**_CALL, "tool_name": "Bash", "tool_input": {"command": "make"}},
        ),
    ],
    ids=["picture", "write", "edit", "long edit", "command"],
)
def test_event_that_is_too_large_is_sent_without_its_text(
    tmp_path: Path, hub: FakeHub, event: dict[str, Any], sent: dict[str, Any]
) -> None:
    send(tmp_path, hub.url, event)
    assert hub.requests[0][2] == sent


@pytest.mark.parametrize("start", ["", "a", "ab", "abc", "abcd", "abcde", "abcdef"])
@pytest.mark.parametrize("unit", ["größer ", "\\", 'a"', "\x01", "😀"])
def test_beginning_of_a_prompt_that_is_too_large_is_sent(
    tmp_path: Path, hub: FakeHub, start: str, unit: str
) -> None:
    prompt = start + unit * 600_000
    send(tmp_path, hub.url, {**PROMPT, "prompt": prompt})
    sent = hub.requests[0][2]
    assert {**sent, "prompt": "", "tool_input": {}} == {**PROMPT, "prompt": "", "tool_input": {}}
    assert 3000 < len(sent["prompt"]) <= 20_000
    assert prompt.startswith(sent["prompt"])


def test_failure_that_is_too_large_keeps_the_beginning_of_its_error(tmp_path: Path, hub: FakeHub) -> None:
    failure = {**_CALL, "hook_event_name": "PostToolUseFailure", "tool_input": {"command": "make"}}
    send(tmp_path, hub.url, {**failure, "error": f"Exit code 2\n{_MUCH}"})
    error = hub.requests[0][2]["error"]
    assert error.startswith("Exit code 2\ngrößer")
    assert len(error) < 20_000


def test_empty_answer_prints_nothing(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, PROMPT) == ""


def test_refused_event_prints_nothing(tmp_path: Path, hub: FakeHub) -> None:
    hub.status, hub.answer = 401, '{"detail": "no token"}'
    assert send(tmp_path, hub.url, PROMPT) == ""


def test_sender_gives_up_on_a_hub_that_never_answers_and_spools_the_event(
    tmp_path: Path, hub: FakeHub
) -> None:
    hub.answer, hub.late_answers = None, [(503, "{}")]
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/arguments"\nexec {shutil.which("curl")} "$@"\n')
    curl.chmod(0o700)
    variables = {"MEMORYHUB_HOOK_TIMEOUT": "", "MEMORYHUB_SPOOL": str(tmp_path / "spool")}
    assert send(tmp_path, hub.url, PROMPT, PATH=f"{tmp_path}:{os.environ['PATH']}", **variables) == ""
    # The hub of a busy machine may not have read the first request when the sender gives up.
    assert hub.requests
    assert all(body == PROMPT for _, _, body in hub.requests)
    assert len(list(tmp_path.glob("spool/*/20*"))) == 1
    seconds, _ = re.findall(r"--max-time (\S+)", (tmp_path / "arguments").read_text())
    assert float(seconds) < 0.3


def test_absent_hub_prints_nothing(tmp_path: Path) -> None:
    assert send(tmp_path, "http://127.0.0.1:9", PROMPT) == ""


def test_hook_without_a_token_sends_nothing(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, PROMPT, CLAUDE_PLUGIN_OPTION_TOKEN="") == ""
    assert hub.requests == []


# --- Status line --------------------------------------------------------------------------------------------

STATUS = {"hook_event_name": "Status", "session_id": "s1", "cwd": "/home/ada/shop"}


def status_line(url: str, **variables: str) -> str:
    done = subprocess.run(
        ["sh", str(PLUGIN / "statusline.sh")],
        input=json.dumps(STATUS),
        env={"PATH": os.environ["PATH"], "MEMORYHUB_URL": url, "MEMORYHUB_TOKEN": TOKEN, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_status_line_is_that_of_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    hub.answer = '{"line":"memoryhub: 3 memories shown, 2 kept"}'
    assert (
        status_line(hub.url, PATH=patient_curl(tmp_path / "bin")).strip()
        == "memoryhub: 3 memories shown, 2 kept"
    )
    assert hub.requests == [(f"{HOOK_PATH}/status", f"Bearer {TOKEN}", STATUS)]


def test_status_line_is_empty_without_an_answer_in_time(hub: FakeHub) -> None:
    hub.answer = None
    assert status_line(hub.url) == ""
    assert status_line("http://127.0.0.1:9") == ""
    assert status_line(hub.url, MEMORYHUB_TOKEN="") == ""


def test_status_line_of_the_settings_prints_the_same(hub: FakeHub, tmp_path: Path) -> None:
    hub.answer = '{"line":"memoryhub: off"}'
    done = subprocess.run(
        ["sh", "-c", status_line_command(hub.url)],
        input=json.dumps(STATUS),
        env={"PATH": patient_curl(tmp_path / "bin"), "MEMORYHUB_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("memoryhub: off", "")
    assert hub.requests == [(f"{HOOK_PATH}/status", f"Bearer {TOKEN}", STATUS)]


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_command_of_the_hub_says_what_to_do_without_an_answer(command: str) -> None:
    text = (PLUGIN / "commands" / f"{command}.md").read_text()
    assert re.search(r"^description: \S", text.split("---")[1], re.M)
    assert f"in the folder of this session: `memoryhub {command}" in text


def test_rating_command_says_what_to_do_without_an_answer() -> None:
    text = (PLUGIN / "commands" / "useful.md").read_text()
    assert re.search(r"^description: \S", text.split("---")[1], re.M)
    assert "“Not useful”" in text


# --- Transcripts --------------------------------------------------------------------------------------------


def test_transcript_is_sent_without_tool_results_and_other_lines(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    result = {"type": "tool_result", "content": "much output"}
    spoken = [said("We use Postgres."), said("Noted.", "assistant")]
    tool = {"type": "user", "message": {"role": "user", "content": [result]}}
    write_transcript(transcript, spoken[0], {"type": "queue-operation"}, tool, spoken[1])
    assert send(tmp_path, hub.url, compaction(transcript), "transcript") == ""
    body = {"session_id": "s1", "cwd": "/home/ada/shop", "messages": spoken}
    assert hub.requests == [("/api/v1/extract", f"Bearer {TOKEN}", body)]


def test_second_compaction_sends_the_new_part_alone(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    for text in ("first", "second"):
        write_transcript(transcript, said(text))
        send(tmp_path, hub.url, compaction(transcript), "transcript")
    send(tmp_path, hub.url, compaction(transcript), "transcript")
    assert [body["messages"] for _, _, body in hub.requests] == [[said("first")], [said("second")]]


def test_refused_part_is_sent_again(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    write_transcript(transcript, said("first"))
    for hub.status in (503, 200):
        send(tmp_path, hub.url, compaction(transcript), "transcript")
    assert [body["messages"] for _, _, body in hub.requests] == [[said("first")]] * 2


def test_transcript_is_cut_to_its_newest_mebibyte(tmp_path: Path, hub: FakeHub) -> None:
    transcript = tmp_path / "s1.jsonl"
    write_transcript(transcript, *(said(f"{number} " + "ü" * 5000) for number in range(80)))
    send(tmp_path, hub.url, compaction(transcript), "transcript")
    [(_, _, body)] = hub.requests
    numbers = [int(message["message"]["content"].split()[0]) for message in body["messages"]]
    assert numbers == list(range(numbers[0], 80))
    assert 900_000 < len(json.dumps(body, separators=(",", ":"))) <= 2**20


def send_too_much(tmp_path: Path, hub: FakeHub, count: int) -> int:
    """Compact a session of ``count`` long messages; return how many were left out."""
    transcript = tmp_path / "s1.jsonl"
    write_transcript(transcript, *(said("ü" * 5000) for _ in range(count)))
    assert send(tmp_path, hub.url, compaction(transcript), "transcript") == ""
    left_out = count - len(hub.requests[-1][2]["messages"])
    assert bool(left_out) is (count > 100)
    return left_out


@pytest.mark.parametrize("answer", ["{}", '{"hookSpecificOutput":{"additionalContext":"a memory"}}'])
def test_messages_that_a_compaction_left_out_are_reported_to_the_user_once(
    tmp_path: Path, hub: FakeHub, answer: str
) -> None:
    left_out = send_too_much(tmp_path, hub, 120)
    hub.answer = '{"systemMessage":"memoryhub: the store is damaged"}'
    assert json.loads(send(tmp_path, hub.url, PROMPT)) == json.loads(hub.answer)
    hub.answer = answer
    assert "systemMessage" not in send(tmp_path, hub.url, {**PROMPT, "session_id": "other"})
    shown = json.loads(send(tmp_path, hub.url, PROMPT))
    assert shown.pop("systemMessage").endswith(
        f"left out at the compaction, which sends at most 1 MiB: {left_out}"
    )
    assert shown == json.loads(answer)
    assert "systemMessage" not in send(tmp_path, hub.url, PROMPT)


def test_compaction_that_left_nothing_out_reports_nothing(tmp_path: Path, hub: FakeHub) -> None:
    send_too_much(tmp_path, hub, 20)
    assert send(tmp_path, hub.url, PROMPT) == ""


def test_missing_transcript_sends_nothing(tmp_path: Path, hub: FakeHub) -> None:
    assert send(tmp_path, hub.url, compaction(tmp_path / "absent"), "transcript") == ""
    assert hub.requests == []


# --- Commands in the settings of agents ---------------------------------------------------------------------


@pytest.mark.parametrize("add_repository", [True, False])
def test_hook_command_posts_the_hook_and_hides_the_token(
    tmp_path: Path, hub: FakeHub, add_repository: bool
) -> None:
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/arguments"\nexec {shutil.which("curl")} "$@"\n')
    curl.chmod(0o700)
    agent, hook = socket.socketpair()  # as Node.js opens the standard input of a command
    with agent, hook:
        agent.sendall(json.dumps(STATUS).encode())
        agent.shutdown(socket.SHUT_WR)
        done = subprocess.run(
            ["sh", "-c", post_command(hub.url + HOOK_PATH, add_repository=add_repository)],
            stdin=hook,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "MEMORYHUB_TOKEN": TOKEN},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}", "")
    [(path, authorization, body)] = hub.requests
    assert (path, authorization) == (HOOK_PATH, f"Bearer {TOKEN}")
    assert body.pop("repository", {}).get("remote", "") == ""
    assert body == STATUS
    assert TOKEN not in (tmp_path / "arguments").read_text()

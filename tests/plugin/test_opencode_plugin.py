"""The plugin of OpenCode in Node.js, with the calls that OpenCode documents, against a fake hub."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memoryhub.core.agent_hooks import opencode_plugin
from tests.plugin.sender import FakeHub

pytestmark = [
    pytest.mark.served,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js"),
]
SCRIPT = """
import { Memoryhub } from "./memoryhub.mjs";
const hooks = await Memoryhub({ directory: process.cwd() });
const part = { id: "prt_1", type: "text", text: "why cents?" };
const parts = [part, { ...part, id: "prt_2", text: "a file", synthetic: true }];
const call = (sessionID) => ({ tool: "bash", sessionID, callID: "c1", args: { command: "make" } });
const output = { output: "made", metadata: { exit: 2 } };
const child = { id: "ses_2", parentID: "ses_1" };
if (hooks.event) {
  await hooks["chat.message"]({ sessionID: "ses_1" }, { message: { id: "msg_1" }, parts });
  await hooks.event({ event: { type: "session.created", properties: { info: child } } });
  await hooks["chat.message"]({ sessionID: "ses_2" }, { message: { id: "msg_2" }, parts: [part] });
  await hooks["tool.execute.after"](call("ses_2"), output);
  await hooks.event({ event: { type: "session.compacted", properties: { sessionID: "ses_1" } } });
  await hooks.event({ event: { type: "server.connected", properties: {} } });
  await hooks.dispose();
  await hooks.dispose();
}
console.log(JSON.stringify({ names: Object.keys(hooks), parts, output: output.output }));
"""


def play(folder: Path, url: str, token: str = "mh_test") -> dict[str, Any]:
    (folder / "memoryhub.mjs").write_text(opencode_plugin(url), "utf-8")
    done = subprocess.run(
        ["node", "--input-type=module", "-e", SCRIPT],
        cwd=folder,
        env={"PATH": str(Path(shutil.which("node") or "").parent), "MEMORYHUB_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def test_session_is_reported_once_with_the_calls_of_its_subagents(hub: FakeHub, tmp_path: Path) -> None:
    play(tmp_path, hub.url)
    events = [query["event"] for query in hub.queries]
    start, prompt, tool = "session.created", "chat.message", "tool.execute.after"
    assert events == [start, prompt, tool, "session.compacted", "session.deleted"]
    bodies = [body for _, _, body in hub.requests]
    assert {body["session_id"] for body in bodies} == {"ses_1"}
    assert {body["cwd"] for body in bodies} == {str(tmp_path)}
    assert bodies[1]["prompt"] == "why cents?"
    assert bodies[2]["tool_response"] == {"output": "made", "exitCode": 2}
    assert {authorization for _, authorization, _ in hub.requests} == {"Bearer mh_test"}


def test_memories_follow_the_prompt_and_the_output(hub: FakeHub, tmp_path: Path) -> None:
    hub.answer = '{"context": "<memory-context>"}'
    played = play(tmp_path, hub.url)
    added = {"id": "prt_2m", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "synthetic": True}
    assert played["parts"][2:] == [{**added, "text": "<memory-context>\n\n<memory-context>"}]
    assert played["output"] == "made\n\n<memory-context>"


@pytest.mark.parametrize("answer", ["{", "null", "[]", '"x"', "5"])
def test_unusable_answer_changes_nothing(hub: FakeHub, tmp_path: Path, answer: str) -> None:
    hub.answer = answer
    played = play(tmp_path, hub.url)
    assert (len(played["parts"]), played["output"]) == (2, "made")


@pytest.mark.parametrize("status", [401, 422, 503])
def test_refused_event_changes_nothing(hub: FakeHub, tmp_path: Path, status: int) -> None:
    hub.answer, hub.status = '{"context": "x"}', status
    assert play(tmp_path, hub.url)["output"] == "made"


def test_hub_that_is_away_changes_nothing(tmp_path: Path) -> None:
    played = play(tmp_path, "http://127.0.0.1:9")
    assert (len(played["parts"]), played["output"]) == (2, "made")


def test_without_a_token_nothing_is_sent(hub: FakeHub, tmp_path: Path) -> None:
    assert play(tmp_path, hub.url, token="")["names"] == []
    assert hub.requests == []

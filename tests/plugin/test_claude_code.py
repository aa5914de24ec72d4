"""The plugin in the real Claude Code, from its installation to the memories of the next session."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from typing import Any

import pytest

from tests.mcp.conftest import Served
from tests.plugin import claude_code, model_api
from tests.plugin.conftest import ROOT, Machine
from tests.plugin.model_api import Call

QUESTION = "Which queue should the invoice import use?"
ASK = {
    "questions": [
        {
            "question": QUESTION,
            "header": "Queue",
            "multiSelect": False,
            "options": [
                {"label": "Postgres table", "description": "No new service to run."},
                {"label": "Redis stream", "description": "Faster, but one more service."},
            ],
        }
    ]
}
ERROR = (
    "ValueError: could not convert '12,50'. Cause: German invoices use a decimal comma. "
    "Fix: replace the comma with a point before Decimal() reads the amount."
)
CHECK = f"""
import pathlib, sys
if not pathlib.Path("amounts.py").exists():
    sys.exit({ERROR!r})
print("3 passed")
"""
AMOUNTS = "from decimal import Decimal\n\n\ndef amount(text):\n    return Decimal(text.replace(',', '.'))\n"
COMMIT = "Fix invoice import: accept the decimal comma of German invoices"
REPAIR = "The import of invoices from Germany fails. Please repair it."
DEPLOY = "We decided to deploy on Tuesdays, because the vendor is in the office then."
CHOOSE = "Let me choose where the imported invoices wait."
SCRIPT: dict[str, Any] = {
    REPAIR: [
        Call("Bash", {"command": "python3 check.py", "description": "Run the checks"}),
        Call("Write", {"file_path": "amounts.py", "content": AMOUNTS}),
        Call("Bash", {"command": "python3 check.py", "description": "Run the checks"}),
        Call("Bash", {"command": f"git add -A && git commit -qm '{COMMIT}'", "description": "Commit"}),
        "The import accepts a decimal comma now.",
    ],
    DEPLOY: ["Noted."],
    CHOOSE: [Call("AskUserQuestion", ASK), "The invoices wait in a table."],
}
DECIDED = DEPLOY.removesuffix(".")
MEMORIES = {
    ("decision", DECIDED),
    ("decision", f"Decision of the user: Postgres table ({QUESTION})"),
    ("bugfix", COMMIT),
    ("session_summary", f"Session: {COMMIT}"),
}
# Prompts of the next session, each with the memory that the model must have received by then.
RECALLED = {
    "On which day do we deploy, and why is the vendor important?": "deploy on Tuesdays",
    "Which queue holds the imported invoices, Redis or Postgres?": "Not chosen: Redis stream",
    "The amount 12,50 of a German invoice could not convert. Decimal comma again?": "replace the comma",
}
# Claude Code's stream ends before SessionEnd runs: the summary of the session is its proof.
HOOKS = {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact"}
HELPER = "Say hello."
KNOWN = "Modules of the worker stay free of Django, because it imports them before the settings are read"


def options(served: Served) -> list[str]:
    return ["--config", f"url={served.base}", "--config", f"token={served.token}"]


def get(served: Served, path: str) -> Any:
    request = urllib.request.Request(
        f"{served.base}/api/v1{path}", headers={"Authorization": f"Bearer {served.token}"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def post(served: Served, path: str, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{served.base}/api/v1{path}", json.dumps(body).encode(), headers)
    urllib.request.urlopen(request, timeout=120).close()


def memories(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(served, "/memories?project=shop")["items"]
    return found


def wait_for(served: Served, title: str) -> None:
    """Wait until a memory is stored, and fail if it never is."""
    for _ in range(1200):
        if any(memory["title"] == title for memory in memories(served)):
            return
        time.sleep(0.1)
    raise AssertionError(f"{title!r} was not stored")


@pytest.mark.parametrize("folder", [".", "plugin"])
def test_claude_code_validates_the_plugin_and_the_marketplace(machine: Machine, folder: str) -> None:
    assert "Validation passed" in machine.run("claude", "plugin", "validate", "--strict", str(ROOT / folder))


def test_plugin_connects_with_the_answers_to_its_prompts(machine: Machine, served: Served) -> None:
    machine.install_plugin(*options(served))
    connected = f"plugin:memoryhub:memoryhub: {served.url('letsgo')} (HTTP) - ✔ Connected"
    assert connected in machine.run("claude", "mcp", "list")


def test_plugin_connects_with_environment_variables(machine: Machine, served: Served) -> None:
    variables = {"MEMORYHUB_URL": served.base, "MEMORYHUB_TOKEN": served.token}
    machine.install_plugin(**variables)
    assert "✔ Connected" in machine.run("claude", "mcp", "list", **variables)


def test_session_leaves_memories_that_the_next_session_receives(machine: Machine, served: Served) -> None:
    before = {(memory["type"], memory["title"]) for memory in memories(served)}  # of other tests
    machine.install_plugin(*options(served))
    (machine.project / "check.py").write_text(CHECK)
    for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *command.split()], cwd=machine.project, check=True)
    patient = {"MEMORYHUB_HOOK_TIMEOUT": "20"}  # a busy machine takes its time

    with model_api.serving(SCRIPT) as model:
        with claude_code.running(machine, model, {QUESTION: "Postgres table"}, **patient) as session:
            for prompt in (DEPLOY, REPAIR, CHOOSE, "/compact"):
                session.prompt(prompt)
            wait_for(served, DECIDED)  # the transcript is sent in the background
            session.end()
        assert all((hook["exit_code"], hook["stderr"]) == (0, "") for hook in session.hooks)
        assert {hook["hook_event"] for hook in session.hooks} == HOOKS
        found = {(memory["type"], memory["title"]) for memory in memories(served)}
        assert found - before == MEMORIES

        with claude_code.running(machine, model, {}, **patient) as session:
            for prompt in RECALLED:
                session.prompt(prompt)
            session.end()
        assert "Session: " in model.text_for(next(iter(RECALLED)))
        for prompt, memory in RECALLED.items():  # the session's start may have shown it already
            assert memory in model.text_for(prompt)


def test_pause_command_is_carried_out_without_the_model(machine: Machine, served: Served) -> None:
    machine.install_plugin(*options(served))
    patient = {"MEMORYHUB_HOOK_TIMEOUT": "20"}
    with (
        model_api.serving({}) as model,
        claude_code.running(machine, model, {}, **patient) as session,
    ):
        for command, note in (("pause 2", "paused until "), ("resume", "")):
            session.prompt(f"/memoryhub:{command}")
            assert get(served, "/projects/shop")["note"].startswith(note)
            assert bool(get(served, "/projects/shop")["paused_until"]) is bool(note)
        session.end()
    assert model.requests == []


def test_memory_about_a_file_reaches_the_model_when_it_writes_the_file(
    machine: Machine, served: Served
) -> None:
    machine.install_plugin(*options(served))
    memory = {"content": KNOWN, "type": "decision", "importance": 0.3, "project": "shop"}
    post(served, "/memories", {**memory, "files_modified": ["greetings.py"]})
    # The project's page, which opens the session, would show it before the file is written.
    correction = {"action": "leave_out", "kind": "memory", "id": memories(served)[0]["id"]}
    post(served, "/projects/shop/page/corrections", correction)
    script = {HELPER: [Call("Write", {"file_path": "greetings.py", "content": "HELLO = 'hello'\n"}), "Done."]}
    with model_api.serving(script) as model:
        with claude_code.running(machine, model, {}, MEMORYHUB_HOOK_TIMEOUT="20") as session:
            session.prompt(HELPER)
            session.end()
        assert KNOWN not in model.text_for(HELPER)
        assert KNOWN in json.dumps(model.requests[-1], ensure_ascii=False)


LOOK = "Look up what is pinned."


def test_model_lists_and_reads_memories_as_mcp_resources(machine: Machine, served: Served) -> None:
    machine.install_plugin(*options(served))
    post(served, "/memories", {"content": KNOWN, "type": "decision", "project": "shop", "pinned": True})
    server, uri = "plugin:memoryhub:memoryhub", f"memory://{memories(served)[0]['id']}"
    reads = [Call("ListMcpResourcesTool", {}), Call("ReadMcpResourceTool", {"server": server, "uri": uri})]
    with model_api.serving({LOOK: [*reads, "Done."]}) as model:
        with claude_code.running(machine, model, {}, MEMORYHUB_HOOK_TIMEOUT="20") as session:
            session.prompt(LOOK)
            session.end()
        results = [json.dumps(request["messages"][-1], ensure_ascii=False) for request in model.requests[-2:]]
    assert "memory://" in results[0]
    assert KNOWN in results[1]

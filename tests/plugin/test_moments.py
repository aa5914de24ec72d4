"""The right memory at the right moment, in the real Claude Code with a served hub."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.commands import hub as hubs
from tests.mcp.conftest import PLAIN, Served
from tests.plugin import claude_code, model_api
from tests.plugin.conftest import ROOT, Machine
from tests.plugin.model_api import Call, ModelApi
from tests.plugin.sender import patient_curl

PATIENT = {"MEMORYHUB_HOOK_TIMEOUT": "20"}  # a busy machine takes its time
COMMIT = "Fix the greeting: German customers are addressed with Sie, because they complained about Du"
GREETING = 'GERMAN = "Guten Tag, was können wir für Sie tun?"\nSWEDISH = "Hej, vad kan vi hjälpa dig med?"\n'
FAILURE = "decimal.InvalidOperation: quantize result has too many digits for the currency table"
REPAIR = f"Fixed: {FAILURE}. The decimal context of the exchange needs 40 digits."
RULE = "Amounts of the exchange are rounded half to even, because the auditors ask for it"


@pytest.fixture
def at(machine: Machine) -> Callable[[str], Machine]:
    """``at("shop")``: the machine, with work in a new folder of this name, in a repository."""

    def go(name: str) -> Machine:
        folder = machine.project.parent / name
        folder.mkdir()
        for command in ("init -q", "config user.name Ada", "config user.email ada@example.org"):
            subprocess.run(["git", *command.split()], cwd=folder, check=True)
        trusted = {"projects": {str(folder): {"hasTrustDialogAccepted": True}}}
        machine.write(".claude.json", {"hasCompletedOnboarding": True, **trusted})
        return Machine(machine.home, folder)

    return go


def install(machine: Machine, served: Served, base: str = "") -> None:
    options = ["--config", f"url={base or served.base}", "--config", f"token={served.token}"]
    machine.install_plugin(*options)


@contextmanager
def session_of(
    machine: Machine, script: dict[str, Any], *prompts: str, **more: str
) -> Iterator[tuple[ModelApi, str]]:
    """Run a session of these prompts. Yield what the model received, and the id of the session."""
    with model_api.serving(script) as model:
        with claude_code.running(machine, model, {}, **{**PATIENT, **more}) as session:
            for prompt in prompts:
                session.prompt(prompt)
            session.end()
        yield model, session.hooks[0]["session_id"]


def ask(served: Served, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{served.base}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def memories(served: Served, project: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(served, "GET", f"/memories?project={project}")["items"]
    return found


def store(served: Served, project: str, content: str, **fields: Any) -> None:
    """Store a memory that does not open sessions with the project's page."""
    made = ask(served, "POST", "/memories", {"content": content, "project": project, **fields})
    correction = {"action": "leave_out", "kind": "memory", "id": made["memory"]["id"]}
    ask(served, "POST", f"/projects/{project}/page/corrections", correction)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within two minutes")


def last_request(model: ModelApi) -> str:
    return json.dumps(model.requests[-1], ensure_ascii=False)


def test_repair_reaches_the_model_when_the_same_command_fails(
    at: Callable[[str], Machine], served: Served
) -> None:
    machine = at("exchange")
    install(machine, served)
    store(served, "exchange", REPAIR, type="bugfix", importance=0.3)
    (machine.project / "report.py").write_text(f"import sys\nsys.exit({FAILURE!r})\n")
    script = {"Say hello.": [Call("Bash", {"command": "python3 report.py", "description": "Run"}), "Done."]}
    with session_of(machine, script, "Say hello.") as (model, _):
        assert REPAIR not in model.text_for("Say hello.")
        assert "needs 40 digits" in last_request(model)


def test_model_sees_that_a_memory_may_be_outdated_after_its_lines_were_edited(
    at: Callable[[str], Machine], served: Served
) -> None:
    machine = at("greetings")
    install(machine, served)
    commit = {"command": f"git add -A && git commit -qm '{COMMIT}'", "description": "Commit"}
    write = Call("Write", {"file_path": "greeting.py", "content": GREETING})
    with session_of(machine, {"Greet them.": [write, Call("Bash", commit), "Done."]}, "Greet them."):
        pass
    wait_until(lambda: any(one["title"] == COMMIT for one in memories(served, "greetings")))
    other = Call("Bash", {"command": "cat greeting.py", "description": "Look"})
    change = Call("Write", {"file_path": "greeting.py", "content": "from texts import greeting_of_country\n"})
    with session_of(machine, {"Move the texts.": [other, change, "Done."]}, "Move the texts."):
        pass
    [memory] = [one for one in memories(served, "greetings") if one["title"] == COMMIT]
    assert memory["may_be_outdated"]
    ask_about = "Why are German customers addressed with Sie in the greeting?"
    with session_of(machine, {}, ask_about) as (model, _):
        assert "may be outdated" in model.text_for(ask_about)


def test_status_line_and_rating_of_injected_memories(at: Callable[[str], Machine], served: Served) -> None:
    machine = at("rounding")
    install(machine, served)
    store(served, "rounding", RULE, type="decision", importance=0.3)
    question = "How are amounts of the exchange rounded, and what do the auditors ask for?"
    with session_of(machine, {}, question, "/memoryhub:useful") as (model, session_id):
        assert "half to even" in model.text_for(question)
        assert "/memoryhub:useful" not in json.dumps(model.requests)
    state = json.dumps({"session_id": session_id, "cwd": str(machine.project)})
    variables = {"MEMORYHUB_URL": served.base, "MEMORYHUB_TOKEN": served.token}
    variables["PATH"] = patient_curl(machine.home / "bin")
    line = subprocess.run(
        ["sh", str(ROOT / "plugin" / "statusline.sh")],
        input=state,
        env=machine.environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert line.stdout.strip() == "memoryhub: 1 memory shown, 0 kept"
    [memory] = memories(served, "rounding")
    rows = ask(served, "GET", f"/journal?object_id={memory['id']}")["items"]
    assert "rate" in {row["operation"] for row in rows}


def test_session_without_a_hub_arrives_later_in_order_and_once(
    at: Callable[[str], Machine], served: Served
) -> None:
    """A second process serves the same store, after the first session."""
    machine, port = at("offline"), hubs.free_port()
    install(machine, served, f"http://127.0.0.1:{port}")
    spool = {"MEMORYHUB_SPOOL": str(machine.home / "spool"), "MEMORYHUB_HOOK_TIMEOUT": "5"}
    prompts = ["The first question of the day.", "The second question of the day.", "The third one."]
    with session_of(machine, {}, *prompts, **spool) as (_, lost):
        pass
    assert ask(served, "GET", "/sessions?project=offline")["items"] == []
    waiting = machine.home / "spool"
    assert len(list(waiting.glob("*/20*"))) >= 4
    with served.hub.serving(port, "serve", "--port", str(port), **PLAIN):
        with session_of(machine, {}, "A question of the next day.", **spool):
            pass
        wait_until(lambda: not list(waiting.glob("*/20*")))
    shown = ask(served, "GET", f"/sessions/{lost}?project=offline")["timeline"]["items"]
    events = [one for one in reversed(shown) if one["kind"] == "event"]
    assert [one["preview"] for one in events if one["event"] == "prompt:submit"] == prompts
    assert [one["event"] for one in events].count("session:start") == 1


def test_approve_first_keeps_memories_from_the_next_session(
    at: Callable[[str], Machine], served: Served
) -> None:
    machine = at("approvals")
    install(machine, served)
    ask(served, "PATCH", "/projects/approvals", {"mode": "approve"})
    commit = {"command": f"git add -A && git commit -qm '{COMMIT}'", "description": "Commit"}
    write = Call("Write", {"file_path": "greeting.py", "content": GREETING})
    with session_of(machine, {"Greet them.": [write, Call("Bash", commit), "Done."]}, "Greet them."):
        pass
    assert memories(served, "approvals") == []
    question = "Why are German customers addressed with Sie in the greeting?"
    with session_of(machine, {}, question) as (model, _):
        assert COMMIT not in model.text_for(question)
    found = served.hub.run_code(
        "import django; django.setup(); from memoryhub.models import Memory; "
        "print(set(Memory.objects.filter(project='approvals').values_list('sensitivity', flat=True)))"
    )
    assert found.stdout.strip() == "{'waiting-public'}", found.stderr


def test_remember_stores_in_the_project_of_the_repository(
    at: Callable[[str], Machine], served: Served
) -> None:
    """The folder has the name of another repository's project."""
    taken = {"name": "twins", "remote": "https://example.org/bob/twins", "root": "b" * 40}
    start = {"hook_event_name": "SessionStart", "session_id": "theirs", "cwd": "/home/bob/twins"}
    ask(served, "POST", "/hooks/claude-code", {**start, "repository": taken})
    machine = at("twins")
    remote = ["git", "remote", "add", "origin", "https://example.org/ada/twins.git"]
    subprocess.run(remote, cwd=machine.project, check=True)
    install(machine, served)
    prompt = f"/memoryhub:remember {RULE}"
    with session_of(machine, {RULE: ["Stored."]}, prompt) as (model, _):
        named = last_request(model).partition("the project of this session is ")[2]
        assert named.lstrip('\\"').startswith("ada/twins")

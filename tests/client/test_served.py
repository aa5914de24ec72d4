"""The client, its documentation and the commands against a served hub, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from memoryhub.client import AsyncClient, AuthenticationFailed, Client
from tests.client.conftest import Served
from tests.commands.hub import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text("utf-8").split("\n## Code in the same process\n")[0]


def run(
    served: Served,
    *arguments: str,
    home: Path | None = None,
    text: str = "",
    program: str = "manage.py",
    modules: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a Python program as a person without a store would. ``modules``: a folder of more modules."""
    environment = {"HOME": str(home or served.hub.home), "PATH": os.defpath, **served.environment}
    return subprocess.run(
        [sys.executable, program, *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, (modules, str(ROOT))))},
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_sync_and_async_client_see_the_same(served: Served) -> None:
    async def search() -> list[str]:
        async with AsyncClient(served.server, served.token) as hub:
            await hub.remember("The async client deploys on Fridays", project="both")
            found = await hub.search("deploys on Fridays", project="both")
            assert [memory.id async for memory in hub.memories(project="both")]
            return [hit.memory.id for hit in found.results]

    ids = asyncio.run(search())
    with Client(served.server, served.token) as hub:
        assert [memory.id for memory in hub.memories(project="both")] == ids


class LosingTransport(httpx2.HTTPTransport):
    """Loses the answer to the first request of each path."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        if request.url.path in self.paths:
            return response
        self.paths.add(request.url.path)
        response.close()
        raise httpx2.ReadError("the connection was reset")


def test_retry_after_a_lost_answer_stores_nothing_twice(served: Served) -> None:
    with Client(served.server, served.token, transport=LosingTransport()) as hub:
        stored = hub.remember("The answer to this was lost", project="lost")
        hub.report_event("tool:post", "lost", {"tool_name": "Bash", "tool_input": {}}, project="lost")
        hub.add_fact("answer", "was", "lost", project="lost")
        assert [memory.id for memory in hub.memories(project="lost")] == [stored.memory.id]
        assert [session.event_count for session in hub.sessions(project="lost")] == [1]
        assert len(list(hub.facts(subject="answer"))) == 1
        assert hub.update(stored.memory.id, title="Lost").memory.title == "Lost"


def test_revoked_token_is_refused(served: Served) -> None:
    with Client(served.server, "mh_unknown") as hub, pytest.raises(AuthenticationFailed):
        hub.statistics()


def test_example_agent_remembers_and_recalls(served: Served) -> None:
    asked = "We deploy on Tuesdays.\nWhen do we deploy?\n"
    done = run(served, text=asked, program="docs/example_agent.py")
    assert done.stdout.splitlines() == ["Remembered (created).", "We deploy on Tuesdays."], done.stderr
    assert len((ROOT / "docs" / "example_agent.py").read_text("utf-8").splitlines()) <= 20


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
def test_documented_code_runs(served: Served, code: str) -> None:
    done = run(served, "-W", "error", "-c", code, program="-B")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_documented_commands_run(served: Served) -> None:
    [block] = re.findall(r"^```sh\n(memoryhub remember.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    script = "set -e\n" + block.replace("memoryhub ", f"{sys.executable} manage.py ")
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"HOME": str(served.hub.home), "PATH": os.defpath, **served.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("We deploy on Tuesdays") >= 2


def test_stored_memory_is_found_by_command(served: Served) -> None:
    stored = json.loads(run(served, "remember", "-", "--json", text="Backups run at midnight").stdout)
    found = json.loads(run(served, "search", "backups midnight", "--json").stdout)
    assert found["results"][0]["memory"]["id"] == stored["memory"]["id"]


@pytest.mark.parametrize("words", [("search", "lanterns"), ("recall", "lanterns"), ("sessions",)])
def test_command_prints_a_table_and_json(served: Served, words: tuple[str, ...]) -> None:
    with Client(served.server, served.token) as hub:
        hub.remember("Lanterns hang in the north hall", session_id="lantern-session")
        hub.report_event("prompt:submit", "lantern-session", {"prompt": "where are they?"})
    expected = "lantern-session" if words == ("sessions",) else "Lanterns hang in the north hall"
    table = run(served, *words)
    assert expected in table.stdout, table.stderr
    assert not table.stdout.lstrip().startswith(("{", "["))
    found = run(served, *words, "--json")
    assert expected in json.dumps(json.loads(found.stdout)), found.stderr


KEYRING = """
from types import SimpleNamespace

errors = SimpleNamespace(KeyringError=RuntimeError)


def get_password(service, user):
    return {("memoryhub", SERVER): TOKEN}.get((service, user))
"""


def test_command_uses_the_token_of_the_keyring(served: Served, tmp_path: Path) -> None:
    values = f"SERVER, TOKEN = {served.server!r}, {served.token!r}\n"
    (tmp_path / "keyring.py").write_text(values + KEYRING, "utf-8")
    without_token = Served(served.hub, served.server, "")
    stored = run(without_token, "remember", "The keyring hangs by the door", modules=str(tmp_path))
    assert stored.stdout.startswith(("created: ", "refreshed: ")), stored.stderr
    found = run(without_token, "search", "keyring door", modules=str(tmp_path))
    assert "The keyring hangs by the door" in found.stdout, found.stderr


def test_command_without_a_token_explains_itself(served: Served) -> None:
    served = Served(served.hub, served.server, "")
    done = run(served, "sessions")
    assert done.returncode == 1
    assert "No token for" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_pipe_ends_without_a_stack_trace(served: Served) -> None:
    command = f"{sys.executable} manage.py search x --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={"HOME": str(served.hub.home), "PATH": os.defpath, **served.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_connect_changes_files_and_undo_restores_them(served: Served, tmp_path: Path) -> None:
    settings = tmp_path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{ "theme": "dark" } // mine\n', "utf-8")
    done = run(served, "connect", "--yes", home=tmp_path)
    assert done.returncode == 0, done.stderr
    [name] = re.findall(r"Test event arrived: session (\S+),", done.stdout)
    assert f"{served.server}/mcp/letsgo" in settings.read_text("utf-8")
    assert name in run(served, "sessions").stdout
    assert run(served, "connect", "--undo", "--yes", home=tmp_path).returncode == 0
    assert settings.read_text("utf-8") == '{ "theme": "dark" } // mine\n'

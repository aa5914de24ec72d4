"""``manage.py mcp TOOLSET``, with the Python SDK's client and line by line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from mcp import Client, StdioServerParameters

from memoryhub.management.commands import mcp
from memoryhub.toolsets import TOOLSETS
from tests.mcp.clients import over_stdio
from tests.mcp.conftest import PLAIN, Served

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "mcp", *arguments]


@contextmanager
def started(served: Served, *arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command; stop it at the end."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=served.hub.folder,
        env=served.hub.environment(**PLAIN, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: subprocess.Popen[bytes], message: Any) -> Any:
    """Send a message and return the response."""
    assert process.stdin is not None
    assert process.stdout is not None
    line = message if isinstance(message, bytes) else json.dumps(message).encode()
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def run(
    served: Served, arguments: list[str], *messages: Any, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command with this input until it ends."""
    return subprocess.run(
        command(*arguments),
        cwd=served.hub.folder,
        env=served.hub.environment(**PLAIN, **more),
        input=b"".join(json.dumps(message).encode() + b"\n" for message in messages),
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("toolset", sorted(set(TOOLSETS) - {"letsgo"}))
def test_python_client_starts_it_and_lists_tools(served: Served, toolset: str) -> None:
    async def look(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    found = over_stdio(parameters(served, toolset), look)
    assert found == [tool.name for tool in TOOLSETS[toolset].tools]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_python_client_calls_and_is_refused(served: Served, mode: str) -> None:
    async def work(client: Client) -> None:
        made = await client.call_tool("store_memory", {"content": f"the wombat of {mode} digs"})
        assert not made.is_error
        assert made.structured_content is not None
        read = await client.call_tool("get_memory", {"id": made.structured_content["id"]})
        assert read.structured_content is not None
        assert read.structured_content["memory"]["content"] == f"the wombat of {mode} digs"
        assert (await client.call_tool("get_memory", {"id": "nothing"})).is_error

    over_stdio(parameters(served, "letsgo"), work, mode)


def test_process_shows_a_reader_what_http_shows(served: Served) -> None:
    """``tests/mcp/test_access.py`` compares every tool and caller; here a real process and a real server."""
    levels = ("public", "secret")
    drafts = [{"content": f"the dunnart of level {level}", "sensitivity": level} for level in levels]
    stored = [_call("store_memory", draft) for draft in drafts]
    assert run(served, ["letsgo"], HELLO, *stored, MEMORYHUB_TOKEN=served.token).returncode == 0
    arguments = {"query": "dunnart", "min_score": 0, "allow_private": True, "allow_secret": True}
    call = _call("search_memories", arguments)
    shown = {}
    for name, token in (("bot", served.token), ("reader", served.reader)):
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        request = urllib.request.Request(
            served.url("letsgo"),
            json.dumps(call).encode(),
            {**headers, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            over_http = _contents(json.load(response))
        printed = run(served, ["letsgo"], HELLO, call, MEMORYHUB_TOKEN=token).stdout.splitlines()
        assert _contents(json.loads(printed[-1])) == over_http
        shown[name] = over_http
    assert shown["reader"] == {"the dunnart of level public"}
    assert shown["bot"] == {"the dunnart of level public", "the dunnart of level secret"}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}


def _contents(answer: Any) -> set[str]:
    return {one["content"] for one in answer["result"]["structuredContent"]["results"]}


def parameters(served: Served, toolset: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["manage.py", "mcp", toolset],
        cwd=served.hub.folder,
        env=served.hub.environment(MEMORYHUB_TOKEN=served.token, **PLAIN),
    )


def test_only_messages_are_printed_until_the_input_ends(served: Served) -> None:
    done = run(served, ["letsgo", "--as", "ada"], HELLO, {"jsonrpc": "2.0", "method": "x"}, PING)
    assert done.returncode == 0
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["protocolVersion"] == "2025-06-18"
    assert second == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_quietly(served: Served, number: int) -> None:
    with started(served, "letsgo", "--as", "ada") as process:
        assert say(process, PING)["result"] == {}
        os.kill(process.pid, number)
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_logs_and_prints_go_to_standard_error(served: Served) -> None:
    program = (
        "import django; django.setup();"
        "from django.core.management import call_command; from memoryhub.toolsets.base import Tool;"
        "Tool.run = lambda *given: print('loud') or 1 / 0;"
        "call_command('mcp', 'letsgo', '--as', 'ada')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=served.hub.folder,
        env=served.hub.environment(DJANGO_SETTINGS_MODULE="memoryhub.settings", **PLAIN),
        input=json.dumps(tool("get_memory", id="x")).encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)["result"]
    assert found["isError"] is True
    assert "internal error" in found["content"][0]["text"]
    assert b"loud" in done.stderr
    assert b"letsgo/get_memory: internal_error" in done.stderr
    assert b"ZeroDivisionError" in done.stderr


class TestWho:
    @pytest.mark.parametrize("token", [{}, {"MEMORYHUB_TOKEN": "mh_wrong"}, {"MEMORYHUB_TOKEN": "wrong"}])
    def test_needs_a_token_or_a_name(
        self, db: None, monkeypatch: pytest.MonkeyPatch, token: dict[str, str]
    ) -> None:
        for name, value in token.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(CommandError, match="set MEMORYHUB_TOKEN to a valid token"):
            call_command("mcp", "letsgo")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--as", ""], "--as takes a name"),
            (["--as", "a\nb"], "--as takes a name"),
            (["--as", "x" * 201], "--as: "),
            (["--as", "eve", "--rights", "rule"], "--rights must be of: read, write, maintain"),
            (["--as", "eve", "--rights", ","], "--rights must be of"),
            (["--as", "eve", "--project", "x" * 201], "--project: "),
        ],
    )
    def test_option_without_a_name_is_explained(self, db: None, options: list[str], words: str) -> None:
        with pytest.raises(CommandError, match=words):
            call_command("mcp", "letsgo", *options)

    @pytest.mark.parametrize(
        ("options", "levels", "rights", "projects"),
        [
            ({}, {"public"}, {"read", "write"}, None),
            ({"clearance": "private"}, {"public", "private"}, {"read", "write"}, None),
            ({"rights": "read, maintain"}, {"public"}, {"read", "maintain"}, None),
            ({"project": "shed"}, {"public"}, {"read", "write"}, {"shed"}),
        ],
    )
    def test_named_agent_has_the_rights_of_its_options(
        self, options: dict[str, str], levels: set[str], rights: set[str], projects: set[str] | None
    ) -> None:
        defaults = {"name": "eve", "clearance": "public", "rights": "read,write", "project": None}
        caller = mcp.as_operator({**defaults, **options})()
        assert (caller.actor.name, caller.actor.owner) == ("command:eve", "eve")
        assert (caller.actor.clearance.levels, caller.rights) == (levels, rights)
        assert caller.actor.clearance.projects == projects

    def test_named_agent_stores_under_its_name(self, served: Served) -> None:
        made = run(
            served, ["letsgo", "--as", "eve", "--rights", "write"], tool("store_memory", content="a dunnart")
        )
        uid = json.loads(made.stdout)["result"]["structuredContent"]["id"]
        journal = api(served, f"/journal?object_id={uid}")["items"]
        assert [(row["operation"], row["actor"]) for row in journal] == [("insert", "command:eve")]

    def test_token_may_be_in_a_file(self, served: Served, tmp_path: Any) -> None:
        (tmp_path / "token").write_text(f"{served.token}\n")
        done = run(served, ["letsgo"], PING, MEMORYHUB_TOKEN_FILE=str(tmp_path / "token"))
        assert json.loads(done.stdout)["result"] == {}

    def test_token_revoked_during_the_session_is_refused(self, served: Served) -> None:
        token = served.hub.run("create_token", "brief", **PLAIN).stdout.strip()
        with started(served, "letsgo", MEMORYHUB_TOKEN=token) as process:
            assert say(process, PING)["result"] == {}
            revoke = (
                "from memoryhub.accounts import tokens; from memoryhub.models import AgentToken;"
                "from memoryhub.access.policy import system_actor as system;"
                "tokens.revoke_token(AgentToken.objects.get(name='brief').uid, system('tests'))"
            )
            assert served.hub.run("shell", "--command", revoke, **PLAIN).returncode == 0
            assert say(process, PING)["error"] == {
                "code": 401,
                "message": "the token is missing or not valid; "
                "send it as Authorization: Bearer mh_… or X-API-Key: mh_…",
            }


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def api(served: Served, path: str) -> Any:
    request = urllib.request.Request(f"{served.base}/api/v1{path}")
    request.add_header("Authorization", f"Bearer {served.token}")
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def test_store_without_migrations_is_not_served(served: Served, tmp_path: Any) -> None:
    done = run(served, ["letsgo", "--as", "ada"], PING, LETSGO_HOME=str(tmp_path))
    assert done.returncode == 1
    assert b"run: manage.py migrate" in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_input_or_output_is_reported(served: Served, closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {closed}', "bash", *command("letsgo", "--as", "ada")],
        cwd=served.hub.folder,
        env=served.hub.environment(**PLAIN),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"CommandError: standard input or output is closed")


HOSTILE: list[tuple[str, bytes, int, Any]] = [
    ("no JSON", b"hello", -32700, None),
    ("half of it", b'{"jsonrpc":"2.0","id":7,"method":"ping"', -32700, None),
    ("no UTF-8", b'{"jsonrpc":"2.0","id":7,"method":"\xff"}', -32700, None),
    ("NaN, under an id", b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}', -32700, 7),
    (
        "a name twice, under an id",
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}',
        -32700,
        7,
    ),
    ("bottomless", b"[" * 100_000, -32700, None),
    ("too long, under an id", b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"%s"}}', -32600, 7),
    ("an array", b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600, None),
    ("a number", b"7", -32600, None),
    ("half of a surrogate", b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping","x":NaN}', -32700, "?"),
]


def test_hostile_lines_are_answered(served: Served) -> None:
    with started(served, "letsgo", "--as", "ada") as process:
        say(process, HELLO)
        for why, line, code, known in HOSTILE:
            filled = line.replace(b"%s", b"x" * 1_100_000)
            found = say(process, filled)
            assert (found["error"]["code"], found["id"]) == (code, known), why
        assert say(process, PING)["result"] == {}


def test_half_of_a_surrogate_pair_is_answered(served: Served) -> None:
    line = json.dumps(tool("store_memory", content="a \ud83d b")).encode()
    assert b"\\ud83d" in line
    with started(served, "letsgo", "--as", "ada") as process:
        assert say(process, line)["result"]["isError"] is False


def test_batches_exist_in_one_version_only(served: Served) -> None:
    hello = {**HELLO, "params": {**HELLO["params"], "protocolVersion": "2025-03-26"}}  # type: ignore[dict-item]
    several = [PING, {"jsonrpc": "2.0", "method": "x"}, {**PING, "id": "b"}, 7]
    done = run(served, ["letsgo", "--as", "ada"], hello, several)
    assert [one.get("id") for one in json.loads(done.stdout.splitlines()[1])] == [2, "b", None]

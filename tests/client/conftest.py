"""Both clients with scripted answers, a client of the app in this process, and a served hub."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import django.test
import httpx2
import pytest

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.client import AsyncClient, Client, backfill, calls, commands, connect, environment
from tests.commands import hub as hubs
from tests.commands.hub import Hub

Answer = httpx2.Response | Exception


def problem(status: int, code: str, detail: str = "", **more: Any) -> httpx2.Response:
    headers = {"Content-Type": "application/problem+json", **more.pop("headers", {})}
    body = {"status": status, "code": code, "detail": detail, "errors": [], "request_id": "r1", **more}
    return httpx2.Response(status, content=json.dumps(body), headers=headers)


@dataclass
class Script:
    """Calls a method of one of the clients, with scripted answers. Lists are returned whole."""

    kind: str
    sent: list[httpx2.Request] = field(default_factory=list)

    def call(self, method: str, *arguments: Any, answers: list[Answer], **options: Any) -> Any:
        transport = httpx2.MockTransport(self._answering(answers))
        if self.kind == "sync":
            with Client("http://hub", "mh_t", transport=transport) as client:
                found = getattr(client, method)(*arguments, **options)
                return list(found) if isinstance(found, Iterator) else found
        return asyncio.run(self._call_async(transport, method, arguments, options))

    def _answering(self, answers: list[Answer]) -> Callable[[httpx2.Request], httpx2.Response]:
        left = iter(answers)

        def answer(request: httpx2.Request) -> httpx2.Response:
            self.sent.append(request)
            found = next(left)
            if isinstance(found, Exception):
                raise found
            # A response can be read once, and parameters of tests are shared.
            return httpx2.Response(found.status_code, content=found.content, headers=found.headers)

        return answer

    async def _call_async(self, transport: Any, method: str, arguments: Any, options: Any) -> Any:
        async with AsyncClient("http://hub", "mh_t", transport=transport) as client:
            found = getattr(client, method)(*arguments, **options)
            return [item async for item in found] if hasattr(found, "__aiter__") else await found

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.sent]


@pytest.fixture(params=["sync", "async"])
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.setattr(calls, "FIRST_WAIT_SECONDS", 0)
    return Script(request.param)


@pytest.fixture
def hub_client(db: None) -> Callable[..., Client]:
    """``hub_client()`` makes a client of the app in this process, which reads and writes public memories."""
    _, raw = tokens.issue_token("bot", "ada", "secret", actor=system_actor("tests"), rights=["read", "write"])
    http = django.test.Client(raise_request_exception=False)

    def answer(request: httpx2.Request) -> httpx2.Response:
        content_type = request.headers.get("Content-Type", "")
        path, headers = request.url.raw_path.decode(), dict(request.headers)
        found = http.generic(request.method, path, request.content, content_type, headers=headers)
        return httpx2.Response(found.status_code, content=found.getvalue(), headers=dict(found.headers))

    def make(server: str = "", token: str = "", **options: Any) -> Client:
        return Client("http://testserver", raw, transport=httpx2.MockTransport(answer))

    return make


@pytest.fixture
def client(hub_client: Callable[..., Client]) -> Iterator[Client]:
    with hub_client() as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, without any agent, and a token in the environment."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "MEMORYHUB_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("MEMORYHUB_TOKEN", "mh_token")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


@pytest.fixture
def run(hub_client: Callable[..., Client], home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """``run("search", "words")`` runs a command against the app in this process."""
    for module in (backfill, connect, environment):
        monkeypatch.setattr(module, "Client", hub_client)
    return lambda *words: commands.run(["memoryhub", *words])


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """A keyring with these passwords, and no token in the environment."""
    passwords: dict[tuple[str, str], str] = {}
    module = ModuleType("keyring")
    vars(module).update(
        get_password=lambda *key: passwords.get(key),
        set_password=lambda service, user, value: passwords.update({(service, user): value}),
        errors=SimpleNamespace(KeyringError=KeyError),
    )
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.delenv("MEMORYHUB_TOKEN", raising=False)
    return passwords


@dataclass(frozen=True)
class Served:
    """A running hub with a token."""

    hub: Hub
    server: str
    token: str

    @property
    def environment(self) -> dict[str, str]:
        return {"MEMORYHUB_URL": self.server, "MEMORYHUB_TOKEN": self.token}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    hub = hubs.copy(tmp_path_factory.mktemp("client"), **hubs.database_variables())
    plain = {"MEMORYHUB_EMBEDDINGS": "none"}
    made = [hub.run(*words, **plain) for words in (["migrate", "-v", "0"], ["create_token", "bot"])]
    assert not [done for done in made if done.returncode], made
    port = hubs.free_port()
    arguments = ("serve", "--port", str(port), "--workers", "1")
    with (hub.home / "server.log").open("w") as log, hub.serving(port, *arguments, output=log, **plain):
        yield Served(hub, f"http://127.0.0.1:{port}", made[1].stdout.strip())

"""Agents with tokens of every kind, and a client for one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens

API = "/api/v1"
RIGHTS = ("read", "write", "maintain")


class Agent:
    """A client with a token. Errors are returned as responses, not raised."""

    def __init__(self, raw: str = "", headers: dict[str, str] | None = None) -> None:
        bearer = {"Authorization": f"Bearer {raw}"} if raw else {}
        self.raw = raw
        self.http = Client(headers={**bearer, **(headers or {})}, raise_request_exception=False)

    def get(self, path: str, **query: Any) -> Any:
        return self.http.get(API + path, query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("post", path, body, headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("patch", path, body, headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("put", path, body, headers)

    def delete(self, path: str, **query: Any) -> Any:
        return self.http.delete(API + path, query_params=query)

    def raw_post(self, path: str, body: bytes, content_type: str = "application/json") -> Any:
        return self.http.post(API + path, body, content_type=content_type)

    def tool(self, name: str, **arguments: Any) -> Any:
        """Return the result of a LetsGo tool."""
        response = self.post(f"/tools/letsgo/{name}", arguments)
        assert response.status_code == 200, response.content
        return response.json()["result"]

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return getattr(self.http, method)(API + path, data, content_type="application/json", headers=named)


@pytest.fixture
def agent(db: None) -> Callable[..., Agent]:
    """``agent("private", rights=["read"], projects=["p"])``: a client with such a token, by default ada's."""

    def make(clearance: str = "secret", name: str = "bot", owner: str = "ada", **options: Any) -> Agent:
        options.setdefault("rights", RIGHTS)
        _, raw = tokens.issue_token(name, owner, clearance, actor=system_actor("tests"), **options)
        return Agent(raw)

    return make


@pytest.fixture
def bot(agent: Callable[..., Agent]) -> Agent:
    """A client that may see and do everything."""
    return agent()


def stored(bot: Agent, **fields: Any) -> dict[str, Any]:
    """Store a memory and return it."""
    memory: dict[str, Any] = bot.post("/memories", {"content": "something", **fields}).json()["memory"]
    return memory


def is_problem(response: Any, status: int, code: str = "") -> dict[str, Any]:
    """Check the format of an error response and return it."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = json.loads(response.content)
    assert set(body) == {"type", "title", "status", "detail", "code", "errors", "request_id"}
    assert body["status"] == status
    assert body["request_id"] == response["X-Request-ID"]
    assert response["Cache-Control"] == "no-store"
    assert all(set(error) == {"field", "message"} for error in body["errors"])
    assert not code or body["code"] == code
    return body


def bad_fields(response: Any) -> set[str]:
    """Return the fields that a 422 names."""
    return {error["field"] for error in is_problem(response, 422)["errors"]}

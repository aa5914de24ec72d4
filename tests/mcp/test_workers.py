"""A server of several processes: none of them remembers anything that the others do not know."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.mcp.conftest import Served

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def send(served: Served, method: str, params: Any, session: str = "", verb: str = "POST") -> tuple[int, Any]:
    """One request over a connection of its own: its status, and its session or its body."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(served.url("letsgo"), json.dumps(message).encode(), method=verb)
    for name, value in (("Authorization", f"Bearer {served.token}"), ("Content-Type", "application/json")):
        request.add_header(name, value)
    if session:
        request.add_header("Mcp-Session-Id", session)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers.get("Mcp-Session-Id") or answer.read()
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_session_is_known_to_all_of_them_until_it_has_ended_for_all_of_them(served: Served) -> None:
    _, session = send(served, "initialize", HELLO)
    assert [send(served, "ping", {}, session)[0] for _ in range(20)] == [200] * 20
    assert send(served, "ping", {}, session, verb="DELETE")[0] == 204
    answered = [send(served, "ping", {}, session) for _ in range(20)]
    assert [(status, body["code"]) for status, body in answered] == [(404, "unknown_session")] * 20

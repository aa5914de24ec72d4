"""The HTTP transport: methods, headers, tokens, origins, sizes, statuses, sessions, worker processes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session as Row
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.mcp import http
from memoryhub.models import AgentToken
from tests.api.conftest import is_problem
from tests.cases import each
from tests.mcp.conftest import META, STATELESS, McpAgent, Served

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class TestMethods:
    def test_request_is_answered_with_json(self, bot: McpAgent) -> None:
        response = bot.send(PING)
        assert (response.status_code, response["Content-Type"]) == (200, "application/json")
        assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert response["Cache-Control"] == "no-store"

    @each("method", ["get", "put", "patch", "head", "options"])
    def test_no_stream_and_no_other_method_is_served(self, bot: McpAgent, method: str) -> None:
        response = getattr(bot.http, method)(bot.path)
        assert response.status_code == 405
        assert response["Allow"] == "DELETE, POST"

    @pytest.mark.parametrize("message", [NOTE, {"jsonrpc": "2.0", "id": 3, "result": {}}])
    def test_notification_is_accepted(self, bot: McpAgent, message: Any) -> None:
        response = bot.send(message)
        assert (response.status_code, response.content) == (202, b"")

    def test_trailing_slash_is_accepted(self, bot: McpAgent) -> None:
        bot.path = "/mcp/letsgo/"
        assert bot.send(PING).status_code == 200

    @each("path", ["", "/", "/nothing", "/Letsgo", "/letsgo%00", "/<script>"])
    def test_unknown_toolset_is_404(self, bot: McpAgent, path: str) -> None:
        bot.path = f"/mcp{path}"
        body = is_problem(bot.send(PING), 404, "unknown_toolset")
        assert "letsgo" in body["detail"]
        assert "script" not in body["detail"]


class TestTokens:
    @each("raw", ["", "mh_wrong", "\N{SNOWMAN}"])
    def test_request_without_token_is_401(self, db: None, raw: str) -> None:
        for message in (PING, NOTE, b"no json"):
            response = McpAgent(raw.encode().decode("latin-1")).send(message)
            is_problem(response, 401, "unauthenticated")
            assert response["WWW-Authenticate"] == 'Bearer realm="memoryhub"'

    def test_either_header_works(self, bot: McpAgent) -> None:
        for headers in ({"X-API-Key": bot.raw}, {"Authorization": f"bearer {bot.raw}"}):
            answered = Client(headers=headers).post(bot.path, PING, content_type="application/json")
            assert answered.status_code == 200

    def test_revoked_token_stops_at_once(self, bot: McpAgent) -> None:
        session = bot.begin()
        tokens.revoke_token(AgentToken.objects.get().uid, system_actor("tests"))
        is_problem(bot.send(PING, Mcp_Session_Id=session), 401)

    def test_cookie_is_not_a_token(self, client: Client, django_user_model: Any, db: None) -> None:
        client.force_login(django_user_model.objects.create_superuser("ada"))
        is_problem(client.post("/mcp/letsgo", PING, content_type="application/json"), 401)


class TestHeaders:
    @each("origin", ["http://evil.example", "null", "http://testserver.evil.example", "x", "http://[::1"])
    def test_foreign_origin_is_refused(self, bot: McpAgent, origin: str) -> None:
        is_problem(bot.send(PING, Origin=origin), 403, "foreign_origin")

    def test_own_origin_is_accepted(self, bot: McpAgent) -> None:
        assert bot.send(PING, Origin="http://testserver").status_code == 200

    def test_unknown_host_is_refused(self, bot: McpAgent) -> None:
        response = bot.send(PING, Host="evil.example", Origin="http://evil.example")
        assert response.status_code == 400

    @each("accept", ["application/json, text/event-stream", "*/*", "application/*"])
    def test_client_that_accepts_json_gets_it(self, bot: McpAgent, accept: str) -> None:
        assert bot.send(PING, Accept=accept).status_code == 200

    @pytest.mark.parametrize("accept", ["text/event-stream", "text/html"])
    def test_client_that_does_not_accept_json_is_406(self, bot: McpAgent, accept: str) -> None:
        is_problem(bot.send(PING, Accept=accept), 406, "not_acceptable")

    @each("kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"])
    def test_body_of_another_type_is_refused(self, bot: McpAgent, kind: str) -> None:
        is_problem(bot.send(PING, Content_Type=kind), 415, "unsupported_media_type")

    def test_large_body_is_refused(self, bot: McpAgent, configure: Callable[..., None]) -> None:
        configure(max_body_bytes=1024)
        is_problem(bot.send(b" " * 1025), 413, "body_too_large")

    @pytest.mark.parametrize("message", [PING, NOTE])
    @pytest.mark.parametrize("version", ["1900-01-01", "", "2025-06-18 ", "x" * 5000])
    def test_unknown_version_is_refused_with_the_supported_ones(
        self, bot: McpAgent, message: Any, version: str
    ) -> None:
        response = bot.send(message, MCP_Protocol_Version=version)
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["code"] == -32022
        assert error["data"]["supported"][0] == STATELESS
        assert len(error["data"]["requested"]) <= 100

    @each("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
    def test_supported_version_is_accepted(self, bot: McpAgent, version: str) -> None:
        assert bot.send(PING, MCP_Protocol_Version=version).status_code == 200


class TestSessions:
    def test_session_begins_with_the_handshake_and_works_until_it_ends(self, bot: McpAgent) -> None:
        session = bot.begin()
        assert all(0x21 <= ord(char) <= 0x7E for char in session)
        assert bot.send(PING, Mcp_Session_Id=session).status_code == 200
        assert bot.http.delete(bot.path, headers={"Mcp-Session-Id": session}).status_code == 204
        is_problem(bot.send(PING, Mcp_Session_Id=session), 404, "unknown_session")
        is_problem(bot.http.delete(bot.path, headers={"Mcp-Session-Id": session}), 404)

    def test_session_is_optional(self, bot: McpAgent) -> None:
        assert bot.send(PING).status_code == 200

    @each("raw", ["x", "", "a:b:c", "W10:1uX:x", "é"])
    def test_invented_session_is_unknown(self, bot: McpAgent, raw: str) -> None:
        is_problem(bot.send(PING, Mcp_Session_Id=raw), 404, "unknown_session")

    @pytest.mark.parametrize("message", [NOTE, {"jsonrpc": "2.0", "id": 3, "result": {}}])
    def test_ended_session_is_reported_even_for_notifications(self, bot: McpAgent, message: Any) -> None:
        session = bot.begin()
        assert bot.send(message, Mcp_Session_Id=session).status_code == 202
        bot.http.delete(bot.path, headers={"Mcp-Session-Id": session})
        is_problem(bot.send(message, Mcp_Session_Id=session), 404, "unknown_session")
        stateless = bot.send(message, Mcp_Session_Id=session, MCP_Protocol_Version=STATELESS)
        assert stateless.status_code == 202

    def test_session_belongs_to_one_token_and_toolset(
        self, bot: McpAgent, mcp_agent: Callable[..., McpAgent]
    ) -> None:
        session = bot.begin()
        is_problem(mcp_agent(name="other").send(PING, Mcp_Session_Id=session), 404)
        is_problem(McpAgent(bot.raw, "mira").send(PING, Mcp_Session_Id=session), 404)

    def test_session_expires(self, bot: McpAgent, monkeypatch: pytest.MonkeyPatch) -> None:
        session = bot.begin()
        monkeypatch.setattr("django.core.signing.time.time", lambda: timezone.now().timestamp() + 31 * 86_400)
        is_problem(bot.send(PING, Mcp_Session_Id=session), 404)

    def test_ended_session_is_stored_only_until_its_expiry(self, bot: McpAgent) -> None:
        bot.http.delete(bot.path, headers={"Mcp-Session-Id": bot.begin()})
        Row.objects.update(expire_date=timezone.now() - http.SESSION_LIFETIME)
        bot.http.delete(bot.path, headers={"Mcp-Session-Id": bot.begin()})
        assert Row.objects.count() == 1

    def test_ending_without_a_session_is_an_error(self, bot: McpAgent) -> None:
        is_problem(bot.http.delete(bot.path), 400, "no_session")

    def test_refused_handshake_starts_no_session(self, bot: McpAgent) -> None:
        response = bot.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
        assert response.json()["error"]["code"] == -32602
        assert "Mcp-Session-Id" not in response.headers

    def test_stateless_requests_ignore_the_session(self, bot: McpAgent) -> None:
        response = bot.post_stateless("tools/list", Mcp_Session_Id="invented")
        assert response.status_code == 200
        assert "Mcp-Session-Id" not in response.headers


class TestStatelessHeaders:
    def test_headers_match_the_body(self, bot: McpAgent) -> None:
        params = {"name": "list_memories", "arguments": {}}
        assert bot.post_stateless("tools/call", params).status_code == 200

    def test_name_may_be_base64(self, bot: McpAgent) -> None:
        params = {"name": "list_memories", "arguments": {}}
        response = bot.post_stateless("tools/call", params, Mcp_Name="=?base64?bGlzdF9tZW1vcmllcw==?=")
        assert response.status_code == 200

    @each(
        "headers",
        [
            {"Mcp_Method": ""},
            {"Mcp_Method": "tools/list"},
            {"Mcp_Method": "tools/call,tools/call"},
            {"Mcp_Name": ""},
            {"Mcp_Name": "get_memory"},
            {"Mcp_Name": "=?base64?%%%?="},
            {"Mcp_Name": "=?base64?/w==?="},
            {"MCP_Protocol_Version": ""},
            {"MCP_Protocol_Version": "2025-11-25"},
            {"MCP_Protocol_Version": "1900-01-01"},
        ],
    )
    def test_mismatch_is_refused(self, bot: McpAgent, headers: dict[str, str]) -> None:
        response = bot.post_stateless("tools/call", {"name": "list_memories", "arguments": {}}, **headers)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == -32020
        assert response.json()["id"] == 1

    def test_unknown_version_is_refused_with_the_supported_ones(self, bot: McpAgent) -> None:
        meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        response = bot.send(message, MCP_Protocol_Version="2099-01-01", Mcp_Method="tools/list")
        assert response.status_code == 400
        assert response.json()["error"]["code"] == -32022
        assert response.json()["error"]["data"]["requested"] == "2099-01-01"

    @each(
        "method, params, status, code",
        [
            ("no/method", {}, 404, -32601),
            ("ping", {}, 404, -32601),
            ("tools/call", {"name": "nothing"}, 400, -32602),
            ("tools/call", {"arguments": {}}, 400, -32602),
            ("tools/list", {"cursor": "x"}, 400, -32602),
        ],
    )
    def test_status_reports_the_error(
        self, bot: McpAgent, method: str, params: dict[str, Any], status: int, code: int
    ) -> None:
        response = bot.post_stateless(method, params)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)

    @each(
        "meta",
        [
            None,
            7,
            {},
            {"io.modelcontextprotocol/protocolVersion": STATELESS},
            {**META, "io.modelcontextprotocol/clientCapabilities": 7},
        ],
    )
    def test_missing_metadata_is_named(self, bot: McpAgent, meta: Any) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        response = bot.send(message, MCP_Protocol_Version=STATELESS, Mcp_Method="tools/list")
        assert response.status_code == 400
        assert response.json()["error"]["code"] in (-32602, -32020)


def test_busy_database_is_a_503(bot: McpAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*given: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("memoryhub.http.authentication.tokens.authenticate_token", busy)
    response = bot.send(PING)
    is_problem(response, 503, "database_busy")
    assert response["Retry-After"]


def test_unexpected_exception_reveals_nothing(bot: McpAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*given: Any) -> None:
        raise ZeroDivisionError("a private word")

    monkeypatch.setattr("memoryhub.mcp.server.describe_tools", fault)
    body = bot.ask("tools/list")
    assert body["error"]["code"] == -32603
    assert "private word" not in str(body)
    monkeypatch.setattr("memoryhub.mcp.http.require_token", fault)
    assert "private word" not in str(is_problem(bot.send(PING), 500, "internal_error"))


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def send(served: Served, method: str, params: Any, session: str = "", verb: str = "POST") -> tuple[int, Any]:
    """Send a request over a new connection; return status, and session or body."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(served.url("letsgo"), json.dumps(message).encode(), method=verb)
    for name, value in (("Authorization", f"Bearer {served.token}"), ("Content-Type", "application/json")):
        request.add_header(name, value)
    if session:
        request.add_header("Mcp-Session-Id", session)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers.get("Mcp-Session-Id") or answer.read()
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_session_works_in_every_worker_process(served: Served) -> None:
    _, session = send(served, "initialize", HELLO)
    assert [send(served, "ping", {}, session)[0] for _ in range(20)] == [200] * 20
    assert send(served, "ping", {}, session, verb="DELETE")[0] == 204
    answered = [send(served, "ping", {}, session) for _ in range(20)]
    assert [(status, body["code"]) for status, body in answered] == [(404, "unknown_session")] * 20

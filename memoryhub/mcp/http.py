"""``/mcp/{toolset}``: MCP's streamable HTTP transport and its sessions."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django.contrib.sessions.models import Session as SessionRow
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from memoryhub import mcp
from memoryhub.accounts import oauth
from memoryhub.core.database import write_transaction
from memoryhub.http.authentication import Caller, require_token
from memoryhub.http.problems import Problem, get_request_id, handle_exception, json_response, require_json
from memoryhub.mcp import HEADER_MISMATCH, VERSION_KEY, Request, RpcError
from memoryhub.mcp.server import Server, is_stateless, requested_version, unsupported_version
from memoryhub.models import AgentToken
from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Toolset, did_you_mean

SESSION_LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class McpSession:
    """``name``: the session id of stored memories and tool calls. ``version``: of the protocol."""

    name: str
    version: str


def new_session_name() -> str:
    return f"mcp-{secrets.token_hex(8)}"


def begin_session(token: AgentToken, toolset: str, version: str) -> str:
    """Return the id of a new session, for the header ``Mcp-Session-Id``."""
    return signing.dumps([new_session_name(), version], salt=_signing_salt(token, toolset))


def resume_session(raw: str, token: AgentToken, toolset: str) -> McpSession | None:
    """Return the session of an id; None if it is not of this token and toolset, expired or ended."""
    try:
        name, version = signing.loads(raw, salt=_signing_salt(token, toolset), max_age=SESSION_LIFETIME)
    except signing.BadSignature:
        return None
    return None if SessionRow.objects.filter(pk=_ended_key(raw)).exists() else McpSession(name, version)


def end_session(raw: str) -> None:
    """End a session for all worker processes."""
    now = timezone.now()
    with write_transaction():
        SessionRow.objects.filter(expire_date__lt=now).delete()
        SessionRow.objects.get_or_create(
            pk=_ended_key(raw), defaults={"session_data": "", "expire_date": now + SESSION_LIFETIME}
        )


def _signing_salt(token: AgentToken, toolset: str) -> str:
    return f"memoryhub.mcp:{toolset}:{token.uid}"


def _ended_key(raw: str) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()[:40]


VERSION_HEADER, METHOD, NAME = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
# The parameter that the header repeats, by method.
_NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def require_matching_headers(request: Request, headers: Mapping[str, str]) -> None:
    """Raise RpcError if a header is missing or differs from the body."""
    meta: Any = request.params.get("_meta")
    version = meta.get(VERSION_KEY) if isinstance(meta, Mapping) else None
    required = [(VERSION_HEADER, version), (METHOD, request.method)]
    name = request.params.get(_NAME_PARAMETERS.get(request.method, ""))
    if isinstance(name, str):
        required.append((NAME, name))
    for header, expected in required:
        sent = headers.get(header)
        if sent is None:
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} is missing")
        if (decode_header(sent) if header == NAME else sent) != expected:
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} and the body differ")


def decode_header(value: str) -> str | None:
    """Return the value of a header, decoded if it is marked as Base64; None if that is invalid."""
    wrapped = _BASE64_VALUE.fullmatch(value)
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode()
    except ValueError:
        return None


SESSION_HEADER = "Mcp-Session-Id"
_METHODS = ("DELETE", "POST")
# Status of errors in stateless versions. In older ones, only an invalid message has an error status.
_STATUS_OF_ERROR = {
    mcp.PARSE_ERROR: 400,
    mcp.INVALID_REQUEST: 400,
    mcp.INVALID_PARAMS: 400,
    mcp.HEADER_MISMATCH: 400,
    mcp.UNSUPPORTED_VERSION: 400,
    mcp.METHOD_NOT_FOUND: 404,
}


@csrf_exempt
def mcp_endpoint(request: HttpRequest, toolset: str = "") -> HttpResponse:
    """Serve one MCP server per toolset. Every request carries a token, as for the API."""
    try:
        return _handle_request(request, toolset)
    except Exception as exc:  # noqa: BLE001 logged and answered as a problem
        return handle_exception(request, exc)


def _handle_request(request: HttpRequest, toolset: str) -> HttpResponse:
    _require_known_origin(request)
    if request.method not in _METHODS:
        detail = "POST sends a message, DELETE ends a session; this server opens no stream"
        raise Problem(405, "method_not_allowed", detail, headers={"Allow": ", ".join(_METHODS)})
    known = toolset if toolset in TOOLSETS else ""
    token = require_token(request, oauth.resource_url(known), oauth.challenge(known) if known else "")
    if toolset not in TOOLSETS:
        hint = did_you_mean(toolset, TOOLSETS) or ";"
        raise Problem(404, "unknown_toolset", f"unknown toolset{hint} available: {', '.join(TOOLSETS)}")
    exchange = _McpExchange(request, token, TOOLSETS[toolset])
    return exchange.end() if request.method == "DELETE" else exchange.post()


class _McpExchange:
    """One authenticated request to a toolset."""

    def __init__(self, request: HttpRequest, token: AgentToken, toolset: Toolset) -> None:
        self.request = request
        self.token = token
        self.toolset = toolset
        self.version = request.headers.get(VERSION_HEADER)

    def post(self) -> HttpResponse:
        """Answer a message, or a batch in the version that has them."""
        require_json(self.request)
        if not self.request.accepts("application/json"):
            raise Problem(406, "not_acceptable", "responses are JSON; send Accept: application/json")
        try:
            body = mcp.decode_message(self.request.body)
            if isinstance(body, list):
                return self._batch(body)
            message = mcp.parse_message(body)
            if message is not None:
                return self._request(message)
            self._require_served()
            if self.version not in mcp.STATELESS_VERSIONS:
                self._session()
        except RpcError as problem:
            return json_response(mcp.error_message(problem), 400)
        return HttpResponse(status=HTTPStatus.ACCEPTED)

    def end(self) -> HttpResponse:
        """End a session."""
        if SESSION_HEADER not in self.request.headers:
            raise Problem(400, "no_session", f"send the id of the session to end in {SESSION_HEADER}")
        self._session()
        end_session(self.request.headers[SESSION_HEADER])
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    def _request(self, message: Request) -> HttpResponse:
        if message.method == "tools/call" and (tool := self.toolset.find(str(message.params.get("name")))):
            self.request.mcp_tool = f"mcp/{self.toolset.name}/{tool.name}"  # type: ignore[attr-defined]
        if message.method == "initialize":
            return self._begin(message)
        if is_stateless(message) or self.version in mcp.STATELESS_VERSIONS:
            return self._stateless(message)
        self._require_served()
        return json_response(self._server(self._session()).answer(message, stateless=False))

    def _begin(self, message: Request) -> HttpResponse:
        """Answer the handshake; the session id is in a header of the response."""
        response = self._server(None).answer(message, stateless=False)
        if "error" in response:
            return json_response(response)
        agreed = mcp.negotiate_version(requested_version(message.params))
        return json_response(
            response, headers={SESSION_HEADER: begin_session(self.token, self.toolset.name, agreed)}
        )

    def _stateless(self, message: Request) -> HttpResponse:
        try:
            require_matching_headers(message, self.request.headers)
        except RpcError as problem:
            return json_response(mcp.error_message(problem, message.id), 400)
        response = self._server(None).answer(message, stateless=True)
        return json_response(
            response, _STATUS_OF_ERROR.get(response["error"]["code"], 200) if "error" in response else 200
        )

    def _batch(self, items: list[Any]) -> HttpResponse:
        session = self._session()
        version = self.version or (session.version if session else mcp.DEFAULT_VERSION)
        if version != mcp.BATCH_VERSION:
            reason = f"send one message at a time: only version {mcp.BATCH_VERSION} accepts arrays"
            raise RpcError(mcp.INVALID_REQUEST, reason)
        responses = self._server(session).answer_batch(items)
        return json_response(responses) if responses else HttpResponse(status=HTTPStatus.ACCEPTED)

    def _server(self, session: McpSession | None) -> Server:
        caller = replace(Caller.of(self.token), session=session.name if session else "")
        return Server(self.toolset, caller, get_request_id(self.request))

    def _session(self) -> McpSession | None:
        """Return the session of the request, if it names one; 404 for an unknown one, so that the client
        starts a new session.
        """
        raw = self.request.headers.get(SESSION_HEADER)
        if raw is None:
            return None
        session = resume_session(raw, self.token, self.toolset.name)
        if session is None:
            detail = "this session has ended, or belongs to another token or toolset; initialize again"
            raise Problem(404, "unknown_session", detail)
        return session

    def _require_served(self) -> None:
        if self.version is not None and self.version not in mcp.SUPPORTED_VERSIONS:
            raise unsupported_version(self.version)


def _require_known_origin(request: HttpRequest) -> None:
    """Raise 403 for a page of another site: DNS rebinding could let a browser reach the hub."""
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.get_host():
        detail = "pages of other sites may not use this; send no Origin, or the hub's own"
        raise Problem(403, "foreign_origin", detail)

"""JSON-RPC 2.0 messages as MCP narrows them, and the protocol revisions that are served."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from memoryhub.http.json import InvalidJson, parse_json

# A client opens with ``initialize``; oldest first.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# Every request carries its version and the client's capabilities.
STATELESS_VERSIONS = ("2026-07-28",)
SUPPORTED_VERSIONS = tuple(reversed(HANDSHAKE_VERSIONS + STATELESS_VERSIONS))
# Said by no header and no handshake, as the revisions before 2025-06-18 left it.
DEFAULT_VERSION = "2025-03-26"
# The one revision in which several messages may come in one array.
BATCH_VERSION = "2025-03-26"

# Where a request says its version itself: in its ``_meta``, beside what the client can do.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


def negotiate_version(requested: str) -> str:
    """The version of a handshake: the one asked for, or the newest, which the client may decline."""
    return requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


Id = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022


@dataclass
class RpcError(Exception):
    """A refusal of the message itself. ``message`` repeats no value of the request."""

    code: int
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    id: Id | None = None


@dataclass(frozen=True)
class Request:
    """Waits for an answer under its ``id``."""

    id: Id
    method: str
    params: dict[str, Any]


@dataclass(frozen=True)
class Notification:
    """Waits for nothing."""

    method: str


@dataclass(frozen=True)
class Response:
    """Of a client, to a question that this server never asks."""


Message = Request | Notification | Response


def parse_message(item: Any) -> Message:
    """One decoded message; RpcError when it is none, with its id as far as it has one."""
    if not isinstance(item, dict):
        raise RpcError(INVALID_REQUEST, "a message must be one JSON object")
    known = message_id(item)
    if item.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message must say "jsonrpc": "2.0"', id=known)
    if "method" not in item and ("result" in item or "error" in item):
        return Response()
    method, params = item.get("method"), item.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method must be a text", id=known)
    if "id" not in item:
        return Notification(method)
    if known is None:
        raise RpcError(INVALID_REQUEST, "id must be a text or a whole number")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object", id=known)
    return Request(known, method, params)


def message_id(item: Any) -> Id | None:
    """What a message must be answered under, if it can be told."""
    found = item.get("id") if isinstance(item, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def result_message(id: Id, value: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error_message(problem: RpcError, id: Id | None = None) -> dict[str, Any]:
    """``id`` null where it cannot be told whose error it is."""
    told: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.data:
        told["data"] = problem.data
    return {"jsonrpc": "2.0", "id": problem.id if id is None else id, "error": told}


def decode_message(raw: bytes) -> Any:
    """What came; RpcError when it is no JSON that can be used.

    Half of a surrogate pair, which a model's text may hold and nobody can mend, is read as U+FFFD.
    """
    try:
        return parse_json(raw, replace_surrogates=True)
    except InvalidJson as problem:
        raise RpcError(PARSE_ERROR, str(problem), id=find_message_id(raw)) from None


def find_message_id(raw: bytes) -> Id | None:
    """Whose error it is: a client that cannot tell waits for its answer until it gives up."""
    with suppress(ValueError, RecursionError):
        return message_id(json.loads(raw))
    return None

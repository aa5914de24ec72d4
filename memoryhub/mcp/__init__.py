"""The toolsets as MCP servers (docs/tools.md). This module has the JSON-RPC 2.0 messages that MCP uses.

Two generations of the protocol are served. Up to version 2025-11-25, a client starts with ``initialize``.
Since 2026-07-28, every request carries its version and the server keeps no state between requests. This
module and ``server`` are independent of the transport.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from memoryhub.http.problems import InvalidJson, parse_json

# Versions with an ``initialize`` handshake, oldest first.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# Versions in which every request carries version and client capabilities.
STATELESS_VERSIONS = ("2026-07-28",)
SUPPORTED_VERSIONS = tuple(reversed(HANDSHAKE_VERSIONS + STATELESS_VERSIONS))
# Without header and handshake: versions before 2025-06-18 did not require them.
DEFAULT_VERSION = "2025-03-26"
# The only version with batches.
BATCH_VERSION = "2025-03-26"

# Keys in ``_meta`` of a stateless request.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


def negotiate_version(requested: str) -> str:
    """Return the requested version if it is supported, else the newest, which the client may decline."""
    return requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


Id = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; since then it is INVALID_PARAMS
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022


@dataclass
class RpcError(Exception):
    """A protocol error. ``message`` repeats no value of the request."""

    code: int
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    id: Id | None = None


@dataclass(frozen=True)
class Request:
    """Needs a response with the same ``id``."""

    id: Id
    method: str
    params: dict[str, Any]


def parse_message(item: Any) -> Request | None:
    """Return the request in a decoded message; raise RpcError, with the id of the message if it has one.

    None: the message is valid and gets no response, as a notification. This server never sends requests, so
    that it also ignores responses.
    """
    if not isinstance(item, dict):
        raise RpcError(INVALID_REQUEST, "a message must be one JSON object")
    request_id = message_id(item)
    if item.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message must contain "jsonrpc": "2.0"', id=request_id)
    if "method" not in item and ("result" in item or "error" in item):
        return None
    method, params = item.get("method"), item.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method must be a string", id=request_id)
    if "id" not in item:
        return None
    if request_id is None:
        raise RpcError(INVALID_REQUEST, "id must be a string or an integer")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object", id=request_id)
    return Request(request_id, method, params)


def message_id(item: Any) -> Id | None:
    """Return the id of a message, if valid."""
    value = item.get("id") if isinstance(item, dict) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def error_message(problem: RpcError, id: Id | None = None) -> dict[str, Any]:
    """Return an error response. ``id`` is null if the id of the request is unknown."""
    error: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.data:
        error["data"] = problem.data
    return {"jsonrpc": "2.0", "id": problem.id if id is None else id, "error": error}


def decode_message(raw: bytes) -> Any:
    """Decode the JSON of a message, or raise RpcError.

    Half of a surrogate pair becomes U+FFFD: a model's text may contain one.
    """
    try:
        return parse_json(raw, replace_surrogates=True)
    except InvalidJson as problem:
        raise RpcError(PARSE_ERROR, str(problem), id=find_message_id(raw)) from None


def find_message_id(raw: bytes) -> Id | None:
    """Return the id of a message that failed, if readable: without it, the client waits until its timeout."""
    with suppress(ValueError, RecursionError):
        return message_id(json.loads(raw))
    return None

"""The headers that repeat what a stateless request says, so that proxies need not read bodies. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from memoryhub.agents.mcp.messages import HEADER_MISMATCH, Request, RpcError
from memoryhub.agents.mcp.versions import VERSION_KEY

VERSION, METHOD, NAME = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def require_agreement(request: Request, headers: Mapping[str, str]) -> None:
    """RpcError where a header is missing or says something else than the body."""
    meta: Any = request.params.get("_meta")
    version = meta.get(VERSION_KEY) if isinstance(meta, Mapping) else None
    wanted = [(VERSION, version), (METHOD, request.method)]
    if request.method == "tools/call" and isinstance(request.params.get("name"), str):
        wanted.append((NAME, request.params["name"]))
    for header, said in wanted:
        found = headers.get(header)
        if found is None:
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} is missing")
        if (decoded(found) if header == NAME else found) != said:
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} and the body say different things")


def decoded(value: str) -> str | None:
    """A header's value, out of Base64 where it stands between its marks; None when that is broken."""
    wrapped = _ENCODED.fullmatch(value)
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode()
    except ValueError:
        return None

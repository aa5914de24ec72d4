"""MCP over standard input and output: one message per line, for clients that start the hub themselves.

Only messages may go to the output; the caller redirects everything else that prints.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from memoryhub.http.authentication import Caller
from memoryhub.http.problems import to_problem
from memoryhub.mcp import http, jsonrpc
from memoryhub.mcp.jsonrpc import Id, Request, RpcError
from memoryhub.mcp.server import Server, is_stateless, requested_version
from memoryhub.toolsets.base import Toolset

logger = logging.getLogger(__name__)
_MAX_LINE_BYTES = 64 * 2**20  # bytes of a line that are read; beyond the limit of a message only for its id


@dataclass
class StdioConnection:
    """The connection of one client.

    ``admit`` authenticates the client anew for each message, because a token may be revoked meanwhile; it
    raises a Problem if that fails. ``longest``: maximum bytes of a line, as of an API body.
    """

    toolset: Toolset
    admit: Callable[[], Caller]
    longest: int
    version: str = jsonrpc.DEFAULT_VERSION
    session: str = ""

    def serve(self, lines: BinaryIO, out: BinaryIO) -> None:
        """Answer each line until the input ends."""
        while line := lines.readline(_MAX_LINE_BYTES):
            response = self.answer(line) if line.strip() else None
            if response is not None:
                out.write(json.dumps(response, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                out.flush()

    def answer(self, line: bytes) -> Any:
        """Return the response to one line, or None."""
        try:
            if len(line) > self.longest:
                reason = f"a message may have {self.longest} bytes; send it in parts"
                raise RpcError(jsonrpc.INVALID_REQUEST, reason, id=jsonrpc.find_message_id(line))
            body = jsonrpc.decode_message(line)
            if isinstance(body, list):
                return self._batch(body)
            message = jsonrpc.parse_message(body)
            return self._request(message) if isinstance(message, Request) else None
        except RpcError as problem:
            return jsonrpc.error_message(problem)

    def _request(self, message: Request) -> dict[str, Any]:
        stateless = is_stateless(message)
        response = self._server("" if stateless else self.session, message.id).answer(message, stateless)
        if message.method == "initialize" and "result" in response:
            self.version = jsonrpc.negotiate_version(requested_version(message.params))
            self.session = http.new_session_name()
        return response

    def _batch(self, items: list[Any]) -> list[dict[str, Any]] | None:
        if self.version != jsonrpc.BATCH_VERSION:
            reason = f"send one message a line: arrays of them are of version {jsonrpc.BATCH_VERSION} alone"
            raise RpcError(jsonrpc.INVALID_REQUEST, reason)
        return self._server(self.session).answer_batch(items) or None

    def _server(self, session: str, id: Id | None = None) -> Server:
        """Return the server for one message."""
        try:
            caller = self.admit()
        except Exception as exc:
            problem = to_problem(exc)
            if problem.status >= 500:
                logger.exception("client on standard input could not be authenticated")
            raise RpcError(problem.status, problem.detail, id=id) from None
        return Server(self.toolset, replace(caller, session=session), secrets.token_hex(8))

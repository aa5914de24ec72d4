"""MCP over standard input and output: one message a line, for a client that starts the hub itself.

Nothing but messages goes to the output; whoever serves this turns everything else that prints away from it.
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
from memoryhub.mcp import jsonrpc, sessions
from memoryhub.mcp.jsonrpc import Id, Request, RpcError
from memoryhub.mcp.server import Server, is_stateless, requested_version
from memoryhub.toolsets.base import Toolset

logger = logging.getLogger(__name__)
_MAX_LINE_BYTES = 64 * 2**20  # bytes of a line that are looked at, if only for whose it is


@dataclass
class StdioConnection:
    """One client, from its first line to the end of its input.

    ``admit`` says who the client is, anew for each message, for a token may be revoked meanwhile; it raises a
    Problem when it is nobody any more. ``longest``: bytes of a line, as of a body of the API.
    """

    toolset: Toolset
    admit: Callable[[], Caller]
    longest: int
    version: str = jsonrpc.DEFAULT_VERSION
    session: str = ""

    def serve(self, lines: BinaryIO, out: BinaryIO) -> None:
        """Answer line by line until there are no more."""
        while line := lines.readline(_MAX_LINE_BYTES):
            made = self.answer(line) if line.strip() else None
            if made is not None:
                out.write(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                out.flush()

    def answer(self, line: bytes) -> Any:
        """What goes back for one line; None where nothing does."""
        try:
            if len(line) > self.longest:
                reason = f"a message may have {self.longest} bytes; send it in parts"
                raise RpcError(jsonrpc.INVALID_REQUEST, reason, id=jsonrpc.find_message_id(line))
            found = jsonrpc.decode_message(line)
            if isinstance(found, list):
                return self._several(found)
            message = jsonrpc.parse_message(found)
            return self._request(message) if isinstance(message, Request) else None
        except RpcError as problem:
            return jsonrpc.error_message(problem)

    def _request(self, message: Request) -> dict[str, Any]:
        stateless = is_stateless(message)
        made = self._server("" if stateless else self.session, message.id).answer(message, stateless)
        if message.method == "initialize" and "result" in made:
            self.version = jsonrpc.negotiate_version(requested_version(message.params))
            self.session = sessions.new_session_name()
        return made

    def _several(self, items: list[Any]) -> list[dict[str, Any]] | None:
        if self.version != jsonrpc.BATCH_VERSION:
            reason = f"send one message a line: arrays of them are of version {jsonrpc.BATCH_VERSION} alone"
            raise RpcError(jsonrpc.INVALID_REQUEST, reason)
        return self._server(self.session).answer_batch(items) or None

    def _server(self, session: str, id: Id | None = None) -> Server:
        """For one message."""
        try:
            caller = self.admit()
        except Exception as exc:
            problem = to_problem(exc)
            if problem.status >= 500:
                logger.exception("a client at standard input was not admitted")
            raise RpcError(problem.status, problem.detail, id=id) from None
        return Server(self.toolset, replace(caller, session=session), secrets.token_hex(8))

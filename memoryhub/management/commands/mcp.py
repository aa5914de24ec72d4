"""``manage.py mcp TOOLSET``: a toolset as an MCP server over standard input and output."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, BinaryIO, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from memoryhub import config
from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity
from memoryhub.accounts import tokens
from memoryhub.core.agent_hooks import TOKEN_VARIABLE
from memoryhub.core.vocabulary import RIGHTS, Right
from memoryhub.http.authentication import Caller
from memoryhub.http.problems import Problem, to_problem, unauthenticated
from memoryhub.management import require_migrated, short_name, split_words
from memoryhub.mcp import http, jsonrpc
from memoryhub.mcp.jsonrpc import Id, Request, RpcError
from memoryhub.mcp.server import Server, is_stateless, requested_version
from memoryhub.ops.checks import require_usable_store
from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Toolset


class Command(BaseCommand):
    help = (
        "Serve a toolset as an MCP server over standard input and output, for an agent that starts it. The "
        f"agent's token comes from {TOKEN_VARIABLE} or {TOKEN_VARIABLE}_FILE. On the machine of the store,"
        " --as NAME can replace it."
    )

    # The checks load every page, and the agent would wait for that.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("toolset", choices=sorted(TOOLSETS), help="the toolset to serve")
        parser.add_argument("--as", dest="name", metavar="NAME", help="without a token: the agent's name")
        parser.add_argument(
            "--clearance",
            choices=LEVELS,
            default=Sensitivity.PUBLIC.value,
            help="with --as: the highest level it may read (default: public)",
        )
        parser.add_argument(
            "--rights",
            default=f"{Right.READ},{Right.WRITE}",
            help=f"with --as: comma-separated {','.join(RIGHTS)} (default: read,write)",
        )
        parser.add_argument("--project", metavar="NAME", help="with --as: only this project")

    def handle(self, *args: Any, **options: Any) -> None:
        if sys.stdin is None or sys.stdout is None:
            raise CommandError("standard input or output is closed; messages are read and written there")
        require_usable_store()
        require_migrated()
        admit = as_operator(options) if options["name"] is not None else by_token
        try:
            admit()
        except Problem:
            raise CommandError(
                f"set {TOKEN_VARIABLE} to a valid token (manage.py create_token makes one), or pass --as NAME"
            ) from None
        wire = StdioConnection(
            TOOLSETS[options["toolset"]], _with_new_connection(admit), settings.MEMORYHUB.max_body_bytes
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _end)
        # Printed text goes to standard error, so that it does not mix with messages.
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            wire.serve(sys.stdin.buffer, out)


def _with_new_connection(admit: Callable[[], Caller]) -> Callable[[], Caller]:
    """Return a function that authenticates a message, on a new database connection if the last one failed."""

    def admit_again() -> Caller:
        close_old_connections()
        return admit()

    return admit_again


def by_token() -> Caller:
    """Authenticate the token in the environment. Called for each message, as it may be revoked."""
    token = tokens.authenticate_token(config.read_secret(TOKEN_VARIABLE))
    if token is None:
        raise unauthenticated()
    return Caller.of(token)


def as_operator(options: dict[str, Any]) -> Callable[[], Caller]:
    """Return an agent without a token: anyone who runs this command can read the file of the store anyway."""
    name = short_name(options["name"], "--as")
    rights = frozenset(split_words(options["rights"]))
    if not name or not name.isprintable():
        raise CommandError("--as takes a name of printable characters")
    if not rights or rights - set(RIGHTS):
        raise CommandError(f"--rights must be of: {', '.join(RIGHTS)}")
    projects = None if options["project"] is None else [short_name(options["project"], "--project")]
    clearance = Clearance.up_to(options["clearance"], owner=name, projects=projects)
    caller = Caller(Actor(f"command:{name}", clearance), rights)
    return lambda: caller


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Stop at once. An unfinished write is rolled back; no client has received its confirmation."""
    sys.exit(0)


logger = logging.getLogger(__name__)
_MAX_LINE_BYTES = 64 * 2**20  # larger than a message may be: the id of one that is too long is needed


@dataclass
class StdioConnection:
    """The connection of one client.

    ``admit`` authenticates the client for each message, because its token may be revoked at any time; it
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
                text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
                out.write(text.encode("utf-8", "replace") + b"\n")  # the id may be half of a surrogate pair
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
            return self._request(message) if message is not None else None
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
            reason = f"send one message per line: only version {jsonrpc.BATCH_VERSION} has arrays of them"
            raise RpcError(jsonrpc.INVALID_REQUEST, reason)
        return self._server(self.session).answer_batch(items) or None

    def _server(self, session: str, id: Id | None = None) -> Server:
        try:
            caller = self.admit()
        except Exception as exc:
            problem = to_problem(exc)
            if problem.status >= 500:
                logger.exception("client on standard input could not be authenticated")
            raise RpcError(problem.status, problem.detail, id=id) from None
        return Server(self.toolset, replace(caller, session=session), secrets.token_hex(8))

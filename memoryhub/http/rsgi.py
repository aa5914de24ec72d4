"""WSGI over granian's RSGI interface: the environ of a request and the streaming of a response."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined] # a name of its own

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
CLIENT_READ_TIMEOUT = 60  # for which a client may read nothing of its answer
PIPE_OPEN_TIMEOUT = 10  # seconds for the server to open a pipe, which it never does once the client has left
MAX_UNSTREAMED_BYTES = 256 * 1024  # bytes: an answer in pieces that is shorter is sent at once
_IP_FAMILIES = (socket.AF_INET, socket.AF_INET6)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamedResponse:
    """An answer that comes in pieces; ``send`` it in a thread that may wait for the client."""

    protocol: HTTPProtocol
    client: tuple[str, str]  # its address and port
    status: int
    headers: list[tuple[str, str]]
    answer: Iterable[bytes]

    def send(self) -> None:
        """Send all of it, or as much as the client takes; the answer is closed then.

        What the answer raises is raised; if some of it was sent, the client's connection ends before it does.
        """
        try:
            pieces = iter(self.answer)
            begun = _read_start(pieces)
            if len(begun) < MAX_UNSTREAMED_BYTES:
                self.protocol.response_bytes(self.status, self.headers, begun)
            else:
                self._through_pipe(begun, pieces)
        except (BrokenPipeError, _ClientDisconnected):
            logger.info("a client left before the end of its answer")
        finally:
            _close_response(self.answer)

    def _through_pipe(self, begun: bytes, pieces: Iterator[bytes]) -> None:
        with TemporaryDirectory(prefix="memoryhub-answer-") as folder:
            path = Path(folder, "pipe")
            os.mkfifo(path, 0o600)
            self.protocol.response_file(self.status, self.headers, str(path))
            pipe = _open_pipe(path)
        with open(pipe, "wb", buffering=0) as file:
            _write_all(file.fileno(), begun)
            try:
                for piece in pieces:
                    _write_all(file.fileno(), piece)
            except BaseException:
                _end_connection(self.client)  # the end of the pipe alone would pass for the end of the answer
                raise


class _ClientDisconnected(Exception):
    """Nobody reads the answer."""


def call_wsgi(
    application: WsgiApplication, environ: dict[str, Any], protocol: HTTPProtocol
) -> StreamedResponse | None:
    """Ask the application, and answer what it says; what comes in pieces is left to the caller to send."""
    told: list[Any] = []
    answer = application(environ, lambda *said: told.extend(said))
    status, headers = int(told[0].split(" ", 1)[0]), told[1]
    in_pieces = getattr(answer, "streaming", False)
    if in_pieces and environ["REQUEST_METHOD"] != "HEAD":
        client = environ["REMOTE_ADDR"], environ["REMOTE_PORT"]
        return StreamedResponse(protocol, client, status, headers, answer)
    try:
        # Of an answer in pieces HEAD gets none, and the server would never open a pipe for it.
        protocol.response_bytes(status, headers, b"" if in_pieces else b"".join(answer))
    finally:
        _close_response(answer)
    return None


def set_client_read_timeout(seconds: float) -> None:
    """Let the system end connections of this server whose client takes nothing of its answer for that long.

    It is said to the sockets that listen; what they accept inherits it. Only Linux knows how.
    """
    for one in _open_sockets() if hasattr(socket, "TCP_USER_TIMEOUT") else ():
        if one.family in _IP_FAMILIES and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def _end_connection(client: tuple[str, str]) -> None:
    """Granian (2.8) has no word for it."""
    for one in _open_sockets():
        with suppress(OSError):  # it has no other end
            if one.family in _IP_FAMILIES and one.getpeername()[:2] == (client[0], int(client[1])):
                one.shutdown(socket.SHUT_RDWR)


def _open_sockets() -> Iterator[socket.socket]:
    """Those that this process has open. They stay so: closing a copy of a database's file drops its locks."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # no socket, or closed since
            one = socket.socket(fileno=int(name))
            try:
                yield one
            finally:
                one.detach()


def _read_start(pieces: Iterator[bytes]) -> bytes:
    """The first of them, ``WHOLE`` bytes or more; fewer when that is all."""
    begun = bytearray()
    for piece in pieces:
        begun += piece
        if len(begun) >= MAX_UNSTREAMED_BYTES:
            break
    return bytes(begun)


def _open_pipe(path: Path) -> int:
    """The pipe's end to write into, once the server reads from the other."""
    end = time.monotonic() + PIPE_OPEN_TIMEOUT
    while time.monotonic() < end:
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            time.sleep(0.002)
        else:
            os.set_blocking(pipe, True)
            return pipe
    raise _ClientDisconnected


def _write_all(pipe: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(pipe, left) :]


def _close_response(answer: Iterable[bytes]) -> None:
    if close := getattr(answer, "close", None):
        close()


UNREADABLE_HEADER = "?"
_UNPREFIXED_HEADERS = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_FIXED_ENVIRON = {
    "HTTP_HOST": "",  # of a request that names none, which is then refused
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,  # so that a body in chunks is read to its end
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


def build_environ(scope: Scope, body: IO[bytes]) -> dict[str, Any]:
    """The environment of the request, with ``body`` to be read."""
    server, port = _split_address(scope.server)
    client, client_port = _split_address(scope.client)
    return {
        **_FIXED_ENVIRON,
        **_header_variables([*_unreadable_headers(scope), *scope.headers.items()]),
        "PATH_INFO": _to_wsgi_string(scope.path),
        "QUERY_STRING": _to_wsgi_string(scope.query_string),
        "REMOTE_ADDR": client,
        "REMOTE_PORT": client_port,
        "REQUEST_METHOD": scope.method,
        "SERVER_NAME": server,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": "HTTP/1.0" if scope.http_version == "1" else f"HTTP/{scope.http_version}",
        "wsgi.input": body,
        "wsgi.url_scheme": scope.scheme,
    }


def _unreadable_headers(scope: Scope) -> list[tuple[str, str]]:
    """The headers that were sent, but not in ASCII: granian (2.8) gives their names alone.

    They must not pass for headers that nobody sent: without what a proxy says, its own address would count.
    """
    read = {name for name, _ in scope.headers.items()}
    return [(name, UNREADABLE_HEADER) for name in set(scope.headers.keys()) - read]


def _header_variables(items: list[tuple[str, str]]) -> dict[str, str]:
    """Repeated ones are joined. A name with an underscore is left out: it would pass for another."""
    found: dict[str, str] = {}
    for name, value in items:
        if "_" in name:
            continue
        key = _UNPREFIXED_HEADERS.get(name) or f"HTTP_{name.upper().replace('-', '_')}"
        joint = ";" if name == "cookie" else ","
        found[key] = f"{found[key]}{joint}{value}" if key in found else value
    return found


def _split_address(said: str) -> tuple[str, str]:
    """``host:port`` or ``[host]:port`` as its parts."""
    host, _, port = said.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _to_wsgi_string(text: str) -> str:
    """WSGI's texts are bytes, each as the character of its number."""
    return text.encode().decode("latin-1")

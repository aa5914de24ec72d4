"""Run a WSGI application behind granian's RSGI interface: build the environ, send or stream the response."""

from __future__ import annotations

import errno
import json
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

from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined] # not in its stubs

from memoryhub.http.problems import MEDIA_TYPE, Problem, to_problem

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
CLIENT_READ_TIMEOUT = 60  # seconds that a client may read nothing of its response
PIPE_OPEN_TIMEOUT = 10  # seconds for the server to open a pipe; it never does once the client has left
MAX_UNSTREAMED_BYTES = 256 * 1024  # a shorter streaming response is sent at once
_IP_FAMILIES = (socket.AF_INET, socket.AF_INET6)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamedResponse:
    """A streaming response. ``send`` blocks while the client reads, so it needs a thread that may wait."""

    protocol: HTTPProtocol
    client: tuple[str, str]  # address and port
    status: int
    headers: list[tuple[str, str]]
    chunks: Iterable[bytes]

    def send(self) -> None:
        """Send the response until its end or until the client leaves, then close it.

        An exception before anything was sent becomes a problem. Others propagate, after the connection was
        shut down.
        """
        try:
            chunks = iter(self.chunks)
            try:
                start = _read_start(chunks)
            except Exception as error:
                logger.exception("a response failed before any of it was sent")
                self._send_problem(to_problem(error))
                return
            if len(start) < MAX_UNSTREAMED_BYTES:
                self.protocol.response_bytes(self.status, self.headers, start)
            else:
                self._stream_through_pipe(start, chunks)
        except (BrokenPipeError, _ClientDisconnected):
            logger.info("client disconnected before the end of the response")
        finally:
            _close_response(self.chunks)

    def _send_problem(self, problem: Problem) -> None:
        headers = {name.lower(): value for name, value in self.headers}
        kept = [(name, value) for name, value in headers.items() if not name.startswith("content-")]
        body = json.dumps(problem.as_dict(headers.get("x-request-id", ""))).encode()
        self.protocol.response_bytes(problem.status, [*kept, ("content-type", MEDIA_TYPE)], body)

    def _stream_through_pipe(self, start: bytes, chunks: Iterator[bytes]) -> None:
        """Give granian a named pipe as the response file. A full pipe blocks the writer: back-pressure."""
        with TemporaryDirectory(prefix="memoryhub-answer-") as folder:
            path = Path(folder, "pipe")
            os.mkfifo(path, 0o600)
            self.protocol.response_file(self.status, self.headers, str(path))
            pipe = _open_pipe(path)
        with open(pipe, "wb", buffering=0) as file:
            _write_all(file.fileno(), start)
            try:
                for chunk in chunks:
                    _write_all(file.fileno(), chunk)
            except BaseException:
                _shut_down_connection(self.client)  # otherwise the response would look complete
                raise


class _ClientDisconnected(Exception):
    """No one reads the response."""


def call_wsgi(
    application: WsgiApplication, environ: dict[str, Any], protocol: HTTPProtocol
) -> StreamedResponse | None:
    """Call the application and send its response. A streaming response is returned for the caller to send."""
    started: list[Any] = []
    response = application(environ, lambda *arguments: started.extend(arguments))
    status, headers = int(started[0].split(" ", 1)[0]), started[1]
    is_streaming = getattr(response, "streaming", False)
    if is_streaming and environ["REQUEST_METHOD"] != "HEAD":
        client = environ["REMOTE_ADDR"], environ["REMOTE_PORT"]
        return StreamedResponse(protocol, client, status, headers, response)
    try:
        # HEAD gets no body of a streaming response; the server would never open a pipe for it.
        protocol.response_bytes(status, headers, b"" if is_streaming else b"".join(response))
    finally:
        _close_response(response)
    return None


def set_client_read_timeout(seconds: float) -> None:
    """Let the kernel close connections whose client reads nothing of its response for that long.

    Set on the listening sockets; accepted connections inherit it. Linux only.
    """
    for sock in _open_sockets() if hasattr(socket, "TCP_USER_TIMEOUT") else ():
        if sock.family in _IP_FAMILIES and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def _shut_down_connection(client: tuple[str, str]) -> None:
    """Shut down the connection of this client. Granian (2.8) has no call for it."""
    for sock in _open_sockets():
        with suppress(OSError):  # not connected
            if sock.family in _IP_FAMILIES and sock.getpeername()[:2] == (client[0], int(client[1])):
                sock.shutdown(socket.SHUT_RDWR)


def _open_sockets() -> Iterator[socket.socket]:
    """Yield the open sockets of this process without duplicating or closing their file descriptors.

    Closing a duplicate of a descriptor of the database file would drop SQLite's locks.
    """
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # not a socket, or closed meanwhile
            sock = socket.socket(fileno=int(name))
            try:
                yield sock
            finally:
                sock.detach()


def _read_start(chunks: Iterator[bytes]) -> bytes:
    """Return the first ``MAX_UNSTREAMED_BYTES`` or a little more; fewer if the response ends before."""
    start = bytearray()
    for chunk in chunks:
        start += chunk
        if len(start) >= MAX_UNSTREAMED_BYTES:
            break
    return bytes(start)


def _open_pipe(path: Path) -> int:
    """Open the pipe for writing as soon as the server has opened it for reading."""
    deadline = time.monotonic() + PIPE_OPEN_TIMEOUT
    while time.monotonic() < deadline:
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no reader yet
                raise
            time.sleep(0.002)
        else:
            os.set_blocking(pipe, True)
            return pipe
    raise _ClientDisconnected


def _write_all(pipe: int, chunk: bytes) -> None:
    left = memoryview(chunk)
    while left:
        left = left[os.write(pipe, left) :]


def _close_response(response: Iterable[bytes]) -> None:
    if close := getattr(response, "close", None):
        close()


UNREADABLE_HEADER = "?"
_UNPREFIXED_HEADERS = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_FIXED_ENVIRON = {
    "HTTP_HOST": "",  # a request without Host: Django refuses it
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,  # a chunked body is read to its end
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


def build_environ(scope: Scope, body: IO[bytes]) -> dict[str, Any]:
    """Return the WSGI environ of a request."""
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
    """Return headers whose value is not ASCII: granian (2.8) lists only their names.

    They must not look absent: without X-Forwarded-For, the address of the proxy would count.
    """
    readable = {name for name, _ in scope.headers.items()}
    return [(name, UNREADABLE_HEADER) for name in set(scope.headers.keys()) - readable]


def _header_variables(items: list[tuple[str, str]]) -> dict[str, str]:
    """Return headers as WSGI variables: repeated headers joined, names with an underscore dropped.

    ``X_Name`` would otherwise be taken for ``X-Name``.
    """
    variables: dict[str, str] = {}
    for name, value in items:
        if "_" in name:
            continue
        key = _UNPREFIXED_HEADERS.get(name) or f"HTTP_{name.upper().replace('-', '_')}"
        separator = ";" if name == "cookie" else ","
        variables[key] = f"{variables[key]}{separator}{value}" if key in variables else value
    return variables


def _split_address(address: str) -> tuple[str, str]:
    """Split ``host:port`` or ``[host]:port``."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _to_wsgi_string(text: str) -> str:
    """Return the UTF-8 bytes of a text as Latin-1 characters, as WSGI requires."""
    return text.encode().decode("latin-1")

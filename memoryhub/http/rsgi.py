"""Serve a WSGI application behind granian's RSGI interface: buffer the body, call it, send the response.

Bodies are buffered in the event loop, so that slow clients occupy no worker thread. The event loop of the
server reads each body and answers 408 when it does not arrive in time. Only a request whose body has arrived
goes to one of the few worker threads (more threads would only compete for the GIL). Of a body above
``BUFFER_BYTES``, such as an imported file, the first part is buffered; the view reads the rest as it arrives,
and each further ``BUFFER_BYTES`` has the same time limit.

What the view leaves of a body, such as one that is too large, is read and dropped after the response is sent:
a connection that was closed at once would be reset, and the client or a proxy could lose the response.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeVar

from granian.rsgi import HTTPProtocol, ProtocolClosed, Scope  # type: ignore[attr-defined] # not in its stubs

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


BODY_TIMEOUT = 20.0  # seconds for a body, or the next part of it, to arrive
BUFFER_BYTES = 1024 * 1024  # bytes of a body that are read before a thread works on the request
SENDER_THREADS = 32  # threads that send streaming responses: they wait for their clients

_T = TypeVar("_T")
_PROBLEM_BODY = (
    b'{"type": "about:blank", "title": "%s", "status": %d, "code": "%s", "detail": "%s", "errors": []}'
)
_PROBLEM_HEADERS = [
    ("Content-Type", "application/problem+json"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
]


class RequestBuffer:
    """The RSGI application that granian serves: it calls a WSGI application once the body has arrived.

    ``body_timeout``: seconds for a body to arrive. ``read_timeout``: seconds that a client may read
    nothing of its response. ``leave`` is called in the thread that sent a streaming response: such a
    response queries the database there, and these threads must not keep a connection each.
    """

    def __init__(
        self,
        application: WsgiApplication,
        threads: int,
        body_timeout: float = BODY_TIMEOUT,
        read_timeout: float = CLIENT_READ_TIMEOUT,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.application = application
        self.body_timeout = body_timeout
        self.read_timeout = read_timeout
        self.leave = leave
        self._workers = ThreadPoolExecutor(threads, "working")
        self._senders = ThreadPoolExecutor(SENDER_THREADS, "sending")

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Schedule the socket option: granian calls this before it listens and before the loop runs."""
        loop.call_soon(set_client_read_timeout, self.read_timeout)

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""
        try:
            body = await self._open_body(scope, protocol)
        except TimeoutError:
            _send_problem(protocol, 408, b"Request Timeout", b"too_slow", b"the body did not arrive in time")
            return
        except OSError:
            _send_problem(protocol, 400, b"Bad Request", b"unreadable_body", b"the body is incomplete")
            return
        environ = build_environ(scope, body)
        stream = await _run_in_pool(self._workers, lambda: call_wsgi(self.application, environ, protocol))
        if stream is not None:
            await _run_in_pool(self._senders, lambda: self._send(stream))
        if isinstance(body, BufferedReader):
            await self._drop_rest(body.raw)

    async def _drop_rest(self, body: _BufferedBody) -> None:
        with suppress(OSError):  # it does not arrive in time, or the client left
            async with asyncio.timeout(self.body_timeout):
                await body.drop_rest()

    def _send(self, stream: StreamedResponse) -> None:
        try:
            stream.send()
        finally:
            self.leave()

    async def _open_body(
        self, scope: Scope, protocol: HTTPProtocol
    ) -> BytesIO | BufferedReader[_BufferedBody]:
        """Return the body as a file.

        Raises TimeoutError when it is late, another OSError when the connection ends before it does.
        """
        headers = scope.headers
        declared = headers.get("content-length") or ""
        length = int(declared) if declared.isdecimal() else None
        if length == 0 or (length is None and "transfer-encoding" not in headers):
            return BytesIO()
        if length is not None and length <= BUFFER_BYTES:
            try:
                async with asyncio.timeout(self.body_timeout):
                    return BytesIO(await protocol())
            except ProtocolClosed as error:
                raise OSError("the body is incomplete") from error
        stream = _BodyStream(protocol, self.body_timeout)
        start = await stream.read_part()
        return BufferedReader(_BufferedBody(start, stream, asyncio.get_running_loop()))


def _run_in_pool(pool: ThreadPoolExecutor, function: Callable[[], _T]) -> asyncio.Future[_T]:
    """Run a function in a thread of the pool, with less overhead than ``loop.run_in_executor``."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 re-raised where the future is awaited
            loop.call_soon_threadsafe(future.set_exception, error)
        else:
            loop.call_soon_threadsafe(future.set_result, result)

    pool.submit(run)
    return future


def _send_problem(protocol: HTTPProtocol, status: int, title: bytes, code: bytes, detail: bytes) -> None:
    body = _PROBLEM_BODY % (title, status, code, detail + b"; send it again")
    protocol.response_bytes(status, _PROBLEM_HEADERS, body)


class _BodyStream:
    """The body of a long or chunked request, read in the event loop by one reader at a time."""

    def __init__(self, protocol: HTTPProtocol, timeout: float) -> None:
        self._chunks = aiter(protocol)
        self._timeout = timeout
        self.ended = False

    async def read_part(self) -> bytes:
        """Read ``BUFFER_BYTES`` or a little more, or the rest. Raises like ``RequestBuffer._open_body``."""
        chunks: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._timeout):
            while size < BUFFER_BYTES and not self.ended:
                chunks.append(await self._read_chunk())
                size += len(chunks[-1])
        return b"".join(chunks)

    async def _read_chunk(self) -> bytes:
        """Granian (2.8) yields one empty chunk at the end of a body, and two when the connection was lost."""
        chunk: bytes = await anext(self._chunks)
        if not chunk:
            self.ended = True
            # Not anext() with a default: CPython (3.11) crashes when granian's future is not a coroutine.
            with suppress(StopAsyncIteration):
                await anext(self._chunks)
                raise OSError("the body is incomplete")
        return chunk


class _BufferedBody(RawIOBase):
    """The buffered start of a body, then the rest as it arrives. Read in a worker thread."""

    def __init__(self, start: bytes, stream: _BodyStream, loop: asyncio.AbstractEventLoop) -> None:
        self._part, self._stream, self._loop = BytesIO(start), stream, loop

    def readable(self) -> bool:
        return True

    async def drop_rest(self) -> None:
        while not self._stream.ended:
            await self._stream.read_part()

    def readinto(self, buffer: Any) -> int:
        data = self._part.read(len(buffer))
        if not data and not self._stream.ended:
            part = asyncio.run_coroutine_threadsafe(self._stream.read_part(), self._loop).result()
            self._part = BytesIO(part)
            data = self._part.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

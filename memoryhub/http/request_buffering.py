"""Clients that send slowly, or not at all, hold up nobody else.

The server's event loop reads the bodies of requests, so that waiting for one takes no thread, and can be
given up: what does not come in time is answered with 408. Only a request whose body is there is handed to one
of the few threads that work (more of them would take turns at Python). The rest of a body above ``MOST``, a
file that is imported, comes while it is read, by one who was let in with it: each further ``MOST`` of it in
as much time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader, BytesIO, RawIOBase
from typing import Any, TypeVar

from granian.rsgi import HTTPProtocol, ProtocolClosed, Scope  # type: ignore[attr-defined] # names of its own

from memoryhub.http import rsgi
from memoryhub.http.rsgi import build_environ

BODY_TIMEOUT = 20.0  # that a body may take to come, up to MOST bytes of it
BUFFER_BYTES = 1024 * 1024  # bytes that are read before anybody works on the request
THREADS_VARIABLE = "HUB_THREADS"  # in the environment of a worker: how many threads work
SENDER_THREADS = 32  # threads that send answers which come in pieces: they wait for who reads them
MAX_CONNECTIONS = 512  # connections of one worker

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
    """What granian serves: a WSGI application that is asked once the body of a request has come.

    ``threads`` work at once. ``seconds`` are for a body to come, ``reading`` is how long a client may take
    nothing of its answer. ``leave`` is called in a thread that has sent an answer in pieces: such an answer
    asks the database there, and these threads must not keep a connection each.
    """

    def __init__(
        self,
        application: rsgi.WsgiApplication,
        threads: int,
        seconds: float = BODY_TIMEOUT,
        reading: float = rsgi.CLIENT_READ_TIMEOUT,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.application = application
        self.seconds = seconds
        self.reading = reading
        self.leave = leave
        self._working = ThreadPoolExecutor(threads, "working")
        self._sending = ThreadPoolExecutor(SENDER_THREADS, "sending")

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by granian before it listens, which it does before the loop runs."""
        loop.call_soon(rsgi.set_client_read_timeout, self.reading)

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""
        try:
            body = await self._body(scope, protocol)
        except TimeoutError:
            _send_problem(protocol, 408, b"Request Timeout", b"too_slow", b"the body did not come in time")
            return
        except OSError:
            _send_problem(protocol, 400, b"Bad Request", b"unreadable_body", b"the body broke off")
            return
        environ = build_environ(scope, body)
        rest = await _run_in_pool(self._working, lambda: rsgi.call_wsgi(self.application, environ, protocol))
        if rest is not None:
            await _run_in_pool(self._sending, lambda: self._send(rest))

    def _send(self, rest: rsgi.StreamedResponse) -> None:
        try:
            rest.send()
        finally:
            self.leave()

    async def _body(self, scope: Scope, protocol: HTTPProtocol) -> BytesIO | BufferedReader:
        """The body, as a view reads it. Raises TimeoutError, or another OSError when it breaks off."""
        headers = scope.headers
        said = headers.get("content-length") or ""
        length = int(said) if said.isdecimal() else None
        if length == 0 or (length is None and "transfer-encoding" not in headers):
            return BytesIO()
        if length is not None and length <= BUFFER_BYTES:
            return BytesIO(await _read_body(protocol, self.seconds))
        coming = _BodyStream(protocol, self.seconds)
        begun = await coming.more()
        return BufferedReader(_BufferedBody(begun, coming, asyncio.get_running_loop()))


def _run_in_pool(pool: ThreadPoolExecutor, act: Callable[[], _T]) -> asyncio.Future[_T]:
    """What ``act`` gives in a thread of the pool, with less work than the loop's own ``run_in_executor``."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def in_thread() -> None:
        try:
            found = act()
        except BaseException as error:  # noqa: BLE001 whatever it is, it is raised where it is awaited
            loop.call_soon_threadsafe(future.set_exception, error)
        else:
            loop.call_soon_threadsafe(future.set_result, found)

    pool.submit(in_thread)
    return future


def _send_problem(protocol: HTTPProtocol, status: int, title: bytes, code: bytes, detail: bytes) -> None:
    words = _PROBLEM_BODY % (title, status, code, detail + b"; send it again")
    protocol.response_bytes(status, _PROBLEM_HEADERS, words)


async def _read_body(protocol: HTTPProtocol, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await protocol()
    except ProtocolClosed as error:
        raise OSError("the body broke off") from error


class _BodyStream:
    """A body that is long, or of unknown length, as it comes. Read by one at a time, in the event loop."""

    def __init__(self, protocol: HTTPProtocol, seconds: float) -> None:
        self._pieces = aiter(protocol)
        self._seconds = seconds
        self.ended = False

    async def more(self) -> bytes:
        """At least ``MOST`` of it, or what is left: nothing at its end. Raises like ``BodyFirst._body``."""
        pieces: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._seconds):
            while size < BUFFER_BYTES and not self.ended:
                pieces.append(await self._piece())
                size += len(pieces[-1])
        return b"".join(pieces)

    async def _piece(self) -> bytes:
        """Granian (2.8) gives an empty piece at the end, and two when the body broke off before it."""
        piece: bytes = await anext(self._pieces)
        if not piece:
            self.ended = True
            # Not anext() with a default: CPython (3.11) dies of it when granian's future is not a coroutine.
            with suppress(StopAsyncIteration):
                await anext(self._pieces)
                raise OSError("the body broke off")
        return piece


class _BufferedBody(RawIOBase):
    """What was read already, and then the rest as it comes; read in a thread."""

    def __init__(self, begun: bytes, coming: _BodyStream, loop: asyncio.AbstractEventLoop) -> None:
        self._begun, self._coming, self._loop = BytesIO(begun), coming, loop

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        found = self._begun.read(len(room))
        if not found and not self._coming.ended:
            more = asyncio.run_coroutine_threadsafe(self._coming.more(), self._loop).result()
            self._begun = BytesIO(more)
            found = self._begun.read(len(room))
        room[: len(found)] = found
        return len(found)

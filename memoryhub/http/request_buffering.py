"""Buffer request bodies in the event loop, so that slow clients occupy no worker thread.

The event loop of the server reads each body and answers 408 when it does not arrive in time. Only a
request whose body has arrived goes to one of the few worker threads (more threads would only compete for
the GIL). Of a body above ``BUFFER_BYTES``, such as an imported file, the first part is buffered; the
view reads the rest as it arrives, and each further ``BUFFER_BYTES`` has the same time limit.

What the view leaves of a body, such as one that is too large, is read and dropped after the response is sent:
a connection that was closed at once would be reset, and the client or a proxy could lose the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader, BytesIO, RawIOBase
from typing import Any, TypeVar

from granian.rsgi import HTTPProtocol, ProtocolClosed, Scope  # type: ignore[attr-defined] # not in its stubs

from memoryhub.http import rsgi

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
        application: rsgi.WsgiApplication,
        threads: int,
        body_timeout: float = BODY_TIMEOUT,
        read_timeout: float = rsgi.CLIENT_READ_TIMEOUT,
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
        loop.call_soon(rsgi.set_client_read_timeout, self.read_timeout)

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
        environ = rsgi.build_environ(scope, body)
        stream = await _run_in_pool(
            self._workers, lambda: rsgi.call_wsgi(self.application, environ, protocol)
        )
        if stream is not None:
            await _run_in_pool(self._senders, lambda: self._send(stream))
        if isinstance(body, BufferedReader):
            await self._drop_rest(body.raw)

    async def _drop_rest(self, body: _BufferedBody) -> None:
        with suppress(OSError):  # it does not arrive in time, or the client left
            async with asyncio.timeout(self.body_timeout):
                await body.drop_rest()

    def _send(self, stream: rsgi.StreamedResponse) -> None:
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

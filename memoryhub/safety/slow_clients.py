"""Clients that send slowly, or not at all, hold up nobody else.

The server gives each request a thread before its body has come, and reading the body waits for the client.
So there are as many of those threads as connections, which only read and wait, and few that work (more of
them would take turns at Python): these are handed a request once its body is there.

A body that comes too slowly is answered with 408, but only between two reads: an answer while another thread
still reads makes granian (2.8) wait for that read with Python's lock held, and the whole worker with it.
Who stops sending therefore keeps one connection and one waiting thread until it goes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader, BytesIO, RawIOBase
from typing import Any

SECONDS = 20.0  # that a body may take to come, up to MOST bytes of it
MOST = 1024 * 1024  # what is more, a file that is imported, is read by the one who was let in with it
PIECE = 16 * 1024  # bytes of one read
THREADS = "HUB_THREADS"  # in the environment of a worker: how many threads work
LOG = "memoryhub/safety/server-log.json"  # of the server, for WithoutAdvice
WAITING = 512  # connections of one worker, each with a thread that may read and wait

_Begin = Callable[..., Any]
_Application = Callable[[dict[str, Any], _Begin], Iterable[bytes]]
_LATE = b'{"type": "about:blank", "title": "Request Timeout", "status": 408, "code": "too_slow", ' + (
    b'"detail": "the body did not come in time; send it again", "errors": []}'
)


class WithoutAdvice(logging.Filter):
    """The server's log without its advice to take fewer threads: they are meant (server-log.json)."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "Python threads" not in record.getMessage()


class BodyFirst:
    """A WSGI application before which bodies are read; ``threads`` of them work at once.

    ``leave``: called in the waiting thread once the answer has gone. An answer that comes in pieces asks the
    database there, and hundreds of threads must not keep a connection each.
    """

    def __init__(
        self,
        application: _Application,
        threads: int,
        seconds: float = SECONDS,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.application = application
        self.seconds = seconds
        self.leave = leave
        self._working = ThreadPoolExecutor(threads, "working")

    def __call__(self, environ: dict[str, Any], start_response: _Begin) -> Iterable[bytes]:
        if not self._has_come(environ):
            headers = [
                ("Content-Type", "application/problem+json"),
                ("Content-Length", str(len(_LATE))),
                ("Cache-Control", "no-store"),
                ("Connection", "close"),
            ]
            start_response("408 Request Timeout", headers)
            return [_LATE]
        told: list[Any] = []
        answer = self._working.submit(self.application, environ, lambda *said: told.extend(said)).result()
        start_response(*told)
        return _Answer(answer, self.leave)

    def _has_come(self, environ: dict[str, Any]) -> bool:
        """Put what was read in the place of the stream; False when it did not come in time."""
        length = environ.get("CONTENT_LENGTH") or ""
        if length == "0" or not (length or environ.get("HTTP_TRANSFER_ENCODING")):
            return True
        body = environ["wsgi.input"]
        left = min(int(length), MOST) if length.isdecimal() else MOST
        end = time.monotonic() + self.seconds
        pieces: list[bytes] = []
        error: OSError | None = None
        try:
            while left and (piece := body.read(min(left, PIECE))):
                pieces.append(piece)
                left -= len(piece)
                if left and time.monotonic() > end:
                    return False
        except OSError as broken:  # told to whoever reads
            error = broken
        environ["wsgi.input"] = BufferedReader(_Joined(b"".join(pieces), body, error))
        return True


class _Answer:
    """What the application gave, and something to do once it has gone."""

    def __init__(self, pieces: Iterable[bytes], leave: Callable[[], None]) -> None:
        self._pieces, self._leave = pieces, leave

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        try:
            if close := getattr(self._pieces, "close", None):
                close()
        finally:
            self._leave()


class _Joined(RawIOBase):
    """What was read already, and then the rest of the stream."""

    def __init__(self, begun: bytes, rest: Any, error: OSError | None) -> None:
        self._begun, self._rest, self._error = BytesIO(begun), rest, error

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        if self._error is not None:
            raise self._error
        found = self._begun.read(len(room)) or self._rest.read(len(room))
        room[: len(found)] = found
        return len(found)

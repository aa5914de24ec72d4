"""One POST of JSON that ends in time, whatever the other side does.

No redirect is followed: the key goes to the address that was configured and to no other.
"""

from __future__ import annotations

import http.client
import io
import json
import ssl
import time
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

_CHUNK = 65_536


class Unreachable(Exception):
    """Nobody answered, or not in time, or not in HTTP; the message holds no header.

    ``sent``: the request had left by then, so that the other side may have worked on it.
    """

    def __init__(self, why: str, *, sent: bool = False) -> None:
        self.sent = sent
        super().__init__(why)


@dataclass(frozen=True)
class Answer:
    """``retry_after`` is the header as it came; ``body`` is empty unless the status is 200."""

    status: int
    retry_after: str
    body: bytes


class _Timely(io.RawIOBase):
    """Reads from a socket until a moment has come: a timeout for each read would let a trickle go on."""

    def __init__(self, sock: Any, until: float) -> None:
        self._sock, self._until = sock, until
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._until))
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()


def post(url: str, sent: dict[str, Any], key: str, seconds: float, most_bytes: int) -> Answer:
    """Send ``sent`` and take the answer, all within ``seconds`` but for the look-up of the host's name.

    Raises Unreachable, also for an answer of more than ``most_bytes``.
    """
    until = time.monotonic() + seconds
    parts = urlsplit(url)
    connection = _connection(parts.scheme, str(parts.hostname), parts.port)
    sent_all = False
    try:
        connection.timeout = _left(until)
        connection.connect()
        connection.sock.settimeout(_left(until))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, json.dumps(sent).encode(), _headers(key))
        sent_all = True
        connection.sock.settimeout(_left(until))
        return _take(connection.sock, until, most_bytes)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(_why(error), sent=sent_all) from None
    finally:
        connection.close()


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "gave no answer in time"
    if isinstance(error, ssl.SSLError):
        words = getattr(error, "verify_message", "") or error.reason or type(error).__name__
        return f"cannot be asked over TLS: {words}"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or type(error).__name__}"
    return f"does not speak HTTP ({type(error).__name__})"


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, context=_trust())
    return http.client.HTTPConnection(host, port)


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(key: str) -> dict[str, str]:
    plain = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "memoryhub",
        "Connection": "close",
    }
    return {**plain, "Authorization": f"Bearer {key}"} if key else plain


def _take(sock: Any, until: float, most_bytes: int) -> Answer:
    response = http.client.HTTPResponse(sock, method="POST")
    response.fp.close()
    response.fp = io.BufferedReader(_Timely(sock, until), _CHUNK)
    with response:
        response.begin()
        body = _body(response, most_bytes) if response.status == http.HTTPStatus.OK else b""
        return Answer(response.status, response.headers.get("Retry-After", ""), body)


def _body(response: http.client.HTTPResponse, most_bytes: int) -> bytes:
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > most_bytes:
            raise Unreachable(f"sent more than the {most_bytes:,} bytes that an answer may have", sent=True)
    return bytes(found)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left

"""Outgoing HTTP: one JSON POST with a total deadline, retries with backoff, and a circuit breaker."""

from __future__ import annotations

import http.client
import io
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class EndpointProblem(NamedTuple):
    """A problem that names the setting, and its fix. Neither contains a secret."""

    text: str
    fix: str


def find_endpoint_problems(
    name: str, url: str, model: str, key: str, variable: str
) -> Iterator[EndpointProblem]:
    """Yield the problems in the settings of an OpenAI-compatible endpoint, without a request to it.

    ``name``: the prefix of its settings (``embeddings`` for ``embeddings_url``). ``variable``: the
    environment variable of its key.
    """
    if not url:
        yield EndpointProblem(
            f'{name} is "openai", and {name}_url is empty',
            f"Set {name}_url to the address of the endpoint, such as https://host/v1.",
        )
    elif not is_valid_url(url):
        yield EndpointProblem(
            f"{name}_url is no address that can be asked",
            "Write it as https://host/v1, or https://host:port/v1, in ASCII.",
        )
    if not model:
        yield EndpointProblem(
            f'{name} is "openai", and {name}_model is empty',
            f"Set {name}_model to the name of a model that the endpoint serves.",
        )
    if not (key.isascii() and key.isprintable()):
        yield EndpointProblem(
            f"{variable} holds characters that no HTTP header may hold", "Copy the key again, on one line."
        )


def is_valid_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return False


def is_unencrypted(url: str) -> bool:
    """Whether requests cross a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def with_path(url: str, tail: str) -> str:
    """Return the URL with ``tail`` (such as ``/embeddings``) appended, unless it already ends with it."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(tail) else f"{path}{tail}"))


_CHUNK = 65_536


class Unreachable(Exception):
    """No HTTP response in time. The message contains no header.

    ``sent``: the request was sent, so the server may have processed it.
    """

    def __init__(self, why: str, *, sent: bool = False) -> None:
        self.sent = sent
        super().__init__(why)


@dataclass(frozen=True)
class HttpAnswer:
    """A response. ``retry_after`` is the unparsed header. ``body`` is empty unless the status is 200."""

    status: int
    retry_after: str
    body: bytes


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket with a total deadline. A timeout for each read would accept a slow trickle."""

    def __init__(self, sock: Any, until: float) -> None:
        self._sock, self._until = sock, until
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_seconds_left(self._until))
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()


def post_json(url: str, sent: dict[str, Any], key: str, seconds: float, most_bytes: int) -> HttpAnswer:
    """Post JSON and return the response, all within ``seconds`` except the DNS lookup.

    Raise Unreachable, also for a response of more than ``most_bytes``.
    """
    until = time.monotonic() + seconds
    parts = urlsplit(url)
    connection = _connection(parts.scheme, str(parts.hostname), parts.port)
    sent_all = False
    try:
        connection.timeout = _seconds_left(until)
        connection.connect()
        connection.sock.settimeout(_seconds_left(until))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, json.dumps(sent).encode(), _headers(key))
        sent_all = True
        connection.sock.settimeout(_seconds_left(until))
        return _read_answer(connection.sock, until, most_bytes)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(_describe_error(error), sent=sent_all) from None
    finally:
        connection.close()


def _describe_error(error: Exception) -> str:
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
        return http.client.HTTPSConnection(host, port, context=_ssl_context())
    return http.client.HTTPConnection(host, port)


@cache
def _ssl_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(key: str) -> dict[str, str]:
    plain = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "memoryhub",
        "Connection": "close",
    }
    return {**plain, "Authorization": f"Bearer {key}"} if key else plain


def _read_answer(sock: Any, until: float, most_bytes: int) -> HttpAnswer:
    response = http.client.HTTPResponse(sock, method="POST")
    response.fp.close()
    response.fp = io.BufferedReader(_DeadlineReader(sock, until), _CHUNK)
    with response:
        response.begin()
        body = _read_body(response, most_bytes) if response.status == http.HTTPStatus.OK else b""
        return HttpAnswer(response.status, response.headers.get("Retry-After", ""), body)


def _read_body(response: http.client.HTTPResponse, most_bytes: int) -> bytes:
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > most_bytes:
            raise Unreachable(f"sent more than the {most_bytes:,} bytes that an answer may have", sent=True)
    return bytes(found)


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


PAUSE_SECONDS = 30.0  # after a failure; a Retry-After may ask for more
MAX_PAUSE_SECONDS = 3600.0
MAX_TRIES = 5
FIRST_WAIT_SECONDS = 0.5  # doubled with each try, and up to as much again by chance
_TRANSIENT_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}

Result = TypeVar("Result")


class RequestFailed(Exception):
    """A failed request. ``passes``: a retry may succeed. ``wait``: the Retry-After of the server, seconds."""

    def __init__(self, why: str, *, passes: bool = False, wait: float | None = None) -> None:
        self.passes, self.wait = passes, wait
        super().__init__(why)

    @property
    def pause(self) -> float:
        """The pause before the next request, in seconds."""
        return min(max(self.wait or 0.0, PAUSE_SECONDS), MAX_PAUSE_SECONDS)


def retry_request(ask: Callable[[float], Result], until: float, most_tries: int = MAX_TRIES) -> Result:
    """Call ``ask`` with the seconds left until ``until`` (monotonic clock), and retry transient failures.

    Raise the last :class:`RequestFailed` if it is permanent, or if no tries or no time are left.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return ask(until - time.monotonic())
        except RequestFailed as error:
            wait = _backoff(tries) if error.wait is None else error.wait
            if not error.passes or tries >= most_tries or time.monotonic() + wait >= until:
                raise
            time.sleep(wait)


def to_request_failed(answer: HttpAnswer, server: str, fixes: Mapping[int, str]) -> RequestFailed:
    """Return the failure for a response other than 200. Never quotes the body, which may repeat the key.

    ``fixes``: the fix by status; 300 for every redirect, 400 for every other permanent failure.
    """
    status = answer.status
    why = f"{server} answers with status {status}"
    if status >= 500 or status in _TRANSIENT_STATUSES:
        return RequestFailed(why, passes=True, wait=seconds_to_wait(answer.retry_after, datetime.now(UTC)))
    fix = fixes[300] if 300 <= status < 400 else fixes.get(status, fixes[400])
    return RequestFailed(f"{why}: {fix}")


def seconds_to_wait(header: str, now: datetime) -> float | None:
    """Parse a Retry-After header (seconds or a date). None if it is missing or invalid."""
    written = header.strip()
    if written.isascii() and written.isdigit():
        return float(written[:9])
    try:
        moment = parsedate_to_datetime(written)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:  # "-0000" means UTC
        moment = moment.replace(tzinfo=now.tzinfo)
    return max((moment - now).total_seconds(), 0.0)


def _backoff(tries: int) -> float:
    return FIRST_WAIT_SECONDS * 2.0 ** (tries - 1) * (1 + random.random())  # noqa: S311 no secret


class CircuitBreaker:
    """Stops requests for a while after a failure, then allows one trial request. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: float | None = None  # None: closed, requests are allowed

    def left(self, trial_seconds: float) -> float:
        """Return the seconds to wait before a request, 0 to send it now.

        After a failure the first caller that gets 0 has ``trial_seconds`` for a trial; the others wait.
        """
        with self._lock:
            if self._until is None:
                return 0.0
            now = time.monotonic()
            if now >= self._until:
                self._until = now + trial_seconds
                return 0.0
            return self._until - now

    def begin(self, seconds: float) -> None:
        """Start a pause after a failure. A longer current pause stays."""
        with self._lock:
            self._until = max(self._until or 0.0, time.monotonic() + seconds)

    def end(self) -> None:
        """End the pause after a success."""
        with self._lock:
            self._until = None

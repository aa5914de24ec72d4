"""The network: the addresses of hosts and clients, and outgoing HTTP. No Django.

A request is one JSON POST with a total deadline, retries with backoff, and a circuit breaker.
"""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    import httpx2
    import tenacity


class EndpointProblem(NamedTuple):
    """A problem that names the setting, and its fix. Neither contains a secret."""

    text: str
    fix: str


def find_endpoint_problems(name: str, url: str, model: str, key: str) -> Iterator[EndpointProblem]:
    """Yield the problems in the settings of an OpenAI-compatible endpoint, without a request to it.

    ``name``: the prefix of its settings (``embeddings`` for ``embeddings_url``).
    """
    if not url:
        yield EndpointProblem(
            f'{name} is "openai", and {name}_url is empty',
            f"Set {name}_url to the address of the endpoint, such as https://host/v1.",
        )
    elif not is_valid_url(url):
        yield EndpointProblem(
            f"{name}_url is not a valid address",
            "Write it as https://host/v1, or https://host:port/v1, in ASCII.",
        )
    if not model:
        yield EndpointProblem(
            f'{name} is "openai", and {name}_model is empty',
            f"Set {name}_model to the name of a model that the endpoint serves.",
        )
    if not (key.isascii() and key.isprintable()):
        yield EndpointProblem(
            f"MEMORYHUB_{name.upper()}_KEY contains characters that are not allowed in an HTTP header",
            "Copy the key again, on one line.",
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
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def with_path(url: str, tail: str) -> str:
    """Return the URL with ``tail`` (such as ``/embeddings``) appended, unless it already ends with it."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(tail) else f"{path}{tail}"))


# Names that public DNS does not serve. One without a dot is of the machine or of its network, too.
_PRIVATE_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Python counts them as public: translations of any IPv4 address, and addresses of a site.
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10")))


def is_allowed_peer(host: str, address: str, *, private_names: bool, public_only: bool = False) -> bool:
    """Whether a request for this host may be sent to the address that its name led to.

    Never to link-local addresses, where clouds serve credentials. An address that the operator wrote and a
    name of the private network may lead anywhere else, a public name only to public addresses, unless
    ``private_names``. ``public_only``: someone else than the operator wrote the URL, so that it may lead only
    to public addresses.
    """
    ip = _unwrap_address(address)
    if ip.is_link_local:
        return False
    is_public = ip.is_global and not ip.is_multicast and not any(ip in one for one in _NOT_PUBLIC)
    if public_only:
        return is_public
    return is_public or private_names or _is_private_name(host)


def _unwrap_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address. Return the IPv4 address that an IPv6 address contains, if there is one."""
    ip = ipaddress.ip_address(address)
    if not isinstance(ip, ipaddress.IPv6Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def may_be_public(host: str) -> bool:
    """Whether a host may lead to a public address: it is one, or its name is not of the private network."""
    with suppress(ValueError):
        return is_allowed_peer(host, host, private_names=False, public_only=True)
    return not _is_private_name(host)


def _is_private_name(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(_PRIVATE_SUFFIXES)


class Unreachable(Exception):
    """No HTTP response in time. The message contains no header.

    ``sent``: the request was sent, so the server may have processed it. ``passes``: a retry may succeed.
    """

    def __init__(self, why: str, *, sent: bool = False, passes: bool = True) -> None:
        self.sent, self.passes = sent, passes
        super().__init__(why)


@dataclass(frozen=True)
class HttpAnswer:
    """A response. ``retry_after`` is the unparsed header. ``body`` is empty unless the status is 200."""

    status: int
    retry_after: str
    body: bytes


def post_json(
    url: str,
    sent: dict[str, Any] | str,
    key: str,
    seconds: float,
    most_bytes: int,
    *,
    private_names: bool = False,
    public_only: bool = False,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Post JSON and return the response, all within ``seconds`` except the DNS lookup.

    ``sent``: the content, or its JSON in ASCII, such as one that ``headers`` sign.

    Raise Unreachable, also for a response of more than ``most_bytes`` and for an address that
    :func:`is_allowed_peer` refuses. Ignore redirects and proxy variables.
    """
    import asyncio

    import httpx2

    # json.dumps escapes unpaired surrogates, which httpx refuses.
    content = sent if isinstance(sent, str) else json.dumps(sent)
    done: set[str] = set()

    async def note_step(step: str, info: dict[str, Any]) -> None:
        done.add(step)
        if step == "connection.connect_tcp.complete":
            # The address of the open connection: a second lookup could give another one (DNS rebinding).
            await _check_peer(urlsplit(url).hostname or "", info["return_value"], private_names, public_only)

    all_headers = {**_headers(key), **(headers or {})}
    try:
        return asyncio.run(_send(url, content, all_headers, seconds, most_bytes, note_step))
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise Unreachable(_describe_error(error), sent="http11.send_request_body.complete" in done) from None


async def _send(
    url: str,
    content: str,
    headers: Mapping[str, str],
    seconds: float,
    most_bytes: int,
    note_step: Callable[[str, dict[str, Any]], Awaitable[None]],
) -> HttpAnswer:
    """Post the content and read the response. httpx calls ``note_step`` at each step of the connection."""
    import asyncio

    import httpx2

    # httpx limits the time of each read, and would accept a slow trickle. A task has a total limit.
    async with (
        asyncio.timeout(seconds),
        httpx2.AsyncClient(verify=_ssl_context(), trust_env=False, timeout=None) as client,
        client.stream(
            "POST", url, content=content, headers=headers, extensions={"trace": note_step}
        ) as response,
    ):
        body = await _read_body(response, most_bytes) if response.status_code == HTTPStatus.OK else b""
        return HttpAnswer(response.status_code, response.headers.get("Retry-After", ""), body)


async def _check_peer(host: str, stream: Any, private_names: bool, public_only: bool) -> None:
    """Close the connection and raise Unreachable if its address is not allowed for the host."""
    address = str(stream.get_extra_info("server_addr")[0])
    if is_allowed_peer(host, address, private_names=private_names, public_only=public_only):
        return
    await stream.aclose()
    if public_only:  # its address would describe the network to the person who wrote the URL
        raise Unreachable("is not at a public address; use another address", passes=False)
    fix = "use an address that is not link-local"
    if not _unwrap_address(address).is_link_local:
        fix = "write the address instead of the name, or set endpoint_private_names"
    raise Unreachable(f"has a name that resolves to the private address {address}: {fix}", passes=False)


async def _read_body(response: httpx2.Response, most_bytes: int) -> bytes:
    found = bytearray()
    async for chunk in response.aiter_raw():
        found += chunk
        if len(found) > most_bytes:
            raise Unreachable(f"sent more than the {most_bytes:,} bytes that an answer can have", sent=True)
    return bytes(found)


@cache
def _ssl_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(key: str) -> dict[str, str]:
    plain = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # a compressed answer could exceed the limit of bytes
        "Connection": "close",
        "Content-Type": "application/json",
        "User-Agent": "memoryhub",
    }
    return {**plain, "Authorization": f"Bearer {key}"} if key else plain


def _describe_error(error: BaseException) -> str:
    cause = _system_error(error)
    if isinstance(cause, TimeoutError):
        return "did not answer in time"
    if isinstance(cause, ssl.SSLError):
        words = getattr(cause, "verify_message", "") or cause.reason or type(cause).__name__
        return f"cannot be reached over TLS: {words}"
    if cause:
        # asyncio replaces the text of the system's errors. Negative numbers are those of the DNS lookup.
        known = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror
        return f"cannot be reached: {known or type(cause).__name__}"
    return f"does not speak HTTP ({type(error).__name__})"


def _system_error(error: BaseException | None) -> OSError | None:
    """Return the error of the operating system or of TLS that the HTTP library wraps, if there is one."""
    found = None
    while error:
        found = error if isinstance(error, OSError) else found
        # A host with several addresses has one error for each.
        several = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = several or error.__cause__ or error.__context__
    return found


PAUSE_SECONDS = 30.0  # after a failure; a Retry-After may ask for more
MAX_PAUSE_SECONDS = 3600.0
MAX_TRIES = 5
FIRST_WAIT_SECONDS = 0.5  # doubled with each try, and up to this much more by chance
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
    import tenacity

    backoff = tenacity.wait_exponential_jitter(multiplier=FIRST_WAIT_SECONDS, jitter=FIRST_WAIT_SECONDS)

    def seconds_to_sleep(state: tenacity.RetryCallState) -> float:
        error = state.outcome and state.outcome.exception()
        asked = error.wait if isinstance(error, RequestFailed) else None
        return backoff(state) if asked is None else asked

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, RequestFailed) and error.passes),
        wait=seconds_to_sleep,
        stop=tenacity.stop_after_attempt(most_tries)
        | tenacity.stop_before_delay(max(until - time.monotonic(), 0)),
        reraise=True,
    )
    return retrying(lambda: ask(until - time.monotonic()))


def to_request_failed(answer: HttpAnswer, server: str, name: str) -> RequestFailed:
    """Return the failure for a response other than 200. Never quotes the body, which may repeat the key.

    ``name``: the prefix of the settings of the endpoint.
    """
    status = answer.status
    why = f"{server} returned status {status}"
    if status >= 500 or status in _TRANSIENT_STATUSES:
        return RequestFailed(why, passes=True, wait=seconds_to_wait(answer.retry_after, datetime.now(UTC)))
    fix = f"check {name}_url and {name}_model"
    if 300 <= status < 400:
        fix = f"redirects are not followed; set {name}_url to the address that it leads to"
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        fix = f"check MEMORYHUB_{name.upper()}_KEY"
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host: ``localhost`` or a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def client_network(address: str) -> str | None:
    """Return the key for rate limits: an IPv4 address, or the /64 network of an IPv6 address.

    None for a loopback address or no address. A text that is not an address is returned as it is.
    """
    if not address:
        return None
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)

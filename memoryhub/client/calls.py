"""Requests, their arguments and results, errors, retries and the connection: what both clients share.

The types of results are those of the hub's OpenAPI document (``memoryhub.api.schemas``). Each problem
response (RFC 9457) of a hub becomes an :class:`ApiError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from urllib.parse import urlsplit

import httpx2
import pydantic
import tenacity
from pydantic_core import to_jsonable_python

from memoryhub import __version__
from memoryhub.api.schemas import EntryShape, ListOf, MemoryShape, SessionShape
from memoryhub.core.agent_hooks import TOKEN_VARIABLE
from memoryhub.core.network import seconds_to_wait
from memoryhub.core.text import replace_surrogates


class MemoryhubError(Exception):
    """The base class of all errors of the client."""


class ConfigurationError(MemoryhubError):
    """The client lacks a valid address or a token."""


class UnusableConfig(MemoryhubError):
    """A configuration file that cannot be parsed, or has a conflicting entry."""


class UnexpectedAnswer(MemoryhubError):
    """The server answered, but not as a hub of this version does."""


class ConnectionFailed(MemoryhubError):
    """No answer arrived. ``sent``: the request may have reached the hub."""

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


class FieldProblem(NamedTuple):
    field: str
    message: str


class ApiError(MemoryhubError):
    """The hub refused the request. Branch on ``status`` and ``code``; ``errors`` names each invalid field.

    ``retry_after``: the seconds to wait before a retry, if the hub named them.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.title = str(problem.get("title", ""))
        self.code = str(problem.get("code", ""))
        self.detail = str(problem.get("detail", ""))
        self.request_id = str(problem.get("request_id", ""))
        self.errors = _field_problems(problem.get("errors"))
        self.retry_after = retry_after
        super().__init__(self._text())

    def _text(self) -> str:
        fields = "; ".join(f"{name}: {text}" for name, text in self.errors if text not in self.detail)
        reason = ": ".join(part for part in (self.detail or self.title, fields) if part)
        return f"{self.status} {self.code}: {reason}"


class InvalidRequest(ApiError):
    """400, 413, 415 or 422: the request cannot be used as it is."""


class AuthenticationFailed(ApiError):
    """401: the token is missing, wrong, revoked or expired."""


class PermissionDenied(ApiError):
    """403: the token lacks a right, or may not write to the project."""


class NotFound(ApiError):
    """404: it does not exist, or the token may not see it."""


class Conflict(ApiError):
    """409 or 412: something else has the same text or key, or has changed in the meantime."""


class RateLimited(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the hub is busy, not ready or failed."""


_CLASSES: dict[int, type[ApiError]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidRequest),
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: RateLimited,
}


def to_error(response: httpx2.Response) -> MemoryhubError:
    """Return the exception for a response whose status is not 2xx."""
    status = response.status_code
    problem = _problem(response)
    if problem is None and status < 500:
        return UnexpectedAnswer(_describe_other_server(response))
    retry_after = seconds_to_wait(response.headers.get("Retry-After", ""), datetime.now(UTC))
    error = ServerError if status >= 500 else _CLASSES.get(status, ApiError)
    return error(status, problem or {"title": response.reason_phrase}, retry_after)


def _problem(response: httpx2.Response) -> dict[str, Any] | None:
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return None
    try:
        problem = response.json()
    except ValueError:
        return None
    return problem if isinstance(problem, dict) else None


def _describe_other_server(response: httpx2.Response) -> str:
    if response.is_redirect:
        target = response.headers.get("Location", "")
        return f"{response.url} redirects to {target}. Use the address of the hub itself."
    return f"{response.url} returned status {response.status_code}. It is not a memoryhub. Check the address."


def _field_problems(errors: Any) -> Sequence[FieldProblem]:
    items = errors if isinstance(errors, list) else []
    return tuple(
        FieldProblem(str(item.get("field", "")), str(item.get("message", "")))
        for item in items
        if isinstance(item, dict)
    )


Result = TypeVar("Result")
Item = TypeVar("Item")

DEFAULT_SERVER = "http://127.0.0.1:8000"
SERVER_VARIABLE = "MEMORYHUB_URL"
MAX_WAIT_SECONDS = 30.0  # before one retry; a hub that asks for more gets none
FIRST_WAIT_SECONDS = 0.5  # at most; doubled with each try
_JSON_LINES = "application/x-ndjson"
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class Memory(MemoryShape):
    """A whole memory. ``etag`` identifies this version of it, for ``update(…, if_match=…)``."""

    etag: str = ""


class TimelineEntry(EntryShape, extra="allow"):
    """An entry of a timeline. Further fields depend on ``kind``."""


class Session(pydantic.BaseModel):
    """A session with its newest entries. ``other_projects`` have a session of the same name."""

    session: SessionShape
    timeline: ListOf[TimelineEntry]
    other_projects: list[str]


class Levels(TypedDict, total=False):
    """The levels to include besides public. The token needs clearance for them."""

    allow_private: bool
    allow_secret: bool


class Filters(Levels, total=False):
    """The filters of lists, search and recall."""

    project: str
    session_id: str
    type: str
    category: str
    concept: str
    tag: str
    file: str
    entity: str
    sensitivity: str
    scope: str
    pinned: bool
    since: datetime | str
    until: datetime | str
    trashed: bool


class PastFilters(Filters, total=False):
    """``as_of``: answer from what was stored at this time."""

    as_of: datetime | str


class SearchOptions(PastFilters, total=False):
    limit: int
    mode: Literal["hybrid", "lexical", "semantic"]
    min_score: float
    include_superseded: bool


class MemoryFields(TypedDict, total=False):
    """The fields of a memory that a client may set. ``ttl_days``: 0 or None for never."""

    title: str
    subtitle: str
    abstract: str
    overview: str
    category: str
    type: str
    concepts: Sequence[str]
    tags: Sequence[str]
    aliases: Sequence[str]
    importance: float
    trust: float
    confidence: float
    sensitivity: str
    scope: str
    project: str
    session_id: str
    key: str
    files_read: Sequence[str]
    files_modified: Sequence[str]
    discovery_tokens: int | None
    ttl_days: float | None
    entities: Sequence[Mapping[str, str]]
    superseded_by: str | None
    pinned: bool


class NewMemory(MemoryFields, total=False):
    """The fields of a new memory besides its content. ``deduplicate``: merge it with a similar one."""

    created_at: datetime | str
    deduplicate: bool


class MemoryPatch(MemoryFields, total=False):
    content: str


class FactFields(TypedDict, total=False):
    confidence: float
    project: str
    session_id: str
    sensitivity: str
    memory_id: str


class FactFilters(Levels, total=False):
    subject: str
    predicate: str
    object: str
    min_confidence: float
    project: str
    session_id: str
    as_of: datetime | str


class EventFields(Levels, total=False):
    """``at``: when it happened, if not now."""

    project: str
    cwd: str
    repository: Mapping[str, str]
    at: datetime | str
    sensitivity: str


class InjectOptions(Levels, total=False):
    session_id: str
    project: str
    token_budget: int
    max_count: int


class ProjectSettings(TypedDict, total=False):
    """``mode``: off, observe, approve or automatic. ``pause_hours`` 0 ends a pause."""

    mode: str
    pause_hours: float
    ignored_paths: str
    sends_page: bool
    max_memories: int | None


class PageCorrection(Levels, total=False):
    """``action``: add, reword, pin, unpin, leave_out or not_true. ``kind``: memory or fact."""

    action: str
    kind: str
    id: str
    section: str
    text: str


class ProjectPart(TypedDict, total=False):
    """What a split moves: the sessions of a folder, repositories by key, memories by filter."""

    folder: str
    identities: Sequence[str]
    memories: Filters


class SessionFilters(Levels, total=False):
    project: str
    since: datetime | str
    until: datetime | str


class History(Levels, total=False):
    """The filters of a timeline."""

    type: str
    project: str
    session_id: str
    since: datetime | str
    until: datetime | str


Event = Literal["session:start", "tool:post", "prompt:submit", "session:end"]


@dataclass(frozen=True)
class Call(Generic[Result]):
    """One request of the API, with the type of its result.

    ``repeatable``: the hub recognises a repeated request, or changes nothing. Such a call is sent again even
    if the first request may have been processed and only its answer was lost.
    """

    method: str
    path: str
    result: type[Result]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True

    def request(self) -> dict[str, Any]:
        """Return the arguments of ``httpx2.Client.request``."""
        params = {
            name: replace_surrogates(value) if isinstance(value, str) else value
            for name, value in to_jsonable_python(self.params).items()
        }
        request: dict[str, Any] = {"method": self.method, "url": self.path, "params": params}
        if self.body is None:
            return {**request, "headers": self.headers}
        # ASCII also transports half of a surrogate pair, so that the hub can refuse it.
        content = json.dumps(to_jsonable_python(self.body))
        headers = {**self.headers, "Content-Type": "application/json"}
        return {**request, "headers": headers, "content": content}

    def parse(self, response: httpx2.Response) -> Result:
        """Return the typed result of a response, or raise the problem that it describes."""
        if not response.is_success:
            raise to_error(response)
        try:
            if response.headers.get("Content-Type", "").startswith(_JSON_LINES):
                content: Any = [json.loads(line) for line in response.text.split("\n") if line]
            else:
                content = response.json()
            if self.result is Memory and isinstance(content, dict):
                content["etag"] = response.headers.get("ETag", "")
            return pydantic.TypeAdapter(self.result).validate_python(content)
        except ValueError as error:  # also pydantic's, which may quote stored text
            reason = "an older version?" if isinstance(error, pydantic.ValidationError) else "no JSON."
            message = f"{response.url} does not answer like a hub of version {__version__} does: {reason}"
            raise UnexpectedAnswer(message) from None

    def failed(self, error: httpx2.TransportError | httpx2.DecodingError) -> ConnectionFailed:
        """Return the exception for a request without an answer."""
        reason = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else str(error)
        return ConnectionFailed(reason or type(error).__name__, sent=not isinstance(error, _NEVER_SENT))


def retry_options(call: Call[Any], tries: int) -> dict[str, Any]:
    """Return the arguments for tenacity: retries with backoff, as long as the hub asks for."""
    backoff = tenacity.wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=MAX_WAIT_SECONDS)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, ApiError) else None
        return backoff(state) if asked is None else asked

    return {
        "retry": tenacity.retry_if_exception(lambda error: _may_succeed_later(call, error)),
        "wait": wait,
        "stop": tenacity.stop_after_attempt(tries),
        "reraise": True,
    }


def _may_succeed_later(call: Call[Any], error: BaseException) -> bool:
    """Return whether a retry may succeed without a second effect."""
    if isinstance(error, ConnectionFailed):
        return call.repeatable or not error.sent
    if not isinstance(error, RateLimited | ServerError) or (error.retry_after or 0) > MAX_WAIT_SECONDS:
        return False
    if error.code and error.code != "outcome_unknown":  # a problem of the hub itself: it has changed nothing
        return isinstance(error, RateLimited) or (error.status == 503 and error.code != "store_damaged")
    return call.repeatable and error.status in (502, 503, 504)  # of a proxy, or unknown


@dataclass(frozen=True)
class Connection:
    """The address of a hub and a token, from the arguments or else from the environment."""

    server: str
    token: str

    @classmethod
    def configured(cls, server: str | None, token: str | None) -> Connection:
        """Return the connection. Raise ConfigurationError if the address or the token cannot be used."""
        server = server or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER
        token = token or os.environ.get(TOKEN_VARIABLE) or ""
        if not token:
            raise ConfigurationError(f"No token. Pass token=… or set {TOKEN_VARIABLE}.")
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigurationError("The token contains a space, a line break or a letter with an accent.")
        return cls(check_server(server), token)

    def http_options(self, seconds: float) -> dict[str, Any]:
        """Return the arguments of ``httpx2.Client``."""
        return {
            "base_url": f"{self.server}/api/v1",
            "headers": {
                "Authorization": f"Bearer {self.token}",
                "Accept": "application/json",
                "User-Agent": f"memoryhub-client/{__version__}",
            },
            "timeout": seconds,
        }


def check_server(server: str) -> str:
    """Return the base address of a hub, such as ``http://127.0.0.1:8000``."""
    base = server.strip().rstrip("/").removesuffix("/api/v1")
    try:
        parts = urlsplit(base)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username is not None:
        raise ConfigurationError(
            f"{server!r} is not the address of a hub. Write it like http://127.0.0.1:8000."
        )
    return base


def next_page(call: Call[ListOf[Item]], page: ListOf[Item]) -> Call[ListOf[Item]] | None:
    """Return the call for the page after this one; None after the last one."""
    if page.next_cursor is None:
        return None
    return replace(call, params={**call.params, "cursor": page.next_cursor})

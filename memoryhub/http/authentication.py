"""Token authentication and rate limits: who calls, with which rights and levels, and how often.

Each limit is a token bucket that refills continuously: a steady rate, and ``burst`` requests at once.
On PostgreSQL, all nodes share the buckets of tokens, registrations and sign-ins (``rates``). All others are
in the memory of one process: each worker process counts separately, and a restart resets the counts. There,
full buckets are dropped, and above ``MAX_BUCKETS`` those used least recently.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer
from pydantic import BaseModel, Field

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import tokens
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.postgres import rates
from memoryhub.core.network import client_network
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import Right
from memoryhub.facts import queries
from memoryhub.http.problems import Problem, RateLimitExceeded, unauthenticated
from memoryhub.memories.filters import TextFilter, Timestamp
from memoryhub.memories.schemas import Share
from memoryhub.models import AgentToken
from memoryhub.models.querysets import FactQuerySet

logger = logging.getLogger(__name__)
_ROUNDING_TOLERANCE = 1e-6  # seconds
MAX_BUCKETS = 20_000  # per limit; a bucket takes about 200 bytes


class TokenBuckets:
    """Token buckets by caller. Thread-safe."""

    def __init__(self, max_size: int = MAX_BUCKETS, shared_as: str = "") -> None:
        """``shared_as``: the name of the buckets in a database that nodes share."""
        self.max_size, self.shared_as = max_size, shared_as
        # When the bucket of each caller is full again (monotonic clock), least recently used first.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str, per_second: float, burst: int, cost: int = 1) -> float:
        """Take ``cost`` tokens out of a bucket; return 0, or the seconds until they are available.

        ``per_second`` 0 means no limit.
        """
        if per_second <= 0:
            return 0
        if IS_POSTGRES and self.shared_as:
            try:
                return rates.take(f"{self.shared_as} {key}", per_second, burst, cost)
            except DatabaseError as error:
                if connection.connection is None or getattr(connection.connection, "broken", False):
                    raise
                # A full disk, or a server that is read-only, must not stop reads.
                logger.warning("requests are counted in this process: %s", error)
        now = time.monotonic()
        with self._lock:
            full_at = max(self._full_at.get(key, now), now) + cost / per_second
            missing = full_at - now - burst / per_second
            if missing > _ROUNDING_TOLERANCE:
                return missing
            self._full_at[key] = full_at
            self._full_at.move_to_end(key)
            self._drop_full(now)
        return 0

    def wait(self, key: str, per_second: float, burst: int) -> float:
        """Return the seconds until one token is available, without taking it."""
        if per_second <= 0:
            return 0
        now = time.monotonic()
        with self._lock:
            missing = self._full_at.get(key, now) + (1 - burst) / per_second - now
        return missing if missing > _ROUNDING_TOLERANCE else 0

    def _drop_full(self, now: float) -> None:
        """Drop full buckets, and the one used least recently when there are too many."""
        while self._full_at:
            key, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= self.max_size:
                return
            del self._full_at[key]

    def __len__(self) -> int:
        return len(self._full_at)

    def clear(self) -> None:
        with self._lock:
            self._full_at.clear()


class RecentTokens:
    """Recently valid tokens: they still work while another client guesses at the same address."""

    def __init__(self, max_size: int = MAX_BUCKETS) -> None:
        self.max_size = max_size
        self._digests: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, digest: str) -> None:
        with self._lock:
            self._digests[digest] = None
            self._digests.move_to_end(digest)
            if len(self._digests) > self.max_size:
                self._digests.popitem(last=False)

    def has(self, digest: str) -> bool:
        return digest in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def clear(self) -> None:
        with self._lock:
            self._digests.clear()


REGISTRATIONS_PER_HOUR = 10  # from one address
SIGN_INS_PER_MINUTE = 60  # from one address, of those that start with a link or script
_PER_TOKEN, _PER_ADDRESS, _INVALID_TOKENS, _VALID_TOKENS, _REGISTRATIONS, _SIGN_INS = (
    TokenBuckets(shared_as="token"),
    TokenBuckets(),
    TokenBuckets(),
    RecentTokens(),
    TokenBuckets(shared_as="registration"),
    TokenBuckets(shared_as="sign-in"),
)


def count_request_of_address(address: str) -> None:
    """Count a request; raise :class:`RateLimitExceeded` above the limit. Loopback has no limit."""
    if (network := client_network(address)) is not None:
        config = settings.MEMORYHUB
        _raise_if_waiting(
            _PER_ADDRESS.take(network, config.rate_per_address, config.rate_burst_address), "rate_per_address"
        )


def count_request_of_token(uid: str, digest: str) -> None:
    """Count a request with a valid token; raise :class:`RateLimitExceeded` above the limit."""
    _VALID_TOKENS.add(digest)
    config = settings.MEMORYHUB
    _raise_if_waiting(_PER_TOKEN.take(uid, config.rate_per_token, config.rate_burst_token), "rate_per_token")


def check_token_guesses(address: str, digest: str) -> None:
    """Raise :class:`RateLimitExceeded` for an unknown token when its address sent too many invalid ones."""
    network = client_network(address)
    if network is None or _VALID_TOKENS.has(digest):
        return
    per_second, burst = _guess_limit()
    _raise_if_waiting(_INVALID_TOKENS.wait(network, per_second, burst), "refusals_per_minute")


def count_token_guess(address: str) -> None:
    """Count an invalid token."""
    if (network := client_network(address)) is not None:
        _INVALID_TOKENS.take(network, *_guess_limit())


def count_registration(address: str) -> None:
    """Count an OAuth client that registers; raise :class:`RateLimitExceeded` above ten an hour."""
    if (network := client_network(address)) is not None:
        wait = _REGISTRATIONS.take(network, REGISTRATIONS_PER_HOUR / 3600, REGISTRATIONS_PER_HOUR)
        _raise_if_waiting(wait, "oauth_registration")


def count_started_sign_in(address: str) -> float:
    """Count a sign-in that stores a session before it knows the person; return the seconds to wait, or 0."""
    network = client_network(address)
    return 0 if network is None else _SIGN_INS.take(network, SIGN_INS_PER_MINUTE / 60, SIGN_INS_PER_MINUTE)


def reset_limits() -> None:
    """Reset all counts."""
    for counted in (_PER_TOKEN, _PER_ADDRESS, _INVALID_TOKENS, _VALID_TOKENS, _REGISTRATIONS, _SIGN_INS):
        counted.clear()


def _guess_limit() -> tuple[float, int]:
    per_minute = settings.MEMORYHUB.refusals_per_minute
    return per_minute / 60, per_minute


def _raise_if_waiting(seconds: float, setting: str) -> None:
    if seconds > 0:
        raise RateLimitExceeded(math.ceil(seconds), setting)


WAITING_HEADER = "X-Memoryhub-Waiting"  # how many events wait on the machine of the agent


@dataclass(frozen=True)
class Caller:
    """An authenticated agent. ``actor`` has the full clearance of its token; writes use it unchanged.

    ``session``: the id of the MCP session; empty outside one.
    """

    actor: Actor
    rights: frozenset[str]
    session: str = ""

    @classmethod
    def of(cls, token: AgentToken) -> Caller:
        return cls(tokens.token_actor(token), frozenset(token.rights))

    def require(self, right: Right) -> None:
        """Raise 403 without the right."""
        if right.value not in self.rights:
            raise Problem(
                403, "missing_right", f"this token lacks the right {right.value!r}; use a token that has it"
            )


class ApiRequest(HttpRequest):
    """A request authenticated by :class:`BearerToken` or :class:`ApiKey`."""

    auth: Caller
    request_id: str


class _TokenAuth:
    """Authenticates a token and checks its right."""

    def __init__(self, right: Right | None = None) -> None:
        super().__init__()
        self.right = right

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        token = _find_token(request, (key or "").strip())
        if token is None:
            return None
        caller = Caller.of(token)
        if self.right:
            caller.require(self.right)
        waiting = request.headers.get(WAITING_HEADER, "")
        if re.fullmatch(r"[0-9]{1,6}", waiting):
            tokens.record_waiting(token, int(waiting))
        if choose := getattr(request, "choose_replica_for", None):
            choose(caller.actor.name)
        return caller


class BearerToken(_TokenAuth, HttpBearer):
    """``Authorization: Bearer mh_…``"""


class ApiKey(_TokenAuth, APIKeyHeader):
    """``X-API-Key: mh_…``"""

    param_name = "X-API-Key"


def token_auth(right: Right | None) -> list[Any]:
    """Return the ``auth`` of an operation: a token with this right, in either header."""
    return [BearerToken(right), ApiKey(right)]


READ, WRITE, MAINTAIN = token_auth(Right.READ), token_auth(Right.WRITE), token_auth(Right.MAINTAIN)
ANY_RIGHT = token_auth(None)


def require_token(request: HttpRequest, audience: str, challenge: str) -> AgentToken:
    """Return the token of a request from either header; raise 401 unless it is valid.

    ``audience``: the address whose OAuth tokens are valid. ``challenge``: the header for a 401, from
    which an OAuth client learns how to get one.
    """
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    raw = bearer if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
    token = _find_token(request, raw.strip(), audience)
    if token is None:
        problem = unauthenticated()
        if challenge:
            wrong = ', error="invalid_token"' if raw.strip() else ""
            problem.headers = {"WWW-Authenticate": challenge + wrong}
        raise problem
    return token


def _find_token(request: HttpRequest, raw: str, audience: str = "") -> AgentToken | None:
    """Return the valid token, or None; raise RateLimitExceeded when it is used too often.

    A token that is bound to an audience is valid there alone.
    """
    if not raw:
        return None
    address = request.META.get("REMOTE_ADDR", "")
    check_token_guesses(address, tokens.hash_token(raw))
    token = tokens.authenticate_token(raw, address, None, audience)
    if token is not None:
        count_request_of_token(token.uid, token.digest)
    else:
        count_token_guess(address)
    return token


_FACT_FILTERS = ("subject", "predicate", "object", "project", "session_id")
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Maximum number of results.")]


class AccessParams(BaseModel):
    """The levels to include besides public. The token needs clearance for them."""

    allow_private: bool = Field(False, description="Include private memories.")
    allow_secret: bool = Field(False, description="Include secret memories.")

    def clearance(self, caller: Caller) -> Clearance:
        return caller.actor.clearance.limited_to(private=self.allow_private, secret=self.allow_secret)


class PageParams(BaseModel):
    limit: Limit = 50
    cursor: str | None = Field(None, description="next_cursor of the previous page.")


class FactQuery(AccessParams):
    """Filters for current facts. All given filters must match."""

    subject: TextFilter = Field(None, description="Exact subject.")
    predicate: TextFilter = Field(None, description="Exact predicate.")
    object: TextFilter = Field(None, description="Exact object.")
    min_confidence: Share = Field(0.0, description="Minimum confidence, 0 to 1.")
    project: TextFilter = Field(None, description="Facts of this project.")
    session_id: TextFilter = Field(None, description="Facts of this session.")
    as_of: Timestamp = Field(None, description="Return the facts that were stored and valid at this time.")

    def facts(self, caller: Caller) -> FactQuerySet:
        """Return the matching facts, newest first, without superseded ones. Lazy."""
        filters = {name: getattr(self, name) or "" for name in _FACT_FILTERS}
        return queries.query_facts(
            self.clearance(caller),
            min_confidence=self.min_confidence,
            ended=False,
            as_of=self.as_of,
            **filters,
        )

"""Token authentication: the caller of a request, its rights, and the levels that it asks to see."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer
from pydantic import BaseModel, Field

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import tokens
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import Right
from memoryhub.facts import queries
from memoryhub.http import rate_limit
from memoryhub.http.problems import Problem, unauthenticated
from memoryhub.memories.filters import TextFilter, Timestamp
from memoryhub.memories.schemas import Share
from memoryhub.models import AgentToken
from memoryhub.models.querysets import FactQuerySet

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
    rate_limit.check_token_guesses(address, tokens.hash_token(raw))
    token = tokens.authenticate_token(raw, address, None, audience)
    if token is not None:
        rate_limit.count_request_of_token(token.uid, token.digest)
    else:
        rate_limit.count_token_guess(address)
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

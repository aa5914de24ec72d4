"""Token authentication: the caller of a request, their rights, and the levels that they asked to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer
from pydantic import BaseModel, Field

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import tokens
from memoryhub.accounts.sign_in import address_of
from memoryhub.core.pagination import MAX_LIMIT
from memoryhub.core.vocabulary import Right
from memoryhub.facts import services
from memoryhub.http import rate_limit
from memoryhub.http.problems import Problem, too_often, unauthenticated
from memoryhub.memories.filters import Filter
from memoryhub.models import AgentToken
from memoryhub.models.querysets import FactQuerySet


@dataclass(frozen=True)
class Caller:
    """An agent at one of the doors. ``actor`` reaches all that its token clears: writes use that as it is.

    ``session``: what the door knows of the conversation this call belongs to (MCP's session); empty where it
    knows none.
    """

    actor: Actor
    rights: frozenset[str]
    session: str = ""

    @classmethod
    def of(cls, token: AgentToken) -> Caller:
        return cls(tokens.actor_of(token), frozenset(token.rights))

    def require(self, right: Right) -> None:
        """403 without the right."""
        if right.value not in self.rights:
            raise Problem(
                403, "missing_right", f"this token lacks the right {right.value!r}; use one that was given it"
            )


class ApiRequest(HttpRequest):
    """A request that passed :class:`BearerToken` or :class:`ApiKey`."""

    auth: Caller
    request_id: str


class BearerToken(HttpBearer):
    """``Authorization: Bearer mh_…``"""

    def __init__(self, right: Right | None = None) -> None:
        super().__init__()
        self.right = right

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        return _admit(request, token, self.right)


class ApiKey(APIKeyHeader):
    """``X-API-Key: mh_…``"""

    param_name = "X-API-Key"

    def __init__(self, right: Right | None = None) -> None:
        super().__init__()
        self.right = right

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        return _admit(request, key or "", self.right)


def needs(right: Right | None) -> list[Any]:
    """The ``auth`` of an operation: a token by either header, with this right."""
    return [BearerToken(right), ApiKey(right)]


READ, WRITE, MAINTAIN = needs(Right.READ), needs(Right.WRITE), needs(Right.MAINTAIN)
ANY_RIGHT = needs(None)


def require_token(request: HttpRequest) -> AgentToken:
    """The token of a request, by either header; 401 without one that may be used."""
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    raw = bearer if scheme.lower() == "bearer" else request.headers.get("X-API-Key", "")
    token = _recognise(request, raw.strip())
    if token is None:
        raise unauthenticated()
    return token


def _recognise(request: HttpRequest, raw: str) -> AgentToken | None:
    """The token that this is, if it may be used and is not used too often (429)."""
    if not raw:
        return None
    address = address_of(request)
    try:
        rate_limit.require_patience(address, tokens.digest(raw))
        token = tokens.authenticate(raw, address)
        if token is not None:
            rate_limit.spend_for_token(token.uid, token.digest)
        else:
            rate_limit.note_refusal(address)
    except rate_limit.TooOften as refusal:
        raise too_often(refusal) from None
    return token


def _admit(request: HttpRequest, raw: str, right: Right | None) -> Caller | None:
    token = _recognise(request, raw.strip())
    if token is None:
        return None
    caller = Caller.of(token)
    if right:
        caller.require(right)
    return caller


_FACT_TEXTS = ("subject", "predicate", "object", "project", "session_id")
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Most results.")]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Asking(BaseModel):
    """The levels beside public that a read asks for; it sees them only if its token clears them too."""

    allow_private: bool = Field(False, description="Ask for private memories as well.")
    allow_secret: bool = Field(False, description="Ask for secret memories as well.")

    def clearance(self, caller: Caller) -> Clearance:
        return caller.actor.clearance.asking(private=self.allow_private, secret=self.allow_secret)


class FactQuery(Asking):
    """Facts that hold now and fit every part that is given."""

    subject: Filter = Field(None, description="Facts about exactly this.")
    predicate: Filter = Field(None, description="Facts with exactly this verb.")
    object: Filter = Field(None, description="Facts that point to exactly this.")
    min_confidence: Share = Field(0.0, description="Facts at least so sure, 0 to 1.")
    project: Filter = Field(None, description="Facts of this project.")
    session_id: Filter = Field(None, description="Facts of this session.")

    def facts(self, caller: Caller) -> FactQuerySet:
        """Newest first. Lazy. None that another one superseded."""
        wanted = {name: getattr(self, name) or "" for name in _FACT_TEXTS}
        clearance, least = self.clearance(caller), self.min_confidence
        return services.query_facts(clearance, min_confidence=least, ended=False, **wanted)

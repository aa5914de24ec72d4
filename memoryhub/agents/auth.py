"""Who calls: the token of a request, what it may do, and what it asked to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer

from memoryhub.agents.problems import Problem, too_often, unauthenticated
from memoryhub.models import AgentToken
from memoryhub.safety import rates
from memoryhub.sensitivity import Actor
from memoryhub.team import tokens
from memoryhub.team.signing import address_of
from memoryhub.vocabulary import Right


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
        rates.require_patience(address, tokens.digest(raw))
        token = tokens.authenticate(raw, address)
        if token is not None:
            rates.spend_for_token(token.uid, token.digest)
        else:
            rates.note_refusal(address)
    except rates.TooOften as refusal:
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

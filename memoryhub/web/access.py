"""Who a browser's request is, and what it may see now.

A level above public needs the permission *and* a switch that the person has turned on; the switches live in the
session, stay visible in the page's header, and end with the login.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest

from memoryhub.sensitivity import Actor, Clearance, Sensitivity

SWITCHES = {
    Sensitivity.PRIVATE.value: "memoryhub.view_private",
    Sensitivity.SECRET.value: "memoryhub.view_secret",
}


def may_see(user: AbstractBaseUser | AnonymousUser, level: str) -> bool:
    """Whether the person holds the permission for a level above public."""
    return user.is_authenticated and user.has_perm(SWITCHES[level])  # type: ignore[union-attr]


def is_on(request: HttpRequest, level: str) -> bool:
    """Whether the person asks for a level and may see it."""
    return bool(request.session.get(f"show_{level}")) and may_see(request.user, level)


def turn(request: HttpRequest, level: str, on: bool) -> None:
    """Turn a switch; turning one on without the permission does nothing."""
    request.session[f"show_{level}"] = on and may_see(request.user, level)


def clearance_of(request: HttpRequest) -> Clearance:
    """What this request sees: public, and the levels whose switches are on."""
    levels = {Sensitivity.PUBLIC.value} | {level for level in SWITCHES if is_on(request, level)}
    return Clearance(frozenset(levels), owner=request.user.get_username())


def actor_of(request: HttpRequest) -> Actor:
    """The person, for the store and the journal; writes reach what the pages show."""
    return Actor(f"user:{request.user.get_username()}", clearance_of(request))


def switches(request: HttpRequest) -> dict[str, list[dict[str, object]]]:
    """Context processor: the switches this person may turn, and how they stand."""
    if not request.user.is_authenticated:
        return {"switches": []}
    return {
        "switches": [
            {"level": level, "on": is_on(request, level)} for level in SWITCHES if may_see(request.user, level)
        ]
    }

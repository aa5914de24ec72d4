"""Who a browser's request is, and what it may see now: for the pages and the admin alike.

A level above public needs the permission *and* a switch that the person has turned on; the switches live in
the session, stay visible in the page's header, and end with the login.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from memoryhub.access.policy import Actor, Clearance, Sensitivity
from memoryhub.accounts import sign_in
from memoryhub.accounts.memberships import PERMISSIONS, reach_of
from memoryhub.audit import journal
from memoryhub.core.transactions import write
from memoryhub.models import Memory

SWITCHES = PERMISSIONS


class AccountBackend(ModelBackend):
    """Accounts of the hub; with the person comes their profile, which every page asks for.

    Who has guessed too often waits, at every door that takes a password: until then none is looked at.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        _hold_back(request, username)
        found: User | None = super().authenticate(request, username, password, **more)
        if found is not None:
            _hold_back(request, username)  # many may be guessing at once: those before this one count
        return found

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("profile").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def _hold_back(request: HttpRequest | None, name: str | None) -> None:
    if request is not None and name and sign_in.wait(request, name):
        request.login_held_back = True  # type: ignore[attr-defined]
        raise PermissionDenied


def may_see(user: User | AnonymousUser, level: str) -> bool:
    """Whether the person may see a level above public, in one project at least."""
    if not user.is_authenticated:
        return False
    return level in reach_of(user, [level]).somewhere()


def grantable(user: User | AnonymousUser) -> list[str]:
    """The clearances that a person may hand to an agent: a token must not reach further than they do.

    A token reads every level up to its clearance, so one that the person lacks bars all above it. Where
    projects differ for this person, ``tokens.issue_token`` holds each of the token's against ``reach_of``.
    """
    levels = [Sensitivity.PUBLIC.value]
    for level in SWITCHES:
        if not may_see(user, level):
            break
        levels.append(level)
    return levels


def is_on(request: HttpRequest, level: str) -> bool:
    """Whether the person asks for a level and may see it."""
    return bool(request.session.get(f"show_{level}")) and may_see(request.user, level)


def turn(request: HttpRequest, level: str, on: bool) -> None:
    """Turn a switch; turning one on without the permission does nothing. Secrets turned on are journaled."""
    shown = on and may_see(request.user, level)
    if shown and level == Sensitivity.SECRET.value and not request.session.get(f"show_{level}"):
        assert isinstance(request.user, User)  # noqa: S101 nobody else may see anything above public
        with write():
            sign_in.note(request.user, "secrets_on")
    request.session[f"show_{level}"] = shown


def clearance_of(request: HttpRequest, also: Iterable[str] = ()) -> Clearance:
    """What this request sees: public, and the levels whose switches are on, in the person's projects.

    ``also``: levels to count as switched on.
    """
    asked = {level for level in SWITCHES if request.session.get(f"show_{level}")}
    return reach_of(request.user, asked | set(also))


def full_clearance_of(request: HttpRequest) -> Clearance:
    """All that this person may see, as if every switch were on.

    For what they write, and for taking back what they wrote; never for showing anything.
    """
    return reach_of(request.user)


def actor_of(request: HttpRequest, clearance: Clearance | None = None) -> Actor:
    """The person, for the store and the journal; writes reach what the pages show, or ``clearance``."""
    name = f"user:{request.user.get_username()}"
    may_delete = request.user.has_perm("memoryhub.delete_memory")
    return Actor(name, clearance or clearance_of(request), may_delete)


def reveal(request: HttpRequest, memory: Memory, page: str) -> None:
    """Write down that this person opened a secret, and where; without that row nothing is shown."""
    with write():
        journal.record(actor_of(request), [journal.of_memory("reveal", memory, page=page)])

"""Clearance of people: permissions, project memberships, and the levels that a browser session shows.

A person without memberships sees every project, at the levels of their permissions. The first membership
confines them to the projects that they are a member of, permanently: without the last one they see
nothing (``Profile.confined``, set by a signal). Inside a project, the level of the membership replaces
the permissions, whether higher or lower; a membership without a level leaves them as they are.

A level above public needs the permission *and* a switch that the person has turned on. The switches are
in the session, are visible in the page header, and end with the login.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db.models.signals import post_save
from django.http import HttpRequest

from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity
from memoryhub.accounts import sign_in
from memoryhub.accounts.permissions import CHANGE_USER, DELETE_MEMORY, VIEW_PRIVATE, VIEW_SECRET, VIEW_TOKEN
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.models import Membership, Memory, Profile

LEVEL_PERMISSIONS = {Sensitivity.PRIVATE.value: VIEW_PRIVATE, Sensitivity.SECRET.value: VIEW_SECRET}
SWITCHABLE_LEVELS = LEVEL_PERMISSIONS


def is_confined(user: User | AnonymousUser) -> bool:
    """Return whether memberships limit the projects that the person sees."""
    profile: Profile | None = getattr(user, "profile", None)  # created with the first preference or project
    return profile is not None and profile.confined


def user_clearance(user: User | AnonymousUser, levels: Collection[str] = LEVELS) -> Clearance:
    """Return the clearance of a person, limited to these levels and public.

    Checks only the permissions of these levels (and the one to see all tokens), and reads memberships
    only of confined people. Django and ``user`` cache both, so repeated calls cost nothing.
    """
    requested = frozenset(levels) | {Sensitivity.PUBLIC.value}
    permitted = {
        level
        for level, permission in LEVEL_PERMISSIONS.items()
        if level in requested and user.has_perm(permission)
    }
    clearance = Clearance(frozenset(permitted | {Sensitivity.PUBLIC.value}), owner=user.get_username())
    if is_confined(user):
        return _limit_to_projects(clearance, user, requested)
    return replace(clearance, every_token=user.has_perm(VIEW_TOKEN))


def _limit_to_projects(clearance: Clearance, user: Any, requested: frozenset[str]) -> Clearance:
    if not hasattr(user, "_members"):
        user._members = list(user.memberships.values_list("project", "clearance"))
    grants = tuple(
        (name, Clearance.up_to(level).levels & requested) for name, level in user._members if level
    )
    projects = frozenset(name for name, _ in user._members)
    return Clearance(clearance.levels, clearance.owner, projects, grants=grants)


def confined_owner_clearance(name: str) -> Clearance | None:
    """Return the clearance of the person with this name if they are confined, otherwise None."""
    user = User.objects.select_related("profile").filter(username=name, profile__confined=True).first()
    return None if user is None else user_clearance(user)


def _confine_member(instance: Membership, **kwargs: Any) -> None:
    Profile.objects.update_or_create(user_id=instance.user_id, defaults={"confined": True})


def connect_signals() -> None:
    """Confine a person whenever a membership is saved, by whatever code."""
    post_save.connect(_confine_member, sender=Membership, dispatch_uid="membership confines")


class AccountBackend(ModelBackend):
    """Password login for accounts, throttled after too many failures. Loads the profile with the user."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        _refuse_if_throttled(request, username)
        found: User | None = super().authenticate(request, username, password, **more)
        if found is not None:
            # Again: concurrent attempts may have failed while this password was checked.
            _refuse_if_throttled(request, username)
        return found

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("profile").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def _refuse_if_throttled(request: HttpRequest | None, name: str | None) -> None:
    if request is not None and name and sign_in.login_wait(request, name):
        request.login_throttled = True  # type: ignore[attr-defined]
        raise PermissionDenied


def may_view_level(user: User | AnonymousUser, level: str) -> bool:
    """Return whether the person may see a level above public in at least one project."""
    if not user.is_authenticated:
        return False
    return level in user_clearance(user, [level]).levels_in_any_project()


def grantable_clearances(user: User | AnonymousUser) -> list[str]:
    """Return the clearances that a person may give to a token: none above their own.

    A token reads every level up to its clearance, so the first level that the person lacks ends the
    list. ``tokens.issue_token`` checks every project of the token, because a person's levels can differ
    by project.
    """
    levels = [Sensitivity.PUBLIC.value]
    for level in SWITCHABLE_LEVELS:
        if not may_view_level(user, level):
            break
        levels.append(level)
    return levels


def is_level_shown(request: HttpRequest, level: str) -> bool:
    """Return whether the person has switched a level on and may see it."""
    return bool(request.session.get(f"show_{level}")) and may_view_level(request.user, level)


def show_level(request: HttpRequest, level: str, on: bool) -> None:
    """Switch a level on or off for this session, if the person may see it. Secrets on is journaled."""
    shown = on and may_view_level(request.user, level)
    if shown and level == Sensitivity.SECRET.value and not request.session.get(f"show_{level}"):
        assert isinstance(request.user, User)  # noqa: S101 anonymous users see public only
        with write_transaction():
            sign_in.record_account_event(request.user, "secrets_on")
    request.session[f"show_{level}"] = shown


def request_clearance(request: HttpRequest, also: Iterable[str] = ()) -> Clearance:
    """Return what this request may see: public and the switched-on levels, in the person's projects.

    ``also``: levels to treat as switched on.
    """
    shown = {level for level in SWITCHABLE_LEVELS if request.session.get(f"show_{level}")}
    return user_clearance(request.user, shown | set(also))


def full_clearance(request: HttpRequest) -> Clearance:
    """Return everything that this person may see, as if every switch were on.

    For writes, for undoing them and for reports about them; never for showing memories.
    """
    return user_clearance(request.user)


def request_actor(request: HttpRequest, clearance: Clearance | None = None) -> Actor:
    """Return the person as an actor. Writes reach what the pages show, or ``clearance``."""
    name = f"user:{request.user.get_username()}"
    may_delete = request.user.has_perm(DELETE_MEMORY)
    return Actor(name, clearance or request_clearance(request), may_delete)


def record_reveal(request: HttpRequest, memory: Memory, page: str) -> None:
    """Journal that this person opened a secret on a page. Call it before showing the secret."""
    with write_transaction():
        journal.record(request_actor(request), [journal.memory_change("reveal", memory, page=page)])


def reveal_if_secret(request: HttpRequest, memory: Memory, page: str, levels: Iterable[str] = ()) -> None:
    """Journal that a page shows a secret: a secret memory, or a version of it with one of these levels."""
    if Sensitivity.SECRET.value in {memory.sensitivity, *levels}:
        record_reveal(request, memory, page)


def reveal_secrets(request: HttpRequest, memories: Iterable[Memory], page: str) -> None:
    """Journal that a page shows the secret ones of these memories."""
    for memory in memories:
        reveal_if_secret(request, memory, page)


def may_manage_people(user: Any) -> bool:
    """Return whether the person may change the rights of others."""
    return bool(user.is_active and user.has_perm(CHANGE_USER)) and not is_confined(user)

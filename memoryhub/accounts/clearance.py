"""Clearance of people: permissions, project memberships, and the levels that a browser session shows."""

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
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.models import Membership, Memory, Profile

LEVEL_PERMISSIONS = {
    Sensitivity.PRIVATE.value: "memoryhub.view_private",
    Sensitivity.SECRET.value: "memoryhub.view_secret",
}

VIEW_TOKENS_PERMISSION = "memoryhub.view_agenttoken"


def is_confined(user: User | AnonymousUser) -> bool:
    """Whether memberships say which projects the person sees."""
    profile: Profile | None = getattr(
        user, "profile", None
    )  # none for who has neither preference nor project
    return profile is not None and profile.confined


def user_clearance(user: User | AnonymousUser, levels: Collection[str] = LEVELS) -> Clearance:
    """What a person may see, of these levels and public.

    Asks for the permissions of these levels alone (and for that to see everyone's tokens), and for
    memberships only where there are any; both are kept on ``user``, so that asking again costs nothing.
    """
    asked = frozenset(levels) | {Sensitivity.PUBLIC.value}
    held = {
        level for level in LEVEL_PERMISSIONS if level in asked and user.has_perm(LEVEL_PERMISSIONS[level])
    }
    own = Clearance(frozenset(held | {Sensitivity.PUBLIC.value}), owner=user.get_username())
    if is_confined(user):
        return _limit_to_projects(own, user, asked)
    return replace(own, every_token=user.has_perm(VIEW_TOKENS_PERMISSION))


def _limit_to_projects(own: Clearance, user: Any, asked: frozenset[str]) -> Clearance:
    if not hasattr(user, "_members"):
        user._members = list(user.memberships.values_list("project", "clearance"))
    grants = tuple((name, Clearance.up_to(level).levels & asked) for name, level in user._members if level)
    projects = frozenset(name for name, _ in user._members)
    return Clearance(own.levels, own.owner, projects, grants=grants)


def confined_owner_clearance(name: str) -> Clearance | None:
    """What the person of this name sees when membership confines them; else None, for all."""
    user = User.objects.select_related("profile").filter(username=name, profile__confined=True).first()
    return None if user is None else user_clearance(user)


def _confine_member(instance: Membership, **kwargs: Any) -> None:
    Profile.objects.update_or_create(user_id=instance.user_id, defaults={"confined": True})


def connect_signals() -> None:
    """Whoever makes a membership, at any door, confines the person with it."""
    post_save.connect(_confine_member, sender=Membership, dispatch_uid="membership confines")


SWITCHABLE_LEVELS = LEVEL_PERMISSIONS


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
        _refuse_if_throttled(request, username)
        found: User | None = super().authenticate(request, username, password, **more)
        if found is not None:
            _refuse_if_throttled(
                request, username
            )  # many may be guessing at once: those before this one count
        return found

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.select_related("profile").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def _refuse_if_throttled(request: HttpRequest | None, name: str | None) -> None:
    if request is not None and name and sign_in.login_wait(request, name):
        request.login_held_back = True  # type: ignore[attr-defined]
        raise PermissionDenied


def may_view_level(user: User | AnonymousUser, level: str) -> bool:
    """Whether the person may see a level above public, in one project at least."""
    if not user.is_authenticated:
        return False
    return level in user_clearance(user, [level]).somewhere()


def grantable_clearances(user: User | AnonymousUser) -> list[str]:
    """The clearances that a person may hand to an agent: a token must not reach further than they do.

    A token reads every level up to its clearance, so one that the person lacks bars all above it. Where
    projects differ for this person, ``tokens.issue_token`` holds each of the token's against ``reach_of``.
    """
    levels = [Sensitivity.PUBLIC.value]
    for level in SWITCHABLE_LEVELS:
        if not may_view_level(user, level):
            break
        levels.append(level)
    return levels


def is_level_shown(request: HttpRequest, level: str) -> bool:
    """Whether the person asks for a level and may see it."""
    return bool(request.session.get(f"show_{level}")) and may_view_level(request.user, level)


def show_level(request: HttpRequest, level: str, on: bool) -> None:
    """Turn a switch; turning one on without the permission does nothing. Secrets turned on are journaled."""
    shown = on and may_view_level(request.user, level)
    if shown and level == Sensitivity.SECRET.value and not request.session.get(f"show_{level}"):
        assert isinstance(request.user, User)  # noqa: S101 nobody else may see anything above public
        with write_transaction():
            sign_in.record_account_event(request.user, "secrets_on")
    request.session[f"show_{level}"] = shown


def request_clearance(request: HttpRequest, also: Iterable[str] = ()) -> Clearance:
    """What this request sees: public, and the levels whose switches are on, in the person's projects.

    ``also``: levels to count as switched on.
    """
    asked = {level for level in SWITCHABLE_LEVELS if request.session.get(f"show_{level}")}
    return user_clearance(request.user, asked | set(also))


def full_clearance(request: HttpRequest) -> Clearance:
    """All that this person may see, as if every switch were on.

    For what they write, and for taking back what they wrote; never for showing anything.
    """
    return user_clearance(request.user)


def request_actor(request: HttpRequest, clearance: Clearance | None = None) -> Actor:
    """The person, for the store and the journal; writes reach what the pages show, or ``clearance``."""
    name = f"user:{request.user.get_username()}"
    may_delete = request.user.has_perm("memoryhub.delete_memory")
    return Actor(name, clearance or request_clearance(request), may_delete)


def record_reveal(request: HttpRequest, memory: Memory, page: str) -> None:
    """Write down that this person opened a secret, and where; without that row nothing is shown."""
    with write_transaction():
        journal.record(request_actor(request), [journal.memory_change("reveal", memory, page=page)])

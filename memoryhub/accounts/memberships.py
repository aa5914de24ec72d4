"""What a person may see at most: their permissions, and the projects that they are a member of.

A person without memberships sees every project, at the levels of their permissions. The first membership
confines them to the projects they are a member of, for good: when the last one goes, nothing is left open
(``Profile.confined``, which a signal sets). In a project the membership's own level stands in the place of
the permissions, be it higher or lower; a membership that names none leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models.signals import post_save

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.models import Membership, Profile

PERMISSIONS = {
    Sensitivity.PRIVATE.value: "memoryhub.view_private",
    Sensitivity.SECRET.value: "memoryhub.view_secret",
}

TOKENS = "memoryhub.view_agenttoken"


def is_confined(user: User | AnonymousUser) -> bool:
    """Whether memberships say which projects the person sees."""
    profile: Profile | None = getattr(
        user, "profile", None
    )  # none for who has neither preference nor project
    return profile is not None and profile.confined


def reach_of(user: User | AnonymousUser, levels: Collection[str] = LEVELS) -> Clearance:
    """What a person may see, of these levels and public.

    Asks for the permissions of these levels alone (and for that to see everyone's tokens), and for
    memberships only where there are any; both are kept on ``user``, so that asking again costs nothing.
    """
    asked = frozenset(levels) | {Sensitivity.PUBLIC.value}
    held = {level for level in PERMISSIONS if level in asked and user.has_perm(PERMISSIONS[level])}
    own = Clearance(frozenset(held | {Sensitivity.PUBLIC.value}), owner=user.get_username())
    if is_confined(user):
        return _in_projects(own, user, asked)
    return replace(own, every_token=user.has_perm(TOKENS))


def _in_projects(own: Clearance, user: Any, asked: frozenset[str]) -> Clearance:
    if not hasattr(user, "_members"):
        user._members = list(user.memberships.values_list("project", "clearance"))
    grants = tuple((name, Clearance.up_to(level).levels & asked) for name, level in user._members if level)
    projects = frozenset(name for name, _ in user._members)
    return Clearance(own.levels, own.owner, projects, grants=grants)


def reach_of_owner(name: str) -> Clearance | None:
    """What the person of this name sees when membership confines them; else None, for all."""
    user = User.objects.select_related("profile").filter(username=name, profile__confined=True).first()
    return None if user is None else reach_of(user)


def _confine(instance: Membership, **kwargs: Any) -> None:
    Profile.objects.update_or_create(user_id=instance.user_id, defaults={"confined": True})


def connect() -> None:
    """Whoever makes a membership, at any door, confines the person with it."""
    post_save.connect(_confine, sender=Membership, dispatch_uid="membership confines")

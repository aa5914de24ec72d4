"""Roles ready-made: Django groups whose permissions say what a person may do.

What a person may *see* is apart from that: levels and projects are given to each person by itself. A role is
made once, after a migration; from then on its permissions are the operator's, and a group that was removed is
made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import Q

_APPS = ("contenttypes", "auth", "memoryhub")


@dataclass(frozen=True)
class Role:
    """``about``: what who has it does. ``adds``: permissions, each ``app.codename``, beside those of the role
    before it.
    """

    name: str
    about: str
    adds: tuple[str, ...]


def _permission_names(app: str, *codenames: str) -> tuple[str, ...]:
    return tuple(f"{app}.{codename}" for codename in codenames)


# Each role may do what the one before it may.
ROLES = (
    Role(
        "viewer",
        "reads memories, facts, sessions, the journal and runs of maintenance",
        _permission_names(
            "memoryhub",
            *("view_memory", "view_fact", "view_session", "view_event", "view_injection"),
            *("view_journalentry", "view_maintenancerun"),
        ),
    ),
    Role(
        "curator",
        "writes and mends memories and facts, merges, uses the trash, and makes tokens for their own agents",
        _permission_names(
            "memoryhub",
            *("add_memory", "change_memory", "delete_memory", "add_fact", "change_fact", "delete_fact"),
            "add_agenttoken",
        ),
    ),
    Role(
        "maintainer",
        "runs maintenance, erases for good, repairs unknown levels and manages everyone's tokens",
        _permission_names(
            "memoryhub",
            *("add_maintenancerun", "erase_memory", "repair_unknown"),
            *("view_agenttoken", "change_agenttoken"),
        ),
    ),
    Role(
        "administrator",
        "manages people, as far as their own rights go",
        _permission_names("auth", "add_user", "change_user", "view_user", "view_group"),
    ),
)
ROLE_NAMES = tuple(role.name for role in ROLES)


def role_permissions(name: str) -> list[str]:
    """All permissions that a role begins with; ValueError for one that is not known."""
    return [one for role in ROLES[: ROLE_NAMES.index(name) + 1] for one in role.adds]


def user_role(user: User) -> str:
    """The highest of the ready-made roles that the person has; empty for none. One query at most."""
    held = {group.name for group in user.groups.all()}
    return next((name for name in reversed(ROLE_NAMES) if name in held), "")


def install_roles(**kwargs: Any) -> None:
    """Make the roles that are missing, with their permissions; after any migration."""
    wanted = {model._meta.db_table for model in (Group, Permission)}
    if not wanted <= set(connection.introspection.table_names()):
        return  # migrated back to before there were people
    missing = set(ROLE_NAMES) - set(Group.objects.filter(name__in=ROLE_NAMES).values_list("name", flat=True))
    if not missing:
        return
    for app in _APPS:  # Django makes them after each app's migration, which may come later than this
        create_permissions(apps.get_app_config(app), verbosity=0)
    for name in ROLE_NAMES:
        if name in missing:
            Group.objects.create(name=name).permissions.set(_find_permissions(role_permissions(name)))


def _find_permissions(names: list[str]) -> list[Permission]:
    wanted = Q()
    for name in names:
        app, _, codename = name.partition(".")
        wanted |= Q(content_type__app_label=app, codename=codename)
    found = list(Permission.objects.filter(wanted))
    if len(found) < len(names):
        raise LookupError(f"a permission of the roles is unknown: {len(found)} of {len(names)} found")
    return found

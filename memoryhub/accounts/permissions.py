"""Permissions by name, and the built-in roles: Django groups whose permissions say what a person may do.

Roles do not decide what a person may *see*: levels and projects are granted separately. A role is
created after a migration. From then on the operator may change its permissions; a deleted group is
created again. Templates use ``perms.memoryhub``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import connection
from django.db.models import Q

from memoryhub.core.vocabulary import RIGHTS, Right

VIEW_MEMORY = "memoryhub.view_memory"
ADD_MEMORY = "memoryhub.add_memory"
CHANGE_MEMORY = "memoryhub.change_memory"
DELETE_MEMORY = "memoryhub.delete_memory"
ERASE_MEMORY = "memoryhub.erase_memory"
REPAIR_UNKNOWN = "memoryhub.repair_unknown"
VIEW_PRIVATE = "memoryhub.view_private"
VIEW_SECRET = "memoryhub.view_secret"  # noqa: S105 a permission
VIEW_FACT = "memoryhub.view_fact"
ADD_FACT = "memoryhub.add_fact"
CHANGE_FACT = "memoryhub.change_fact"
DELETE_FACT = "memoryhub.delete_fact"
VIEW_SESSION = "memoryhub.view_session"
VIEW_EVENT = "memoryhub.view_event"
VIEW_INJECTION = "memoryhub.view_injection"
VIEW_JOURNAL = "memoryhub.view_journalentry"
VIEW_RUN = "memoryhub.view_maintenancerun"
ADD_RUN = "memoryhub.add_maintenancerun"  # also changes the settings of projects
VIEW_TOKEN = "memoryhub.view_agenttoken"  # noqa: S105 the tokens of everyone
ADD_TOKEN = "memoryhub.add_agenttoken"  # noqa: S105
CHANGE_TOKEN = "memoryhub.change_agenttoken"  # noqa: S105 also approves and removes OAuth clients
VIEW_USER = "auth.view_user"
ADD_USER = "auth.add_user"
CHANGE_USER = "auth.change_user"
VIEW_GROUP = "auth.view_group"

_APPS = ("contenttypes", "auth", "memoryhub")
# The permissions that a person needs to give a right to a token. Maintenance also trashes and erases.
_PERMISSIONS_OF_RIGHT: dict[str, tuple[str, ...]] = {
    Right.WRITE.value: (ADD_MEMORY,),
    Right.MAINTAIN.value: (ADD_RUN, DELETE_MEMORY, ERASE_MEMORY),
}


@dataclass(frozen=True)
class Role:
    """``about``: what people with the role do. ``adds``: permissions (``app.codename``) that it adds to
    the previous role.
    """

    name: str
    about: str
    adds: tuple[str, ...]


# Each role may do what the one before it may.
ROLES = (
    Role(
        "viewer",
        "reads memories, facts, sessions, the journal and maintenance runs",
        (VIEW_MEMORY, VIEW_FACT, VIEW_SESSION, VIEW_EVENT, VIEW_INJECTION, VIEW_JOURNAL, VIEW_RUN),
    ),
    Role(
        "curator",
        "writes and corrects memories and facts, merges, uses the trash, creates tokens for their own agents",
        (ADD_MEMORY, CHANGE_MEMORY, DELETE_MEMORY, ADD_FACT, CHANGE_FACT, DELETE_FACT, ADD_TOKEN),
    ),
    Role(
        "maintainer",
        "runs maintenance, erases permanently, repairs unknown levels and manages everyone's tokens",
        (ADD_RUN, ERASE_MEMORY, REPAIR_UNKNOWN, VIEW_TOKEN, CHANGE_TOKEN),
    ),
    Role(
        "administrator",
        "manages people, within their own rights",
        (ADD_USER, CHANGE_USER, VIEW_USER, VIEW_GROUP),
    ),
)
ROLE_NAMES = tuple(role.name for role in ROLES)


def role_permissions(name: str) -> list[str]:
    """Return all initial permissions of a role; ValueError for an unknown one."""
    return [one for role in ROLES[: ROLE_NAMES.index(name) + 1] for one in role.adds]


def user_role(user: User) -> str:
    """Return the highest built-in role of a person, or an empty string. At most one query."""
    groups = {group.name for group in user.groups.all()}
    return next((name for name in reversed(ROLE_NAMES) if name in groups), "")


def install_roles(**kwargs: Any) -> None:
    """Create missing roles with their permissions, after any migration."""
    tables = {model._meta.db_table for model in (Group, Permission)}
    if not tables <= set(connection.introspection.table_names()):
        return  # migrated back to before accounts existed
    missing = set(ROLE_NAMES) - set(Group.objects.filter(name__in=ROLE_NAMES).values_list("name", flat=True))
    if not missing:
        return
    for app in _APPS:  # Django creates permissions after the migration of each app, which may run later
        create_permissions(apps.get_app_config(app), verbosity=0)
    for name in ROLE_NAMES:
        if name in missing:
            Group.objects.create(name=name).permissions.set(_find_permissions(role_permissions(name)))


def _find_permissions(names: list[str]) -> list[Permission]:
    condition = Q()
    for name in names:
        app, _, codename = name.partition(".")
        condition |= Q(content_type__app_label=app, codename=codename)
    found = list(Permission.objects.filter(condition))
    if len(found) < len(names):
        raise LookupError(f"unknown permission in a role: found {len(found)} of {len(names)}")
    return found


def grantable_rights(user: User | AnonymousUser) -> list[str]:
    """Return the rights that a person may give to a token: only their own."""
    return [right for right in RIGHTS if user.has_perms(_PERMISSIONS_OF_RIGHT.get(right, ()))]

"""People and their rights: the only writer of roles, levels, memberships and accounts; all is journaled.

Nobody gives more than they hold: a role, a level or an account that reaches further than one's own is
refused. Who is confined to projects manages nobody, for a list of people tells of projects beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db.models import Q

from memoryhub.access.policy import LEVELS, Actor, Sensitivity, level_rank
from memoryhub.accounts import browser_sessions, identities, roles, tokens
from memoryhub.accounts.clearance import LEVEL_PERMISSIONS, is_confined
from memoryhub.accounts.sign_in import record_account_event
from memoryhub.core.transactions import write_transaction
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import Membership, Profile

MANAGE_PERMISSION, ADD_PERMISSION = "auth.change_user", "auth.add_user"


def may_manage_people(user: Any) -> bool:
    """Whether the person may give rights to others."""
    return bool(user.is_active and user.has_perm(MANAGE_PERMISSION)) and not is_confined(user)


def permitted_level(user: User) -> str:
    """The level up to which the person's own permissions read."""
    held = [level for level, permission in LEVEL_PERMISSIONS.items() if user.has_perm(permission)]
    return max(held, key=level_rank, default=Sensitivity.PUBLIC.value)


def grantable_levels(by: User) -> list[str]:
    """The levels that a person may give: all up to the first that they lack."""
    given = [Sensitivity.PUBLIC.value]
    for level in LEVELS[1:]:
        if not by.has_perm(LEVEL_PERMISSIONS[level]):
            break
        given.append(level)
    return given


def grantable_roles(by: User) -> list[str]:
    """The roles of which the person may do everything themselves, as the groups are now."""
    groups = Group.objects.filter(name__in=roles.ROLE_NAMES).prefetch_related("permissions__content_type")
    open_to = {group.name for group in groups if _has_permissions(by, group.permissions.all())}
    return [name for name in roles.ROLE_NAMES if name in open_to]


def may_change_account(by: User, user: User) -> bool:
    """Whether ``by`` may change this account: it may do and see nothing that they may not.

    Who sets a password can sign in with it, and read what a membership opens there.
    """
    if by.is_superuser:
        return True
    if Membership.objects.filter(user=user).exclude(clearance__in=["", *grantable_levels(by)]).exists():
        return False
    held = Permission.objects.filter(Q(user=user) | Q(group__user=user)).select_related("content_type")
    return not user.is_superuser and _has_permissions(by, held.distinct())


def _has_permissions(by: User, permissions: Iterable[Permission]) -> bool:
    return all(by.has_perm(f"{one.content_type.app_label}.{one.codename}") for one in permissions)


def create_account(name: str, password: str, by: User, email: str = "") -> User:
    """Make an account without a role, which sees what is public. A StoreError names a bad value.

    ``email``: by which a provider of OpenID Connect knows them; with it ``password`` may be empty, and they
    sign in through that provider alone.
    """
    if not (may_manage_people(by) and by.has_perm(ADD_PERMISSION)):
        raise Forbidden("you may not make accounts; ask an administrator")
    name = name.strip()
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError as wrong:
        raise StoreError(" ".join(wrong.messages), "username") from None
    if len(name) > 150:
        raise StoreError("must be 1 to 150 characters", "username")
    if User.objects.filter(username__iexact=name).exists():
        raise Conflict("somebody has this name; choose another", "username")
    _require_unused_email(email)
    user = User(username=name, email=email)
    if password or not email:
        _check_password(user, password)
        user.set_password(password)
    else:
        user.set_unusable_password()
    with write_transaction():
        user.save()
        record_account_event(user, "account_made", by.get_username())
    return user


def change_rights(
    user: User, by: User, *, role: str, level: str, is_active: bool, is_staff: bool
) -> list[str]:
    """Set what a person may do and see; returns the names of what changed.

    Only ready-made roles are exchanged, other groups stay. A StoreError names a bad value.
    """
    _require_may_change(by, user)
    before = {"role": roles.user_role(user), "level": permitted_level(user), "active": user.is_active}
    before["staff"] = user.is_staff
    after = {"role": role, "level": level, "active": is_active, "staff": is_staff}
    changed = [name for name in after if after[name] != before[name]]
    if user.pk == by.pk and {"role", "active", "staff"} & set(changed):
        raise Conflict("this is your own account; ask another administrator", "role")
    if "role" in changed and role and role not in grantable_roles(by):
        raise StoreError(f"you may give: {', '.join(grantable_roles(by)) or 'no role'}", "role")
    if "level" in changed and level not in grantable_levels(by):
        raise StoreError(f"you may give: {', '.join(grantable_levels(by))}", "level")
    if not changed:
        return []
    with write_transaction():
        _set_rights(user, after, changed)
        record_account_event(user, "rights", by.get_username(), **{name: after[name] for name in changed})
        if {"role", "level"} & set(changed):
            tokens.reduce_tokens_to_owner(User.objects.get(pk=user.pk), Actor(f"user:{by.get_username()}"))
    return changed


def _set_rights(user: User, wanted: Mapping[str, Any], changed: list[str]) -> None:
    if "role" in changed:
        user.groups.remove(*Group.objects.filter(name__in=roles.ROLE_NAMES))
        if wanted["role"]:
            user.groups.add(Group.objects.get(name=wanted["role"]))
    if "level" in changed:
        codenames = {level: name.partition(".")[2] for level, name in LEVEL_PERMISSIONS.items()}
        both = Permission.objects.filter(content_type__app_label="memoryhub", codename__in=codenames.values())
        upto = LEVELS[: level_rank(wanted["level"]) + 1]
        user.user_permissions.remove(*both)
        user.user_permissions.add(*(one for one in both if one.codename in {codenames.get(x) for x in upto}))
    if {"active", "staff"} & set(changed):
        user.is_active, user.is_staff = wanted["active"], wanted["staff"]
        user.save(update_fields=["is_active", "is_staff"])
        if not user.is_active:
            browser_sessions.end_all_sessions(user)


def add_membership(user: User, project: str, level: str, by: User) -> Membership:
    """Make a person a member of a project, or change up to which level they read there.

    ``level`` empty: that of their permissions. The first membership confines them to their projects. A
    StoreError names a bad value.
    """
    _require_may_change(by, user)
    project = project.strip()
    if not project or len(project) > 200 or not project.isprintable():
        raise StoreError("must be 1 to 200 printable characters", "project")
    if level and level not in grantable_levels(by):
        raise StoreError(f"you may give: {', '.join(grantable_levels(by))}", "clearance")
    with write_transaction():
        membership, made = Membership.objects.update_or_create(
            user=user, project=project, defaults={"clearance": level}
        )
        record_account_event(
            user, "joined" if made else "membership", by.get_username(), in_project=project, level=level
        )
    return membership


def remove_membership(user: User, project: str, by: User) -> None:
    """End a membership; NotFound when there is none. The person stays confined to those that are left."""
    _require_may_change(by, user)
    with write_transaction():
        gone, _ = Membership.objects.filter(user=user, project=project).delete()
        if not gone:
            raise NotFound("there is no such membership", "project")
        record_account_event(user, "left", by.get_username(), in_project=project)


def lift_confinement(user: User, by: User) -> None:
    """End all memberships and the confinement with them: the person sees every project."""
    _require_may_change(by, user)
    with write_transaction():
        Membership.objects.filter(user=user).delete()
        Profile.objects.filter(user=user).update(confined=False)
        record_account_event(user, "unconfined", by.get_username())


def set_password(user: User, password: str, by: User) -> None:
    """Give somebody else a password; who is signed in with the old one is not any more.

    A StoreError says what is weak. Conflict for one's own, which takes the old one: whoever holds somebody's
    session must not make it their account.
    """
    if user.pk == by.pk:
        raise Conflict("this is your own account; change your password on the page You", "password")
    _require_may_change(by, user)
    _save_password(user, password, by, "password_set")


def change_password(user: User, old: str, password: str) -> None:
    """Change one's own; every session of the account ends. A StoreError says what is weak or wrong."""
    if not user.check_password(old):
        raise StoreError("this is not your password", "old")
    _save_password(user, password, user, "password_change")


def _save_password(user: User, password: str, by: User, operation: str) -> None:
    _check_password(user, password)
    user.set_password(password)
    with write_transaction():
        user.save(update_fields=["password"])
        record_account_event(user, operation, by.get_username())


def set_email(user: User, email: str, by: User) -> None:
    """Set the e-mail address by which the provider knows the person until the account is bound.

    Empty: none. Conflict when somebody else has it, and for one's own: whoever holds a session could bind
    the account to themselves.
    """
    _require_may_change(by, user)
    _require_other_account(by, user, "email")
    if email == user.email:
        return
    _require_unused_email(email, user)
    user.email = email
    with write_transaction():
        user.save(update_fields=["email"])
        record_account_event(user, "address", by.get_username())


def unbind_account(user: User, by: User) -> None:
    """Forget whom the provider means by this account, and end its sessions: the next who comes from there
    with its verified address has it. NotFound when it is not bound; Conflict for one's own.
    """
    _require_may_change(by, user)
    _require_other_account(by, user)
    with write_transaction():
        if not identities.unbind_identity(user, by.get_username()):
            raise NotFound(f"{user.get_username()} is not bound to an identity")
        browser_sessions.end_all_sessions(user)


def _require_unused_email(email: str, user: User | None = None) -> None:
    """An address is one person's, or nobody can be known by it."""
    having = User.objects.filter(email__iexact=email)
    others = having if user is None else having.exclude(pk=user.pk)
    if email and others.exists():
        raise Conflict("somebody has this address; an address is one person's", "email")


def save_preferences(user: User, *, theme: str, time_zone: str, language: str) -> None:
    """Keep how the person likes the pages; values are those of the form that offers them."""
    wanted = {"theme": theme, "time_zone": time_zone, "language": language}
    with write_transaction():
        Profile.objects.update_or_create(user=user, defaults=wanted)


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as wrong:
        raise StoreError(" ".join(wrong.messages), "password") from None


def _require_other_account(by: User, user: User, field: str = "") -> None:
    """How the organisation finds an account is not for its own session to say: it may be a stolen one."""
    if user.pk == by.pk:
        raise Conflict("this is your own account; another administrator does it", field)


def _require_may_change(by: User, user: User) -> None:
    if not may_manage_people(by):
        raise Forbidden("you may not manage people; ask an administrator")
    if not may_change_account(by, user):
        raise Forbidden(f"{user.get_username()} may do more than you; ask who may do as much")

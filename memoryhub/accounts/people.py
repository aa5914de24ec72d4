"""Accounts of people: the only writer of roles, levels, memberships, accounts and invitations.

All changes are journaled. No one can grant more than they have: a role, level or account with more rights
than one's own is refused. People confined to projects manage no one, because the list of people names other
projects.

An invitation is a one-time link with which a new person sets a password or passkey. It contains Django's
signed token, which depends on the password. A new unusable password therefore revokes all earlier links. The
journal records who invited the person; the token itself is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Actor, Sensitivity, level_rank
from memoryhub.accounts import identities, second_factors, sign_in, tokens
from memoryhub.accounts.clearance import LEVEL_PERMISSIONS, may_manage_people, user_clearance
from memoryhub.accounts.permissions import ADD_USER, ROLE_NAMES, user_role
from memoryhub.accounts.sign_in import PERSON_TYPE, record_account_event
from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import JournalEntry, Membership, Profile


def people_with_permission(permission: str, project: str) -> list[str]:
    """Return the names of people who have a permission and see a project."""
    found = User.objects.with_perm(permission, backend="django.contrib.auth.backends.ModelBackend")
    people = found.select_related("profile").order_by("username")
    return [one.username for one in people if user_clearance(one).includes_project(project)]


def permitted_level(user: User) -> str:
    """Return the highest level that the person's own permissions allow."""
    permitted = [level for level, permission in LEVEL_PERMISSIONS.items() if user.has_perm(permission)]
    return max(permitted, key=level_rank, default=Sensitivity.PUBLIC.value)


def grantable_levels(by: User) -> list[str]:
    """Return the levels that a person may grant: all below the first that they lack."""
    levels = [Sensitivity.PUBLIC.value]
    for level in LEVELS[1:]:
        if not by.has_perm(LEVEL_PERMISSIONS[level]):
            break
        levels.append(level)
    return levels


def grantable_roles(by: User) -> list[str]:
    """Return the roles whose current permissions the person has themselves."""
    groups = Group.objects.filter(name__in=ROLE_NAMES).prefetch_related("permissions__content_type")
    grantable = {group.name for group in groups if _has_permissions(by, group.permissions.all())}
    return [name for name in ROLE_NAMES if name in grantable]


def may_change_account(by: User, user: User) -> bool:
    """Return whether the account has no right that ``by`` lacks.

    This matters because an administrator who sets a password can sign in with it.
    """
    if by.is_superuser:
        return True
    if Membership.objects.filter(user=user).exclude(clearance__in=["", *grantable_levels(by)]).exists():
        return False
    permissions = Permission.objects.filter(Q(user=user) | Q(group__user=user)).select_related("content_type")
    return not user.is_superuser and _has_permissions(by, permissions.distinct())


def _has_permissions(by: User, permissions: Iterable[Permission]) -> bool:
    return all(by.has_perm(f"{one.content_type.app_label}.{one.codename}") for one in permissions)


def create_account(name: str, password: str | None, by: User, email: str = "") -> User:
    """Create an account without a role: it sees public data. StoreError names an invalid value.

    ``email``: the address by which an OpenID Connect provider knows the person. With it, ``password``
    may be empty; then only the provider can sign them in. None: no password yet, for an invitation.
    """
    if not (may_manage_people(by) and by.has_perm(ADD_USER)):
        raise Forbidden("you do not have permission to create accounts; ask an administrator")
    name = name.strip()
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError as error:
        raise StoreError(" ".join(error.messages), "username") from None
    if len(name) > 150:
        raise StoreError("must be 1 to 150 characters", "username")
    if User.objects.filter(username__iexact=name).exists():
        raise Conflict("this name is taken; choose another", "username")
    _require_unused_email(email)
    user = User(username=name, email=email)
    if password is not None and (password or not email):
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
    """Set role, level and status of an account; return the names of the changed settings.

    Only built-in roles are replaced; other groups stay. StoreError names an invalid value.
    """
    require_may_change(by, user)
    before = {"role": user_role(user), "level": permitted_level(user), "active": user.is_active}
    before["staff"] = user.is_staff
    after = {"role": role, "level": level, "active": is_active, "staff": is_staff}
    changed = [name for name in after if after[name] != before[name]]
    if user.pk == by.pk and {"role", "active", "staff"} & set(changed):
        raise Conflict("this is your own account; ask another administrator", "role")
    if "role" in changed and role and role not in grantable_roles(by):
        raise StoreError(f"you can grant only: {', '.join(grantable_roles(by)) or 'no role'}", "role")
    if "level" in changed and level not in grantable_levels(by):
        raise StoreError(f"you can grant only: {', '.join(grantable_levels(by))}", "level")
    if not changed:
        return []
    with write_transaction():
        _set_rights(user, after, changed)
        record_account_event(user, "rights", by.get_username(), **{name: after[name] for name in changed})
        if {"role", "level"} & set(changed):
            tokens.reduce_tokens_to_owner(User.objects.get(pk=user.pk), Actor(f"user:{by.get_username()}"))
    return changed


def _set_rights(user: User, values: Mapping[str, Any], changed: list[str]) -> None:
    if "role" in changed:
        user.groups.remove(*Group.objects.filter(name__in=ROLE_NAMES))
        if values["role"]:
            user.groups.add(Group.objects.get(name=values["role"]))
    if "level" in changed:
        codenames = {level: name.partition(".")[2] for level, name in LEVEL_PERMISSIONS.items()}
        level_permissions = Permission.objects.filter(
            content_type__app_label="memoryhub", codename__in=codenames.values()
        )
        granted = {codenames.get(level) for level in LEVELS[: level_rank(values["level"]) + 1]}
        user.user_permissions.remove(*level_permissions)
        user.user_permissions.add(*(one for one in level_permissions if one.codename in granted))
    if {"active", "staff"} & set(changed):
        user.is_active, user.is_staff = values["active"], values["staff"]
        user.save(update_fields=["is_active", "is_staff"])
        if not user.is_active:
            sign_in.end_all_sessions(user)


def add_membership(user: User, project: str, level: str, by: User) -> Membership:
    """Make a person a member of a project, or change the level they read there.

    An empty ``level`` means that of their permissions. The first membership confines them to their
    projects. StoreError names an invalid value.
    """
    require_may_change(by, user)
    project = project.strip()
    if not project or len(project) > 200 or not project.isprintable():
        raise StoreError("must be 1 to 200 printable characters", "project")
    if level and level not in grantable_levels(by):
        raise StoreError(f"you can grant only: {', '.join(grantable_levels(by))}", "clearance")
    with write_transaction():
        membership, created = Membership.objects.update_or_create(
            user=user, project=project, defaults={"clearance": level}
        )
        record_account_event(
            user, "joined" if created else "membership", by.get_username(), in_project=project, level=level
        )
    return membership


def remove_membership(user: User, project: str, by: User) -> None:
    """End a membership, or raise NotFound. The person stays confined to their other projects."""
    require_may_change(by, user)
    with write_transaction():
        deleted, _ = Membership.objects.filter(user=user, project=project).delete()
        if not deleted:
            raise NotFound("this membership does not exist", "project")
        record_account_event(user, "left", by.get_username(), in_project=project)


def lift_confinement(user: User, by: User) -> None:
    """End all memberships and the confinement: the person sees every project."""
    require_may_change(by, user)
    with write_transaction():
        Membership.objects.filter(user=user).delete()
        Profile.objects.filter(user=user).update(confined=False)
        record_account_event(user, "unconfined", by.get_username())


def set_password(user: User, password: str, by: User) -> None:
    """Set the password of someone else and end their sessions. StoreError names a weakness.

    Conflict for one's own account, which needs the old password: a stolen session must not be enough to
    take the account over.
    """
    if user.pk == by.pk:
        raise Conflict("this is your own account; change your password under Settings → Profile", "password")
    require_may_change(by, user)
    save_password(user, password, by, "password_set")


def change_password(user: User, old: str, password: str) -> None:
    """Change one's own password and end all sessions of the account. StoreError if weak or wrong."""
    if not user.check_password(old):
        raise StoreError("this is not your password", "old")
    save_password(user, password, user, "password_change")


def save_password(user: User, password: str, by: User, operation: str) -> None:
    """Save a valid password and journal it; Django ends the sessions of the old one."""
    _check_password(user, password)
    user.set_password(password)
    with write_transaction():
        user.save(update_fields=["password"])
        record_account_event(user, operation, by.get_username())


def set_email(user: User, email: str, by: User) -> None:
    """Set the address by which the provider finds the account until it is bound; empty for none.

    Conflict if it is in use, or for one's own account: a stolen session could bind the account to
    someone else.
    """
    require_may_change(by, user)
    _require_other_account(by, user, "email")
    if email == user.email:
        return
    _require_unused_email(email, user)
    user.email = email
    with write_transaction():
        user.save(update_fields=["email"])
        record_account_event(user, "address", by.get_username())


def unbind_account(user: User, by: User) -> None:
    """Remove the provider identity of an account and end its sessions.

    The next person with the account's verified address is then bound to it. NotFound if it is not bound;
    Conflict for one's own account.
    """
    require_may_change(by, user)
    _require_other_account(by, user)
    with write_transaction():
        if not identities.unbind_identity(user, by.get_username()):
            raise NotFound(f"{user.get_username()} is not bound to an identity")
        sign_in.end_all_sessions(user)


def remove_second_factors(user: User, by: User) -> None:
    """Remove all passkeys, the authenticator app and the recovery codes of someone else.

    For people who lost their device. Ends their sessions. NotFound if they have none; Conflict for one's own
    account, where a stolen session must not be enough.
    """
    require_may_change(by, user)
    _require_other_account(by, user)
    with write_transaction():
        if not second_factors.remove_all(user, Actor(f"user:{by.get_username()}")):
            raise NotFound(f"{user.get_username()} has no second factor")
        sign_in.end_all_sessions(user)


def _require_unused_email(email: str, user: User | None = None) -> None:
    others = User.objects.filter(email__iexact=email)
    if user is not None:
        others = others.exclude(pk=user.pk)
    if email and others.exists():
        raise Conflict("this address is taken; an address belongs to one person", "email")


def save_preferences(user: User, *, theme: str, time_zone: str, language: str) -> None:
    """Save the display preferences of a person. The form has validated the values."""
    values = {"theme": theme, "time_zone": time_zone, "language": language}
    with write_transaction():
        Profile.objects.update_or_create(user=user, defaults=values)


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise StoreError(" ".join(error.messages), "password") from None


def _require_other_account(by: User, user: User, field: str = "") -> None:
    """Raise Conflict for one's own account: its session may be stolen."""
    if user.pk == by.pk:
        raise Conflict("this is your own account; ask another administrator", field)


def require_may_change(by: User, user: User) -> None:
    """Raise Forbidden unless ``by`` may change the account."""
    if not may_manage_people(by):
        raise Forbidden("you do not have permission to manage people; ask an administrator")
    if not may_change_account(by, user):
        raise Forbidden(f"{user.get_username()} has more rights than you; ask someone with the same rights")


INVITED, REVOKED, ACCEPTED = "invited", "invitation_revoked", "invitation_accepted"


class InvitationTokenGenerator(PasswordResetTokenGenerator):
    key_salt = "memoryhub.accounts.invitations"


token_generator = InvitationTokenGenerator()


def invite(
    username: str, by: User, *, email: str, role: str, level: str, projects: list[str], clearance: str
) -> tuple[User, str]:
    """Create an account with its rights; return it with the token of its link. All or nothing."""
    with write_transaction():
        created = create_account(username, None, by, email)
        user = User.objects.get(pk=created.pk)
        change_rights(user, by, role=role, level=level, is_active=True, is_staff=False)
        for project in projects:
            add_membership(user, project, clearance, by)
        return user, create_link(user, by)


def awaits_first_sign_in(user: User) -> bool:
    """Return whether the account can be invited: it is open and no one has ever used it."""
    return user.is_active and user.last_login is None and not user.has_usable_password()


def create_link(user: User, by: User) -> str:
    """Return the token of a new link, which replaces all earlier links."""
    require_may_change(by, user)
    if user.pk == by.pk or not awaits_first_sign_in(user):
        raise Conflict("this person has already signed in or has a password")
    _end_links(user, by, INVITED)
    return token_generator.make_token(user)


def revoke_link(user: User, by: User) -> None:
    """Make the link of an invited person useless. NotFound if there is none."""
    require_may_change(by, user)
    if not _open_invitations([user]):
        raise NotFound("this person has no open invitation")
    _end_links(user, by, REVOKED)


def _end_links(user: User, by: User, operation: str) -> None:
    """Make earlier links useless: a new unusable password changes their signature."""
    user.set_unusable_password()
    with write_transaction():
        user.save(update_fields=["password"])
        record_account_event(user, operation, by.get_username())


def link_expiries(users: Iterable[User]) -> dict[str, datetime]:
    """Return when the valid links of invited users expire, by user name."""
    duration = timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    expiries = {name: row.at + duration for name, row in _open_invitations(users).items()}
    return {name: at for name, at in expiries.items() if at > timezone.now()}


def find_invitation(account: int, token: str) -> tuple[User, User] | None:
    """Return the invited person and the inviter, or None if the link does not work.

    The inviter knows the link, so it stops working when they may no longer change the account.
    """
    user = User.objects.filter(pk=account).first()
    if user is None or not awaits_first_sign_in(user) or not token_generator.check_token(user, token):
        return None
    row = _open_invitations([user]).get(user.username)
    inviter = User.objects.filter(username=row.actor.removeprefix("user:")).first() if row else None
    if inviter is None:
        return None
    try:
        require_may_change(inviter, user)
    except Forbidden:
        return None
    return user, inviter


def accept_invitation(account: int, token: str, password: str) -> User:
    """Set the person's first password. NotFound if the link does not work; StoreError if it is weak."""
    with write_transaction():
        user = _invited_person(account, token)
        save_password(user, password, user, ACCEPTED)
    return user


def accept_with_passkey(account: int, token: str, name: str, credential: dict[str, Any]) -> User:
    """Store the person's first passkey instead of a password. NotFound if the link does not work."""
    with write_transaction():
        user = _invited_person(account, token)
        user.set_unusable_password()  # the link works once
        user.save(update_fields=["password"])
        second_factors.add_passkey(user, name, credential)
        record_account_event(user, ACCEPTED)
    return user


def _invited_person(account: int, token: str) -> User:
    found = find_invitation(account, token)
    if found is None:
        raise NotFound("this link does not work")
    return found[0]


def _open_invitations(users: Iterable[User]) -> dict[str, JournalEntry]:
    """Return the journal rows of invitations that were neither accepted nor revoked, by user name."""
    names = [user.username for user in users if awaits_first_sign_in(user)]
    rows = JournalEntry.objects.filter(
        object_type=PERSON_TYPE, object_id__in=names, operation__in=[INVITED, REVOKED, ACCEPTED]
    )
    newest = {row.object_id: row for row in rows.order_by("seq")}
    return {name: row for name, row in newest.items() if row.operation == INVITED}

"""Invitations: one-time links with which new people set their own password or passkey.

The link contains Django's signed token, which depends on the password. A new unusable password therefore
revokes all earlier links. The journal records who invited the person; the token itself is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.utils import timezone

from memoryhub.accounts import people, second_factors
from memoryhub.accounts.sign_in import PERSON_TYPE, record_account_event
from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict, Forbidden, NotFound
from memoryhub.models import JournalEntry

INVITED, REVOKED, ACCEPTED = "invited", "invitation_revoked", "invitation_accepted"


class InvitationTokenGenerator(PasswordResetTokenGenerator):
    key_salt = "memoryhub.accounts.invitations"


token_generator = InvitationTokenGenerator()


def invite(
    username: str, by: User, *, email: str, role: str, level: str, projects: list[str], clearance: str
) -> tuple[User, str]:
    """Create an account with its rights; return it with the token of its link. All or nothing."""
    with write_transaction():
        created = people.create_account(username, None, by, email)
        user = User.objects.get(pk=created.pk)
        people.change_rights(user, by, role=role, level=level, is_active=True, is_staff=False)
        for project in projects:
            people.add_membership(user, project, clearance, by)
        return user, create_link(user, by)


def awaits_first_sign_in(user: User) -> bool:
    """Return whether the account can be invited: it is open and no one has ever used it."""
    return user.is_active and user.last_login is None and not user.has_usable_password()


def create_link(user: User, by: User) -> str:
    """Return the token of a new link, which replaces all earlier links."""
    people.require_may_change(by, user)
    if user.pk == by.pk or not awaits_first_sign_in(user):
        raise Conflict("this person has already signed in or has a password")
    _end_links(user, by, INVITED)
    return token_generator.make_token(user)


def revoke_link(user: User, by: User) -> None:
    """Make the link of an invited person useless. NotFound if there is none."""
    people.require_may_change(by, user)
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
        people.require_may_change(inviter, user)
    except Forbidden:
        return None
    return user, inviter


def accept_invitation(account: int, token: str, password: str) -> User:
    """Set the person's first password. NotFound if the link does not work; StoreError if it is weak."""
    with write_transaction():
        user = _invited_person(account, token)
        people.save_password(user, password, user, ACCEPTED)
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

"""Identities of provider accounts, and usernames that are never given twice."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models.signals import pre_delete, pre_save
from django.http import HttpRequest

from memoryhub.access.policy import system_actor
from memoryhub.accounts import sign_in
from memoryhub.accounts.sign_in import PERSON_TYPE
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict
from memoryhub.models import JournalEntry

MAX_SUBJECT_CHARS = 255  # limit of the OpenID Connect standard
# Reasons that the login page explains; they are stored in the journal.
ALREADY_BOUND, PROVIDER_CHANGED, PASSWORD_REQUIRED = (
    "the account belongs to another person",
    "the account is linked to another provider",
    "a superuser must sign in with the password first",
)


class LoginRefused(Exception):
    """The login is refused. ``reason``: a few words; ``user``: the account concerned, if known."""

    def __init__(self, reason: str, user: User | None = None) -> None:
        self.reason, self.user = reason, user
        super().__init__(reason)


def find_account(request: HttpRequest, claims: dict[str, Any]) -> User:
    """Return the account for these claims, and bind or create it if allowed; otherwise LoginRefused.

    The claims must come from the provider and be about the subject of its signed token. A refusal is
    journaled.
    """
    try:
        with write_transaction():
            return _find_or_bind(request, claims)
    except LoginRefused as refusal:
        with write_transaction():
            sign_in.record_single_sign_on_refusal(
                request, refusal.user, refusal.reason, str(claims.get("email") or "")
            )
        raise


def find_identity(user: User) -> SocialAccount | None:
    """Return the identity that an account is bound to: ``provider`` is the issuer, ``uid`` the subject."""
    return SocialAccount.objects.filter(user=user).first()


def signs_in(identity: SocialAccount | None) -> bool:
    """Return whether the identity is of the configured issuer. Those of earlier issuers sign no one in."""
    return identity is not None and identity.provider == settings.OIDC_ISSUER


def count_of_earlier_issuers() -> int:
    """Return the number of active accounts whose identity is of an issuer that is not configured any more."""
    active = SocialAccount.objects.filter(user__is_active=True)
    return int(active.exclude(provider=settings.OIDC_ISSUER).count())


def unbind_identity(user: User, by: str = "") -> bool:
    """Remove the identity of an account; return whether it had one. Must run in a write transaction."""
    deleted, _ = SocialAccount.objects.filter(user=user).delete()
    if deleted:
        sign_in.record_account_event(user, "unbound", by)
    return bool(deleted)


def _find_or_bind(request: HttpRequest, claims: dict[str, Any]) -> User:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        raise LoginRefused("no subject")
    known = SocialAccount.objects.filter(provider=settings.OIDC_ISSUER, uid=subject).select_related("user")
    user = known[0].user if known else _bind_by_email(request, claims, subject)
    if not user.is_active:
        raise LoginRefused("closed", user)
    return user


def _bind_by_email(request: HttpRequest, claims: dict[str, Any], subject: str) -> User:
    """Bind the account with this verified address to the subject."""
    email = claims.get("email")
    if not email or not isinstance(email, str) or claims.get("email_verified") is not True:
        raise LoginRefused("address not verified")
    users = list(User.objects.filter(email__iexact=email)[:2])
    if len(users) > 1:
        raise LoginRefused("several accounts")
    if not users and not settings.OIDC_CREATE:
        raise LoginRefused("no account")
    user = _require_bindable(users[0], request) if users else _create_account(email)
    unbind_identity(user)  # that of an earlier provider
    SocialAccount.objects.create(user=user, provider=settings.OIDC_ISSUER, uid=subject)
    sign_in.record_account_event(user, "bound", through=settings.OIDC_ISSUER, subject=subject)
    return user


def _require_bindable(user: User, request: HttpRequest) -> User:
    """Return the account if it is active and not bound at this provider.

    The person must be logged in to a superuser's account, and to one that is bound at an earlier provider: a
    new provider must not give accounts away by their addresses.
    """
    identity, is_logged_in = find_identity(user), request.user.pk == user.pk
    if signs_in(identity):
        raise LoginRefused(ALREADY_BOUND, user)
    if not user.is_active:
        raise LoginRefused("closed", user)
    if identity and not is_logged_in:
        raise LoginRefused(PROVIDER_CHANGED, user)
    if user.is_superuser and not is_logged_in:
        raise LoginRefused(PASSWORD_REQUIRED, user)
    return user


def _create_account(email: str) -> User:
    """Create an account without role or password, with the address as its name.

    Refused if an account has, or a deleted one had, this name.
    """
    user = User(username=email, email=email)
    user.set_unusable_password()
    try:
        user.full_clean()
    except ValidationError:
        raise LoginRefused("no usable account name") from None
    if User.objects.filter(username__iexact=email).exists():
        raise LoginRefused("no usable account name")
    user.save()
    sign_in.record_account_event(user, "account_made", through=settings.OIDC_ISSUER)
    return user


ACCOUNT_DELETED = "account_deleted"
FORMER_NAME_ERROR = "this name belonged to a deleted account; choose another"


def is_former_username(name: str) -> bool:
    """Return whether a deleted account had this name."""
    gone = JournalEntry.objects.filter(operation=ACCOUNT_DELETED, object_type=PERSON_TYPE)
    return gone.filter(object_id__iexact=name).exists()


def validate_username_not_former(name: str) -> None:
    """Refuse the name of a deleted account (a validator of the user name field)."""
    if is_former_username(name):
        raise ValidationError(FORMER_NAME_ERROR.capitalize() + ".", code="former")


def _forbid_reuse_and_rename(instance: User, update_fields: Any = None, **kwargs: Any) -> None:
    """Refuse former names and renames: a new owner of the name would inherit private data."""
    if update_fields is not None and "username" not in update_fields:
        return
    name = instance.get_username()
    stored = None if instance._state.adding else User.objects.filter(pk=instance.pk).values_list("username")
    before = stored.first() if stored is not None else None
    if before is None and is_former_username(name):
        raise Conflict(FORMER_NAME_ERROR, "username")
    if before is not None and before[0] != name:
        raise Conflict(f"an account cannot be renamed; this one is called {before[0]}", "username")


def _record_deletion(instance: User, **kwargs: Any) -> None:
    """Journal the deletion, unless the admin has already done so with the name of the person who did it."""
    name = instance.get_username()
    if is_former_username(name):
        return
    with write_transaction():
        journal.record(
            system_actor("accounts"), [journal.Change(ACCOUNT_DELETED, PERSON_TYPE, name, owner=name)]
        )


def connect_signals() -> None:
    """Check names whenever an account is created, renamed or deleted."""
    validators = User._meta.get_field("username").validators
    if validate_username_not_former not in validators:
        validators.append(validate_username_not_former)
    pre_save.connect(_forbid_reuse_and_rename, sender=User, dispatch_uid="names are never reused")
    pre_delete.connect(_record_deletion, sender=User, dispatch_uid="deleted names are kept")

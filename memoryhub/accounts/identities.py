"""Whose account somebody has whom the organisation's provider vouches for.

The provider's name for a person, its *subject*, is theirs for ever; their e-mail address may become somebody
else's. So an account is bound to (issuer, subject) when its person comes for the first time, known by an
address that the provider has verified, and from then on is found by these two alone. The address of a bound
account opens nothing. A superuser's account is bound only where its own session is open already.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from memoryhub.accounts import sign_in
from memoryhub.core.transactions import write_transaction
from memoryhub.models import Identity

MAX_SUBJECT_CHARS = 255  # characters of a subject, as the standard says
# Reasons that the login page explains.
ALREADY_BOUND, PASSWORD_REQUIRED = "the account is another person's", "a superuser's password comes first"


class LoginRefused(Exception):
    """Nobody is signed in. ``reason``: a few words; ``user``: whose account it is about, if anyone's."""

    def __init__(self, reason: str, user: User | None = None) -> None:
        self.reason, self.user = reason, user
        super().__init__(reason)


def find_account(request: HttpRequest, claims: dict[str, Any]) -> User:
    """The account of whom these claims are about; binds or makes it where that may be. Else Refused.

    ``claims`` must come from the provider, about the subject of its signed token. A refusal is journaled.
    """
    try:
        with write_transaction():
            return _find_or_bind(request, claims)
    except LoginRefused as refused:
        with write_transaction():
            sign_in.record_single_sign_on_refusal(
                request, refused.user, refused.reason, str(claims.get("email") or "")
            )
        raise


def unbind_identity(user: User, by: str) -> bool:
    """Forget whom the provider means by this account; returns whether it was bound. Must run in ``write``."""
    gone, _ = Identity.objects.filter(user=user).delete()
    if gone:
        sign_in.record_account_event(user, "unbound", by)
    return bool(gone)


def _find_or_bind(request: HttpRequest, claims: dict[str, Any]) -> User:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        raise LoginRefused("no subject")
    known = Identity.objects.filter(issuer=settings.OIDC_ISSUER, subject=subject).select_related("user")
    user = known[0].user if known else _bind_by_email(request, claims, subject)
    if not user.is_active:
        raise LoginRefused("closed", user)
    return user


def _bind_by_email(request: HttpRequest, claims: dict[str, Any], subject: str) -> User:
    """The account of the address, bound from now on."""
    email = claims.get("email")
    if not email or not isinstance(email, str) or claims.get("email_verified") is not True:
        raise LoginRefused("address not verified")
    having = list(User.objects.filter(email__iexact=email).select_related("identity")[:2])
    if len(having) > 1:
        raise LoginRefused("several accounts")
    if not having and not settings.OIDC_CREATE:
        raise LoginRefused("no account")
    user = _require_bindable(having[0], request) if having else _create_account(email)
    Identity.objects.create(user=user, issuer=settings.OIDC_ISSUER, subject=subject)
    sign_in.record_account_event(user, "bound", through=settings.OIDC_ISSUER, subject=subject)
    return user


def _require_bindable(user: User, request: HttpRequest) -> User:
    """An account that nobody is bound to yet; a superuser's only for who has given its password."""
    if hasattr(user, "identity"):
        raise LoginRefused(ALREADY_BOUND, user)
    if not user.is_active:
        raise LoginRefused("closed", user)
    if user.is_superuser and request.user.pk != user.pk:
        raise LoginRefused(PASSWORD_REQUIRED, user)
    return user


def _create_account(email: str) -> User:
    """An account without a role or a password, called by its address, where nobody is or was called so."""
    user = User(username=email, email=email)
    user.set_unusable_password()
    try:
        user.full_clean()
    except ValidationError:
        raise LoginRefused("no name for an account") from None
    if User.objects.filter(username__iexact=email).exists():
        raise LoginRefused("no name for an account")
    user.save()
    sign_in.record_account_event(user, "account_made", through=settings.OIDC_ISSUER)
    return user

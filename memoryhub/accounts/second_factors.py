"""Second factors of people: passkeys, authenticator apps and recovery codes, kept by django-allauth.

The adapters are what the hub changes in django-allauth.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa import signals
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, InvalidToken
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import salted_hmac
from django.utils.http import url_has_allowed_host_and_scheme

from memoryhub.access.policy import Actor
from memoryhub.accounts.sign_in import PERSON_TYPE, record_account_event
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction

ADDED, REMOVED, CODES_CREATED = "second_factor_added", "second_factor_removed", "recovery_codes_created"
# An authenticator app has three valid codes at any time; five cover the time in which one is valid.
_REMEMBERED_CODES = 5


def list_second_factors(user: User) -> list[Any]:
    """Return passkeys, the authenticator app and the recovery codes of a person, oldest first."""
    return list(_authenticators().filter(user=user).order_by("pk"))


def has_second_factor(user: User) -> bool:
    return bool(_authenticators().filter(user=user).exists())


def use_code(authenticator: Any, code: str) -> bool:
    """Return whether this valid code of an authenticator app was not used before, and remember it.

    django-allauth remembers codes in the memory of one process only.
    """
    digest = salted_hmac("memoryhub.accounts.second_factors.code", code.replace(" ", "")).hexdigest()[:16]
    with write_transaction():
        stored = _authenticators().get(pk=authenticator.pk)
        used = stored.data.get("used_codes", [])
        if digest in used:
            return False
        stored.data["used_codes"] = [*used, digest][-_REMEMBERED_CODES:]
        stored.save(update_fields=["data"])
    return True


def add_passkey(user: User, name: str, credential: dict[str, Any]) -> None:
    """Store a passkey that django-allauth has checked. Must run in a write transaction."""
    from allauth.mfa.webauthn.internal.auth import WebAuthn

    _record_added(user, WebAuthn.add(user, name, credential).instance)


def remove_all(user: User, actor: Actor) -> int:
    """Remove all second factors of a person and return their number. Must run in a write transaction."""
    found, name = list_second_factors(user), user.get_username()
    _authenticators().filter(user=user).delete()
    if found:
        detail = {"kinds": sorted({describe(one) for one in found})}
        journal.record(actor, [journal.Change(REMOVED, PERSON_TYPE, name, detail, owner=name)])
    return len(found)


def count_unreadable() -> int:
    """Return how many secrets of codes cannot be decrypted, because the hub's secret key has changed."""
    from allauth.mfa.utils import decrypt

    unreadable = 0
    for data in _authenticators().exclude(type="webauthn").values_list("data", flat=True):
        try:
            decrypt(data.get("secret") or data["seed"])
        except InvalidToken:
            unreadable += 1
    return unreadable


def describe(authenticator: Any) -> str:
    kinds = {"webauthn": "passkey", "totp": "authenticator app", "recovery_codes": "recovery codes"}
    return kinds[authenticator.type]


def _authenticators() -> Any:
    from allauth.mfa.models import Authenticator  # not before the apps are loaded

    return Authenticator.objects


def _record_added(user: User, authenticator: Any, **kwargs: Any) -> None:
    with write_transaction():
        record_account_event(user, ADDED, kind=describe(authenticator))


def _record_removed(user: User, authenticator: Any, **kwargs: Any) -> None:
    with write_transaction():
        record_account_event(user, REMOVED, kinds=[describe(authenticator)])


def _record_reset(user: User, **kwargs: Any) -> None:
    with write_transaction():
        record_account_event(user, CODES_CREATED)


def record_wrong_code(request: HttpRequest, user: User, **kwargs: Any) -> None:
    """Count a wrong code like a wrong password: the limits and the journal rows are the same."""
    user_login_failed.send(__name__, credentials={"username": user.get_username()}, request=request)


def connect_signals() -> None:
    """Journal changes and wrong codes, through any form."""
    receivers: Iterable[tuple[Any, Any]] = (
        (signals.authenticator_added, _record_added),
        (signals.authenticator_removed, _record_removed),
        (signals.authenticator_reset, _record_reset),
        (signals.authentication_failed, record_wrong_code),
    )
    for signal, receiver in receivers:
        signal.connect(receiver, dispatch_uid=receiver.__name__)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # the library has no types
    """No sign-up, no messages or e-mail of the library, and redirects to this host only."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str) -> bool:
        request = context.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())

    def get_client_ip(self, request: HttpRequest) -> str:
        return str(request.META.get("REMOTE_ADDR", ""))

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Add nothing: the views add the hub's own messages."""

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        messages.error(request, SIGN_IN_REFUSED)
        return redirect("login")


SIGN_IN_REFUSED = "This sign-in was refused. Try again, or ask an administrator of the hub."


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Stores the secrets of authenticator apps and recovery codes encrypted with a key of the hub."""

    def encrypt(self, text: str) -> str:
        return _fernet().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret, or raise InvalidToken if the hub's secret key has changed."""
        return _fernet().decrypt(encrypted_text.encode()).decode()

    def build_totp_svg(self, url: str) -> str:
        """Return the QR code on white, so that it can be read on a dark page."""
        import qrcode
        from qrcode.image.svg import SvgPathFillImage

        return str(qrcode.make(url, image_factory=SvgPathFillImage).to_string(encoding="unicode"))

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        return "Passkey"

    def _get_user_identifier(self, user: Any) -> str:
        return str(user.get_username())


def _fernet() -> Fernet:
    key = salted_hmac("memoryhub.accounts.second_factors", "", algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(key))

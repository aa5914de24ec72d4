"""django-allauth's adapters: what the hub changes in its sign-in and second factors."""

from __future__ import annotations

import base64
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import salted_hmac
from django.utils.http import url_has_allowed_host_and_scheme

from memoryhub.accounts.sign_in import client_address


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # the library has no types
    """No sign-up, no messages or e-mail of the library, and redirects to this host only."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str) -> bool:
        request = context.request
        return url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

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

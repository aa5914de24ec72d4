"""Single sign-on through an organisation's OpenID Connect provider; off unless ``MEMORYHUB_OIDC_ISSUER`` is
set.

The library mozilla-django-oidc (extra ``oidc``) implements the code flow with state, nonce and PKCE.
This module adds: endpoints from the issuer's discovery document, checks of issuer and audience, and the
account of the claims (``memoryhub.accounts.identities``).
"""

from __future__ import annotations

import logging
import time
from typing import Any
from urllib.parse import urlsplit

import jwt
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from memoryhub.accounts import identities, sign_in
from memoryhub.core.database import write_transaction

logger = logging.getLogger(__name__)

PROVIDER_TIMEOUT = 10  # seconds to wait for the provider
DISCOVERY_CACHE_SECONDS = 3600  # seconds
FAILED_URL = "/login/?failed=1"
NOT_CONFIRMED = "not vouched for"
EXPLAINED_REASONS = {
    identities.ALREADY_BOUND: "taken",
    identities.PASSWORD_REQUIRED: "password",
}  # on the login page
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_discovery_cache: dict[str, tuple[float, dict[str, str]]] = {}


class ProviderUnavailable(Exception):
    """The provider does not answer, or its answer is unusable."""


def discover_endpoints() -> dict[str, str]:
    """Return the endpoints in the provider's discovery document (cached), or raise ProviderUnavailable."""
    issuer = settings.OIDC_ISSUER
    fetched_at, cached = _discovery_cache.get(issuer, (0.0, {}))
    if cached and time.monotonic() - fetched_at < DISCOVERY_CACHE_SECONDS:
        return cached
    try:
        response = requests.get(
            f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=PROVIDER_TIMEOUT
        )
        response.raise_for_status()
        document = response.json()
        endpoints = {name: str(document[name]) for name in _ENDPOINTS.values()}
        if document["issuer"] != issuer:
            raise ValueError(f"its issuer is {document['issuer']!r}")
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise ProviderUnavailable(f"no usable discovery document of {issuer}: {error}") from error
    # An issuer behind TLS must not send people or secrets over plain HTTP.
    if urlsplit(issuer).scheme == "https" and any(
        urlsplit(one).scheme != "https" for one in endpoints.values()
    ):
        raise ProviderUnavailable(f"{issuer} names endpoints without TLS")
    _discovery_cache[issuer] = (time.monotonic(), endpoints)
    return endpoints


def get_oidc_setting(name: str, *default: Any) -> Any:
    """Return a setting of the library from the hub's own settings."""
    if name in _ENDPOINTS:
        return discover_endpoints()[_ENDPOINTS[name]]
    own = {
        "OIDC_RP_CLIENT_ID": settings.OIDC_CLIENT_ID,
        "OIDC_RP_CLIENT_SECRET": settings.OIDC_CLIENT_SECRET,
        "OIDC_RP_SIGN_ALGO": "RS256",
        "OIDC_RP_SCOPES": "openid email",
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": PROVIDER_TIMEOUT,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "single-sign-on-back",
        "LOGIN_REDIRECT_URL_FAILURE": FAILED_URL,
    }
    return own[name] if name in own else import_from_settings(name, *default)


class SingleSignOnBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # the library has no types
    """Finds the account by the subject that the provider confirms."""

    get_settings = staticmethod(get_oidc_setting)

    def __init__(self) -> None:
        """Skip the library's setup, which asks the provider: this runs whenever a session is read."""
        self.UserModel = User

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> User | None:
        """Return None for any fault of the provider: the log has the reason, the page does not."""
        if request is None or "nonce" not in kwargs:
            return None
        try:
            super().__init__()
            found: User | None = super().authenticate(request, **kwargs)
        except (ProviderUnavailable, SuspiciousOperation, requests.RequestException, jwt.PyJWTError) as error:
            logger.warning("login through %s failed: %s", settings.OIDC_ISSUER, error)
            return None
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("unreadable response of %s: %r", settings.OIDC_ISSUER, error)
            return None
        return found

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Check issuer, audience and expiry too; the library checks signature, time and nonce."""
        payload: dict[str, Any] = super().verify_token(token, **kwargs)
        audience = payload.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if payload.get("iss") != settings.OIDC_ISSUER or settings.OIDC_CLIENT_ID not in audiences:
            raise SuspiciousOperation("the token is from another issuer or for another client")
        if "exp" not in payload:
            raise SuspiciousOperation("the token does not expire")
        return payload

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        claims: dict[str, Any] = super().get_userinfo(access_token, id_token, payload)
        if claims.get("sub") != payload.get("sub"):
            raise SuspiciousOperation("the claims are about another subject")
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User | None:
        try:
            return identities.find_account(self.request, self.get_userinfo(access_token, id_token, payload))
        except identities.LoginRefused as refusal:
            logger.warning("login through %s refused: %s", settings.OIDC_ISSUER, refusal.reason)
            self.request.refused_because = refusal.reason
            return None

    def get_user(self, user_id: int) -> User | None:
        return User.objects.select_related("profile").filter(pk=user_id, is_active=True).first()


class StartSingleSignOnView(OIDCAuthenticationRequestView):  # type: ignore[misc]
    get_settings = staticmethod(get_oidc_setting)


class SingleSignOnCallbackView(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(get_oidc_setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Let an error end the session only if this browser had started a login.

        Otherwise a link on any other page could sign people out.
        """
        self.started_login = request.GET.get("state") in request.session.get("oidc_states", {})
        if "error" in request.GET and not self.started_login:
            return self.login_failure()
        response: HttpResponse = super().get(request)
        return response

    def login_failure(self) -> HttpResponse:
        """Count the failure only if this browser had started a login.

        Otherwise links on other pages could lock people out.
        """
        reason = getattr(self.request, "refused_because", "")
        if self.started_login and not reason:  # a refusal is in the journal already
            with write_transaction():
                sign_in.record_single_sign_on_refusal(self.request, None, NOT_CONFIRMED, "")
        explained = EXPLAINED_REASONS.get(reason)
        return redirect(f"/login/?failed={explained}" if explained else FAILED_URL)

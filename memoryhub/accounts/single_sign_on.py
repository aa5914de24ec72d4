"""Signing in through an organisation's OpenID Connect provider: off unless ``MEMORYHUB_OIDC_ISSUER`` is set.

The library mozilla-django-oidc (the extra ``oidc``) walks the code flow, with state, nonce and PKCE. Added
here: addresses come from the issuer's own discovery document; the token must be from that issuer and for this
client; whose account it is, ``memoryhub.accounts.identities`` knows.
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
from memoryhub.core.transactions import write_transaction

logger = logging.getLogger(__name__)

PROVIDER_TIMEOUT = 10  # seconds that the provider has for an answer
DISCOVERY_CACHE_SECONDS = 3600  # seconds that its discovery document holds
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
    """The provider does not answer, or says what cannot be used."""


def discover_endpoints() -> dict[str, str]:
    """The provider's addresses, from its discovery document. NoProvider when there are none to be had."""
    issuer = settings.OIDC_ISSUER
    at, known = _discovery_cache.get(issuer, (0.0, {}))
    if known and time.monotonic() - at < DISCOVERY_CACHE_SECONDS:
        return known
    try:
        answer = requests.get(
            f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=PROVIDER_TIMEOUT
        )
        answer.raise_for_status()
        said = answer.json()
        found = {name: str(said[name]) for name in _ENDPOINTS.values()}
        if said["issuer"] != issuer:
            raise ValueError(f"it calls itself {said['issuer']!r}")
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise ProviderUnavailable(f"no discovery document of {issuer}: {error}") from error
    # One that is reached over TLS sends nobody, and no secret, over the open wire.
    if urlsplit(issuer).scheme == "https" and any(urlsplit(one).scheme != "https" for one in found.values()):
        raise ProviderUnavailable(f"{issuer} names addresses without TLS")
    _discovery_cache[issuer] = (time.monotonic(), found)
    return found


def get_oidc_setting(name: str, *default: Any) -> Any:
    """What the library asks for, from the hub's own settings."""
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
    """Knows an account by the subject that the provider vouches for."""

    get_settings = staticmethod(get_oidc_setting)

    def __init__(self) -> None:
        """The provider is asked when somebody comes back from it, not whenever a session is read."""
        self.UserModel = User

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> User | None:
        """None for whatever is wrong with what the provider says: the log has it, the page does not."""
        if request is None or "nonce" not in kwargs:
            return None
        try:
            super().__init__()
            found: User | None = super().authenticate(request, **kwargs)
        except (ProviderUnavailable, SuspiciousOperation, requests.RequestException, jwt.PyJWTError) as error:
            logger.warning("a login through %s failed: %s", settings.OIDC_ISSUER, error)
            return None
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("%s said what cannot be read: %r", settings.OIDC_ISSUER, error)
            return None
        return found

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Besides the signature, the time and the nonce: from this issuer, for this client."""
        payload: dict[str, Any] = super().verify_token(token, **kwargs)
        audience = payload.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if payload.get("iss") != settings.OIDC_ISSUER or settings.OIDC_CLIENT_ID not in audiences:
            raise SuspiciousOperation("the token is from another issuer or for another client")
        if "exp" not in payload:
            raise SuspiciousOperation("the token has no end")
        return payload

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        claims: dict[str, Any] = super().get_userinfo(access_token, id_token, payload)
        if claims.get("sub") != payload.get("sub"):
            raise SuspiciousOperation("the claims are about somebody else")
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User | None:
        try:
            return identities.find_account(self.request, self.get_userinfo(access_token, id_token, payload))
        except identities.LoginRefused as refused:
            logger.warning("a login through %s was refused: %s", settings.OIDC_ISSUER, refused.reason)
            self.request.refused_because = refused.reason
            return None

    def get_user(self, user_id: int) -> User | None:
        return User.objects.select_related("profile").filter(pk=user_id, is_active=True).first()


class StartSingleSignOnView(OIDCAuthenticationRequestView):  # type: ignore[misc]
    get_settings = staticmethod(get_oidc_setting)


class SingleSignOnCallbackView(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(get_oidc_setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """An error ends the session, but only where this browser went to the provider for it.

        Else any link to here, on any page, would sign out who follows it.
        """
        self.went_there = request.GET.get("state") in request.session.get("oidc_states", {})
        if "error" in request.GET and not self.went_there:
            failed: HttpResponse = self.login_failure()
            return failed
        answer: HttpResponse = super().get(request)
        return answer

    def login_failure(self) -> HttpResponse:
        """What fails counts where this browser went to the provider: links elsewhere lock nobody out."""
        because = getattr(self.request, "refused_because", "")
        if self.went_there and not because:  # else it is in the journal already
            with write_transaction():
                sign_in.record_single_sign_on_refusal(self.request, None, NOT_CONFIRMED, "")
        told = EXPLAINED_REASONS.get(because)
        return redirect(f"/login/?failed={told}" if told else FAILED_URL)

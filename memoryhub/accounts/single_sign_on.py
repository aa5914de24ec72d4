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
from memoryhub.core.transactions import write

logger = logging.getLogger(__name__)

TIMEOUT = 10  # seconds that the provider has for an answer
KNOWN_FOR = 3600  # seconds that its discovery document holds
FAILED = "/login/?failed=1"
NOT_VOUCHED_FOR = "not vouched for"
EXPLAINED = {identities.TAKEN: "taken", identities.PASSWORD_FIRST: "password"}  # on the login page
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_documents: dict[str, tuple[float, dict[str, str]]] = {}


class NoProvider(Exception):
    """The provider does not answer, or says what cannot be used."""


def discovered() -> dict[str, str]:
    """The provider's addresses, from its discovery document. NoProvider when there are none to be had."""
    issuer = settings.OIDC_ISSUER
    at, known = _documents.get(issuer, (0.0, {}))
    if known and time.monotonic() - at < KNOWN_FOR:
        return known
    try:
        answer = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT)
        answer.raise_for_status()
        said = answer.json()
        found = {name: str(said[name]) for name in _ENDPOINTS.values()}
        if said["issuer"] != issuer:
            raise ValueError(f"it calls itself {said['issuer']!r}")
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise NoProvider(f"no discovery document of {issuer}: {error}") from error
    # One that is reached over TLS sends nobody, and no secret, over the open wire.
    if urlsplit(issuer).scheme == "https" and any(urlsplit(one).scheme != "https" for one in found.values()):
        raise NoProvider(f"{issuer} names addresses without TLS")
    _documents[issuer] = (time.monotonic(), found)
    return found


def setting(name: str, *default: Any) -> Any:
    """What the library asks for, from the hub's own settings."""
    if name in _ENDPOINTS:
        return discovered()[_ENDPOINTS[name]]
    own = {
        "OIDC_RP_CLIENT_ID": settings.OIDC_CLIENT_ID,
        "OIDC_RP_CLIENT_SECRET": settings.OIDC_CLIENT_SECRET,
        "OIDC_RP_SIGN_ALGO": "RS256",
        "OIDC_RP_SCOPES": "openid email",
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": TIMEOUT,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "single-sign-on-back",
        "LOGIN_REDIRECT_URL_FAILURE": FAILED,
    }
    return own[name] if name in own else import_from_settings(name, *default)


class SingleSignOnBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # the library has no types
    """Knows an account by the subject that the provider vouches for."""

    get_settings = staticmethod(setting)

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
        except (NoProvider, SuspiciousOperation, requests.RequestException, jwt.PyJWTError) as error:
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
            return identities.recognise(self.request, self.get_userinfo(access_token, id_token, payload))
        except identities.Refused as refused:
            logger.warning("a login through %s was refused: %s", settings.OIDC_ISSUER, refused.reason)
            self.request.refused_because = refused.reason
            return None

    def get_user(self, user_id: int) -> User | None:
        return User.objects.select_related("profile").filter(pk=user_id, is_active=True).first()


class ToProvider(OIDCAuthenticationRequestView):  # type: ignore[misc]
    get_settings = staticmethod(setting)


class FromProvider(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    get_settings = staticmethod(setting)

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
            with write():
                sign_in.note_refused(self.request, None, NOT_VOUCHED_FOR, "")
        told = EXPLAINED.get(because)
        return redirect(f"/login/?failed={told}" if told else FAILED)

"""Single sign-on through an organisation's OpenID Connect provider; off unless ``MEMORYHUB_OIDC_ISSUER`` is
set.

django-allauth (extra ``oidc``) implements the code flow with state and PKCE. This module adds: checks of the
issuer's discovery document and of the token (signature, issuer, audience, expiry, nonce, subject), and the
account of the claims (``memoryhub.accounts.identities``).
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import jwt
import requests
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from memoryhub.accounts import identities, sign_in
from memoryhub.core.database import write_transaction

logger = logging.getLogger(__name__)

DISCOVERY_CACHE_SECONDS = 3600  # seconds
FAILED_URL = "/login/?failed=1"
NOT_CONFIRMED = "not confirmed by the provider"
EXPLAINED_REASONS = {
    identities.ALREADY_BOUND: "taken",
    identities.PROVIDER_CHANGED: "provider",
    identities.PASSWORD_REQUIRED: "password",
}  # on the login page
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
_discovery_cache: dict[str, tuple[float, dict[str, Any]]] = {}


class ProviderUnavailable(OAuth2Error):  # type: ignore[misc]  # the library has no types
    """The provider does not answer, or its answer is unusable."""


def discover_endpoints() -> dict[str, Any]:
    """Return the provider's discovery document (cached), or raise ProviderUnavailable."""
    issuer = settings.OIDC_ISSUER
    fetched_at, cached = _discovery_cache.get(issuer, (0.0, {}))
    if cached and time.monotonic() - fetched_at < DISCOVERY_CACHE_SECONDS:
        return cached
    try:
        document: dict[str, Any] = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        endpoints = [urlsplit(str(document[name])) for name in _ENDPOINTS]
        if document["issuer"] != issuer:
            raise ValueError(f"its issuer is {document['issuer']!r}")
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise ProviderUnavailable(f"no usable discovery document of {issuer}: {error}") from error
    # An issuer behind TLS must not send people or secrets over plain HTTP.
    if urlsplit(issuer).scheme == "https" and any(one.scheme != "https" for one in endpoints):
        raise ProviderUnavailable(f"{issuer} names endpoints without TLS")
    _discovery_cache[issuer] = (time.monotonic(), document)
    return document


def _fetch(url: str, **headers: str) -> Any:
    with get_adapter().get_requests_session() as session:
        response = session.get(url, headers=headers)
    response.raise_for_status()
    return response.json()


@contextmanager
def _refuse_unreadable() -> Iterator[None]:
    """Turn an answer that is no token, or not of the expected form, into a failed sign-in."""
    try:
        yield
    except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise OAuth2Error(f"unusable answer: {error!r}") from error


class ProviderAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Asks the provider, and checks what it answers."""

    expires_in_key = ""  # the access token is used once, at once
    nonce = ""

    def __init__(self, request: HttpRequest, provider_id: str = "") -> None:
        super().__init__(request, settings.OIDC_ISSUER)

    def get_provider(self) -> OrganisationProvider:
        return OrganisationProvider(self.request)

    @property
    def openid_config(self) -> dict[str, Any]:
        return discover_endpoints()

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return request.build_absolute_uri(reverse("single-sign-on-back"))

    def get_access_token_data(self, *args: Any, **kwargs: Any) -> Any:
        with _refuse_unreadable():
            return super().get_access_token_data(*args, **kwargs)

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> Any:
        """Return the sign-in of the subject that both the token and the claims name."""
        with _refuse_unreadable():
            payload = self._decode(kwargs["response"]["id_token"])
            claims = _fetch(self.profile_url, Authorization=f"Bearer {token.token}")
            if claims.get("sub") != payload["sub"]:
                raise OAuth2Error("the claims are about another subject")
        account = SocialAccount(provider=settings.OIDC_ISSUER, uid=payload["sub"])
        login = SocialLogin(account=account, provider=self.get_provider())
        login.claims = claims
        return login

    def _decode(self, token: str) -> dict[str, Any]:
        """Return the payload of the token; the library checks neither signature nor nonce."""
        keys = jwt.PyJWKSet.from_dict(_fetch(self.openid_config["jwks_uri"]))
        payload: dict[str, Any] = jwt.decode(
            token,
            keys[jwt.get_unverified_header(token)["kid"]],
            algorithms=["RS256"],
            audience=settings.OIDC_CLIENT_ID,
            issuer=settings.OIDC_ISSUER,
            options={"require": ["aud", "exp", "iss", "nonce", "sub"]},
        )
        if not hmac.compare_digest(str(payload["nonce"]).encode(), self.nonce.encode()):
            raise OAuth2Error("the token is for another sign-in")
        return payload


class OrganisationProvider(OpenIDConnectProvider):  # type: ignore[misc]
    """The provider of the settings. The address of the page changes nothing of what is asked."""

    pkce_enabled_default = True
    oauth2_adapter_class = ProviderAdapter

    def __init__(self, request: HttpRequest, app: SocialApp | None = None) -> None:
        app = SocialApp(
            provider=self.id,
            provider_id=settings.OIDC_ISSUER,
            name=settings.OIDC_NAME,
            client_id=settings.OIDC_CLIENT_ID,
            secret=settings.OIDC_CLIENT_SECRET,
        )
        super().__init__(request, app)

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        nonce = secrets.token_urlsafe(24)
        return {
            **super().get_redirect_from_request_kwargs(request),
            "process": "login",
            "scope": ["openid", "email"],
            "auth_params": {"nonce": nonce},
            "nonce": nonce,
        }


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Finds the account of a confirmed subject, and explains refusals on the sign-in page."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Any:
        return OrganisationProvider(request)

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        try:
            user = identities.find_account(request, sociallogin.claims)
        except identities.LoginRefused as refusal:
            logger.warning("login through %s refused: %s", settings.OIDC_ISSUER, refusal.reason)
            explained = EXPLAINED_REASONS.get(refusal.reason)
            target = f"/login/?failed={explained}" if explained else FAILED_URL
            raise ImmediateHttpResponse(redirect(target)) from None
        if request.user == user:  # connected by a person who is signed in
            raise ImmediateHttpResponse(redirect(sociallogin.get_redirect_url(request) or "you"))
        sociallogin.user, sociallogin.account = user, identities.find_identity(user)

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        """Count the failure only if this browser had started a sign-in: it then has a state.

        Otherwise links on other pages could lock people out. If the person cancelled, it is no failure.
        """
        if error == AuthError.CANCELLED:
            raise ImmediateHttpResponse(redirect("/login/?failed=cancelled"))
        logger.warning("login through %s failed: %s", settings.OIDC_ISSUER, exception or error)
        if "state" in (extra_context or {}):
            with write_transaction():
                sign_in.record_single_sign_on_refusal(request, None, NOT_CONFIRMED, "")
        raise ImmediateHttpResponse(redirect(FAILED_URL))


def start_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. ``next``: a page of this site to return to."""
    provider = OrganisationProvider(request)
    try:
        response: HttpResponse = provider.redirect_from_request(request)
    except OAuth2Error as error:
        response = render_authentication_error(request, provider, exception=error)
    return response


class CallbackView(OAuth2CallbackView):  # type: ignore[misc]
    """The return from the provider, for the sign-in that this browser has started."""

    def _get_state(self, request: HttpRequest, provider: Any) -> tuple[Any, Any]:
        state, response = super()._get_state(request, provider)
        if state:
            self.adapter.nonce = state["nonce"]
        return state, response


finish_sign_in = CallbackView.adapter_view(ProviderAdapter)

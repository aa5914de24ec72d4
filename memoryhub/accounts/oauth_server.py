"""The protocol of OAuth 2.1, by Authlib, on the tables of :mod:`memoryhub.accounts.oauth`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.integrations.django_oauth2 import AuthorizationServer
from authlib.integrations.django_oauth2.requests import DjangoOAuth2Payload, DjangoOAuth2Request
from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    ClientMixin,
    InvalidClientError,
    InvalidGrantError,
    InvalidRequestError,
    OAuth2Error,
    OAuth2Request,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc6749.util import extract_basic_authorization
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.crypto import constant_time_compare

from memoryhub.access.policy import Actor
from memoryhub.accounts import oauth, tokens
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.models import AgentToken, OAuthClient, OAuthCode, OAuthRefresh
from memoryhub.models.account import default_rights

# Authlib repeats parameters in error descriptions, and fails for characters that those may not have.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_PARAMETERS = (
    *("response_type", "client_id", "redirect_uri", "scope", "resource", "code_challenge"),
    *("code_challenge_method", "grant_type", "code", "code_verifier", "refresh_token", "client_secret"),
    *("token", "token_type_hint"),
)


class InvalidTargetError(OAuth2Error):  # type: ignore[misc]  # the library has no types
    error = "invalid_target"
    description = "resource must be the address of an MCP server of this hub"


@dataclass(frozen=True)
class _Client(ClientMixin):  # type: ignore[misc]
    row: OAuthClient

    @property
    def client_id(self) -> str:
        return self.row.uid

    def get_default_redirect_uri(self) -> None:
        """Return None: every request must name one."""

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """Return the rights among the scopes; None if there is none."""
        wanted = scope.split() if scope else default_rights()
        return " ".join(right for right in RIGHTS if right in wanted) or None

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return oauth.accepts_redirect(self.row, redirect_uri)

    def check_client_secret(self, client_secret: str) -> bool:
        digest = self.row.secret_digest
        return bool(digest) and constant_time_compare(digest, tokens.hash_token(client_secret))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == self.row.auth_method

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


@dataclass(frozen=True)
class _Code(AuthorizationCodeMixin):  # type: ignore[misc]
    row: OAuthCode
    code_challenge_method = "S256"

    @property
    def code_challenge(self) -> str:
        return self.row.code_challenge

    def get_redirect_uri(self) -> str:
        return self.row.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.row.grant["rights"])


@dataclass(frozen=True)
class _Grant(TokenMixin):  # type: ignore[misc]
    """A token of a client, and the refresh token that named it."""

    token: AgentToken
    refresh: OAuthRefresh | None = None

    def check_client(self, client: _Client) -> bool:
        return self.token.client_id == client.row.pk

    def get_scope(self) -> str:
        return " ".join(self.token.rights)


class _RequiredS256(CodeChallenge):  # type: ignore[misc]
    """PKCE with S256, which every client must use (OAuth 2.1, 4.1.1)."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        data = grant.request.payload.data
        if not data.get("code_challenge") or data.get("code_challenge_method") != "S256":
            raise InvalidRequestError("PKCE is required: send code_challenge, and code_challenge_method S256")
        try:
            super().validate_code_challenge(grant, redirect_uri)
        except InvalidRequestError:
            raise InvalidRequestError("code_challenge must be a SHA-256 hash in base64url") from None


class _CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = list(oauth.AUTH_METHODS)

    @staticmethod
    def validate_authorization_redirect_uri(request: Any, client: _Client) -> str:
        """Return the redirect URI. The errors are for the person: no one is redirected to a wrong address."""
        uri: str = request.payload.redirect_uri or ""
        if not uri:
            raise InvalidRequestError(
                "The app did not name the address to return to. "
                "It must send redirect_uri, with an address that it registered here."
            )
        if not client.check_redirect_uri(uri):
            raise InvalidRequestError(
                "The app wants to return to an address that it has not registered here. "
                "Remove the connection in the app and add it again. If you develop the app, send a "
                "redirect_uri that equals a registered one: scheme, host, port, path and query."
            )
        return uri

    def validate_authorization_request(self) -> str:
        redirect_uri: str = super().validate_authorization_request()
        resource = self.request.payload.data.get("resource", "")
        if oauth.normalize_resource(resource) not in self.server.resources:
            raise InvalidTargetError(redirect_uri=redirect_uri)
        return redirect_uri

    def save_authorization_code(self, code: str, request: Any) -> None:
        data = request.payload.data
        oauth.create_code(
            code,
            request.client.row,
            request.user,
            redirect_uri=data["redirect_uri"],
            audience=oauth.normalize_resource(data["resource"]),
            code_challenge=data["code_challenge"],
            grant=request.granted,
        )

    def query_authorization_code(self, code: str, client: _Client) -> _Code | None:
        found = oauth.find_code(code, client.row)
        if found is not None:
            _require_resource(self.request, found.audience)
        return None if found is None else _Code(found)

    def authenticate_user(self, authorization_code: _Code) -> User:
        return authorization_code.row.user

    def generate_token(self, **options: Any) -> dict[str, Any]:
        issued = oauth.redeem_code(self.request.authorization_code.row)
        if issued is None:
            raise InvalidGrantError("The person no longer has the permission to grant this access.")
        return issued

    def save_token(self, token: Any) -> None:
        """Do nothing: :func:`oauth.redeem_code` has saved it, as the two below."""

    def delete_authorization_code(self, authorization_code: Any) -> None:
        pass


class _RefreshGrant(grants.RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = list(oauth.AUTH_METHODS)

    def authenticate_refresh_token(self, refresh_token: str) -> _Grant | None:
        found = oauth.find_refresh(refresh_token)
        if found is not None:
            _require_resource(self.request, found.token.audience)
        return None if found is None else _Grant(found.token, found)

    def authenticate_user(self, refresh_token: _Grant) -> str:
        return refresh_token.token.owner

    def issue_token(self, user: Any, refresh_token: _Grant) -> dict[str, Any]:
        assert refresh_token.refresh is not None  # noqa: S101 set above
        return oauth.redeem_refresh(refresh_token.refresh)

    def save_token(self, token: Any) -> None:
        """Do nothing: :func:`oauth.redeem_refresh` has saved it, as the one below."""

    def revoke_old_credential(self, refresh_token: Any) -> None:
        pass


class _RevocationEndpoint(RevocationEndpoint):  # type: ignore[misc]
    CLIENT_AUTH_METHODS = list(oauth.AUTH_METHODS)

    def check_params(self, request: Any, client: _Client) -> None:
        """Require a token. Any hint is accepted, because an unknown one is ignored (RFC 7009, 2.2)."""
        if not request.form.get("token"):
            raise InvalidRequestError("send the token to revoke")

    def query_token(self, token: str, token_type_hint: str | None) -> _Grant | None:
        found = oauth.find_grant(token)
        return None if found is None else _Grant(found)

    def revoke_token(self, token: _Grant, request: Any) -> None:
        """Revoke the whole grant, whichever of its tokens the client named."""
        granted = token.token
        tokens.revoke_token(granted.uid, Actor(f"token:{granted.name}"), by="client")


def _require_resource(request: Any, audience: str) -> None:
    """Refuse another resource than the one that was granted (RFC 8707, 2.2)."""
    resource = request.form.get("resource")
    if resource and oauth.normalize_resource(resource) != audience:
        raise InvalidTargetError


class _Request(DjangoOAuth2Request):  # type: ignore[misc]
    """A request at the public address: Authlib refuses plain HTTP, which a proxy may use behind TLS."""

    def __init__(self, request: HttpRequest) -> None:
        uri = f"{settings.PUBLIC_URL}{request.path}"
        OAuth2Request.__init__(self, method=request.method, uri=uri, headers=request.headers)
        self.payload = DjangoOAuth2Payload(request)
        self._request = request


class _Server(AuthorizationServer):  # type: ignore[misc]
    """``resources``: addresses of the MCP servers that tokens may be for."""

    def __init__(self, resources: Collection[str] = ()) -> None:
        super().__init__(client_model=None, token_model=None)
        self.resources = resources
        self.register_grant(_CodeGrant, [_RequiredS256()])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_RevocationEndpoint)

    def create_oauth2_request(self, request: HttpRequest) -> _Request:
        return _Request(request)

    def query_client(self, client_id: str) -> _Client | None:
        found = oauth.usable_clients().filter(uid=client_id).first()
        return None if found is None else _Client(found)

    def handle_response(self, status_code: int, payload: Any, headers: Any) -> HttpResponse:
        """Name the issuer in every authorization response (RFC 9207), against mix-up attacks."""
        response: HttpResponse = super().handle_response(status_code, payload, headers)
        if "Location" in response:
            iss = {"iss": settings.PUBLIC_URL}
            response["Location"] = add_params_to_uri(response["Location"], iss.items())
        return response


@dataclass(frozen=True)
class Authorization:
    """A valid authorization request of a client, which a person allows or denies."""

    server: _Server
    grant: Any
    client: OAuthClient
    redirect_uri: str

    @property
    def scopes(self) -> list[str]:
        return str(self.grant.request.scope).split()

    @property
    def audience(self) -> str:
        return oauth.normalize_resource(self.grant.request.payload.data["resource"])

    def allow(self, user: User, granted: Mapping[str, Any]) -> HttpResponse:
        """Redirect to the client with a code. StoreError names a value that cannot be granted."""
        self.grant.request.granted = granted
        return self._respond(user)

    def deny(self) -> HttpResponse:
        return self._respond(None)

    def _respond(self, user: User | None) -> HttpResponse:
        response: HttpResponse = self.server.create_authorization_response(
            self.grant.request, grant_user=user, grant=self.grant
        )
        return response


class AuthorizationRefused(Exception):
    """``response``: the redirect to an approved client. None: the page explains the error to the person."""

    def __init__(self, error: Any, response: HttpResponse | None) -> None:
        self.code, self.description = str(error.error), str(error.description)
        self.response = response
        super().__init__(self.code)


def read_authorization(request: HttpRequest, resources: Collection[str]) -> Authorization:
    """Validate an authorization request. Raise :class:`AuthorizationRefused`.

    Only an approved client is redirected to without a person's click: anyone may register any address.
    """
    server = _Server(resources)
    try:
        _require_plain_parameters(request.GET)
        grant = server.get_consent_grant(request, end_user=request.user)
    except OAuth2Error as error:
        known = server.query_client(request.GET.get("client_id", ""))
        is_trusted = known is not None and known.row.approved_at is not None
        redirects = bool(error.redirect_uri) and is_trusted
        raise AuthorizationRefused(
            error, server.handle_error_response(request, error) if redirects else None
        ) from None
    return Authorization(server, grant, grant.request.client.row, grant.redirect_uri)


def answer_token_request(request: HttpRequest) -> HttpResponse:
    """Exchange a code or a refresh token, in one transaction: each of them works once."""
    server = _Server()
    return _answer(server, request, server.create_token_response)


def answer_revocation_request(request: HttpRequest) -> HttpResponse:
    server = _Server()
    return _answer(server, request, partial(server.create_endpoint_response, "revocation"))


def _answer(
    server: _Server, request: HttpRequest, endpoint: Callable[[HttpRequest], HttpResponse]
) -> HttpResponse:
    try:
        _require_plain_parameters(request.POST)
        _require_plain_basic(request)
        if any(name in request.GET for name in _PARAMETERS):
            raise InvalidRequestError("send the parameters in the body: addresses are logged")
    except OAuth2Error as error:
        response: HttpResponse = server.handle_error_response(request, error)
        return response
    with write_transaction():
        return endpoint(request)


def _require_plain_basic(request: HttpRequest) -> None:
    """Refuse a client id or secret in the header with characters that OAuth does not allow."""
    try:
        found = extract_basic_authorization(request.headers)
    except ValueError:  # not UTF-8
        raise InvalidClientError(status_code=401) from None
    if not all(_PLAIN.fullmatch(one or "") for one in found):
        raise InvalidClientError(status_code=401)


def _require_plain_parameters(given: QueryDict) -> None:
    """Refuse parameters that are repeated, or have characters that OAuth does not allow."""
    for name in (*_PARAMETERS, "state"):
        values = given.getlist(name)
        if len(values) > 1 or (name != "state" and values and not _PLAIN.fullmatch(values[0])):
            raise InvalidRequestError(f"{name} is repeated or has characters that OAuth does not allow")

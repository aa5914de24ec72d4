"""OAuth 2.1 for MCP: metadata, client registration, token and revocation endpoints.

The page on which a person allows or denies a client is in :mod:`memoryhub.web.accounts.sign_in`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from memoryhub.accounts import oauth
from memoryhub.accounts.tokens import hash_token
from memoryhub.http import authentication
from memoryhub.http.problems import InvalidJson, RateLimitExceeded, json_response, parse_json, to_problem
from memoryhub.toolsets import TOOLSETS

_View = Callable[..., HttpResponse]


def _with_oauth(view: _View) -> _View:
    """Answer 404 unless OAuth is on, and 429 to an address that sends too much."""

    @wraps(view)
    def served(request: HttpRequest, **options: str) -> HttpResponse:
        if not settings.PUBLIC_URL:
            raise Http404
        try:
            return view(request, **options)
        except RateLimitExceeded as error:
            return to_problem(error).response(request)

    return served


@require_safe
@_with_oauth
def server_metadata(request: HttpRequest) -> HttpResponse:
    return json_response(oauth.server_metadata())


@require_safe
@_with_oauth
def resource_metadata(request: HttpRequest, toolset: str) -> HttpResponse:
    if toolset not in TOOLSETS:
        raise Http404
    return json_response(oauth.resource_metadata(toolset))


@csrf_exempt
@require_POST
@_with_oauth
def register(request: HttpRequest) -> HttpResponse:
    """Register a client. It can do nothing before a person approves it."""
    if not settings.MEMORYHUB.oauth_registration:
        return _error("access_denied", "registration is closed: oauth_registration is off on this hub", 403)
    authentication.count_registration(request.META.get("REMOTE_ADDR", ""))
    try:
        client, secret = oauth.register_client(parse_json(request.body), request.META.get("REMOTE_ADDR", ""))
    except InvalidJson as error:
        return _error("invalid_client_metadata", str(error))
    except oauth.RegistrationRefused as error:
        return _error(error.error, error.description, error.status)
    answer: dict[str, Any] = {
        "client_id": client.uid,
        "client_id_issued_at": int(client.registered_at.timestamp()),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "token_endpoint_auth_method": client.auth_method,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    if secret:
        answer |= {"client_secret": secret, "client_secret_expires_at": 0}
    return json_response(answer, 201)


@csrf_exempt
@require_POST
@_with_oauth
def token(request: HttpRequest) -> HttpResponse:
    """Exchange an authorization code or a refresh token."""
    from memoryhub.accounts.oauth_server import answer_token_request  # loads Authlib

    secret = request.POST.get("code") or request.POST.get("refresh_token", "")
    return _throttled(request, secret, answer_token_request)


@csrf_exempt
@require_POST
@_with_oauth
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke the grant of an access or refresh token (RFC 7009)."""
    from memoryhub.accounts.oauth_server import answer_revocation_request

    return _throttled(request, request.POST.get("token", ""), answer_revocation_request)


def _throttled(request: HttpRequest, secret: str, answer: _View) -> HttpResponse:
    """Count refusals like invalid tokens, and refuse an address that sends too many."""
    address = request.META.get("REMOTE_ADDR", "")
    authentication.check_token_guesses(address, hash_token(secret))
    response = answer(request)
    if response.status_code >= 400:
        authentication.count_token_guess(address)
    return response


def _error(error: str, description: str, status: int = 400) -> HttpResponse:
    return json_response({"error": error, "error_description": description}, status)

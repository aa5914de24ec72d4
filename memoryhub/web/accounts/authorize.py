"""The consent page of OAuth: a person allows or denies that an app acts for them (docs/tools.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from memoryhub.accounts import oauth
from memoryhub.accounts.clearance import request_actor
from memoryhub.accounts.permissions import ADD_TOKEN, CHANGE_TOKEN
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.http.middleware import page_policy
from memoryhub.toolsets import TOOLSETS
from memoryhub.web.accounts.forms import ConsentForm
from memoryhub.web.base.requests import signed_in_user

if TYPE_CHECKING:
    from memoryhub.accounts.oauth_server import Authorization

_EXPLANATIONS = {
    "invalid_client": "The app is not registered here, or its registration expired before anyone approved it."
    " Remove the connection in the app and add it again.",
    "invalid_target": "The app asks for something that is not an MCP server of this hub."
    " Check the address that you gave to the app.",
    "invalid_scope": "The app asks for rights that this hub does not know."
    f" If you develop the app, send as scope one or more of: {', '.join(RIGHTS)}.",
    "unsupported_response_type": "The app asks for a response type that this hub does not support."
    " If you develop the app, send response_type=code.",
}


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Show what an app asks for, and send the person back to it with their answer."""
    if not settings.PUBLIC_URL:
        raise Http404
    from memoryhub.accounts import oauth_server  # loads Authlib

    resources = {oauth.resource_url(name): name for name in TOOLSETS}
    try:
        asked = oauth_server.read_authorization(request, resources)
    except oauth_server.AuthorizationRefused as error:
        context = {"code": error.code, "why": _EXPLANATIONS.get(error.code, error.description)}
        return error.response or render(request, "authorize/refused.html", context, status=400)
    if request.method != "POST":
        return _consent_page(request, asked, ConsentForm(signed_in_user(request), asked.scopes, asked.client))
    if request.POST.get("decision") != "allow":
        return asked.deny()
    return _allow(request, asked)


def _allow(request: HttpRequest, asked: Authorization) -> HttpResponse:
    user = signed_in_user(request)
    form = ConsentForm(user, asked.scopes, asked.client, request.POST)
    if _obstacle(request, asked):
        return _consent_page(request, asked, form)

    def allow() -> HttpResponse:
        with write_transaction():
            if asked.client.approved_at is None:
                oauth.approve_client(asked.client, user, request_actor(request))
            return asked.allow(user, form.values())

    return form.submit(allow) or _consent_page(request, asked, form)


def _obstacle(request: HttpRequest, asked: Authorization) -> str:
    """Return why this person may not allow it; empty if they may."""
    if not request.user.has_perm(ADD_TOKEN):
        return "You do not have permission to give apps access. Ask an administrator of the hub."
    if asked.client.approved_at is None and not request.user.has_perm(CHANGE_TOKEN):
        return "No one has approved this app yet. Ask a maintainer of the hub to connect it first."
    return ""


def _consent_page(request: HttpRequest, asked: Authorization, form: ConsentForm) -> HttpResponse:
    obstacle = _obstacle(request, asked)
    if not obstacle and not form.fields["rights"].choices:  # type: ignore[attr-defined]
        obstacle = "The app asks for rights that you do not have."
    origin = oauth.redirect_origin(asked.redirect_uri)
    context = {
        "client": asked.client,
        "toolset": asked.audience.rpartition("/")[2],
        "origin": origin,
        "is_local": origin.startswith("http:"),
        "form": form,
        "obstacle": obstacle,
    }
    status = 403 if obstacle else 422 if form.errors else 200
    response = render(request, "authorize/consent.html", context, status=status)
    # Browsers apply form-action to the redirect that follows a form, too.
    policy = page_policy().replace("form-action 'self'", f"form-action 'self' {origin}")
    response.headers["Content-Security-Policy"] = policy
    return response

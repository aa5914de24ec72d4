"""Connect an agent: create its token and show what to paste."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.access.policy import LEVELS, level_rank
from memoryhub.accounts import oauth, tokens
from memoryhub.accounts.clearance import (
    grantable_clearances,
    request_actor,
    request_clearance,
    user_clearance,
)
from memoryhub.core import claude_code
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, Event
from memoryhub.models.account import default_rights
from memoryhub.web.accounts.forms import LEVEL_LABELS
from memoryhub.web.accounts.profile import ISSUE_PERMISSION, own_tokens, revoke_own_token
from memoryhub.web.connect import snippets
from memoryhub.web.connect.snippets import HubConnection
from memoryhub.web.sessions.overview import name_sessions


class ConnectForm(forms.Form):
    """The token to issue. ``levels``: the clearances that the user may grant.

    ``once`` differs in each rendered form, so that a form sent twice issues one token.
    """

    name = forms.CharField(max_length=100, initial="my-agent", help_text="The agent's name in the journal.")
    project = forms.CharField(
        max_length=200,
        required=False,
        help_text="Empty: every project. Sessions are filed under the name of their folder.",
        widget=forms.TextInput(attrs={"list": "projects"}),
    )
    clearance = forms.ChoiceField(label="May read", help_text="At most your own clearance.")

    toolset = forms.ChoiceField(
        label="MCP tools",
        required=False,
        help_text="The vocabulary that the agent uses over MCP. Each one has its own address.",
        choices=[(name, f"{name}: {about}") for name, about in snippets.TOOLSETS.items()],
    )
    once = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput())

    def __init__(
        self, levels: Sequence[str], data: Mapping[str, Any] | None = None, toolset: str = "letsgo"
    ) -> None:
        fresh = {"once": secrets.token_urlsafe(12), "toolset": toolset}
        super().__init__(data, label_suffix="", initial=fresh)
        choices = self.fields["clearance"]
        choices.choices = [(level, LEVEL_LABELS[level]) for level in levels]  # type: ignore[attr-defined]


MAX_TOKENS = 50  # listed; also the number of remembered forms
_USED_FORMS_KEY = "connect_forms_used"  # session key of the forms that issued a token


@require_http_methods(["GET", "HEAD", "POST"])
def connect(request: HttpRequest) -> HttpResponse:
    """Explain how to connect an agent. POST issues a token and shows the settings with it, once.

    A redirect would have to store the token somewhere. Instead, each form issues only one token, so that
    reloading the page, which sends the form again, issues no second one.
    """
    levels = grantable_clearances(request.user)
    if request.method != "POST":
        return _render_page(request, ConnectForm(levels, toolset=_toolset(request.GET)))
    if not request.user.has_perm(ISSUE_PERMISSION):
        raise PermissionDenied
    form = ConnectForm(levels, request.POST)
    used = request.session.get(_USED_FORMS_KEY, [])
    if form.is_valid() and form.cleaned_data["once"] in used:
        return _render_page(request, ConnectForm(levels), status=409)
    issued = _issue_token(request, form) if form.is_valid() else None
    if issued is None:
        return _render_page(request, form, status=422)
    if once := form.cleaned_data["once"]:
        request.session[_USED_FORMS_KEY] = [*used, once][-MAX_TOKENS:]
    return _render_page(request, form, *issued)


def _issue_token(request: HttpRequest, form: ConnectForm) -> tuple[AgentToken, str] | None:
    """Issue a token owned by the user. Return None and show the error if a field is refused."""
    project = form.cleaned_data["project"]
    try:
        return tokens.issue_token(
            form.cleaned_data["name"],
            request.user.get_username(),
            form.cleaned_data["clearance"],
            [right for right in default_rights() if right in tokens.grantable_rights(request.user)],
            projects=[project] if project else None,
            actor=request_actor(request),
            within=user_clearance(request.user),
        )
    except StoreError as error:
        field = {"projects": "project"}.get(error.field, error.field)
        form.add_error(field if field in form.fields else None, error.message)
        return None


def _render_page(
    request: HttpRequest,
    form: ConnectForm,
    token: AgentToken | None = None,
    secret: str | None = None,
    status: int = 200,
) -> HttpResponse:
    base = request.build_absolute_uri("/")
    hub = _hub_connection(request, base, secret)
    levels = LEVELS[1 : level_rank(token.clearance) + 1] if token else ()
    context = {
        "form": form,
        "base": hub.base,
        "repeated": status == 409,
        "may_issue": request.user.has_perm(ISSUE_PERMISSION),
        "token": token,
        "secret": secret,
        "settings": claude_code.to_json(claude_code.settings_snippet(base, secret, levels)),
        "command": claude_code.session_start_command(base, levels),
        "clients": snippets.client_snippets(hub),
        "programs": snippets.program_snippets(hub),
        "toolset": hub.toolset,
        "hosted": oauth.resource_url(hub.toolset),
        "toolsets": snippets.TOOLSETS,
        "variable": claude_code.ENVIRONMENT_VARIABLE,
        "mine": own_tokens(request)[:MAX_TOKENS],
        **_latest_event_context(request, token),
    }
    return render(request, "connect/page.html", context, status=status)


def _hub_connection(request: HttpRequest, base: str, secret: str | None) -> HubConnection:
    """Return the address of the hub, without the paths on its machine."""
    toolset = _toolset(request.POST or request.GET)
    return HubConnection(base, token=secret or snippets.NO_TOKEN, toolset=toolset)


def _toolset(parameters: Mapping[str, Any]) -> str:
    """Return the requested toolset, or the first one."""
    name = str(parameters.get("toolset", ""))
    return name if name in snippets.TOOLSETS else next(iter(snippets.TOOLSETS))


@require_safe
def latest_event(request: HttpRequest) -> HttpResponse:
    """Return the line with the latest event, which the page polls."""
    uid = request.GET.get("token", "")
    token = own_tokens(request).filter(uid=uid).first() if uid else None
    return render(request, "connect/page.html#arrived", _latest_event_context(request, token))


@require_POST
def revoke_token(request: HttpRequest) -> HttpResponse:
    revoke_own_token(request, request.POST.get("uid", ""))
    return redirect("connect")


def _latest_event_context(request: HttpRequest, token: AgentToken | None) -> dict[str, Any]:
    """Return the newest visible event, and the token whose first event is awaited."""
    clearance = request_clearance(request)
    events = Event.objects.visible_to(clearance).select_related("session")
    last = events.order_by("-at", "-pk").first()
    name_sessions([last.session] if last else [], clearance)
    return {"last": last, "waiting_for": token}

"""Connect an agent: create its token and show what to paste."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.access.policy import LEVELS, level_rank
from memoryhub.accounts import tokens
from memoryhub.accounts.clearance import (
    grantable_clearances,
    request_actor,
    request_clearance,
    user_clearance,
)
from memoryhub.core import claude_code
from memoryhub.core.client_ip import is_loopback
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, Event
from memoryhub.models.token import default_rights
from memoryhub.web.connect import snippets
from memoryhub.web.connect.snippets import HubConnection

_LEVEL_LABELS = {
    "public": "public memories alone",
    "private": "public and private memories",
    "secret": "every memory, secrets too",
}


class ConnectForm(forms.Form):
    """``levels`` are the clearances that this person may hand on.

    ``once`` is another one in each form that is shown: what is sent a second time has it again.
    """

    name = forms.CharField(max_length=100, initial="my-agent", help_text="What the journal calls the agent.")
    project = forms.CharField(
        max_length=200,
        required=False,
        help_text="Empty: every project, each session filed under the name of its folder.",
        widget=forms.TextInput(attrs={"list": "projects"}),
    )
    clearance = forms.ChoiceField(label="May read", help_text="No more than you may see yourself.")

    toolset = forms.ChoiceField(
        label="MCP tools",
        required=False,
        help_text="In whose words the agent speaks over MCP. Each name has its own address.",
        choices=[(name, f"{name}: {about}") for name, about in snippets.TOOLSETS.items()],
    )
    once = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput())

    def __init__(
        self, levels: Sequence[str], data: Mapping[str, Any] | None = None, toolset: str = "letsgo"
    ) -> None:
        fresh = {"once": secrets.token_urlsafe(12), "toolset": toolset}
        super().__init__(data, label_suffix="", initial=fresh)
        choices = self.fields["clearance"]
        choices.choices = [(level, _LEVEL_LABELS[level]) for level in levels]  # type: ignore[attr-defined]


ISSUE_PERMISSION = "memoryhub.add_agenttoken"
MAX_TOKENS = 50  # tokens listed, forms remembered
_USED_FORMS_KEY = "connect_forms_used"  # in the session: those that made a token


@require_http_methods(["GET", "HEAD", "POST"])
def connect(request: HttpRequest) -> HttpResponse:
    """GET explains; POST makes a token and answers with the settings that hold it, this once.

    There is no redirect, for it would have to keep the token somewhere on its way. Instead a form makes one
    token: who reloads the answer, and so sends the form again, gets no second.
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
    made = _issue_token(request, form) if form.is_valid() else None
    if made is None:
        return _render_page(request, form, status=422)
    if once := form.cleaned_data["once"]:
        request.session[_USED_FORMS_KEY] = [*used, once][-MAX_TOKENS:]
    return _render_page(request, form, *made)


def _issue_token(request: HttpRequest, form: ConnectForm) -> tuple[AgentToken, str] | None:
    """A token of this person, who is named in the journal; None when a field is refused."""
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
    place = _hub_connection(request, base, secret)
    levels = LEVELS[1 : level_rank(token.clearance) + 1] if token else ()
    context = {
        "form": form,
        "repeated": status == 409,
        "may_issue": request.user.has_perm(ISSUE_PERMISSION),
        "token": token,
        "secret": secret,
        "settings": claude_code.to_json(claude_code.settings_snippet(base, secret, levels)),
        "command": claude_code.session_start_command(base, levels),
        "clients": snippets.client_snippets(place),
        "programs": snippets.program_snippets(place),
        "toolset": place.toolset,
        "toolsets": snippets.TOOLSETS,
        "variable": claude_code.ENVIRONMENT_VARIABLE,
        "mine": _own_tokens(request)[:MAX_TOKENS],
        **_latest_event_context(request, token),
    }
    return render(request, "connect/page.html", context, status=status)


def _hub_connection(request: HttpRequest, base: str, secret: str | None) -> HubConnection:
    """Where the hub is; paths of this machine are told to those who are at it."""
    place = HubConnection(
        base, token=secret or snippets.NO_TOKEN, toolset=_toolset(request.POST or request.GET)
    )
    if is_loopback(urlsplit(base).hostname or ""):
        manage = str(Path(settings.BASE_DIR) / "manage.py")
        return replace(place, manage=manage, home=str(settings.HOME))
    return place


def _toolset(asked: Mapping[str, Any]) -> str:
    """The one that is asked for, if there is such a one."""
    name = str(asked.get("toolset", ""))
    return name if name in snippets.TOOLSETS else next(iter(snippets.TOOLSETS))


@require_safe
def latest_event(request: HttpRequest) -> HttpResponse:
    """The line that says what came last: a fragment that the page asks for again and again."""
    uid = request.GET.get("token", "")
    token = _own_tokens(request).filter(uid=uid).first() if uid else None
    return render(request, "connect/arrived.html", _latest_event_context(request, token))


@require_POST
def revoke_token(request: HttpRequest) -> HttpResponse:
    """End one of one's own tokens, for good; that takes no permission."""
    token = _own_tokens(request).filter(uid=request.POST.get("uid", "")).first()
    if token is None:
        raise Http404
    tokens.revoke_token(token.uid, request_actor(request))
    messages.success(request, f"{token.name} is revoked: what comes with this token is refused from now on.")
    return redirect("connect")


def _own_tokens(request: HttpRequest) -> Any:
    """The tokens in force that this person owns."""
    return AgentToken.objects.active().filter(owner=request.user.get_username()).order_by("-created_at")


def _latest_event_context(request: HttpRequest, token: AgentToken | None) -> dict[str, Any]:
    """The newest event that may be seen, and the token that is being waited for."""
    events = Event.objects.visible_to(request_clearance(request)).select_related("session")
    return {"last": events.order_by("-at", "-pk").first(), "waiting_for": token}

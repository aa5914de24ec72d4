"""Connect an agent in three steps: choose it, say what it may do, and paste one snippet with its token."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub.access.policy import AGENT_PREFIX, LEVELS, level_rank
from memoryhub.accounts import oauth, tokens
from memoryhub.accounts.clearance import (
    grantable_clearances,
    is_confined,
    request_actor,
    request_clearance,
    user_clearance,
)
from memoryhub.accounts.permissions import ADD_TOKEN, grantable_rights
from memoryhub.core import agent_hooks
from memoryhub.memories.errors import StoreError
from memoryhub.models import AgentToken, Event
from memoryhub.models.account import default_rights
from memoryhub.web.accounts.profile import own_tokens
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.labels import name_sessions
from memoryhub.web.base.requests import chosen_project
from memoryhub.web.connect import snippets
from memoryhub.web.connect.snippets import Choice, HubConnection

ACCESS_LABELS = {
    "public": "Can read public memories",
    "private": "Can read public and private memories",
    "secret": "Can read all memories, including secret ones",
}
MAX_USED_FORMS = 50
_USED_FORMS_KEY = "connect_tokens"  # session key: the form, and the token that it issued


class ConnectForm(PlainForm):
    """The token to issue. Its defaults suffice.

    ``once`` differs in each rendered form, so that a form sent twice issues one token.
    """

    name = forms.CharField(max_length=100, help_text="The agent's name in memories and in the journal.")
    project = forms.CharField(
        max_length=200,
        required=False,
        help_text="Limits the agent to one project. Leave empty for all projects.",
        widget=forms.TextInput(attrs={"list": "projects"}),
    )
    clearance = forms.ChoiceField(label="Access")
    toolset = forms.ChoiceField(
        label="MCP tools",
        required=False,
        help_text="The names and parameters of the tools that the agent gets over MCP.",
        choices=[(name, f"{name}: {about}") for name, about in snippets.TOOLSETS.items()],
    )
    once = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput())

    def __init__(self, request: HttpRequest, choice: Choice, data: Mapping[str, Any] | None = None) -> None:
        user = request.user
        project = chosen_project(request)
        if is_confined(user) and not project:
            project = min(user_clearance(user).projects or [""])
        fresh = {"once": secrets.token_urlsafe(12), "toolset": _toolset(request.GET)}
        name = tokens.suggest_name(choice.name or choice.key, user.get_username())
        names = {"name": name, "project": project}
        super().__init__(data, initial=fresh | names)
        if data is None:
            self.fields["name"].widget.attrs["autofocus"] = True
        levels = grantable_clearances(user)
        self.set_choices("clearance", ((level, ACCESS_LABELS[level]) for level in levels))
        if "write" in grantable_rights(user):
            self.fields["clearance"].help_text = "The agent can also store and change memories."


@require_safe
def connect(request: HttpRequest) -> HttpResponse:
    """Step 1: choose the agent."""
    offered = [one for one in snippets.choices().values() if one.takes_token or oauth.resource_url("letsgo")]
    return _render_step(request, 1, choices=offered)


@require_safe
def connect_access(request: HttpRequest, client: str) -> HttpResponse:
    """Step 2: its name, its project, and what it can read."""
    choice = _choice(client)
    if not choice.takes_token:
        return redirect("connect-snippet", client)
    return _render_step(request, 2, choice, form=ConnectForm(request, choice))


@require_http_methods(["GET", "HEAD", "POST"])
def connect_snippet(request: HttpRequest, client: str) -> HttpResponse:
    """Step 3: the snippet, and whether the agent has reported. POST issues a token and shows it, once.

    A redirect would have to store the token somewhere. Instead, each form issues only one token: sent again,
    as by a reload, it leads to the same step without the token.
    """
    choice = _choice(client)
    if request.method != "POST":
        return _render_snippet(request, choice, _own_token(request))
    if not request.user.has_perm(ADD_TOKEN):
        raise PermissionDenied
    form = ConnectForm(request, choice, request.POST)
    used = request.session.get(_USED_FORMS_KEY, {})
    if form.is_valid() and (uid := used.get(form.cleaned_data["once"])):
        messages.info(request, "The token is shown only once. If you lost it, revoke it and connect again.")
        query = {"token": uid, "toolset": _toolset(request.POST)}
        return redirect(reverse("connect-snippet", args=[client], query=query))
    issued = _issue_token(request, form) if form.is_valid() and choice.takes_token else None
    if issued is None:
        return _render_step(request, 2, choice, form=form, status=422)
    if once := form.cleaned_data["once"]:
        recent = [*used.items(), (once, issued[0].uid)][-MAX_USED_FORMS:]
        request.session[_USED_FORMS_KEY] = dict(recent)
    return _render_snippet(request, choice, *issued)


def _choice(client: str) -> Choice:
    choice = snippets.choices().get(client)
    if choice is None or not (choice.takes_token or oauth.resource_url("letsgo")):
        raise Http404
    return choice


def _issue_token(request: HttpRequest, form: ConnectForm) -> tuple[AgentToken, str] | None:
    """Issue a token owned by the user. Return None and show the error if a field is refused."""
    project = form.cleaned_data["project"]
    try:
        return tokens.issue_token(
            form.cleaned_data["name"],
            request.user.get_username(),
            form.cleaned_data["clearance"],
            [right for right in default_rights() if right in grantable_rights(request.user)],
            projects=[project] if project else None,
            actor=request_actor(request),
            within=user_clearance(request.user),
        )
    except StoreError as error:
        field = {"projects": "project"}.get(error.field, error.field)
        form.add_error(field if field in form.fields else None, error.message)
        return None


def _render_snippet(
    request: HttpRequest, choice: Choice, token: AgentToken | None = None, secret: str | None = None
) -> HttpResponse:
    toolset = _toolset(request.POST or request.GET)
    # Without the paths on the hub's machine.
    hub = HubConnection(
        request.build_absolute_uri("/"),
        token=secret or snippets.NO_TOKEN,
        toolset=toolset,
        hosted=oauth.resource_url(toolset),
    )
    levels = LEVELS[1 : level_rank(token.clearance) + 1] if token else ()
    first, *others = snippets.choice_snippets(choice, hub, levels)
    context: dict[str, Any] = {
        "snippet": first,
        "others": others,
        "secret": secret,
        "toolset": toolset,
        "hub": hub,
    }
    return _render_step(request, 3, choice, **context, **_first_event(request, token))


def _render_step(
    request: HttpRequest, step: int, choice: Choice | None = None, *, status: int = 200, **context: Any
) -> HttpResponse:
    common = {
        "step": step,
        "choice": choice,
        "may_issue": request.user.has_perm(ADD_TOKEN),
        "toolsets": snippets.TOOLSETS,
        "variable": agent_hooks.TOKEN_VARIABLE,
    }
    return render(request, "connect/page.html", common | context, status=status)


def _toolset(parameters: Mapping[str, Any]) -> str:
    name = str(parameters.get("toolset", ""))
    return name if name in snippets.TOOLSETS else next(iter(snippets.TOOLSETS))


@require_safe
def first_event(request: HttpRequest) -> HttpResponse:
    """Return whether the agent has reported, which step 3 polls."""
    return render(request, "connect/page.html#arrived", _first_event(request, _own_token(request)))


def _own_token(request: HttpRequest) -> AgentToken | None:
    uid = request.GET.get("token", "")
    return own_tokens(request).filter(uid=uid).first() if uid else None


def _first_event(request: HttpRequest, token: AgentToken | None) -> dict[str, Any]:
    """Return the token that is waited for, and the newest visible event: of its agent, or of all."""
    clearance = request_clearance(request)
    events = Event.objects.visible_to(clearance).select_related("session")
    if token:
        events = events.filter(session__agent=f"{AGENT_PREFIX}{token.name}", at__gte=token.created_at)
    last = events.order_by("-at", "-pk").first()
    name_sessions([last.session] if last else [], clearance)
    return {"token": token, "last": last}

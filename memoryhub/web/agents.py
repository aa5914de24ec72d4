"""The pages of agents: the list, what one agent wrote, received and failed at, and how to connect one.

An agent is a name of tokens. Pages show only what the reader can see: rows by their level and project, tokens
to their owner and to managers of tokens. An agent of which nothing is visible does not exist for the reader.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Max, QuerySet, Window
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from memoryhub.access.policy import AGENT_PREFIX, LEVELS, Clearance, level_rank
from memoryhub.accounts import oauth, tokens
from memoryhub.accounts.clearance import (
    grantable_clearances,
    is_confined,
    request_actor,
    request_clearance,
    user_clearance,
)
from memoryhub.accounts.permissions import ADD_TOKEN, grantable_rights
from memoryhub.accounts.tokens import (
    MAX_AGENTS,
    actor_label,
    agent_owners,
    unambiguous_owners,
    visible_tokens,
)
from memoryhub.core import agent_hooks
from memoryhub.injection.queries import InjectionReport, load_reports
from memoryhub.memories.errors import StoreError
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import AgentToken, Event, Injection, JournalEntry
from memoryhub.models.account import default_rights
from memoryhub.models.querysets import live_memories
from memoryhub.stats.timeline import sessions_with_counts
from memoryhub.web import connect_snippets
from memoryhub.web.accounts.profile import own_tokens
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.labels import name_sessions
from memoryhub.web.base.requests import cached_until_change, chosen_project
from memoryhub.web.connect_snippets import Choice, HubConnection

MAX_LISTED, MAX_INJECTIONS = 8, 50
_NEVER = datetime.min.replace(tzinfo=UTC)
_FAILED_HANDLER = '"failed"'  # the status of a handler in the JSON of an event


def render_actor(request: HttpRequest | None, actor: str, *, link: bool) -> SafeString:
    """Render the name of an actor, with the owner of the agent if the reader may know it."""
    agent = actor.removeprefix(AGENT_PREFIX) if actor.startswith(AGENT_PREFIX) else ""
    label = actor_label(actor, _owners(request) if agent and request else None)
    if agent and link:
        return format_html('<a href="{}" title="{}">{}</a>', reverse("agent", args=[agent]), actor, label)
    return format_html('<span title="{}">{}</span>', actor, label)


def _owners(request: HttpRequest) -> dict[str, str]:
    """Return the owners of visible tokens by agent, unless several people have an agent of this name."""
    if not hasattr(request, "_agent_owners"):
        clearance = request_clearance(request)
        pairs = cached_until_change(
            request,
            "owners",
            clearance,
            lambda: agent_owners(clearance),
            clearance.every_token,
        )
        request._agent_owners = unambiguous_owners(pairs)  # type: ignore[attr-defined]
    found: dict[str, str] = request._agent_owners  # type: ignore[attr-defined]
    return found


@require_safe
def agent_list(request: HttpRequest) -> HttpResponse:
    """List the agents whose memories, sessions or tokens are visible, the last seen first. Three queries."""
    clearance = request_clearance(request)
    found: dict[str, dict[str, Any]] = {}
    written = _by_agent(live_memories(clearance), "author", "pk", "created_at")
    ran = _by_agent(Event.objects.visible_to(clearance), "session__agent", "session", "at")
    for kind, rows in (("memories", written), ("sessions", ran)):
        for actor, count, last in rows:
            one = found.setdefault(actor.removeprefix(AGENT_PREFIX), {"last": last})
            one |= {kind: count, "last": max(one["last"], last)}
    tokens = visible_tokens(clearance)
    wanted = tokens.active() | tokens.filter(name__in=found)  # type: ignore[attr-defined]
    used = wanted.order_by().values_list("name").annotate(Max("last_used_at"))
    for name, last in used[:MAX_AGENTS]:
        one = found.setdefault(name, {"last": None})
        one["last"] = max(filter(None, (one["last"], last)), default=None)
    agents = sorted(found.items(), key=lambda item: (item[1]["last"] or _NEVER, item[0]), reverse=True)
    listed = [{"actor": f"{AGENT_PREFIX}{name}", **one} for name, one in agents[:MAX_AGENTS]]
    return render(request, "agents/page.html", {"agents": listed})


def _by_agent(rows: QuerySet[Any], name: str, counted: str, at: str) -> Iterable[tuple[str, int, datetime]]:
    """Return agent, number of distinct values of ``counted``, and last moment."""
    mine = rows.filter(**{f"{name}__startswith": AGENT_PREFIX}).order_by()
    found = mine.values(name).annotate(count=Count(counted, distinct=True), last=Max(at))
    return [(row[name], row["count"], row["last"]) for row in found[:MAX_AGENTS]]


@require_safe
def agent(request: HttpRequest, name: str) -> HttpResponse:
    """Show what an agent wrote, what it received, its tokens, when it was last seen, and its errors."""
    clearance, actor = request_clearance(request), f"{AGENT_PREFIX}{name}"
    tokens = list(visible_tokens(clearance).filter(name=name)[:MAX_LISTED])
    request._agent_owners = unambiguous_owners(  # type: ignore[attr-defined]
        (name, token.owner) for token in tokens
    )
    written = live_memories(clearance).filter(author=actor)
    newest = written.defer("overview").annotate(total=Window(Count("pk"))).order_by("-created_at", "-pk")
    memories = list(newest[:MAX_LISTED])
    ran = sessions_with_counts(clearance).filter(agent_seen=actor)
    sessions = list(ran.order_by("-last_seen", "-pk")[:MAX_LISTED])
    if not (tokens or memories or sessions):
        raise Http404
    reports, errors = _injections_and_errors(clearance, actor)
    received = [one for report in reports[:MAX_LISTED] if (one := report.injection.session)]
    name_sessions([*sessions, *received, *(event.session for event in errors)], clearance)
    refused = JournalEntry.objects.visible_to(clearance).filter(actor=actor, operation=SECRET_BLOCKED)
    seen = [
        *(token.last_used_at for token in tokens if token.last_used_at),
        *(session.last_seen for session in sessions),
        *(memory.created_at for memory in memories),
    ]
    context = {
        "name": name,
        "actor": actor,
        "tokens": tokens,
        "memories": memories,
        "memory_count": memories[0].total if memories else 0,
        "sessions": sessions,
        "reports": reports[:MAX_LISTED],
        "received": _summarize(reports),
        "errors": errors,
        "refused": refused.order_by("-seq")[:MAX_LISTED],
        "last_seen": max(seen, default=None),
    }
    return render(request, "agents/page.html", context)


def _injections_and_errors(clearance: Clearance, actor: str) -> tuple[list[InjectionReport], list[Event]]:
    """Return the latest injections of an agent, and its latest events with a failed handler."""
    events = Event.objects.visible_to(clearance).filter(session__agent=actor)
    injections = Injection.objects.visible_to(clearance).filter(session__in=events.values("session"))
    prompts = injections.select_related("session").order_by("-at", "-pk")
    failed = events.filter(handlers__icontains=_FAILED_HANDLER).select_related("session")
    return load_reports(prompts[:MAX_INJECTIONS], clearance), list(failed.order_by("-at", "-pk")[:MAX_LISTED])


def _summarize(reports: list[InjectionReport]) -> dict[str, Any]:
    """Return how many prompts received something, and the tokens of those without hidden memories."""
    tokens = [report.tokens_used for report in reports if report.tokens_used is not None]
    helped = [report.injection.helped for report in reports if report.injection.helped is not None]
    return {
        "prompts": len(reports),
        "filled": sum(bool(report.shown) for report in reports),
        "tokens": sum(tokens),
        "all_counted": len(tokens) == len(reports),
        "decided": len(helped),
        "helped": sum(helped),
        "is_cut": len(reports) == MAX_INJECTIONS,
    }


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
        choices=[(name, f"{name}: {about}") for name, about in connect_snippets.TOOLSETS.items()],
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
    offered = [
        one for one in connect_snippets.choices().values() if one.takes_token or oauth.resource_url("letsgo")
    ]
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
    choice = connect_snippets.choices().get(client)
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
        token=secret or connect_snippets.NO_TOKEN,
        toolset=toolset,
        hosted=oauth.resource_url(toolset),
    )
    levels = LEVELS[1 : level_rank(token.clearance) + 1] if token else ()
    first, *others = connect_snippets.choice_snippets(choice, hub, levels)
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
        "toolsets": connect_snippets.TOOLSETS,
        "variable": agent_hooks.TOKEN_VARIABLE,
    }
    return render(request, "connect/page.html", common | context, status=status)


def _toolset(parameters: Mapping[str, Any]) -> str:
    name = str(parameters.get("toolset", ""))
    return name if name in connect_snippets.TOOLSETS else next(iter(connect_snippets.TOOLSETS))


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

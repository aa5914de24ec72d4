"""The pages of agents: the list, and what one agent wrote, received and failed at.

An agent is a name of tokens. Pages show only what the reader can see: rows by their level and project, tokens
to their owner and to managers of tokens. An agent of which nothing is visible does not exist for the reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, Max, QuerySet, Window
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from memoryhub.access.policy import AGENT_PREFIX, Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.accounts.tokens import (
    MAX_AGENTS,
    actor_label,
    agent_owners,
    unambiguous_owners,
    visible_tokens,
)
from memoryhub.injection.queries import InjectionReport, load_reports
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import Event, Injection, JournalEntry, Memory
from memoryhub.stats.timeline import sessions_with_counts
from memoryhub.web.base.caching import cached_until_change
from memoryhub.web.base.labels import name_sessions

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
    written = _by_agent(Memory.objects.visible_to(clearance).live(), "author", "pk", "created_at")
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
    written = Memory.objects.visible_to(clearance).live().filter(author=actor)
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

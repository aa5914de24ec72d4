"""Shared views: error pages, the sensitivity switches, the project switcher and field suggestions."""

from __future__ import annotations

import sys

from csp.constants import HEADER
from django.contrib import messages
from django.core.exceptions import DisallowedHost, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from memoryhub.accounts.clearance import SWITCHABLE_LEVELS, may_view_level, request_clearance, show_level
from memoryhub.core import database
from memoryhub.http.middleware import page_policy
from memoryhub.models.querysets import live_memories
from memoryhub.stats.counts import count_values
from memoryhub.web.base.middleware import mark_as_page, store_error_page
from memoryhub.web.base.requests import (
    HtmxHttpRequest,
    choose_project,
    referring_page,
    return_url,
    submitted_texts,
    visible_projects,
    without_project,
)

MAX_PROJECT_NAMES = 200
MAX_PROJECTS_LISTED = 50  # in the switcher; larger stores get a field for the others


@require_POST
def turn_switch(request: HttpRequest) -> HttpResponse:
    """Turn the switch of ``level`` ``on`` (1 or 0), then redirect to ``next``."""
    level = request.POST.get("level", "")
    if level not in SWITCHABLE_LEVELS:
        raise Http404
    if not may_view_level(request.user, level):
        raise PermissionDenied
    show_level(request, level, request.POST.get("on") == "1")
    return redirect(return_url(request, "home"))


@require_POST
def project_choose(request: HttpRequest) -> HttpResponse:
    """Show only the project ``chosen`` on every page (empty: all projects), then redirect to ``next``."""
    if not choose_project(request, request.POST.get("chosen", "").strip()):
        messages.error(request, "Project not found, or it has no memories that you can see.")
    return redirect(without_project(return_url(request, "/")))


@require_safe
def project_menu(request: HtmxHttpRequest) -> HttpResponse:
    """Return the choices of the project switcher, loaded when it opens."""
    names = visible_projects(request)
    context = {
        "names": sorted(names[:MAX_PROJECTS_LISTED], key=str.casefold),
        "has_more": len(names) > MAX_PROJECTS_LISTED,
        "current": request.GET.get("current", ""),
        "next": request.htmx.current_url_abs_path or "/",
    }
    return render(request, "includes/project_menu.html", context)


@require_safe
def project_names(request: HttpRequest) -> HttpResponse:
    """Return ``<datalist>`` options: the visible projects, those with most memories first."""
    live = live_memories(request_clearance(request))
    names = [name for name in count_values(live, "project", most=MAX_PROJECT_NAMES) if name]
    return render(request, "suggest/projects.html", {"names": names})


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An unknown host name gets its own page: it is what a new deployment shows first."""
    return _error_page(request, "400_host.html" if isinstance(exception, DisallowedHost) else "400.html", 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error_page(request, "403.html", 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error_page(request, "404.html", 404)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Show the text of the form. A form of htmx stays in its page, where hub.js uses the new token."""
    if HtmxDetails(request) and not reason.startswith(("Origin", "Referer")):
        return HttpResponse(status=403, headers={"X-CSRFToken": get_token(request)})
    return _error_page(request, "403_csrf.html", 403, form_url=referring_page(request, "/login/"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Render without the request context: a context processor may be what failed.

    Errors of the store in middleware, which no ``process_exception`` gets, arrive here.
    """
    mark_as_page(request)
    error = sys.exception()
    if error is not None:
        database.is_caused_by_damage(error)  # records damage that the page then reports
    if error is not None and (page := store_error_page(error)) is not None:
        return _set_security_policy(page)
    return _set_security_policy(HttpResponse(render_to_string("500.html"), status=500))


def _error_page(request: HttpRequest, template: str, status: int, **more: str) -> HttpResponse:
    mark_as_page(request)
    context = {"submitted": submitted_texts(request), **more}
    return _set_security_policy(render(request, template, context, status=status))


def _set_security_policy(page: HttpResponse) -> HttpResponse:
    """Add the content security policy: an early refusal never reaches PagePolicyMiddleware."""
    page.headers[HEADER] = page_policy()
    return page

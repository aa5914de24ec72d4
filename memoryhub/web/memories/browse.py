"""Browsing: all memories that may be seen, filtered, ordered, in keyset pages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import clearance_of
from memoryhub.core.pagination import BadCursor, page
from memoryhub.stats import counts
from memoryhub.web.base.htmx import HtmxHttpRequest, show_address
from memoryhub.web.memories import facets
from memoryhub.web.memories.list_forms import ORDERS, BrowseFilter, without

PAGE_SIZE = 25


@require_safe
def memories(request: HtmxHttpRequest) -> HttpResponse:
    """Filters, ``order`` and ``cursor`` in the address."""
    clearance = clearance_of(request)
    form = BrowseFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form}
    status = 200
    if not form.is_valid():
        status = 422
    else:
        try:
            context |= _listed(request, form, clearance)
        except BadCursor:
            context["bad_cursor"], status = without(request), 422
    response = render(request, "memories.html", context, status=status)
    return show_address(request, response, without(request), replace=False)


def _listed(request: HttpRequest, form: BrowseFilter, clearance: Clearance) -> dict[str, Any]:
    column = form.column()
    fitting = form.select(clearance)
    shown = page(fitting, column, PAGE_SIZE, request.GET.get("cursor"))
    counted = counts.facets(fitting)
    return {
        "page": shown,
        "total": sum(counted["sensitivity"].values()),  # each has a level, and there are few levels
        "first": not request.GET.get("cursor"),
        "chips": form.chips(request),
        "groups": facets.groups(request, fitting, counted),
        "orders": [
            {"title": title, "href": without(request, order=order), "current": order == f"-{column}"}
            for order, title in ORDERS.items()
        ],
        "moment_of": "created" if column == "created_at" else "updated",
    }

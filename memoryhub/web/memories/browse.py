"""Browsing: all memories that may be seen, filtered, ordered, in keyset pages."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.core.pagination import InvalidCursor, paginate
from memoryhub.stats import counts
from memoryhub.web.base.htmx import HtmxHttpRequest, update_address_bar
from memoryhub.web.memories import facets
from memoryhub.web.memories.filters import ORDERS, BrowseFilter, filter_url

PAGE_SIZE = 25


@require_safe
def memory_list(request: HtmxHttpRequest) -> HttpResponse:
    """Filters, ``order`` and ``cursor`` in the address."""
    clearance = request_clearance(request)
    form = BrowseFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form}
    status = 200
    if not form.is_valid():
        status = 422
    else:
        try:
            context |= _list_context(request, form, clearance)
        except InvalidCursor:
            context["bad_cursor"], status = filter_url(request), 422
    response = render(request, "memories.html", context, status=status)
    return update_address_bar(request, response, filter_url(request), replace=False)


def _list_context(request: HttpRequest, form: BrowseFilter, clearance: Clearance) -> dict[str, Any]:
    column = form.column()
    fitting = form.select(clearance)
    shown = paginate(fitting, column, PAGE_SIZE, request.GET.get("cursor"))
    counted = counts.top_facets(fitting)
    return {
        "page": shown,
        "total": sum(counted["sensitivity"].values()),  # each has a level, and there are few levels
        "first": not request.GET.get("cursor"),
        "chips": form.chips(request),
        "groups": facets.build_facets(request, fitting, counted),
        "orders": [
            {"title": title, "href": filter_url(request, order=order), "current": order == f"-{column}"}
            for order, title in ORDERS.items()
        ],
        "moment_of": "created" if column == "created_at" else "updated",
    }

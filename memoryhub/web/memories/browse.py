"""The list of memories: filtered, ordered, paginated by cursor."""

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
    """List memories; ``GET`` takes the filters, ``order`` and ``cursor``."""
    clearance = request_clearance(request)
    form = BrowseFilter(request.GET)
    form.narrow_to(clearance)
    context: dict[str, Any] = {"form": form}
    is_valid = form.is_valid()
    if is_valid:
        try:
            context |= _list_context(request, form, clearance)
        except InvalidCursor:
            context["bad_cursor"], is_valid = filter_url(request), False
    response = render(request, "memories.html", context, status=200 if is_valid else 422)
    return update_address_bar(request, response, filter_url(request), replace=False)


def _list_context(request: HttpRequest, form: BrowseFilter, clearance: Clearance) -> dict[str, Any]:
    column = form.column()
    memories = form.select(clearance)
    facet_counts = counts.top_facets(memories)
    return {
        "page": paginate(memories, column, PAGE_SIZE, request.GET.get("cursor")),
        "total": sum(facet_counts["sensitivity"].values()),  # every memory has one of few levels
        "first": not request.GET.get("cursor"),
        "chips": form.chips(request),
        "groups": facets.build_facets(request, memories, facet_counts),
        "orders": [
            {"title": title, "href": filter_url(request, order=order), "current": order == f"-{column}"}
            for order, title in ORDERS.items()
        ],
        "moment_of": "created" if column == "created_at" else "updated",
    }

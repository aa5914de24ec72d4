"""The list of memories: filtered, ordered, paginated by cursor; and the facets next to a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.core.pagination import InvalidCursor, paginate
from memoryhub.models import Label
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts
from memoryhub.stats import counts as stats_counts
from memoryhub.web.base.requests import HtmxHttpRequest, update_address_bar
from memoryhub.web.memories.filters import ORDERS, BrowseFilter, filter_url

PAGE_SIZE = 25
OLD_ISSUE_PARAMETER = "mend"  # the name of ``issue`` in addresses that people saved


@require_safe
def memory_list(request: HtmxHttpRequest) -> HttpResponse:
    """List memories; ``GET`` takes the filters, ``order`` and ``cursor``."""
    if old := request.GET.get(OLD_ISSUE_PARAMETER):
        return redirect(filter_url(request, OLD_ISSUE_PARAMETER, issue=old))
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
    chips = form.chips(request)
    # Without filters, the counts of all visible memories are known and updated by change.
    is_filtered = chips or form.value("project")
    facet_counts = counts.top_facets(memories) if is_filtered else counts.top_visible_facets(clearance)
    return {
        "page": paginate(memories, column, PAGE_SIZE, request.GET.get("cursor")),
        "total": sum(facet_counts["sensitivity"].values()),  # every memory has one of few levels
        "first": not request.GET.get("cursor"),
        "chips": chips,
        "groups": build_facets(request, memories, facet_counts),
        "orders": [
            {"title": title, "href": filter_url(request, order=order), "current": order == f"-{column}"}
            for order, title in ORDERS.items()
        ],
        "moment_of": "created" if column == "created_at" else "updated",
    }


MAX_OPTIONS = 20  # per facet
OPTIONS_SHOWN = 8  # the others are collapsed

_TITLES = {"type": "Type", "category": "Category", "project": "Project", "sensitivity": "Level", "tag": "Tag"}


@dataclass(frozen=True)
class FacetOption:
    """One value with its count; ``href`` adds the filter, or removes it if it is active."""

    value: str
    count: int
    chosen: bool
    href: str


@dataclass(frozen=True)
class Facet:
    name: str
    title: str
    options: list[FacetOption]

    @property
    def first(self) -> list[FacetOption]:
        return self.options[:OPTIONS_SHOWN]

    @property
    def more(self) -> list[FacetOption]:
        return self.options[OPTIONS_SHOWN:]


def build_facets(
    request: HttpRequest, memories: MemoryQuerySet, facets: Mapping[str, Mapping[str, int]] | None = None
) -> list[Facet]:
    """Return the facets of a list, without those that have a single, inactive value.

    ``facets``: the result of ``top_facets`` for the same list, if known.
    """
    counted = {**(facets or stats_counts.top_facets(memories)), "tag": count_tags(memories)}
    made = [_build_facet(request, name, counted[name]) for name in _TITLES]
    return [group for group in made if len(group.options) > 1 or any(o.chosen for o in group.options)]


def count_tags(memories: MemoryQuerySet, most: int = MAX_OPTIONS) -> dict[str, int]:
    """Count memories per tag, most frequent first."""
    rows = Label.objects.filter(kind=Label.Kind.TAG, memory__in=memories.order_by().values("pk"))
    return dict(rows.values_list("value").annotate(n=Count("pk")).order_by("-n", "value")[:most])


def _build_facet(request: HttpRequest, name: str, counts: Mapping[str, int]) -> Facet:
    chosen = request.GET.get(name, "")
    options = []
    for value, count in counts.items():
        on = value == chosen
        href = filter_url(request, name) if on else filter_url(request, **{name: value})
        if value:
            options.append(FacetOption(value, count, on, href))
    return Facet(name, _TITLES[name], sorted(options, key=lambda option: not option.chosen))

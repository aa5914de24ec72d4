"""Facets next to a list: counts of the visible memories in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count
from django.http import HttpRequest

from memoryhub.models import Label
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts as stats_counts
from memoryhub.web.memories.filters import filter_url

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

"""Facets beside a list: of what the list holds, and of nothing behind the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count
from django.http import HttpRequest

from memoryhub.models import Label
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts as stats_counts
from memoryhub.web.memories.list_forms import without

MOST = 20  # values of one facet
SHOWN = 8  # of these without a click

_TITLES = {"type": "Type", "category": "Category", "project": "Project", "sensitivity": "Level", "tag": "Tag"}


@dataclass(frozen=True)
class Option:
    """One value with its count; ``href`` narrows the list to it, or no longer does when it is chosen."""

    value: str
    count: int
    chosen: bool
    href: str


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    options: list[Option]

    @property
    def first(self) -> list[Option]:
        return self.options[:SHOWN]

    @property
    def more(self) -> list[Option]:
        return self.options[SHOWN:]


def groups(
    request: HttpRequest, memories: MemoryQuerySet, facets: Mapping[str, Mapping[str, int]] | None = None
) -> list[Group]:
    """The facets of a gated, filtered list; one with a single value that is not chosen tells nothing.

    ``facets``: ``overview.facets`` of the same list, where they are known.
    """
    counted = {**(facets or stats_counts.facets(memories)), "tag": tags(memories)}
    made = [_group(request, name, counted[name]) for name in _TITLES]
    return [group for group in made if len(group.options) > 1 or any(o.chosen for o in group.options)]


def tags(memories: MemoryQuerySet, most: int = MOST) -> dict[str, int]:
    """How many of these memories bear each tag, most first."""
    rows = Label.objects.filter(kind=Label.Kind.TAG, memory__in=memories.order_by().values("pk"))
    return dict(rows.values_list("value").annotate(n=Count("pk")).order_by("-n", "value")[:most])


def _group(request: HttpRequest, name: str, counts: Mapping[str, int]) -> Group:
    chosen = request.GET.get(name, "")
    options = []
    for value, count in counts.items():
        on = value == chosen
        href = without(request, name) if on else without(request, **{name: value})
        if value:
            options.append(Option(value, count, on, href))
    return Group(name, _TITLES[name], sorted(options, key=lambda option: not option.chosen))

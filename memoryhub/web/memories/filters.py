"""The filter form of the page of memories, with its orders and filter chips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.backends.statements import key_list
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.fallback import search_or_correct
from memoryhub.search.hybrid import SearchResults
from memoryhub.stats import usage
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.stats.usage import HEALTH_ISSUES, issue_condition
from memoryhub.transfer.jobs import imported_memories
from memoryhub.web.base.forms import (
    DayField,
    ListFilter,
    PastDayField,
    ProjectFilterField,
    WordField,
    day_bounds,
)
from memoryhub.web.base.requests import chosen_project

ORDERS = {
    "-updated_at": "Last changed",
    "-created_at": "Newest",
    "-importance": "Most important",
    "-accessed_count": "Most read",
}
_UNKNOWN_ORDER = "Unknown sort order. Use one of: " + ", ".join(ORDERS) + "."


def _choice_field(values: tuple[str, ...], **options: Any) -> forms.ChoiceField:
    named = [(value, value.replace("_", " ")) for value in values]
    wrong = "“%(value)s” is not among the choices; pick one of them."
    return forms.ChoiceField(
        required=False, choices=[("", "Any"), *named], error_messages={"invalid_choice": wrong}, **options
    )


FORM_ID = "filter"
_NOT_FILTERS = {"q", "min_score", "order"}
_NOT_IN_RAIL = {"q", "order", "project", "imported"}
# Filters of memories as they are now: they cannot be combined with a day in the past.
_PRESENT_ONLY = ("expiring", "issue", "worth", "reads", "ends", "imported")


@dataclass(frozen=True)
class FilterChip:
    """One active filter, and the URL without it."""

    label: str
    value: str
    href: str


class MemoryListFilter(ListFilter):
    """The filters of ``GET /api/v1/memories``, with whole days, both included; words to search for; an order.

    Fields outside the form element belong to it by its id, :data:`FORM_ID`.
    """

    q = WordField(label="Search for")
    project = ProjectFilterField()
    type = _choice_field(TYPES)
    category = WordField()
    tag = WordField()
    since = DayField(label="From", help_text="Created on this day or later.")
    until = DayField(label="To")
    sensitivity = _choice_field(LEVELS, label="Level")
    scope = _choice_field(SCOPES)
    pinned = _choice_field(("yes", "no"))
    concept = WordField()
    entity = WordField()
    file = WordField(help_text="A path, the end of one, a file name or a folder.")
    session_id = WordField(label="Session")
    worth = _choice_field(usage.IMPORTANCE_STEPS, label="Importance")
    reads = _choice_field(usage.USE_STEPS, label="Read", help_text="Some: 1 to 4 times.")
    issue = _choice_field(HEALTH_ISSUES, label="Issue", help_text="Issues of the health report.")
    ends = DayField(label="Expires on")
    expiring = forms.BooleanField(required=False, label="Expiring soon")
    imported = WordField(label="Import")
    on = PastDayField()
    min_score = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        label="Lowest score",
        help_text="For a search. 0 shows everything that shares a word.",
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    order = forms.ChoiceField(
        required=False,
        label="Sort",
        choices=list(ORDERS.items()),
        error_messages={"invalid_choice": _UNKNOWN_ORDER},
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        for name, field in self.fields.items():
            if name not in ("q", "project"):
                field.widget.attrs["form"] = FORM_ID
        self.fields["order"].widget.attrs["class"] = "control"
        # The default comes first and has no value: words that are typed later are then ranked by relevance.
        named = list(ORDERS.items())
        ranked = [("", "Best match"), *named]
        dated = [("", named[0][1]), *named[1:]]
        self.fields["order"].widget.choices = ranked if self.words() else dated

    def words(self) -> str:
        """Return the words to search for, also of an invalid form."""
        return str(self.data.get("q", "")).strip()

    def narrow_to(self, clearance: Clearance) -> None:
        """Offer only the levels that are shown."""
        seen = clearance.levels_in_any_project()
        shown = [level for level in LEVELS if level in seen]
        widget = self.fields["sensitivity"].widget
        widget.choices = [("", "Any"), *((level, level) for level in shown)]

    def clean_on(self) -> date | None:
        if self.cleaned_data["on"] and (given := [one for one in _PRESENT_ONLY if self.data.get(one)]):
            labels = ", ".join(str(self[one].label) for one in given)
            raise forms.ValidationError(f"A day in the past cannot be combined with: {labels}.")
        day: date | None = self.cleaned_data["on"]
        return day

    def rail_fields(self) -> list[forms.BoundField]:
        """Return the fields next to the list: all but those with another place."""
        return [self[name] for name in self.fields if name not in _NOT_IN_RAIL]

    def wanted(self) -> MemoryFilter:
        """Return the filter of a valid form."""
        plain = {name: self.value(name) or None for name in MemoryFilter.model_fields if name in self.fields}
        return MemoryFilter(**(plain | {"since": self.begin(), "until": self.end()}))

    def select(self, clearance: Clearance) -> MemoryQuerySet:
        """Return the visible memories that match the filters, whatever the words."""
        memories = self.wanted().select(clearance)
        if issue := self.value("issue"):
            memories = memories.filter(issue_condition(issue))
        if worth := self.value("worth"):
            memories = memories.filter(usage.importance_condition(worth))
        if reads := self.value("reads"):
            memories = memories.filter(usage.use_condition(reads))
        if imported := self.value("imported"):
            memories = memories.filter(imported_memories(imported))
        memories = memories.between("expires_at", *day_bounds(self.value("ends")))
        soon = timezone.now() + timedelta(days=EXPIRING_DAYS)
        return memories.filter(expires_at__lte=soon) if self.value("expiring") else memories

    def matching(self, clearance: Clearance) -> MemoryQuerySet:
        """Return the memories of all pages of the list: those of :meth:`select` that match the words, too."""
        memories = self.select(clearance)
        if not self.value("q"):
            return memories
        options = {"limit": 0, "min_score": self.lowest_score(), "snippets": False}
        return memories.filter(pk__in=key_list(self.search(memories, clearance, **options).ids))

    def search(self, memories: MemoryQuerySet, clearance: Clearance, **options: Any) -> SearchResults:
        """Search memories of :meth:`select` for the words, or for these words spelt right."""
        known = partial(MemoryFilter().select, clearance)
        return search_or_correct(memories, self.value("q"), known=known, **options)

    def column(self) -> str:
        """Return the column to order by, highest first; empty to rank the results of a search."""
        default = "" if self.value("q") else "-updated_at"
        return (self.value("order") or default).removeprefix("-")

    def lowest_score(self) -> float:
        """Return the lowest score of a result to show."""
        given: float | None = self.value("min_score")
        lowest: float = settings.MEMORYHUB.min_score
        return lowest if given is None else given

    def chips(self, request: HttpRequest) -> list[FilterChip]:
        """Return the active filters; an invalid value has no chip, it shows in its field.

        The project of the sidebar has none: only the sidebar can change it.
        """
        chosen = chosen_project(request)
        return [
            FilterChip(str(self[name].label), self.display_value(name), filter_url(request, name))
            for name in self.fields
            if name not in _NOT_FILTERS
            and self.data.get(name)
            and name not in self.errors
            and not (name == "project" and self.data[name] == chosen)
        ]

    def unfiltered_url(self, request: HttpRequest) -> str:
        """Return this URL without filters: with the words and the order alone."""
        return filter_url(request, *self.fields.keys() - {"q", "order"})


@dataclass(frozen=True)
class FilterOption:
    """One value of a filter with its count. ``href`` adds the filter, or removes it if it is active."""

    value: str
    label: str
    count: int
    chosen: bool
    href: str


@dataclass(frozen=True)
class OptionGroup:
    """The values of one filter."""

    name: str
    title: str
    options: list[FilterOption]

    @classmethod
    def of(
        cls,
        request: HttpRequest,
        name: str,
        title: str,
        counts: Mapping[str, int],
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> OptionGroup:
        """Return the group of counted values, without an empty one."""
        chosen, options = request.GET.get(name, ""), []
        for value, count in counts.items():
            on = value == chosen
            href = filter_url(request, name) if on else filter_url(request, **{name: value})
            if value:
                options.append(FilterOption(value, labels.get(value, value), count, on, href))
        return cls(name, title, options)


def without_single_options(groups: Iterable[OptionGroup]) -> list[OptionGroup]:
    """Return the groups that can narrow or widen a list: not those of a single, inactive value."""
    return [group for group in groups if len(group.options) > 1 or any(o.chosen for o in group.options)]


def filter_url(request: HttpRequest, *names: str, **values: str) -> str:
    """Return this URL without ``names`` and with ``values``, on the first page, without empty parameters."""
    query = request.GET.copy()
    for name in ("page", "cursor", *names):
        query.pop(name, None)
    for name, value in values.items():
        query[name] = value
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    encoded = query.urlencode()
    return f"{request.path}?{encoded}" if encoded else request.path

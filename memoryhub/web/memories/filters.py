"""Filter forms of the search page and the memory list, with their orders and filter chips."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import usage
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.stats.usage import HEALTH_ISSUES, issue_condition
from memoryhub.transfer.jobs import imported_memories
from memoryhub.web.base.filters import (
    DayField,
    ListFilter,
    PastDayField,
    ProjectFilterField,
    WordField,
    day_bounds,
)
from memoryhub.web.base.requests import chosen_project

ORDERS = {
    "-updated_at": "Changed",
    "-created_at": "New",
    "-importance": "Important",
    "-accessed_count": "Most read",
}
_UNKNOWN_ORDER = "There is no such order; use one of: " + ", ".join(ORDERS) + "."


def _choice_field(values: tuple[str, ...], **options: Any) -> forms.ChoiceField:
    named = [(value, value.replace("_", " ")) for value in values]
    wrong = "“%(value)s” is not among the choices; pick one of them."
    return forms.ChoiceField(
        required=False, choices=[("", "Any"), *named], error_messages={"invalid_choice": wrong}, **options
    )


_NOT_FILTERS = {"q", "min_score", "order"}


@dataclass(frozen=True)
class FilterChip:
    """One active filter, and the URL without it."""

    label: str
    value: str
    href: str


class MemoryListFilter(ListFilter):
    """The filters of ``GET /api/v1/memories``, with whole days, both included."""

    project = ProjectFilterField()
    type = _choice_field(TYPES)
    category = WordField()
    tag = WordField()
    concept = WordField()
    file = WordField(help_text="A path, the end of one, a file name or a folder.")
    entity = WordField()
    session_id = WordField(label="Session")
    sensitivity = _choice_field(LEVELS, label="Level")
    scope = _choice_field(SCOPES)
    pinned = _choice_field(("yes", "no"))
    since = DayField(label="From", help_text="Created on this day or later.")
    until = DayField(label="To")

    def narrow_to(self, clearance: Clearance) -> None:
        """Offer only the levels that are shown."""
        seen = clearance.levels_in_any_project()
        shown = [level for level in LEVELS if level in seen]
        widget = self.fields["sensitivity"].widget
        widget.choices = [("", "Any"), *((level, level) for level in shown)]

    def wanted(self) -> MemoryFilter:
        """Return the filter of a valid form."""
        plain = {name: self.value(name) or None for name in MemoryFilter.model_fields if name in self.fields}
        return MemoryFilter(**(plain | {"since": self.begin(), "until": self.end()}))

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


class SearchFilter(MemoryListFilter):
    q = WordField(label="Search for")
    on = PastDayField()
    min_score = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        label="Lowest score",
        help_text="0 shows everything that shares a word.",
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )

    def lowest_score(self) -> float:
        """Return the lowest score to show."""
        given: float | None = self.value("min_score")
        lowest: float = settings.MEMORYHUB.min_score
        return lowest if given is None else given


class BrowseFilter(MemoryListFilter):
    expiring = forms.BooleanField(required=False, label="Expiring soon")
    issue = _choice_field(HEALTH_ISSUES, label="Issue", help_text="Issues of the health report.")
    worth = _choice_field(usage.IMPORTANCE_STEPS, label="Importance")
    reads = _choice_field(usage.USE_STEPS, label="Read", help_text="Some: 1 to 4 times.")
    ends = DayField(label="Expires on")
    imported = WordField(label="Import")
    order = forms.ChoiceField(
        required=False, choices=list(ORDERS.items()), error_messages={"invalid_choice": _UNKNOWN_ORDER}
    )

    def select(self, clearance: Clearance) -> MemoryQuerySet:
        """Return the visible memories that match."""
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

    def column(self) -> str:
        """Return the column to order by, highest first."""
        return (self.value("order") or "-updated_at").removeprefix("-")


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

"""The forms over search and browse: what a list of memories may be narrowed to and how it is ordered."""

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
from memoryhub.stats.usage import AILMENTS, ailing
from memoryhub.web.base.filters import DayField, ListFilter, ProjectField, WordField, day_of

ORDERS = {
    "-updated_at": "Changed",
    "-created_at": "New",
    "-importance": "Important",
    "-accessed_count": "Most read",
}
_KNOWN_ORDER = "There is no such order; use one of: " + ", ".join(ORDERS) + "."


def _choice(values: tuple[str, ...], **options: Any) -> forms.ChoiceField:
    named = [(value, value.replace("_", " ")) for value in values]
    wrong = "“%(value)s” is not among the choices; pick one of them."
    return forms.ChoiceField(
        required=False, choices=[("", "Any"), *named], error_messages={"invalid_choice": wrong}, **options
    )


_NO_FILTERS = {"q", "min_score", "order"}


@dataclass(frozen=True)
class Chip:
    """One filter in force, and the address without it."""

    label: str
    value: str
    href: str


class MemoryListFilter(ListFilter):
    """The filters of ``GET /api/v1/memories``, as people give them: whole days, both of them included."""

    project = ProjectField()
    type = _choice(TYPES)
    category = WordField()
    tag = WordField()
    concept = WordField()
    file = WordField(help_text="A path, the end of one, a file name or a folder.")
    entity = WordField()
    session_id = WordField(label="Session")
    sensitivity = _choice(LEVELS, label="Level")
    scope = _choice(SCOPES)
    since = DayField(label="From", help_text="Created on this day or later.")
    until = DayField(label="To")

    def narrow_to(self, clearance: Clearance) -> None:
        """Offer the levels that are shown, and no others."""
        seen = clearance.somewhere()
        shown = [level for level in LEVELS if level in seen]
        widget = self.fields["sensitivity"].widget
        widget.choices = [("", "Any"), *((level, level) for level in shown)]

    def wanted(self) -> MemoryFilter:
        """The filter that was asked for; of a valid form."""
        plain = {name: self.value(name) or None for name in MemoryFilter.model_fields if name in self.fields}
        return MemoryFilter(**(plain | {"since": self.begin(), "until": self.end()}))

    def chips(self, request: HttpRequest) -> list[Chip]:
        """The filters in force; a wrong value has none, it shows in its field."""
        return [
            Chip(str(self[name].label), self.told(name), without(request, name))
            for name in self.fields
            if name not in _NO_FILTERS and self.data.get(name) and name not in self.errors
        ]


class SearchFilter(MemoryListFilter):
    q = WordField(label="Search for")
    min_score = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        label="Lowest score",
        help_text="0 shows everything that shares a word.",
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )

    def floor(self) -> float:
        """The lowest score to show."""
        given: float | None = self.value("min_score")
        lowest: float = settings.MEMORYHUB.min_score
        return lowest if given is None else given


class BrowseFilter(MemoryListFilter):
    expiring = forms.BooleanField(required=False, label="Expiring soon")
    mend = _choice(AILMENTS, label="To mend", help_text="What the health report counts.")
    worth = _choice(usage.WORTHS, label="Importance")
    reads = _choice(usage.USES, label="Read", help_text="Some: 1 to 4 times.")
    ends = DayField(label="Expires on")
    order = forms.ChoiceField(
        required=False, choices=list(ORDERS.items()), error_messages={"invalid_choice": _KNOWN_ORDER}
    )

    def select(self, clearance: Clearance) -> MemoryQuerySet:
        """The memories that may be seen and fit."""
        memories = self.wanted().select(clearance)
        if ailment := self.value("mend"):
            memories = memories.filter(ailing(ailment))
        if worth := self.value("worth"):
            memories = memories.filter(usage.worth_within(worth))
        if reads := self.value("reads"):
            memories = memories.filter(usage.used(reads))
        memories = memories.between("expires_at", *day_of(self.value("ends")))
        soon = timezone.now() + timedelta(days=EXPIRING_DAYS)
        return memories.filter(expires_at__lte=soon) if self.value("expiring") else memories

    def column(self) -> str:
        """The column to order by, highest first."""
        return (self.value("order") or "-updated_at").removeprefix("-")


def without(request: HttpRequest, *names: str, **values: str) -> str:
    """This address without some parameters and with others, from the first page on, blanks left out."""
    query = request.GET.copy()
    for name in ("page", "cursor", *names):
        query.pop(name, None)
    for name, value in values.items():
        query[name] = value
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    encoded = query.urlencode()
    return f"{request.path}?{encoded}" if encoded else request.path

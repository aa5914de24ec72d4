"""The filter form of the page of memories, and the queries of the page of one. Only for visible rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from django import forms
from django.conf import settings
from django.db.models import OuterRef, Q
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone

from memoryhub.access import policy
from memoryhub.access.policy import LEVELS, Clearance, level_rank
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.backends.statements import key_list
from memoryhub.core.vocabulary import SCOPES, TYPES
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import attach_lists
from memoryhub.models import Event, Evidence, Fact, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.fallback import search_or_correct
from memoryhub.search.hybrid import SearchResults
from memoryhub.stats import usage
from memoryhub.stats.counts import EXPIRING_DAYS
from memoryhub.stats.timeline import count_rows
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


MAX_RELATED = 6
MAX_FACTS = 50
MAX_MERGED = 50
MAX_JOURNAL_ENTRIES = 15


def get_visible_memory(request: HttpRequest, uid: str) -> Memory:
    """Return the memory with its lists and ``evidence_count``, even if expired or in the trash, or 404."""
    visible = Memory.objects.visible_to(request_clearance(request))
    evidence = count_rows(Evidence.objects.filter(memory=OuterRef("pk")))
    memory: Memory = get_object_or_404(visible.annotate(evidence_count=evidence), uid=uid)
    attach_lists([memory])
    return memory


def hidden_notice(request: HttpRequest, memories: Sequence[Memory]) -> str:
    """Explain which of the memories just written are hidden now, and how to show them; empty if none are.

    Their new level may be hidden, or be one that the person never sees in that project.
    """
    shown, full = request_clearance(request), full_clearance(request)
    hidden = [one for one in memories if not shown.allows(one.project, one.sensitivity)]
    if not hidden:
        return ""
    levels = sorted({one.sensitivity for one in hidden}, key=level_rank)
    what, them = ("It is", "it") if len(memories) == 1 else (f"{len(hidden)} of them are", "them")
    named = " or ".join(levels)
    if not all(full.allows(one.project, one.sensitivity) for one in hidden):
        return f"{what} now {named}, which you cannot see there."
    wanted = " and ".join(levels)
    return f"{what} now {named} and hidden: show {wanted} memories in the Visibility menu to see {them}."


def visible_titles(request: HttpRequest, uids: Iterable[str]) -> dict[str, str]:
    """Return the titles by id of the visible ones of these memories, redacted if secret."""
    visible = Memory.objects.visible_to(request_clearance(request)).filter(uid__in=uids)
    rows = visible.values_list("title", "uid", "sensitivity")
    return {uid: policy.format_display_name(title, uid, level) for title, uid, level in rows}


def session_of(memory: Memory) -> Session | None:
    """Return the session in which the memory was stored."""
    if not memory.session_id:
        return None
    return Session.objects.filter(session_id=memory.session_id, project=memory.project).first()


def facts_of(memory: Memory, clearance: Clearance) -> list[Fact]:
    """Return the newest facts from the memory; one more than :data:`MAX_FACTS` if there are more."""
    facts = Fact.objects.visible_to(clearance).filter(memory=memory)
    return list(facts.order_by("-updated_at", "-pk")[: MAX_FACTS + 1])


def events_of(memory: Memory, clearance: Clearance) -> list[Event]:
    """Return the events from which the memory was created."""
    events = Event.objects.visible_to(clearance).filter(memory=memory).select_related("session")
    return list(events.order_by("-at", "-pk")[:MAX_RELATED])


@dataclass(frozen=True)
class LinkedMemories:
    """The visible memories that are linked to one. Those that were merged into it are in the trash."""

    merged_into: Memory | None
    merged_from: list[Memory]
    replacement: Memory | None
    replaced: list[Memory]  # the newest first
    by_session: list[Memory]  # of the same session, just before and just after, in order


def linked_memories(memory: Memory, clearance: Clearance) -> LinkedMemories:
    """Return the memories linked to one; of those that it replaces and of its session only live ones."""
    rows = _linked_rows(memory, clearance)
    now, half = timezone.now(), MAX_RELATED // 2
    by_pk: dict[int | None, Memory] = {row.pk: row for row in rows}
    kept = [row for row in rows if not row.has_ended(now)]
    place = (memory.session_id, memory.project)
    same = [row for row in kept if memory.session_id and (row.session_id, row.project) == place]
    earlier = [row for row in same if (row.created_at, row.pk) < (memory.created_at, memory.pk)]
    return LinkedMemories(
        by_pk.get(memory.merged_into_id),
        [row for row in rows if row.merged_into_id == memory.pk][:MAX_MERGED],
        by_pk.get(memory.superseded_by_id),
        [row for row in reversed(kept) if row.superseded_by_id == memory.pk][:MAX_RELATED],
        earlier[-half:] + same[len(earlier) :][:half],
    )


def _linked_rows(memory: Memory, clearance: Clearance) -> list[Memory]:
    """Return the visible rows of every link, in the order of their creation. One query."""
    visible = Memory.objects.visible_to(clearance).exclude(pk=memory.pk)
    live = visible.live()
    same = live.in_session(memory.session_id, project=memory.project)
    at, pk, half = memory.created_at, memory.pk, MAX_RELATED // 2
    earlier, later = (
        Q(**{f"created_at__{operator}": at}) | Q(**{"created_at": at, f"pk__{operator}": pk})
        for operator in ("lt", "gt")
    )
    wanted = Q(pk__in=[memory.merged_into_id, memory.superseded_by_id])
    for part in (
        visible.filter(merged_into=memory).order_by("created_at", "pk")[:MAX_MERGED],
        live.filter(superseded_by=memory).order_by("-created_at", "-pk")[:MAX_RELATED],
        same.filter(earlier).order_by("-created_at", "-pk")[:half],
        same.filter(later).order_by("created_at", "pk")[:half],
    ):
        wanted |= Q(pk__in=part.values("pk"))
    return list(visible.filter(wanted).defer("content", "overview").order_by("created_at", "pk"))

"""Lists of the admin: their filters, and the template tag for cells, which phones show without columns.

A value in the query string that is not a choice finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django import template
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import escape, strip_tags
from django.utils.safestring import SafeString, mark_safe

from memoryhub.access.policy import LEVELS
from memoryhub.accounts.clearance import request_clearance
from memoryhub.accounts.permissions import REPAIR_UNKNOWN
from memoryhub.admin.base import EMPTY_CELL
from memoryhub.models import Memory
from memoryhub.stats.counts import EXPIRING_DAYS, count_values

UNKNOWN_LEVEL = "unknown"
_MAX_VALUES = 60

Choices = list[tuple[str, str]]


def is_repair_list(request: HttpRequest) -> bool:
    """Return whether the request is for the list that repairs memories with an unknown level."""
    match = request.resolver_match
    if match is None or match.url_name != "memoryhub_memory_changelist":
        return False
    return request.GET.get("level") == UNKNOWN_LEVEL and request.user.has_perm(REPAIR_UNKNOWN)


class LevelFilter(SimpleListFilter):
    """Offers the visible levels and, for memories, the repair of unknown levels."""

    title = "sensitivity"
    parameter_name = "level"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        shown = request_clearance(request).levels_in_any_project()
        choices = [(level, level) for level in LEVELS if level in shown]
        if model_admin.model is Memory and request.user.has_perm(REPAIR_UNKNOWN):
            choices.append((UNKNOWN_LEVEL, "unknown level (repair)"))
        return choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None or is_repair_list(request):
            return queryset
        return queryset.filter(sensitivity=self.value())


class StateFilter(SimpleListFilter):
    """Shows live memories by default."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [
            ("expiring", f"expires within {EXPIRING_DAYS} days"),
            ("expired", "expired"),
            ("trash", "in the trash"),
            ("all", "all"),
        ]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": "live"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        memories, now = queryset, timezone.now()
        if is_repair_list(request) or self.value() == "all":
            return memories
        if self.value() == "trash":
            return memories.trashed()  # type: ignore[attr-defined,no-any-return]
        if self.value() == "expired":
            return memories.expired(now)  # type: ignore[attr-defined,no-any-return]
        live: QuerySet[Any] = memories.live(now)  # type: ignore[attr-defined]
        if self.value() == "expiring":
            return live.filter(expires_at__lte=now + timedelta(days=EXPIRING_DAYS))
        return live if self.value() is None else live.none()


class _ConditionFilter(SimpleListFilter):
    """Filters by conditions. The subclass has a label and a condition for each choice."""

    conditions: dict[str, tuple[str, Q]] = {}

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [(name, label) for name, (label, _) in self.conditions.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        chosen = self.conditions.get(str(self.value()))
        return queryset.filter(chosen[1]) if chosen else queryset.none()


class UseFilter(_ConditionFilter):
    title = parameter_name = "use"
    conditions = {"never": ("never used", Q(accessed_count=0)), "used": ("used", ~Q(accessed_count=0))}


class FlagFilter(_ConditionFilter):
    title = parameter_name = "flags"
    conditions = {"flagged": ("flagged", ~Q(flags=[])), "none": ("not flagged", Q(flags=[]))}


class PinFilter(_ConditionFilter):
    title = parameter_name = "pin"
    conditions = {
        "pinned": ("pinned", Q(pinned_at__isnull=False)),
        "none": ("not pinned", Q(pinned_at__isnull=True)),
    }


class _AgeFilter(SimpleListFilter):
    """Filters by the age of the column in the subclass's ``parameter_name``."""

    days = {"day": 1, "week": 7, "month": 30, "year": 365}

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [(name, f"past {name}") for name in self.days] + [("older", "older than a year")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = self.value()
        if wanted is None:
            return queryset
        if wanted not in (*self.days, "older"):
            return queryset.none()
        since = timezone.now() - timedelta(days=self.days.get(wanted, 365))
        lookup = "lt" if wanted == "older" else "gte"
        return queryset.filter(**{f"{self.parameter_name}__{lookup}": since})


def age_filter(column: str, title: str) -> type[SimpleListFilter]:
    """Make a filter by the age of a time column."""
    return type(f"{column.title()}Filter", (_AgeFilter,), {"title": title, "parameter_name": column})


class ActorFilter(_ConditionFilter):
    """Filters journal rows by the kind of actor."""

    title = parameter_name = "who"
    conditions = {
        "user": ("people", Q(actor__startswith="user:")),
        "token": ("agents", Q(actor__startswith="token:")),
        "command": ("commands", Q(actor__startswith="command:")),
        "system": ("the hub itself", Q(actor__startswith="system:")),
    }


class _ColumnFilter(SimpleListFilter):
    """Filters by the value of the column in the subclass's ``parameter_name``."""

    offered: tuple[str, ...] = ()

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        return [(value, value) for value in self.offered]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = {str(self.parameter_name): self.value()}
        return queryset if self.value() is None else queryset.filter(**wanted)


class _ValueFilter(_ColumnFilter):
    """Offers the most frequent values among the visible rows."""

    def rows(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Any:
        return model_admin.get_queryset(request)

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Choices:
        found = count_values(self.rows(request, model_admin), str(self.parameter_name), most=_MAX_VALUES)
        return [(value, value) for value in sorted(found) if value]


class ProjectFilter(_ValueFilter):
    """Offers the projects of memories, because counting visible sessions or journal rows is slow."""

    title = "project"
    parameter_name = "project"

    def rows(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> Any:
        if model_admin.model is Memory:
            return model_admin.get_queryset(request)
        return Memory.objects.visible_to(request_clearance(request))


def choice_filter(column: str, choices: tuple[str, ...], title: str = "") -> type[SimpleListFilter]:
    """Make a filter by a column with fixed values."""
    named = {"title": title or column, "parameter_name": column, "offered": choices}
    return type(f"{column.title()}Filter", (_ColumnFilter,), named)


def value_filter(column: str, title: str = "") -> type[SimpleListFilter]:
    """Make a filter by a column with free values."""
    named = {"title": title or column, "parameter_name": column}
    return type(f"{column.title()}Filter", (_ValueFilter,), named)


register = template.Library()
_NEEDS_LABEL = re.compile(r"[\d.,]+|never")
_MOMENT = 'class="hub-moment"'


@register.simple_tag
def list_cells(cells: Sequence[str], headers: Sequence[Mapping[str, Any]]) -> SafeString:
    """Return the cells of a row with the name of the column (``data-label``) where the value needs it.

    These are numbers, and moments if the row has several. Empty values get ``data-empty`` instead.
    """
    several = sum(_MOMENT in cell for cell in cells) > 1
    labelled = [
        _with_label(cell, str(header["text"]), several) for cell, header in zip(cells, headers, strict=True)
    ]
    return mark_safe("".join(labelled))  # noqa: S308  Django's cells, and an escaped attribute


def _with_label(cell: str, name: str, is_one_of_several: bool) -> str:
    text = strip_tags(cell).strip()
    if _NEEDS_LABEL.fullmatch(text) or (is_one_of_several and _MOMENT in cell):
        attribute = f' data-label="{escape(name[:1].upper() + name[1:])}"'
    elif text == EMPTY_CELL:
        attribute = " data-empty"
    else:
        return cell
    return re.sub(r"^<t[dh]", lambda start: start[0] + attribute, cell, count=1)

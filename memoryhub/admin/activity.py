"""The read-only list of the journal."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.admin.base import (
    ReadOnlyAdmin,
    admin_url,
    column,
    format_json,
    format_link,
    moment_column,
)
from memoryhub.admin.filters import (
    ActorFilter,
    LevelFilter,
    ProjectFilter,
    age_filter,
    choice_filter,
)
from memoryhub.models import AgentToken, Fact, JournalEntry, MaintenanceRun, Memory

_OBJECT_MODELS: dict[str, type[Model]] = {
    "memory": Memory,
    "fact": Fact,
    "token": AgentToken,
    "run": MaintenanceRun,
}
_FILTERED_MODELS = (Memory, Fact)


class OperationFilter(choice_filter("operation", ())):  # type: ignore[misc]
    """Offers only operations of visible rows, so that the choices reveal nothing about hidden ones."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        visible = JournalEntry.objects.visible_to(request_clearance(request))
        found = visible.order_by("operation").values_list("operation", flat=True).distinct()
        return [(operation, operation) for operation in found]


def _object_addresses(rows: list[JournalEntry], clearance: Clearance) -> dict[tuple[str, str], str]:
    """Return the addresses of the rows' objects that exist and are visible, with one query per kind."""
    found = {}
    for kind, model in _OBJECT_MODELS.items():
        uids = {row.object_id for row in rows if row.object_type == kind}
        if not uids:
            continue
        objects: Any = model._default_manager.filter(uid__in=uids)
        if model in _FILTERED_MODELS:
            objects = objects.visible_to(clearance)
        for pk, uid in objects.values_list("pk", "uid"):
            is_run = model is MaintenanceRun
            found[kind, uid] = reverse("run", args=[uid]) if is_run else admin_url(model, "change", pk)
    return found


@admin.register(JournalEntry)
class JournalAdmin(ReadOnlyAdmin):
    link_lookups = ("actor", "object_id")
    list_display = (
        *("seq", "moment_shown", "actor", "operation", "object_type", "object_shown", "project", "level"),
    )
    list_filter = (
        OperationFilter,
        choice_filter("object_type", tuple(_OBJECT_MODELS), "object"),
        ActorFilter,
        ProjectFilter,
        LevelFilter,
        age_filter("at", "when"),
    )
    search_fields = ("=object_id", "actor", "operation")
    search_help_text = "The id of an object, or part of who or what"
    ordering = ("-seq",)
    fields = (
        *("seq", "at", "actor", "operation", "object_type", "object_shown", "project", "level", "owner"),
        *("detail_shown", "hash"),
    )

    moment_shown = moment_column("when", "at")

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> None:
        addresses = _object_addresses(rows, request_clearance(request))
        for row in rows:
            row.address = addresses.get((row.object_type, row.object_id), "")

    @column("id", order="object_id")
    def object_shown(self, row: Any) -> SafeString:
        if not row.address:
            return format_html("<code>{}</code>", row.object_id)
        return format_link(row.address, row.object_id)

    @column("detail")
    def detail_shown(self, row: JournalEntry) -> SafeString:
        return format_json(row.detail)

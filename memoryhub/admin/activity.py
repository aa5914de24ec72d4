"""The read-only lists of the journal and of maintenance runs."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
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
    format_moment,
)
from memoryhub.admin.filters import (
    ActorFilter,
    LevelFilter,
    ProjectFilter,
    age_filter,
    choice_filter,
    value_filter,
)
from memoryhub.maintenance import results, runs
from memoryhub.maintenance.forms import ADD_RUN, can_view_runs
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
            found[(kind, uid)] = admin_url(model, "change", pk)
    return found


def _attach_addresses(rows: list[Any], clearance: Clearance) -> None:
    addresses = _object_addresses(rows, clearance)
    for row in rows:
        row.address = addresses.get((row.object_type, row.object_id), "")


class JournalList(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        _attach_addresses(rows, request_clearance(request))
        self.result_list = rows


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

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JournalList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            _attach_addresses([row], request_clearance(request))
        return row

    @column("when", order="at")
    def moment_shown(self, row: JournalEntry) -> str:
        return format_moment(row.at)

    @column("id", order="object_id")
    def object_shown(self, row: Any) -> SafeString:
        if not row.address:
            return format_html("<code>{}</code>", row.object_id)
        return format_link(row.address, row.object_id)

    @column("detail")
    def detail_shown(self, row: JournalEntry) -> SafeString:
        return format_json(row.detail)


class RunList(ChangeList):
    """Adds to each run the numbers that the user may see."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        for run in rows:
            run.visible = runs.visible_result(run, request_clearance(request), counted=False)
        self.result_list = rows


@admin.register(MaintenanceRun)
class RunAdmin(ReadOnlyAdmin):
    journal_type = "run"
    list_display = ("heading", "state", "actor", "progress", "created")
    list_filter = (
        *(value_filter("operation"), value_filter("status"), value_filter("actor")),
        age_filter("created_at", "when"),
    )
    search_fields = ("=uid", "operation", "actor")
    ordering = ("-created_at",)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return can_view_runs(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(ADD_RUN))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return can_view_runs(request.user)

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        return runs.visible_runs(clearance).select_related("undoes")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return redirect("maintenance")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        run = self.get_object(request, object_id)
        if run is None:
            raise Http404
        return redirect("run", run.uid)

    @column("run", order="operation")
    def heading(self, run: MaintenanceRun) -> str:
        return results.run_title(run)

    @column("state", order="status")
    def state(self, run: MaintenanceRun) -> str:
        return results.run_state(run)

    @column("progress")
    def progress(self, run: Any) -> SafeString:
        percent = results.progress_percent(run, run.visible)
        words = f"{run.visible.done} of {run.visible.total}" if run.visible.whole else f"{percent} %"
        bar = '<progress max="100" value="{}" aria-label="Progress"></progress> {}'
        return format_html(bar, percent, words)

    @column("asked for", order="created_at")
    def created(self, run: MaintenanceRun) -> str:
        return format_moment(run.created_at)

"""The list of maintenance runs. Runs are started and controlled on the hub's maintenance pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.admin.base import ReadOnlyAdmin, column, format_moment
from memoryhub.admin.filters import age_filter, value_filter
from memoryhub.maintenance import results, runs
from memoryhub.maintenance.forms import ADD_RUN, can_view_runs
from memoryhub.models import MaintenanceRun


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

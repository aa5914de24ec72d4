"""Maintenance runs: what was done, how far it came, and how it ended."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from memoryhub.admin.base import ReadOnlyAdmin, column
from memoryhub.admin.columns import moment, pretty
from memoryhub.admin.filters import values, when
from memoryhub.models import MaintenanceRun
from memoryhub.sensitivity import Clearance


def outline(value: Any) -> Any:
    """The numbers and words of a result; lists, which may name what is hidden, become their length."""
    if isinstance(value, dict):
        return {name: outline(one) for name, one in value.items()}
    return f"{len(value)} entries" if isinstance(value, list) else value


@admin.register(MaintenanceRun)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("operation", "status", "dry_run", "actor", "progress", "created", "finished")
    list_filter = (values("operation"), values("status"), values("actor"), when("created_at", "when"))
    search_fields = ("=uid", "operation", "actor")
    ordering = ("-created_at",)
    fields = (
        *("uid", "operation", "status", "dry_run", "actor", "progress", "created_at", "started_at"),
        *("heartbeat_at", "finished_at", "undone_at", "params_shown", "result_shown", "error"),
    )

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        """Runs have no level; what they say about memories is outlined."""
        return MaintenanceRun.objects.all()

    @column("progress")
    def progress(self, run: MaintenanceRun) -> str:
        return f"{run.done} of {run.total}"

    @column("asked for", order="created_at")
    def created(self, run: MaintenanceRun) -> str:
        return moment(run.created_at)

    @column("finished", order="finished_at")
    def finished(self, run: MaintenanceRun) -> str:
        return moment(run.finished_at)

    @column("parameters")
    def params_shown(self, run: MaintenanceRun) -> SafeString:
        return pretty(outline(run.params))

    @column("result")
    def result_shown(self, run: MaintenanceRun) -> SafeString:
        return pretty(outline(run.result))

"""Maintenance runs in the admin: start, watch, stop, resume and undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memoryhub.access import redaction
from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.admin.base import (
    EMPTY_CELL,
    VisibleRowsAdmin,
    admin_url,
    column,
    format_json,
    format_link,
    format_moment,
)
from memoryhub.admin.bulk import (
    ActionResponse,
    Confirmation,
    format_count,
    is_confirmed,
    render_confirmation,
    select_rows,
    show_message,
)
from memoryhub.admin.filters import value_filter, when
from memoryhub.core.text import shorten
from memoryhub.maintenance import results, runs
from memoryhub.maintenance.forms import (
    IRREVERSIBLE_OPERATIONS,
    can_start_run,
    can_view_runs,
    count_losses,
    filled_values,
    form_fields,
)
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.memories.errors import StoreError
from memoryhub.models import MaintenanceRun, Memory

_OWN_FIELDS = ("operation", "dry_run")


class StartForm(forms.Form):
    """The operation, whether it is a dry run, and the parameters of all operations: each takes its own."""

    operation = forms.ChoiceField()
    dry_run = forms.BooleanField(
        required=False, initial=True, help_text="Lists what would change, and changes nothing"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        on = [one for one in OPERATIONS.values() if not runs.is_switched_off(one.name)]
        self.fields["operation"].choices = [(one.name, one.label) for one in on]  # type: ignore[attr-defined]
        helps: dict[str, dict[str, list[str]]] = {}
        for operation in on:
            for name, field in form_fields(operation.Params).items():
                self.fields.setdefault(name, field)
                helps.setdefault(name, {}).setdefault(str(field.help_text), []).append(operation.label)
        for name, told in helps.items():
            if sum(map(len, told.values())) < len(on):
                lines = (f"{', '.join(labels)}: {text}" for text, labels in told.items())
                self.fields[name].help_text = " ".join(lines)

    def params(self) -> dict[str, Any]:
        return filled_values(
            {name: value for name, value in self.cleaned_data.items() if name not in _OWN_FIELDS}
        )

    def begin(self, request: HttpRequest, *, confirmed: bool) -> MaintenanceRun | int | None:
        """The run. What would be lost for good by it, before that is confirmed. None when it was refused."""
        chosen, dry_run = self.cleaned_data["operation"], self.cleaned_data["dry_run"]
        if not can_start_run(request.user, chosen, dry_run=dry_run):
            self.add_error("operation", "This removes memories for good, which only those may who may erase.")
            return None
        try:
            if chosen in IRREVERSIBLE_OPERATIONS and not dry_run and not confirmed:
                return count_losses(OPERATIONS[chosen], self.params(), request_actor(request))
            return runs.enqueue(chosen, self.params(), request_actor(request), dry_run=dry_run)
        except StoreError as refusal:
            known = refusal.field in self.fields
            self.add_error(refusal.field if known else None, refusal.message)
            return None


def render_start(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """The form; a question when memories would be lost for good; else on to the run that was started."""
    form = StartForm(request.POST if request.method == "POST" else None)
    begun = form.begin(request, confirmed=is_confirmed(request)) if form.is_valid() else None
    if isinstance(begun, MaintenanceRun):
        show_message(
            model_admin, request, f"{results.run_title(begun)} waits for a worker, which begins at once."
        )
        return redirect(admin_url(MaintenanceRun, "change", begun.pk))
    title = "Run maintenance"
    if begun is not None:
        title = f"Lose {format_count(begun, 'memory', 'memories')} for good?"
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "opts": model_admin.opts,
        "form": form,
        "operations": OPERATIONS.values(),
        "asks": begun is not None,
        "media": model_admin.media,
    }
    return TemplateResponse(request, "admin/memoryhub/maintenancerun/start.html", context)


_MAX_CELL_CHARS = 80
_MAX_CHANGES_SHOWN = 50  # changes on a run's page; the hub's own page has them all


class RunList(ChangeList):
    """The numbers of the page's runs, as far as the person may know them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        for run in rows:
            run.told = runs.visible_result(run, request_clearance(request), counted=False)
        self.result_list = rows


def _apply_to_each(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    uids: list[str],
    do: Callable[[str, Actor], MaintenanceRun],
    done: str,
) -> None:
    """Do it to each run; what is refused is told and does not stop the rest."""
    count = 0
    for uid in uids:
        try:
            do(uid, request_actor(request))
            count += 1
        except StoreError as refusal:
            show_message(model_admin, request, f"{uid}: {refusal.message}.", "WARNING")
    if count:
        show_message(model_admin, request, f"{format_count(count, 'run')} {done}.")


@admin.action(description="Stop", permissions=["add"])
def stop(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[MaintenanceRun]) -> None:
    uids = [row.uid for row in select_rows(model_admin, request, queryset, "operation")]
    _apply_to_each(model_admin, request, uids, runs.stop, "told to stop")


@admin.action(description="Resume", permissions=["add"])
def resume(model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[MaintenanceRun]) -> None:
    uids = [row.uid for row in select_rows(model_admin, request, queryset, "operation")]
    _apply_to_each(model_admin, request, uids, runs.resume, "waiting to go on")


@admin.action(description="Undo…", permissions=["add"])
def undo(
    model_admin: ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[MaintenanceRun]
) -> ActionResponse:
    """Each is taken back by a run of its own."""
    rows = select_rows(model_admin, request, queryset, "operation")
    if not rows:
        return None
    if not is_confirmed(request):
        lead = "What these did is taken back; what somebody changed since then stays as it is."
        question = Confirmation("Undo runs", lead, "Undo", names_all=True)
        return render_confirmation(model_admin, request, "undo", question, rows)
    _apply_to_each(model_admin, request, [row.uid for row in rows], runs.undo, "being taken back")
    return None


@admin.register(MaintenanceRun)
class RunAdmin(VisibleRowsAdmin):
    journal_type = "run"
    list_display = ("heading", "state", "actor", "progress", "created")
    list_filter = (
        value_filter("operation"),
        value_filter("status"),
        value_filter("actor"),
        when("created_at", "when"),
    )
    search_fields = ("=uid", "operation", "actor")
    ordering = ("-created_at",)
    actions = (stop, resume, undo)
    readonly_fields = (
        *("uid", "heading", "state", "error", "actor", "progress", "created", "started", "finished"),
        *("undone", "undoes_shown", "params_shown", "result_shown", "changes_shown"),
    )
    fields = readonly_fields

    # Who may what

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return can_view_runs(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What was done stays written down."""
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return can_view_runs(request.user)

    # Pages

    def visible_to(self, request: HttpRequest, clearance: Clearance) -> QuerySet[Any]:
        return runs.visible_runs(clearance).select_related("undoes")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        runs.mark_interrupted()
        run = super().get_object(request, object_id, from_field)
        if run is not None:
            run.clearance = request_clearance(request)
            run.told = runs.visible_result(run, run.clearance)
        return run

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return render_start(self, request)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: MaintenanceRun | None = None,
    ) -> Any:
        if obj is not None:
            allowed = self.get_actions(request)
            fitting = [name for name in _available_actions(obj) if name in allowed]
            context["single_actions"] = [(name, allowed[name][2]) for name in fitting]
            context["all_states"] = admin_url(MaintenanceRun, "changelist")
        return super().render_change_form(request, context, add, change, form_url, obj)

    def view_on_site(self, obj: MaintenanceRun) -> str:
        """Its page in the hub, with all of its changes."""
        return reverse("run", args=[obj.uid])

    # Columns

    @column("run", order="operation")
    def heading(self, run: MaintenanceRun) -> str:
        return results.run_title(run)

    @column("state", order="status")
    def state(self, run: MaintenanceRun) -> str:
        return results.run_state(run)

    @column("progress")
    def progress(self, run: Any) -> SafeString:
        percent = results.progress_percent(run, run.told)
        words = f"{run.told.done} of {run.told.total}" if run.told.whole else f"{percent} %"
        bar = '<progress max="100" value="{}" aria-label="Progress"></progress> {}'
        return format_html(bar, percent, words)

    @column("asked for", order="created_at")
    def created(self, run: MaintenanceRun) -> str:
        return format_moment(run.created_at)

    @column("began")
    def started(self, run: MaintenanceRun) -> str:
        return format_moment(run.started_at)

    @column("ended", order="finished_at")
    def finished(self, run: MaintenanceRun) -> str:
        return format_moment(run.finished_at)

    @column("undone")
    def undone(self, run: MaintenanceRun) -> str:
        return format_moment(run.undone_at)

    @column("takes back")
    def undoes_shown(self, run: MaintenanceRun) -> str:
        if run.undoes is None:
            return EMPTY_CELL
        return format_link(admin_url(MaintenanceRun, "change", run.undoes.pk), run.undoes.uid)

    @column("parameters")
    def params_shown(self, run: Any) -> SafeString:
        return format_json(dict(results.visible_params([run], run.clearance)[run.pk]))

    @column("result")
    def result_shown(self, run: Any) -> str:
        lines = ((f"{count} {words}",) for words, count in results.result_lines(run, run.told))
        return format_html_join("", "<div>{}</div>", lines) or EMPTY_CELL

    @column("changes")
    def changes_shown(self, run: Any) -> str:
        """The first of them, as far as they may be seen."""
        found = runs.list_changes(run, run.clearance, 0, _MAX_CHANGES_SHOWN)
        lines = [(_format_change(one), _format_importance(one), one.change.reason) for one in found]
        rest = run.told.changes - len(found)
        if rest > 0:
            more = format_link(
                self.view_on_site(run), f"{format_count(rest, 'more change')} on its page in the hub"
            )
            lines.append((more, "", ""))
        return format_html_join("", '<div class="hub-change">{} {} {}</div>', lines) or EMPTY_CELL


def _available_actions(run: MaintenanceRun) -> list[str]:
    """Actions that a run allows as it stands."""
    if results.is_active(run):
        return [] if run.stop_requested else ["stop"]
    return [*(["resume"] if runs.is_resumable(run) else []), *(["undo"] if runs.is_undoable(run) else [])]


def _format_change(shown: runs.VisibleChange) -> str:
    """What a change is about, with a link while it is there, and those that are one with it."""
    if shown.memory is None:
        return shown.change.uid
    title = format_link(_memory_address(shown.memory), shorten(str(shown.memory), _MAX_CELL_CHARS))
    if not shown.members:
        return title
    members = (
        (_memory_address(one), shorten(redaction.display_name(one), _MAX_CELL_CHARS)) for one in shown.members
    )
    listed = format_html_join("", '<li><a href="{}">{}</a></li>', members)
    return format_html(
        "{} <details><summary>{}</summary><ul>{}</ul></details>",
        title,
        format_count(len(shown.members), "memory", "memories"),
        listed,
    )


def _memory_address(memory: Memory) -> str:
    return admin_url(Memory, "change", memory.pk)


def _format_importance(shown: runs.VisibleChange) -> str:
    before, after = shown.change.before, shown.change.after
    if before is None or after is None:
        return ""
    return format_html('<span class="hub-detail">{} → {}</span>', f"{before:.2f}", f"{after:.2f}")

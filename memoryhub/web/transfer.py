"""Import and export pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memoryhub.accounts.clearance import full_clearance, request_actor
from memoryhub.accounts.people import people_with_permission
from memoryhub.accounts.permissions import ADD_MEMORY, ADD_RUN
from memoryhub.core.form_fields import to_sentence
from memoryhub.http.middleware import declared_length
from memoryhub.maintenance import results, runs
from memoryhub.memories.delete import load_caps
from memoryhub.memories.errors import StoreError
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import MaintenanceRun
from memoryhub.transfer import import_files, jobs, reports
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, MAX_RESPONSE_SECONDS, OWN_FORMAT, WRITERS, write_export
from memoryhub.transfer.records import MAPPING_TARGETS
from memoryhub.transfer.reports import suggest_cap
from memoryhub.web.base.forms import PlainForm, parse_whole_number
from memoryhub.web.runs import control, progress_context, render_progress


def _project_field(help_text: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"list": "projects", "autocomplete": "off"})
    return forms.CharField(max_length=200, required=False, widget=widget, help_text=help_text)


class ImportForm(PlainForm):
    """The file to import and how to read it."""

    file = forms.FileField(
        help_text="Plain or compressed, as the other program exported it. Close that program before you"
        " upload its SQLite file: its newest rows may be in a separate -wal file that is not uploaded.",
        error_messages={"empty": "The file is empty. Choose one with memories."},
    )
    format = forms.ChoiceField(
        required=False,
        label="Format",
        choices=lambda: [
            ("", "Detect from the content"),
            *((format.name, format.label) for format in FORMATS.values()),
        ],
    )
    project = _project_field("For memories that name no project.")

    def __init__(self, data: Any = None, files: Any = None) -> None:
        super().__init__(data, files=files, auto_id="import_%s")
        extensions = dict.fromkeys(ending for format in FORMATS.values() for ending in format.extensions)
        # File choosers only match the last part of an extension.
        accepted = dict.fromkeys("." + ending.rpartition(".")[2] for ending in extensions)
        self.fields["file"].widget.attrs["accept"] = ",".join(accepted)


@dataclass(frozen=True)
class ProjectOverCap:
    """A project that an import takes (or would take) over its cap.

    ``count``: the memories of its fullest owner.
    ``who``: people with permission to raise the cap (if not the viewer).
    """

    project: str
    count: int
    cap: int
    may_raise: bool
    who: Sequence[str] = ()

    @property
    def new_cap(self) -> int:
        return suggest_cap(self.count)


class ImportChoices(PlainForm):
    """The choices between the check of a file and its import, with a field for each unknown field."""

    lifetime = forms.ChoiceField(required=False, label="Memories without a date of expiry")
    infer_types = forms.BooleanField(required=False)

    def __init__(
        self, report: reports.ImportReport, over_cap: Sequence[ProjectOverCap] = (), data: Any = None
    ) -> None:
        super().__init__(data, auto_id="choice_%s")
        days = settings.MEMORYHUB.default_ttl_days
        default = f"Expire in {days} days" if days else "Never expire"
        choices = [("", default), *([("never", "Never expire")] if days else [])]
        self.set_choices("lifetime", choices)
        self.caps = {one.project: one.new_cap for one in over_cap if one.may_raise}
        if self.caps:
            labels = [(name, f"Raise the cap of {name} to {cap:,}") for name, cap in self.caps.items()]
            self.fields["caps"] = forms.MultipleChoiceField(
                required=False, label="Cap", choices=labels, widget=forms.CheckboxSelectMultiple
            )
        self.unknown = {f"field_{number}": name for number, (name, _) in enumerate(report.mappable)}
        for key, name in self.unknown.items():
            targets = [("", "Do not import"), *((one, one.replace("_", " ")) for one in MAPPING_TARGETS)]
            self.fields[key] = forms.ChoiceField(required=False, label=name, choices=targets)

    def mapped_fields(self) -> list[forms.BoundField]:
        return [self[key] for key in self.unknown]

    def params(self) -> dict[str, Any]:
        """Return the choices of a valid form as parameters of an import."""
        chosen = self.cleaned_data
        mapping = {name: chosen[key] for key, name in self.unknown.items() if chosen[key]}
        params: dict[str, Any] = {"mapping": mapping, "infer_types": chosen["infer_types"]}
        params["caps"] = {name: self.caps[name] for name in chosen.get("caps", ())}
        return params | ({"ttl_days": 0} if chosen["lifetime"] == "never" else {})


class ExportForm(PlainForm):
    """The format and the contents of an export."""

    ids = "export_%s"

    format = forms.ChoiceField(
        required=False,
        label="Format",
        initial=OWN_FORMAT,
        choices=lambda: [(writer.name, writer.label) for writer in WRITERS.values()],
    )
    project = _project_field("Leave empty for all projects.")
    whole = forms.BooleanField(
        required=False,
        label="Include history",
        help_text="Adds trash, versions, facts, sessions and the journal. For memoryhub's own format only.",
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("whole") and cleaned.get("format") not in ("", OWN_FORMAT, None):
            self.add_error(
                "whole",
                "Only memoryhub's own format contains all history. Choose that format, or clear this box.",
            )
        return cleaned


MAX_RECENT = 10
ERRORS_PER_PAGE = 50


@require_safe
def transfer(request: HttpRequest) -> HttpResponse:
    return _render_page(request)


@csrf_exempt
@require_POST
@permission_required(ADD_MEMORY, raise_exception=True)
def import_start(request: HttpRequest) -> HttpResponse:
    """Import ``file``; ``do`` is run or dry_run.

    The CSRF token is checked after the size (in ``_start_import``), because reading the token writes the
    whole body to disk.
    """
    if declared_length(request) > import_files.max_upload_bytes() + 1024 * 1024:
        form = ImportForm({}, {})
        form.add_error("file", to_sentence(str(import_files.upload_too_large())))
        return _render_page(request, form, status=413)
    return _start_import(request)


@csrf_protect
def _start_import(request: HttpRequest) -> HttpResponse:
    mode = request.POST.get("do")
    if mode not in ("run", "dry_run"):
        raise BadRequest("unknown action")
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    file = form.cleaned_data["file"]
    try:
        run = jobs.start_import(
            iter(file.chunks()),
            file.name,
            request_actor(request),
            format=form.cleaned_data["format"],
            project=form.cleaned_data["project"].strip(),
            dry_run=mode == "dry_run",
            restores=_may_restore_history(request),
        )
    except import_files.UploadTooLarge as error:
        form.add_error("file", to_sentence(str(error)))
        return _render_page(request, form, status=413)
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_page(request, form, status=422)
    return redirect("import", run.uid)


@require_safe
def import_page(request: HttpRequest, uid: str) -> HttpResponse:
    """Show the progress and the report of one import."""
    return render(request, "transfer/import.html", _import_context(request, _find_import(request, uid)))


@require_safe
def import_progress(request: HttpRequest, uid: str) -> HttpResponse:
    """Answer the page's polls while an import is active."""
    context = _import_context(request, _find_import(request, uid))
    return render_progress(
        request, context, "transfer/import.html#progress", "transfer/import.html#import_body", "#import"
    )


@require_POST
def import_stop(request: HttpRequest, uid: str) -> HttpResponse:
    run = _find_import(request, uid)
    return control(request, "import", run, lambda: jobs.stop_import(run, request_actor(request)))


@require_POST
def import_resume(request: HttpRequest, uid: str) -> HttpResponse:
    run = _find_import(request, uid)
    actor, restores = request_actor(request, full_clearance(request)), _may_restore_history(request)
    return control(request, "import", run, lambda: jobs.resume_import(run, actor, restores=restores))


@require_POST
@permission_required(ADD_MEMORY, raise_exception=True)
def import_after_dry_run(request: HttpRequest, uid: str) -> HttpResponse:
    """Import the file of a finished dry run."""
    run = _find_import(request, uid)
    if not _may_import_for_real(request, run):
        raise Http404
    actor, restores = request_actor(request), _may_restore_history(request)
    report = _build_report(request, run)
    choices = ImportChoices(report, _projects_over_cap(request, report), request.POST)
    if not choices.is_valid():
        return render(request, "transfer/import.html", _import_context(request, run, choices), status=422)
    params = choices.params()
    return control(
        request, "import", run, lambda: jobs.import_after_dry_run(run, actor, restores=restores, **params)
    )


@require_http_methods(["GET", "HEAD", "POST"])
def import_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """Ask whether to undo an import. POST starts the undo and leads back to the import."""
    run = _find_import(request, uid)
    if not _may_undo(request, run):
        raise Http404
    if request.method != "POST":
        context = {"run": run, "report": _build_report(request, run), "name": run.params.get("name", "")}
        return render(request, "transfer/undo.html", context)
    actor = request_actor(request, full_clearance(request))
    return control(request, "import", run, lambda: jobs.undo_import(run, actor))


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Stream the exported file. Exported secrets are journaled."""
    form = ExportForm(request.GET)
    if not form.is_valid():
        return _render_page(request, export=form, status=422)
    selection = _export_selection(request, form.cleaned_data["project"].strip(), form.cleaned_data["whole"])
    writer = WRITERS[form.cleaned_data["format"] or OWN_FORMAT]
    selection.journal_secrets()
    name = f"memories-{timezone.now():%Y-%m-%d}{writer.extension}"
    return StreamingHttpResponse(
        write_export(writer, selection, MAX_RESPONSE_SECONDS),
        content_type=writer.content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _export_selection(request: HttpRequest, project: str = "", whole: bool = False) -> ExportSelection:
    return ExportSelection(request_actor(request), MemoryFilter(project=project), whole)


def _render_page(
    request: HttpRequest, form: ImportForm | None = None, export: ExportForm | None = None, status: int = 200
) -> HttpResponse:
    selection = _export_selection(request)
    left = selection.left_out(full_clearance(request))
    context = {
        "form": form or ImportForm(),
        "export": export or ExportForm(),
        "formats": [(format.label, format.hint) for format in FORMATS.values()],
        "losses": [(writer.label, writer.lossy) for writer in WRITERS.values() if writer.lossy],
        "may_import": request.user.has_perm(ADD_MEMORY),
        "restores": _may_restore_history(request),
        "limit": settings.MEMORYHUB.max_upload_mb,
        "count": selection.total(),
        "left": sorted(left.items()),
        "recent": [
            (run, reports.format_label(run)) for run in jobs.own_imports(request_actor(request))[:MAX_RECENT]
        ],
    }
    return render(request, "transfer/page.html", context, status=status)


def _find_import(request: HttpRequest, uid: str) -> MaintenanceRun:
    return jobs.get_import(uid, request_actor(request))


def _may_restore_history(request: HttpRequest) -> bool:
    """Only superusers may import ids, authors and history, since these attribute actions to other people."""
    return bool(request.user.is_active and request.user.is_superuser)


def _may_import_for_real(request: HttpRequest, run: MaintenanceRun) -> bool:
    is_done = run.dry_run and run.status == MaintenanceRun.Status.DONE
    return is_done and request.user.has_perm(ADD_MEMORY) and run.actor == request_actor(request).name


def _may_undo(request: HttpRequest, run: MaintenanceRun) -> bool:
    may_control = results.can_control(full_clearance(request), run)
    is_allowed = request.user.has_perm(ADD_MEMORY) and may_control
    return is_allowed and run.actor == request_actor(request).name and runs.is_undoable(run)


def _build_report(request: HttpRequest, run: MaintenanceRun, start: int = 0) -> reports.ImportReport:
    return reports.build_report(run, full_clearance(request), start, ERRORS_PER_PAGE)


def _projects_over_cap(request: HttpRequest, report: reports.ImportReport) -> list[ProjectOverCap]:
    """Return the projects over their cap, and whether the person can raise it."""
    caps = load_caps([project for project, _ in report.over_cap]) if report.over_cap else {}
    clearance, may_configure = full_clearance(request), request.user.has_perm(ADD_RUN)
    found = []
    for project, count in report.over_cap:
        may_raise = bool(project) and may_configure and clearance.includes_project(project)
        who = () if may_raise or not project else people_with_permission(ADD_RUN, project)
        found.append(ProjectOverCap(project, count, caps[project], may_raise, who))
    return found


def _resume_context(request: HttpRequest, run: MaintenanceRun) -> dict[str, Any]:
    """Return whether an import that ended early can be resumed, or why not."""
    if run.status != MaintenanceRun.Status.FAILED or run.undone_at:
        return {"may_resume": False}
    actor, restores = request_actor(request, full_clearance(request)), _may_restore_history(request)
    refusal = jobs.resume_refusal(run, actor, restores=restores)
    return {"may_resume": not refusal, "resume_refusal": refusal}


def _import_context(
    request: HttpRequest, run: MaintenanceRun, choices: ImportChoices | None = None
) -> dict[str, Any]:
    percent = min(100, 100 * run.done // run.total) if run.total else 0
    undoing = run.undoings.filter(status__in=runs.PENDING).exists()
    context = {
        **progress_context(request, run, percent),
        "label": reports.format_label(run),
        "name": run.params.get("name", ""),
        "rows": reports.count_rows(run),
        "seconds_left": reports.seconds_left(run, timezone.now()),
        "undoing": undoing,
    }
    context["is_polling"] = context["is_polling"] or undoing
    context["step"] += "-undoing" * undoing
    if context["is_polling"]:
        return context
    start = parse_whole_number(request.GET.get("start", "0"), 7)
    if start is None:
        raise BadRequest("start is not a number")
    report = _build_report(request, run, start)
    may_import = _may_import_for_real(request, run)
    over_cap = _projects_over_cap(request, report)
    return context | {
        "report": report,
        "start": start,
        "next_start": start + ERRORS_PER_PAGE,
        "previous_start": max(start - ERRORS_PER_PAGE, 0),
        "choices": (choices or ImportChoices(report, over_cap)) if may_import and report.counts else None,
        "may_do": may_import,
        **_resume_context(request, run),
        "may_undo": _may_undo(request, run),
        "days": settings.MEMORYHUB.default_ttl_days,
        "over_cap": over_cap,
    }

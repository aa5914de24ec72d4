"""Import and export: a file in, with a dry run and a report; what may be seen out, as a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import reswap, retarget

from memoryhub.interchange import report, running, uploads
from memoryhub.interchange.dump import Selection
from memoryhub.interchange.formats import FORMATS, OWN, WRITERS
from memoryhub.lifecycle import runs, telling
from memoryhub.models import MaintenanceRun
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.sensitivity import Actor
from memoryhub.store.errors import NotFound, StoreError
from memoryhub.web.access import SWITCHES, actor_of, clearance_of
from memoryhub.web.fields import whole
from memoryhub.web.transfer import ExportForm, ImportForm

IMPORT = "memoryhub.add_memory"
RECENT = 10
ERRORS = 50


@require_safe
def transfer(request: HttpRequest) -> HttpResponse:
    return _page(request)


@csrf_exempt
@require_POST
def import_start(request: HttpRequest) -> HttpResponse:
    """``file``, ``format``, ``project``, and ``do``: dry_run or run.

    Whether the request is the person's own is asked for (``_import``) once its size is known: to look for the
    form's token is to write the whole body to the disk.
    """
    if not request.user.has_perm(IMPORT):
        raise PermissionDenied
    length = request.META.get("CONTENT_LENGTH") or ""
    if length.isdecimal() and int(length) > uploads.limit() + 1024 * 1024:
        form = ImportForm({}, {})
        form.add_error("file", _sentence(str(uploads.too_large())))
        return _page(request, form, status=413)
    return _import(request)


@csrf_protect
def _import(request: HttpRequest) -> HttpResponse:
    doing = request.POST.get("do")
    if doing not in ("run", "dry_run"):
        raise BadRequest("do names what is to be done; take it as the page gives it")
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, status=422)
    file = form.cleaned_data["file"]
    try:
        run = running.start(
            iter(file.chunks()),
            file.name,
            actor_of(request),
            format=form.cleaned_data["format"],
            project=form.cleaned_data["project"].strip(),
            dry_run=doing == "dry_run",
            restores=_restores(request),
        )
    except uploads.TooLarge as error:
        form.add_error("file", _sentence(str(error)))
        return _page(request, form, status=413)
    except StoreError as refusal:
        form.add_error(refusal.field if refusal.field in form.fields else None, _sentence(refusal.message))
        return _page(request, form, status=422)
    return redirect("import", run.uid)


@require_safe
def import_page(request: HttpRequest, uid: str) -> HttpResponse:
    """One import: how far it is, and what became of the file."""
    run = _find(request, uid)
    return render(request, "transfer/import.html", _told(request, run))


@require_safe
def import_progress(request: HttpRequest, uid: str) -> HttpResponse:
    """The state of an import, for htmx to ask for again and again; all of it, once it has ended."""
    run = _find(request, uid)
    if telling.is_under_way(run):
        return render(request, "transfer/progress.html", _progress(request, run))
    whole = render(request, "transfer/import_body.html", _told(request, run) | {"is_news": True})
    return reswap(retarget(whole, "#import"), "outerHTML")


@require_POST
def import_stop(request: HttpRequest, uid: str) -> HttpResponse:
    return _steered(request, uid, report.stop)


@require_POST
def import_resume(request: HttpRequest, uid: str) -> HttpResponse:
    def resume(run: MaintenanceRun, actor: Actor) -> MaintenanceRun:
        most = Actor(actor.name, clearance_of(request, also=SWITCHES))
        return report.resume(run, most, restores=_restores(request))

    return _steered(request, uid, resume)


@require_POST
def import_for_good(request: HttpRequest, uid: str) -> HttpResponse:
    """Import what a dry run looked through."""
    if not request.user.has_perm(IMPORT):
        raise PermissionDenied
    run = _find(request, uid)
    if not _may_do(request, run):
        raise Http404
    try:
        run = running.start_for_good(run, actor_of(request), restores=_restores(request))
    except StoreError as refusal:
        messages.error(request, _sentence(refusal.message))
    return redirect("import", run.uid)


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """The file itself, as a stream; a secret that goes out leaves a row in the journal."""
    form = ExportForm(request.GET)
    if not form.is_valid():
        return _page(request, export=form, status=422)
    selection = _selection(request, form.cleaned_data["project"].strip(), form.cleaned_data["whole"])
    writer = WRITERS[form.cleaned_data["format"] or OWN]
    selection.journal_secrets()
    name = f"memories-{timezone.now():%Y-%m-%d}{writer.extension}"
    return StreamingHttpResponse(
        writer.write(selection),
        content_type=writer.content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _selection(request: HttpRequest, project: str = "", whole: bool = False) -> Selection:
    return Selection(actor_of(request), MemoryFilter(project=project), whole)


def _page(
    request: HttpRequest,
    form: ImportForm | None = None,
    export: ExportForm | None = None,
    status: int = 200,
) -> HttpResponse:
    selection = _selection(request)
    left = selection.left_out(clearance_of(request, also=SWITCHES))
    context = {
        "form": form or ImportForm(),
        "export": export or ExportForm(),
        "formats": [(one.label, one.hint) for one in FORMATS.values()],
        "losses": [(one.label, one.lossy) for one in WRITERS.values() if one.lossy],
        "may_import": request.user.has_perm(IMPORT),
        "restores": _restores(request),
        "limit": settings.MEMORYHUB.max_upload_mb,
        "count": selection.total(),
        "left": sorted(left.items()),
        "recent": [(run, report.label(run)) for run in report.own(actor_of(request))[:RECENT]],
    }
    return render(request, "transfer/page.html", context, status=status)


def _find(request: HttpRequest, uid: str) -> MaintenanceRun:
    try:
        return report.find(uid, actor_of(request))
    except NotFound:
        raise Http404 from None


def _restores(request: HttpRequest) -> bool:
    """Who may do anything may bring in ids, authors and history: they say who did what."""
    return bool(request.user.is_active and request.user.is_superuser)


def _may_do(request: HttpRequest, run: MaintenanceRun) -> bool:
    is_done = run.dry_run and run.status == MaintenanceRun.Status.DONE
    return is_done and request.user.has_perm(IMPORT) and run.actor == actor_of(request).name


def _steered(
    request: HttpRequest, uid: str, steer: Callable[[MaintenanceRun, Actor], MaintenanceRun]
) -> HttpResponse:
    run = _find(request, uid)
    try:
        steer(run, actor_of(request))
    except StoreError as refusal:
        messages.error(request, _sentence(refusal.message))
    return redirect("import", run.uid)


def _progress(request: HttpRequest, run: MaintenanceRun) -> dict[str, Any]:
    percent = min(100, 100 * run.done // run.total) if run.total else 0
    # What a screen reader is told: each quarter once, not every second.
    step = f"{run.status}-{percent // 25}-{run.stop_requested:d}"
    return {
        "run": run,
        "percent": percent,
        "step": step,
        "is_news": request.GET.get("told") != step,
        "is_polling": True,
    }


def _told(request: HttpRequest, run: MaintenanceRun) -> dict[str, Any]:
    always = {"label": report.label(run), "name": run.params.get("name", "")}
    if telling.is_under_way(run):
        return {**_progress(request, run), **always}
    start = _start(request)
    return {
        **always,
        **_progress(request, run),
        "is_polling": False,
        "report": report.of(run, clearance_of(request, also=SWITCHES), start, ERRORS),
        "start": start,
        "next_start": start + ERRORS,
        "previous_start": max(start - ERRORS, 0),
        "may_do": _may_do(request, run),
        "may_resume": runs.is_resumable(run),
        "days": settings.MEMORYHUB.default_ttl_days,
        "cap": settings.MEMORYHUB.max_memories,
    }


def _start(request: HttpRequest) -> int:
    """How many errors the page passes over."""
    found = whole(request.GET.get("start", "0"), 7)
    if found is None:
        raise BadRequest("start is not a number")
    return found


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."

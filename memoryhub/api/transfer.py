"""``/import`` and ``/export``: files of memories, in the hub's own and in other programs' formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from django.http import HttpResponse, StreamingHttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, Field

from memoryhub import serializers
from memoryhub.access.policy import Actor
from memoryhub.api.parameters import HistoryFilter
from memoryhub.api.schemas import ListOf, documented
from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import READ, WRITE, ApiRequest, Limit
from memoryhub.http.problems import Problem, field_error, invalid_fields, json_response, unreadable_body
from memoryhub.maintenance import runs
from memoryhub.memories.filters import TextFilter
from memoryhub.models import MaintenanceRun
from memoryhub.transfer import jobs, uploads
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, OWN_FORMAT, WRITERS

router = Router(tags=["import and export"])
_CHUNK = 256 * 1024
_BINARY = {"type": "string", "format": "binary"}
_FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": _BINARY},
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": _BINARY}, "required": ["file"]}
            },
        },
    }
}
_FILE_RESPONSES = {
    "responses": {
        200: {
            "content": {
                writer.content_type.partition(";")[0]: {"schema": {"type": "string"}}
                for writer in WRITERS.values()
            }
        }
    }
}


class ImportRequest(BaseModel):
    """What to do with the file, which is the body itself, or the part ``file`` of a form."""

    format: str = Field("", description=f"One of: {', '.join(FORMATS)}. Seen by the content when absent.")
    project: str = Field("", max_length=200, description="The project of what names none.")
    name: str = Field("", max_length=1000, description="What the file is called.")
    dry_run: bool = Field(False, description="Read and check everything, store nothing.")


class ImportShape(BaseModel):
    id: str
    status: Literal["queued", "running", "done", "failed"]
    format: str
    label: str
    name: str
    project: str
    dry_run: bool
    done: int = Field(description="Of total, both in bytes of the file or in things in it.")
    total: int
    cause: Literal["", "error", "interrupted", "stopped"]
    error: str
    resumable: bool
    created_at: str
    finished_at: str | None


class Counted(BaseModel):
    what: str
    count: int


class ImportReport(ImportShape):
    counts: dict[str, int] = Field(description="By kind and outcome: memories created, facts unchanged …")
    failed: int
    errors: list[str] = Field(description="A page of what failed: where, which field, and why.")
    more_errors: bool
    unmapped: list[Counted] = Field(description="What was changed, or has no home here.")
    ignored: list[Counted] = Field(description="Fields that mean nothing here.")
    not_taken: list[Counted] = Field(description="Fields that only the right maintain brings in.")
    over_cap: list[Counted] = Field(description="Projects that now hold more than max_memories.")


class OneImport(BaseModel):
    limit: Limit = 100
    start: int = Field(0, ge=0, le=1_000_000, description="How many errors to pass over.")


class ExportRequest(HistoryFilter):
    """Filters as in the list of memories. ``whole`` goes with ``project`` alone."""

    format: str = Field(OWN_FORMAT, description=f"One of: {', '.join(WRITERS)}.")
    whole: bool = Field(
        False, description="With trash, versions, facts, sessions, events and the journal, as far as seen."
    )
    category: TextFilter = None
    tag: TextFilter = None
    trashed: bool = False


@router.post(
    "/import",
    auth=WRITE,
    response=documented(ImportShape, status=202),
    summary="Import a file",
    openapi_extra=_FILE_BODY,
)
def import_file(request: ApiRequest, params: Query[ImportRequest]) -> HttpResponse:
    """Keeps the file and answers at once; a run stores it. The same file again adds nothing.

    What the token clears and its projects hold for every line. With the right ``maintain`` a file of the
    hub's own restores a store: ids, authors, versions, sessions and the journal come along.
    """
    name, chunks = _read_upload(request, params.name)
    restores = Right.MAINTAIN.value in request.auth.rights
    try:
        run = jobs.start_import(
            chunks,
            name,
            request.auth.actor,
            format=params.format,
            project=params.project,
            dry_run=params.dry_run,
            restores=restores,
        )
    except uploads.UploadTooLarge as error:
        raise Problem(413, "body_too_large", str(error)) from None
    except OSError as error:
        raise unreadable_body() from error
    return json_response(_serialize_import(run), 202)


@router.get("/import", auth=WRITE, response=documented(ListOf[ImportShape]), summary="List one's own imports")
def list_imports(request: ApiRequest, params: Query[OneImport]) -> HttpResponse:
    """Newest first."""
    rows = jobs.own_imports(request.auth.actor)
    items = [_serialize_import(run) for run in rows[: params.limit]]
    return json_response({"items": items, "next_cursor": None, "total": rows.count()})


@router.get(
    "/import/{id}",
    auth=WRITE,
    response=documented(ImportReport, errors=(404,)),
    summary="Progress and report of an import",
)
def get_import(request: ApiRequest, id: str, params: Query[OneImport]) -> HttpResponse:
    """``errors`` is a page: ``start`` goes on in them."""
    run = jobs.get_import(id, request.auth.actor)
    report = jobs.build_report(run, request.auth.actor.clearance, params.start, params.limit)
    return json_response(
        {
            **_serialize_import(run),
            "counts": dict(report.counts),
            "failed": report.failed,
            "errors": report.errors,
            "more_errors": report.more_errors,
            **{
                name: _serialize_counts(getattr(report, name))
                for name in ("unmapped", "ignored", "not_taken", "over_cap")
            },
        }
    )


@router.post(
    "/import/{id}/stop",
    auth=WRITE,
    response=documented(ImportShape, status=202, errors=(404, 409)),
    summary="Stop an import",
)
def stop_import(request: ApiRequest, id: str) -> HttpResponse:
    """What is stored stays; it can be resumed."""
    actor = request.auth.actor
    return json_response(_serialize_import(jobs.stop_import(jobs.get_import(id, actor), actor)), 202)


@router.post(
    "/import/{id}/resume",
    auth=WRITE,
    response=documented(ImportShape, status=202, errors=(404, 409)),
    summary="Let an import go on",
)
def resume_import(request: ApiRequest, id: str) -> HttpResponse:
    """For one that was stopped, interrupted or failed: it goes on where it was."""
    actor, restores = request.auth.actor, Right.MAINTAIN.value in request.auth.rights
    return json_response(
        _serialize_import(jobs.resume_import(jobs.get_import(id, actor), actor, restores=restores)), 202
    )


@router.get(
    "/export",
    auth=READ,
    response=documented(str),
    summary="Export memories as a file",
    openapi_extra=_FILE_RESPONSES,
)
def export_file(request: ApiRequest, params: Query[ExportRequest]) -> HttpResponseBase:
    """A stream. ``X-Left-Out`` counts what the token clears and was not asked for; secrets are journaled."""
    if params.format not in WRITERS:
        raise invalid_fields([field_error("format", f"must be one of: {', '.join(WRITERS)}")])
    filters = {
        "type",
        "since",
        "until",
        "session_id",
        "category",
        "tag",
        "trashed",
    } & params.model_fields_set
    if params.whole and (filters or params.format != OWN_FORMAT):
        raise invalid_fields(
            [field_error("whole", f"goes with the format {OWN_FORMAT} and with project alone")]
        )
    actor = Actor(request.auth.actor.name, params.clearance(request.auth))
    selection = ExportSelection(actor, params.filter(), params.whole)
    selection.journal_secrets()
    writer = WRITERS[params.format]
    left_out = ", ".join(
        f"{what}={n}" for what, n in selection.left_out(request.auth.actor.clearance).items()
    )
    name = f"memories-{timezone.now():%Y-%m-%d}{writer.extension}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Left-Out": left_out or "nothing"}
    return StreamingHttpResponse(writer.write(selection), content_type=writer.content_type, headers=headers)


def _read_upload(request: ApiRequest, name: str) -> tuple[str, Iterator[bytes]]:
    """Return name and content of the uploaded file, in chunks."""
    if request.content_type == "multipart/form-data":
        try:
            file = request.FILES.get("file")
        except MultiPartParserError as error:
            raise Problem(400, "unreadable_body", "the form cannot be read; send it again") from error
        if file is None or isinstance(file, list):
            raise invalid_fields([field_error("file", "is missing; send the file as the part named file")])
        return name or str(file.name), iter(file.chunks(_CHUNK))
    chunked = request.META.get("HTTP_TRANSFER_ENCODING") and request.META.get("wsgi.input_terminated")
    stream = request.META["wsgi.input"] if chunked else request
    return name, iter(lambda: stream.read(_CHUNK), b"")


def _serialize_import(run: MaintenanceRun) -> dict[str, Any]:
    return {
        "id": run.uid,
        "status": run.status,
        "format": run.params.get("format", ""),
        "label": jobs.format_label(run),
        "name": run.params.get("name", ""),
        "project": run.project,
        "dry_run": run.dry_run,
        "done": run.done,
        "total": run.total,
        "cause": run.cause,
        "error": run.error,
        "resumable": runs.is_resumable(run),
        "created_at": serializers.moment(run.created_at),
        "finished_at": serializers.moment(run.finished_at),
    }


def _serialize_counts(pairs: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"what": what, "count": count} for what, count in pairs]

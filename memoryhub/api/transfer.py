"""``/import`` and ``/export``: files of memories, in the hub's own and in other programs' formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from django.http import HttpResponse, StreamingHttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, BeforeValidator, Field

from memoryhub.access.policy import Actor
from memoryhub.api.schemas import ListOf, documented
from memoryhub.api.search import HistoryFilter
from memoryhub.core.disks import is_disk_error
from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import READ, WRITE, ApiRequest, Limit
from memoryhub.http.problems import (
    Problem,
    field_error,
    invalid_fields,
    json_response,
    list_response,
    unreadable_body,
)
from memoryhub.maintenance import runs
from memoryhub.memories import serializers
from memoryhub.memories.filters import TextFilter
from memoryhub.memories.schemas import TtlDays
from memoryhub.models import MaintenanceRun
from memoryhub.transfer import import_files, jobs, reports
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, MAX_RESPONSE_SECONDS, OWN_FORMAT, WRITERS, write_export

router = Router(tags=["Import and export"])
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


Lifetime = Annotated[
    TtlDays | None,
    BeforeValidator(
        lambda value: 0 if value == "never" else value,
        json_schema_input_type=TtlDays | Literal["never"] | None,
    ),
]


class ImportRequest(BaseModel):
    """Options of an import. The file is the body, or the part ``file`` of a form."""

    format: str = Field("", description=f"One of: {', '.join(FORMATS)}. Default: detected by the content.")
    project: str = Field("", max_length=200, description="Project of items without a project.")
    name: str = Field("", max_length=1000, description="Name of the file.")
    ttl: Lifetime = Field(
        None,
        description="Lifetime of memories without ttl_days in the file: never, or a number of days. Default: "
        "as configured.",
    )
    dry_run: bool = Field(False, description="Read and check the file without storing anything.")


class ImportShape(BaseModel):
    id: str
    status: Literal["queued", "running", "done", "failed"]
    format: str
    label: str
    name: str
    project: str
    dry_run: bool
    done: int = Field(description="Progress towards total, in bytes or items.")
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
    counts: dict[str, int] = Field(description="Numbers by kind and outcome, for example memories created.")
    failed: int
    errors: list[str] = Field(description="One page of failed items: position, field and reason.")
    more_errors: bool
    unmapped: list[Counted] = Field(description="Values that were changed or cannot be stored.")
    ignored: list[Counted] = Field(description="Unknown fields.")
    not_taken: list[Counted] = Field(description="Fields that are imported only with the right maintain.")
    expiring: int = Field(description="Number of new memories that expire.")
    first_expiry: str | None = Field(description="The earliest expiry of a new memory.")
    without_ttl: int = Field(description="Number of new memories that get the configured lifetime.")
    over_cap: list[Counted] = Field(description="Projects with more than max_memories after the import.")


class OneImport(BaseModel):
    limit: Limit = 100
    start: int = Field(0, ge=0, le=1_000_000, description="Number of errors to skip.")


class ExportRequest(HistoryFilter):
    """The filters of the list of memories. ``whole`` can be combined only with ``project``."""

    format: str = Field(OWN_FORMAT, description=f"One of: {', '.join(WRITERS)}.")
    whole: bool = Field(
        False, description="Include the visible trash, versions, facts, sessions, events and journal."
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
    """Saves the file and starts a run that imports it. Importing the same file again adds nothing.

    Every item must be within the clearance and the projects of the token. With the right ``maintain``, a
    file in the format ``memoryhub`` restores ids, authors, versions, sessions and the journal too.
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
            ttl_days=params.ttl,
            dry_run=params.dry_run,
            restores=restores,
        )
    except import_files.UploadTooLarge as error:
        raise Problem(413, "body_too_large", str(error)) from None
    except OSError as error:
        if is_disk_error(error):
            raise
        raise unreadable_body() from error
    return json_response(_serialize_import(run), 202)


@router.get("/import", auth=WRITE, response=documented(ListOf[ImportShape]), summary="List imports")
def list_imports(request: ApiRequest, params: Query[OneImport]) -> HttpResponse:
    """Returns the imports of this token, newest first."""
    rows = jobs.own_imports(request.auth.actor)
    items = [_serialize_import(run) for run in rows[: params.limit]]
    return list_response(items, rows.count())


@router.get(
    "/import/{id}",
    auth=WRITE,
    response=documented(ImportReport, errors=(404,)),
    summary="Get the report of an import",
)
def get_import(request: ApiRequest, id: str, params: Query[OneImport]) -> HttpResponse:
    """``errors`` is one page; ``start`` selects the next one."""
    run = jobs.get_import(id, request.auth.actor)
    report = reports.build_report(run, request.auth.actor.clearance, params.start, params.limit)
    return json_response(
        {
            **_serialize_import(run),
            "counts": dict(report.counts),
            "failed": report.failed,
            "expiring": report.expiring,
            "first_expiry": report.first_expiry,
            "without_ttl": report.without_ttl,
            "errors": report.errors,
            "more_errors": report.more_errors,
            **{
                name: [{"what": what, "count": count} for what, count in getattr(report, name)]
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
    """Stops the import. Stored items remain, and the import can be resumed."""
    actor = request.auth.actor
    return json_response(_serialize_import(jobs.stop_import(jobs.get_import(id, actor), actor)), 202)


@router.post(
    "/import/{id}/resume",
    auth=WRITE,
    response=documented(ImportShape, status=202, errors=(404, 409)),
    summary="Resume an import",
)
def resume_import(request: ApiRequest, id: str) -> HttpResponse:
    """Continues a stopped, interrupted or failed import from its last position."""
    actor, restores = request.auth.actor, Right.MAINTAIN.value in request.auth.rights
    return json_response(
        _serialize_import(jobs.resume_import(jobs.get_import(id, actor), actor, restores=restores)), 202
    )


@router.get(
    "/export",
    auth=READ,
    response=documented(str),
    summary="Export memories to a file",
    openapi_extra=_FILE_RESPONSES,
)
def export_file(request: ApiRequest, params: Query[ExportRequest]) -> HttpResponseBase:
    """Streams the file. The header ``X-Left-Out`` counts visible memories of levels that were not requested.

    Exported secrets are recorded in the journal.
    """
    if params.format not in WRITERS:
        raise invalid_fields([field_error("format", f"must be one of: {', '.join(WRITERS)}")])
    filters = params.model_fields_set - {"format", "whole", "project", "allow_private", "allow_secret"}
    if params.whole and (filters or params.format != OWN_FORMAT):
        raise invalid_fields(
            [field_error("whole", f"can be combined only with project and the format {OWN_FORMAT}")]
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
    lines = write_export(writer, selection, MAX_RESPONSE_SECONDS)
    return StreamingHttpResponse(lines, content_type=writer.content_type, headers=headers)


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
        "label": reports.format_label(run),
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

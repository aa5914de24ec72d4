"""``/maintenance``: request, list, stop, resume and undo runs. Every call needs ``maintain``."""

from __future__ import annotations

from datetime import datetime
from itertools import chain
from typing import Any, Literal

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.access.policy import Actor
from memoryhub.api.schemas import ListOf, documented
from memoryhub.audit.journal import record_reveals
from memoryhub.core.pagination import paginate, parse_offset
from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import MAINTAIN, AccessParams, ApiRequest, PageParams
from memoryhub.http.problems import json_response, list_response
from memoryhub.maintenance import results, runs
from memoryhub.maintenance.results import VisibleChange
from memoryhub.memories import serializers
from memoryhub.memories.filters import TextFilter
from memoryhub.models import MaintenanceRun


class RunShape(BaseModel):
    id: str
    operation: str
    status: Literal["queued", "running", "done", "failed"]
    dry_run: bool
    done: int
    total: int
    in_percent: bool = Field(
        description="The run includes memories that this token may not see: done and total are percentages."
    )
    cause: Literal["", "error", "interrupted", "stopped"] = Field(description="Reason of the failure.")
    error: str
    detail: str = Field(description="What a queued run waits for, if not the worker of this server.")
    params: dict[str, Any]
    actor: str
    undoes: str | None = Field(description="Id of the run that this run undoes.")
    undoable: bool
    resumable: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    undone_at: datetime | None


class ChangeShape(BaseModel):
    id: str
    action: str
    count: int = Field(description="Number of affected items, if they have no ids.")
    title: str
    before: float | None
    after: float | None
    reason: str
    members: list[str] = Field(description="Ids of the combined memories.")
    member_titles: list[str] = Field(description="Titles of the combined memories; empty for deleted ones.")
    into: str = Field(description="Id of the memory that contains them now.")


class ResultShape(BaseModel):
    counts: dict[str, int] = Field(description="Number of changes by action.")
    changes: int
    listed: int = Field(description="Number of listed items. After 20,000, changes are only counted.")
    items: list[ChangeShape] = Field(description="One page of the visible changes.")
    next_cursor: str | None


class RunWithChanges(RunShape):
    result: ResultShape


router = Router(tags=["Maintenance"], auth=MAINTAIN)
_WORKER_OFF = (
    "the worker of this server is switched off (maintenance_worker); run manage.py maintain --waiting"
)


class RunRequest(BaseModel):
    """An operation and its parameters, in ``params`` or next to ``operation``."""

    model_config = ConfigDict(extra="allow")

    operation: str = Field(description="For example purge_expired, consolidate, compress or evict.")
    dry_run: bool = Field(False, description="Only list the changes, without making them.")
    params: dict[str, Any] = Field(
        default_factory=dict, description="Parameters of the operation, all optional."
    )


class RunList(PageParams):
    operation: TextFilter = None
    status: Literal["queued", "running", "done", "failed"] | None = None


class OneRun(AccessParams, PageParams):
    """``limit`` and ``cursor`` page through the changes."""


@router.post(
    "/maintenance",
    response=documented(RunShape, status=202, errors=(409,)),
    summary="Start a maintenance run",
)
def start_maintenance(request: ApiRequest, body: RunRequest) -> HttpResponse:
    """Queues a run within the clearance of the token. Returns 409 while a conflicting run is active."""
    params = {**(body.model_extra or {}), **body.params}
    run = runs.enqueue(body.operation, params, request.auth.actor, dry_run=body.dry_run)
    return _run_accepted(run, request)


@router.get("/maintenance", response=documented(ListOf[RunShape]), summary="List maintenance runs")
def list_maintenance(request: ApiRequest, params: Query[RunList]) -> HttpResponse:
    """Returns the runs, newest first."""
    actor = request.auth.actor
    rows = results.visible_runs(actor.clearance).select_related("undoes")
    named = {name: getattr(params, name) for name in ("operation", "status")}
    rows = rows.filter(**{name: value for name, value in named.items() if value})
    page = paginate(rows, "created_at", params.limit, params.cursor)
    items = [_serialize_run(run, actor) for run in page.items]
    return list_response(items, rows.count(), page.next_cursor)


@router.get(
    "/maintenance/{id}", response=documented(RunWithChanges, errors=(404,)), summary="Get a maintenance run"
)
def get_maintenance(request: ApiRequest, id: str, params: Query[OneRun]) -> HttpResponse:
    """Returns the progress and one page of the changes; for a dry run, of the planned changes.

    Counts and lists include only the requested levels.
    """
    actor, start = request.auth.actor, parse_offset(params.cursor)
    run = runs.get_run(id, actor)
    clearance = params.clearance(request.auth)
    summary = results.visible_result(run, clearance)
    changes = results.list_changes(run, clearance, start, params.limit + 1)
    with_titles = Right.READ.value in request.auth.rights
    if with_titles:
        memories = chain.from_iterable((one.memory, *one.members) for one in changes[: params.limit])
        record_reveals({one.pk: one for one in memories if one}.values(), actor, "api run")
    result = {
        "counts": summary.counts,
        "changes": summary.changes,
        "listed": summary.listed,
        "items": [_serialize_change(change, with_titles) for change in changes[: params.limit]],
        "next_cursor": str(start + params.limit) if len(changes) > params.limit else None,
    }
    return json_response({**_serialize_run(run, actor), "result": result})


@router.post(
    "/maintenance/{id}/undo",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Undo a maintenance run",
)
def undo_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """Starts and returns a run that undoes this one. Returns 409 if nothing can be undone."""
    return _run_accepted(runs.undo(id, request.auth.actor), request)


@router.post(
    "/maintenance/{id}/resume",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Resume a maintenance run",
)
def resume_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """Continues a failed, interrupted or stopped run from its last step."""
    return _run_accepted(runs.resume(id, request.auth.actor), request)


@router.post(
    "/maintenance/{id}/stop",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Stop a maintenance run",
)
def stop_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """Stops the run after the current step. It can be resumed."""
    return _run_accepted(runs.stop(id, request.auth.actor), request)


def _run_accepted(run: MaintenanceRun, request: ApiRequest) -> HttpResponse:
    return json_response(_serialize_run(run, request.auth.actor), 202)


def _serialize_run(run: MaintenanceRun, actor: Actor) -> dict[str, Any]:
    summary = results.visible_result(run, actor.clearance, counted=False)
    may_control = results.can_control(actor.clearance, run)
    is_waiting = run.status == MaintenanceRun.Status.QUEUED and not settings.MEMORYHUB.maintenance_worker
    moments = ("created_at", "started_at", "finished_at", "undone_at")
    return {
        "id": run.uid,
        "operation": run.operation,
        "status": run.status,
        "dry_run": run.dry_run,
        "done": summary.done,
        "total": summary.total,
        "in_percent": not summary.whole,
        "cause": run.cause,
        "error": run.error,
        "detail": _WORKER_OFF if is_waiting else "",
        "params": dict(results.visible_params([run], actor.clearance)[run.pk]),
        "actor": run.actor,
        "undoes": run.undoes.uid if run.undoes else None,
        "undoable": may_control and runs.is_undoable(run),
        "resumable": may_control and runs.is_resumable(run),
        **{name: serializers.moment(getattr(run, name)) for name in moments},
    }


def _serialize_change(visible: VisibleChange, with_titles: bool) -> dict[str, Any]:
    change, memory = visible.change, visible.memory
    titles = {member.uid: member.title for member in visible.members} if with_titles else {}
    return {
        "id": change.uid,
        "action": change.action,
        "count": change.count,
        "title": memory.title if memory and with_titles else "",
        "before": change.before,
        "after": change.after,
        "reason": change.reason,
        "members": list(change.members),
        "member_titles": [titles.get(uid, "") for uid in change.members],
        "into": change.into,
    }

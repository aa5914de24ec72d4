"""``/maintenance``: runs asked for, looked at, stopped, resumed and undone. All of it needs ``maintain``."""

from __future__ import annotations

from itertools import chain
from typing import Any, Literal

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, ConfigDict, Field

from memoryhub import shapes
from memoryhub.agents.api.parameters import Paged
from memoryhub.agents.api.run_shapes import RunShape, RunWithChanges
from memoryhub.agents.api.schemas import ListOf, documented
from memoryhub.agents.api.wire import answer
from memoryhub.agents.asking import Asking
from memoryhub.agents.auth import MAINTAIN, ApiRequest
from memoryhub.lifecycle import reach, runs, telling
from memoryhub.lifecycle.outcome import ShownChange
from memoryhub.models import MaintenanceRun
from memoryhub.retrieval.filters import Filter
from memoryhub.retrieval.paging import BadCursor, page
from memoryhub.sensitivity import Actor
from memoryhub.store.reveals import note_reveals
from memoryhub.vocabulary import Right

router = Router(tags=["maintenance"], auth=MAINTAIN)
_WAITS = (
    "this hub's own worker is switched off (maintenance_worker); the run waits for: "
    "manage.py maintain --waiting"
)


class RunRequest(BaseModel):
    """``params`` may also stand beside ``operation`` and ``dry_run``."""

    model_config = ConfigDict(extra="allow")

    operation: str = Field(description="purge_expired, consolidate, compress, summarize_old, evict, …")
    dry_run: bool = Field(False, description="Only list what would change.")
    params: dict[str, Any] = Field(default_factory=dict, description="Of the operation, all optional.")


class RunList(Paged):
    operation: Filter = None
    status: Literal["queued", "running", "done", "failed"] | None = None


class OneRun(Asking, Paged):
    """``limit`` and ``cursor`` page through the changes."""


@router.post("/maintenance", response=documented(RunShape, status=202, errors=(409,)), summary="Start a run")
def start_maintenance(request: ApiRequest, wanted: RunRequest) -> HttpResponse:
    """Queues it and answers at once; the run reaches what the token clears. 409 while another is at it."""
    params = {**(wanted.model_extra or {}), **wanted.params}
    run = runs.start(wanted.operation, params, request.auth.actor, dry_run=wanted.dry_run)
    return answer(_run(run, request.auth.actor), 202)


@router.get("/maintenance", response=documented(ListOf[RunShape]), summary="List runs")
def list_maintenance(request: ApiRequest, wanted: Query[RunList]) -> HttpResponse:
    """Newest first."""
    actor = request.auth.actor
    rows = runs.visible_runs(actor.clearance).select_related("undoes")
    named = {name: getattr(wanted, name) for name in ("operation", "status")}
    rows = rows.filter(**{name: value for name, value in named.items() if value})
    found = page(rows, "created_at", wanted.limit, wanted.cursor)
    items = [_run(run, actor) for run in found.items]
    return answer({"items": items, "next_cursor": found.next_cursor, "total": rows.count()})


@router.get("/maintenance/{id}", response=documented(RunWithChanges, errors=(404,)), summary="One run")
def get_maintenance(request: ApiRequest, id: str, wanted: Query[OneRun]) -> HttpResponse:
    """Its progress and what it changed, or, of a dry run, would change; a page of it.

    Counted and listed is what the levels asked for show.
    """
    actor, start = request.auth.actor, _offset(wanted.cursor)
    run = runs.find(id, actor)
    asked = wanted.clearance(request.auth)
    told = runs.told(run, asked)
    changes = runs.changes_of(run, asked, start, wanted.limit + 1)
    titled = Right.READ.value in request.auth.rights
    if titled:
        named = chain.from_iterable((one.memory, *one.members) for one in changes[: wanted.limit])
        note_reveals({one.pk: one for one in named if one}.values(), actor, "api run")
    result = {
        "counts": told.counts,
        "changes": told.changes,
        "listed": told.listed,
        "items": [_change(change, titled) for change in changes[: wanted.limit]],
        "next_cursor": str(start + wanted.limit) if len(changes) > wanted.limit else None,
    }
    return answer({**_run(run, actor), "result": result})


@router.post(
    "/maintenance/{id}/undo",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Take a run back",
)
def undo_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """Answers the run that does it. 409 when nothing can be taken back."""
    return _steered(runs.undo(id, request.auth.actor), request)


@router.post(
    "/maintenance/{id}/resume",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Let a run go on",
)
def resume_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """For one that failed, was interrupted or stopped: it goes on where it was."""
    return _steered(runs.resume(id, request.auth.actor), request)


@router.post(
    "/maintenance/{id}/stop",
    response=documented(RunShape, status=202, errors=(404, 409)),
    summary="Stop a run",
)
def stop_maintenance(request: ApiRequest, id: str) -> HttpResponse:
    """It stops between two steps, and can be resumed."""
    return _steered(runs.stop(id, request.auth.actor), request)


def _steered(run: MaintenanceRun, request: ApiRequest) -> HttpResponse:
    return answer(_run(run, request.auth.actor), 202)


def _run(run: MaintenanceRun, actor: Actor) -> dict[str, Any]:
    told = runs.told(run, actor.clearance, counted=False)
    may_steer = reach.steers(actor.clearance, run)
    waits = run.status == MaintenanceRun.Status.QUEUED and not settings.MEMORYHUB.maintenance_worker
    moments = ("created_at", "started_at", "finished_at", "undone_at")
    return {
        "id": run.uid,
        "operation": run.operation,
        "status": run.status,
        "dry_run": run.dry_run,
        "done": told.done,
        "total": told.total,
        "in_percent": not told.whole,
        "cause": run.cause,
        "error": run.error,
        "detail": _WAITS if waits else "",
        "params": dict(telling.params([run], actor.clearance)[run.pk]),
        "actor": run.actor,
        "undoes": run.undoes.uid if run.undoes else None,
        "undoable": may_steer and runs.is_undoable(run),
        "resumable": may_steer and runs.is_resumable(run),
        **{name: shapes.moment(getattr(run, name)) for name in moments},
    }


def _change(shown: ShownChange, titled: bool) -> dict[str, Any]:
    change, memory = shown.change, shown.memory
    titles = {member.uid: member.title for member in shown.members} if titled else {}
    return {
        "id": change.uid,
        "action": change.action,
        "count": change.count,
        "title": memory.title if memory and titled else "",
        "before": change.before,
        "after": change.after,
        "reason": change.reason,
        "members": list(change.members),
        "member_titles": [titles.get(uid, "") for uid in change.members],
        "into": change.into,
    }


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 6):
        raise BadCursor
    return int(cursor)

"""Operations, runs, and what a dry run would change, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.utils import timezone

from memoryhub.lifecycle import runs, schedule
from memoryhub.lifecycle.operations import OPERATIONS
from memoryhub.management.operator import plural, shown
from memoryhub.models import MaintenanceRun
from memoryhub.sensitivity import Clearance, Sensitivity
from memoryhub.vocabulary import Scope

ROWS = 200  # of one run; the page of the run, and the API, have them all
LISTED = 10  # recent runs in the overview
_TITLE = 44


def overview(clearance: Clearance) -> Iterator[str]:
    """The operations, the schedule, the latest runs."""
    daily = schedule.operations()
    width = max(map(len, OPERATIONS))
    for name, operation in OPERATIONS.items():
        marks = ", ".join(["daily"] * (name in daily) + ["can be undone"] * operation.undoable)
        yield f"{name:<{width}}  {operation.label}" + (f" ({marks})" if marks else "")
        yield f"{'':<{width}}    parameters: {', '.join(operation.Params.model_fields)}"
    yield ""
    following = schedule.next_moment(timezone.now())
    at = settings.MEMORYHUB.maintenance_at
    when = f"at {at} {settings.TIME_ZONE}, next on {following:%Y-%m-%d}" if following else "never"
    yield f"The server runs the daily ones {when}."
    if not settings.MEMORYHUB.maintenance_worker:
        yield "Its worker is switched off (maintenance_worker): this command does it all."
    recent = list(runs.visible_runs(clearance)[:LISTED])
    if recent:
        yield from ("", "Latest runs:")
    for run in recent:
        yield f"{run.uid}  {run.created_at:%Y-%m-%d %H:%M}  {run.operation:<{width}}  {_standing(run)}"


def _standing(run: MaintenanceRun) -> str:
    kind = " (dry run)" if run.dry_run else f" (takes {run.undoes.uid} back)" if run.undoes else ""
    changes = plural((run.result or {}).get("changes", 0), "change")
    return f"{run.cause or run.status}{kind}, {changes}, by {shown(run.actor)}"


def lines_of(run: MaintenanceRun, clearance: Clearance) -> Iterator[str]:
    """A line for each change. What is printed goes into logs and mails, so only public titles are told."""
    changes = runs.changes_of(run, clearance, 0, ROWS)
    rows = [(one.change.action, _title(one), one.change.reason) for one in changes]
    action = max((len(row[0]) for row in rows), default=0)
    title = max((len(row[1]) for row in rows), default=0)
    for row in rows:
        yield f"  {row[0]:<{action}}  {row[1]:<{title}}  {row[2]}".rstrip()
    more = (run.result or {}).get("changes", 0) - sum(one.change.count for one in changes)
    if more > 0:
        yield f"  … and {more:,} more; see run {run.uid} in the browser"


def _title(one: runs.ShownChange) -> str:
    if one.memory is None:
        return one.change.uid
    if one.memory.scope == Scope.PERSONAL.value:
        return f"{one.memory.uid} (personal)"
    if one.memory.sensitivity != Sensitivity.PUBLIC.value:
        return f"{one.memory.uid} ({one.memory.sensitivity})"
    return shown(one.memory.title, _TITLE)

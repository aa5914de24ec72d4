"""The maintenance pages: health, schedule, the forms that start operations, and the language model."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import is_confined, may_manage_people, request_actor, request_clearance
from memoryhub.audit import clock
from memoryhub.core.text import format_count
from memoryhub.extraction import services
from memoryhub.extraction import services as extraction_queue
from memoryhub.http.problems import refusal_status
from memoryhub.llm import LlmSettings, find_problems, sends_in_clear
from memoryhub.maintenance import results, runs
from memoryhub.maintenance import runs as daily
from memoryhub.maintenance.operations import OPERATIONS, find_operation
from memoryhub.maintenance.operations.base import Operation
from memoryhub.maintenance.worker import Worker
from memoryhub.memories import StoreError
from memoryhub.memories.delete import count_by_quota, load_caps
from memoryhub.models import Event, MaintenanceRun, Memory
from memoryhub.stats.counts import count_each
from memoryhub.web.base.forms import PlainForm
from memoryhub.web.base.navigation import can_view_runs
from memoryhub.web.base.requests import require
from memoryhub.web.runs import (
    IRREVERSIBLE_OPERATIONS,
    LOSING_OPERATIONS,
    asks_first,
    can_start_run,
    count_changes,
    count_losses,
    form_fields,
)


class RunForm(PlainForm):
    """The parameters of an operation."""

    def __init__(self, operation: Operation[Any], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, auto_id=f"{operation.name}_%s")
        self.operation = operation
        self.fields.update(form_fields(operation.Params))
        for field in self.fields.values():
            field.widget.attrs["form"] = f"start-{operation.name}"
        if "project" in self.fields:
            self.fields["project"].widget.attrs["list"] = "projects"

    def params(self) -> dict[str, Any]:
        """Return the given parameters of a valid form."""
        given = self.cleaned_data.items()
        return {name: value for name, value in given if value not in (None, "") and value is not False}


@dataclass(frozen=True)
class Job:
    """An operation on the page; ``last`` is its newest run that was not a dry run, with its counts."""

    operation: Operation[Any]
    form: RunForm | None
    last: MaintenanceRun | None
    result: list[tuple[str, int]]
    may_dry_run: bool
    may_run: bool
    is_off: bool
    is_daily: bool
    is_after_sessions: bool

    @property
    def loses_data(self) -> bool:
        return self.operation.name in LOSING_OPERATIONS

    @property
    def asks_first(self) -> bool:
        return asks_first(self.operation)


MAX_RECENT = 5


@require_safe
@require(can_view_runs)
def maintenance(request: HttpRequest) -> HttpResponse:
    return _render_page(request)


@require_POST
def run_start(request: HttpRequest) -> HttpResponse:
    """Start ``operation`` with its parameters; ``do`` is run or dry_run. Runs that change data ask first."""
    operation = OPERATIONS.get(request.POST.get("operation", ""))
    mode = request.POST.get("do")
    if operation is None or mode not in ("run", "dry_run"):
        raise BadRequest("unknown operation or mode")
    dry_run = mode == "dry_run"
    if not can_start_run(request.user, operation.name, dry_run=dry_run):
        raise PermissionDenied
    form = RunForm(operation, request.POST)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    try:
        if asks_first(operation) and not dry_run and request.POST.get("confirmed") != "yes":
            return _render_confirmation(request, operation, form.params())
        run = runs.enqueue(operation.name, form.params(), request_actor(request), dry_run=dry_run)
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_page(request, form, status=refusal_status(refusal))
    return redirect("run", run.uid)


@require_POST
@require(may_manage_people)
def clock_confirm(request: HttpRequest) -> HttpResponse:
    """Accept the clock as right, and end the pause after a jump."""
    if clock.confirm(request_actor(request)):
        messages.success(request, "Clock confirmed. Maintenance continues.")
    else:
        messages.warning(request, "Nothing to confirm. The clock has been corrected or confirmed already.")
    return redirect("maintenance")


def _render_page(request: HttpRequest, wrong: RunForm | None = None, status: int = 200) -> HttpResponse:
    clearance, now = request_clearance(request), timezone.now()
    scheduled = daily.daily_operations()
    recent = results.visible_runs(clearance).select_related("undoes")[:MAX_RECENT]
    context = {
        "health": status_numbers(clearance, now),
        "schedule": schedule_status(clearance, now, scheduled),
        "jobs": _jobs(request, scheduled, wrong),
        "wrong": wrong,
        "recent": list(recent),
        "pause": clock.current_pause(),
        "may_confirm_clock": may_manage_people(request.user),
    }
    return render(request, "maintenance/page.html", context, status=status)


def _jobs(request: HttpRequest, scheduled: list[str], wrong: RunForm | None) -> list[Job]:
    """Return the scheduled operations in their order, then those that people start."""
    clearance = request_clearance(request)
    last = last_runs_by_operation(clearance)
    after_sessions = settings.MEMORYHUB.session_end_consolidation == "auto"
    jobs = []
    for name in dict.fromkeys([*scheduled, *OPERATIONS]):
        operation, run = find_operation(name), last.get(name)
        if operation is None:
            continue
        form = wrong if wrong and wrong.operation is operation else RunForm(operation)
        jobs.append(
            Job(
                operation,
                form if name in OPERATIONS else None,
                run,
                result_lines(run, clearance) if run else [],
                name in OPERATIONS and can_start_run(request.user, name, dry_run=True),
                name in OPERATIONS and can_start_run(request.user, name, dry_run=False),
                runs.is_switched_off(name),
                name in scheduled,
                name == "consolidate" and after_sessions,
            )
        )
    return jobs


def result_lines(run: MaintenanceRun, clearance: Clearance) -> list[tuple[str, int]]:
    """Return what a run changed, for viewers of everything that it covered."""
    result = results.visible_result(run, clearance, counted=False)
    return results.result_lines(run, result) if result.whole else []


def _render_confirmation(
    request: HttpRequest, operation: Operation[Any], params: dict[str, Any]
) -> HttpResponse:
    """Ask for confirmation, with the consequences in numbers."""
    actor = request_actor(request)
    context: dict[str, Any] = {"operation": operation, "fields": params}
    if operation.name in LOSING_OPERATIONS:
        count = count_losses(operation, params, actor)
        is_about_memories = operation.name in IRREVERSIBLE_OPERATIONS
        context |= {
            "loses_data": True,
            "count": count,
            "counted": format_count(count, "memory" if is_about_memories else "row"),
            "is_about_memories": is_about_memories,
        }
    else:
        counts = count_changes(operation, params, actor)
        context |= {
            "count": sum(counts.values()) if counts is not None else None,
            "lines": results.count_lines(counts or {}, dry_run=True),
            "faded": (counts or {}).get("fade", 0),
        }
    return render(request, "maintenance/confirm.html", context)


RECENT_RUN_DAYS = 7  # for which a failed run is reported
MAX_WAIT = timedelta(minutes=2)  # a run that waits longer while none is running has no worker


@dataclass(frozen=True)
class StatusNumber:
    """A count with a link to the counted rows; ``needs_a_look`` if something should be done."""

    count: int
    words: str
    href: str = ""
    needs_a_look: bool = False


def status_numbers(clearance: Clearance, now: datetime) -> list[StatusNumber]:
    """Count visible memories and events by state."""
    visible = Memory.objects.visible_to(clearance)
    quotas = count_by_quota(visible.live(now))
    ended = count_each(expired=visible.expired(now), trashed=visible.trashed())
    found = [
        StatusNumber(sum(quotas.values()), "live", reverse("memories")),
        StatusNumber(ended["expired"], "expired, waiting to be purged", f"{reverse('trash')}?tab=expired"),
        StatusNumber(ended["trashed"], "in the trash", reverse("trash")),
    ]
    if (caps := load_caps()).is_any:
        over = sum(caps.excess(quota.project, count) for quota, count in quotas.items())
        found.append(StatusNumber(over, "over the cap of their project and owner", "", over > 0))
    if days := settings.MEMORYHUB.event_retention_days:
        old = Event.objects.visible_to(clearance).filter(at__lt=now - timedelta(days=days))
        found.append(StatusNumber(old.count(), f"events older than {days} days"))
    return found


@dataclass(frozen=True)
class Schedule:
    """Scheduled maintenance; ``next_at`` is None without a schedule."""

    next_at: datetime | None
    operations: list[str]
    worker: str
    is_worked_on: bool
    waiting: int


def schedule_status(clearance: Clearance, now: datetime, scheduled: Iterable[str]) -> Schedule:
    """Return the next run, its operations, and the state of the worker."""
    worker, is_working = _worker_status()
    pending = (
        results.visible_runs(clearance).filter(status__in=runs.PENDING).values_list("status", "created_at")
    )
    statuses = {status for status, _ in pending}
    is_idle = MaintenanceRun.Status.RUNNING not in statuses
    waiting = sum(is_idle and created_at < now - MAX_WAIT for _, created_at in pending)
    found = map(find_operation, scheduled)
    labels = [operation.label for operation in found if operation]
    return Schedule(daily.next_due_time(now), labels, worker, is_working, waiting)


def _worker_status() -> tuple[str, bool]:
    """Describe the worker of this server, and whether it is running."""
    if any(isinstance(one, Worker) and one.is_alive() for one in threading.enumerate()):
        return "Running on this server", True
    if settings.MEMORYHUB.maintenance_worker:
        return "Not running on this server", False
    return "Switched off on this server", False


def last_runs_by_operation(clearance: Clearance) -> dict[str, MaintenanceRun]:
    """Return the newest run of each operation that was no dry run."""
    real = results.visible_runs(clearance).filter(dry_run=False, undoes=None)
    newest = real.order_by().values("operation").annotate(newest=Max("pk")).values("newest")
    return {run.operation: run for run in real.filter(pk__in=newest)}


def recent_runs(clearance: Clearance, now: datetime) -> list[MaintenanceRun]:
    """Return the runs of the last days that were no dry runs, newest first."""
    since = now - timedelta(days=RECENT_RUN_DAYS)
    recent = results.visible_runs(clearance).filter(created_at__gte=since, dry_run=False)
    return list(recent.select_related("undoes"))


def find_failed(recent: Iterable[MaintenanceRun]) -> list[MaintenanceRun]:
    """Return the failed ones of recent runs, without those followed by a successful run of the same kind."""
    failed, succeeded = [], set()
    for run in recent:
        kind = (run.operation, run.project, run.undoes_id is None)
        if run.status == MaintenanceRun.Status.FAILED and run.cause != MaintenanceRun.Cause.STOPPED:
            if kind not in succeeded:
                failed.append(run)
        elif run.status == MaintenanceRun.Status.DONE:
            succeeded.add(kind)
    return failed


def find_faded(
    recent: Iterable[MaintenanceRun], clearance: Clearance, now: datetime
) -> tuple[MaintenanceRun, int] | None:
    """Return the last consolidation of a day, with the number of memories that it made harder to find.

    None if there are none, if it was undone, or if the viewer may not see all of it.
    """
    since = now - timedelta(days=1)
    run = next((one for one in recent if one.operation == "consolidate" and one.undoes_id is None), None)
    if run is None or run.undone_at or not run.finished_at or run.finished_at < since:
        return None
    result = results.visible_result(run, clearance, counted=False)
    count = result.counts.get("fade", 0) + result.counts.get("evict", 0)
    return (run, count) if result.whole and count else None


MAX_DAYS, MAX_TROUBLES = 14, 10


@dataclass(frozen=True)
class BudgetShare:
    """Today's use of a limit; 0 means unlimited."""

    words: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        return min(self.used / self.limit, 1.0) if self.limit else 0.0

    @property
    def is_spent(self) -> bool:
        return bool(self.limit) and self.used >= self.limit


@require_safe
@require(can_view_runs)
def language_model(request: HttpRequest) -> HttpResponse:
    """Show the state of the language model, without its API key or any prompts."""
    chosen = LlmSettings.now()
    config, confined = settings.MEMORYHUB, is_confined(request.user)
    days = services.recent_usage(MAX_DAYS)
    today = days[0][1]
    shares = [
        BudgetShare("calls", today.calls, config.llm_daily_calls),
        BudgetShare("tokens", today.tokens, config.llm_daily_tokens),
    ]
    context = {
        "chosen": chosen,
        "host": urlsplit(chosen.url).netloc,
        "problems": find_problems(chosen),
        "in_clear": sends_in_clear(chosen),
        "config": config,
        # Usage counts every project. Users confined to some projects only see whether it is used up.
        "confined": confined,
        "shares": [] if confined else shares,
        "is_spent": any(share.is_spent for share in shares),
        "days": [] if confined else [(day, spent) for day, spent in days if spent.calls],
        "most_days": MAX_DAYS,
        "counts": extraction_queue.count_by_status(request_clearance(request)),
        "troubles": list(extraction_queue.find_with_notes(request_clearance(request))[:MAX_TROUBLES]),
    }
    return render(request, "language_model/page.html", context)

"""Service checks: the embedding provider and maintenance runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from django.utils import timezone

from memoryhub.backends import vector_log
from memoryhub.embeddings import EmbeddingError, configured
from memoryhub.embeddings.settings import EmbeddingSettings, find_problems
from memoryhub.maintenance import scheduler
from memoryhub.maintenance.executor import is_lost, mark_interrupted
from memoryhub.models import MaintenanceRun
from memoryhub.ops import checks
from memoryhub.ops.doctor.registry import Finding, check, fail, of_messages, ok, warn

_HINT = "Until this is fixed, search uses words only; manage.py show_config shows the settings."


@check("embeddings")
def provider() -> Iterator[Finding]:
    yield from of_messages(checks.embeddings_can_work())
    try:
        embedder = configured()
        if embedder is not None:
            length = len(embedder.query("Is anybody there?"))
            yield ok(f"{embedder.name} answers, with vectors of {length} numbers")
        else:
            yield ok("none: search uses words only")
    except EmbeddingError as error:
        if not find_problems(EmbeddingSettings.now()):  # already reported above
            yield warn(str(error), _HINT)


@check("vectors", needs="triggers")
def vectors() -> Iterator[Finding]:
    """Check that every memory has a vector of the configured model."""
    try:
        embedder = configured()
    except EmbeddingError:
        return  # already reported above
    held = vector_log.sizes_by_model()
    size = sum(length for _, length in held.values()) / 1e6
    if embedder is None:
        yield ok(f"no model is configured; {size:,.1f} MB of vectors of earlier models")
        return
    number, _ = held.get(embedder.name, (0, 0))
    lacking = vector_log.count_memories() - number
    if lacking > 0:
        yield warn(
            f"{lacking:,} memories have no vector of {embedder.name}: search finds them only by their words",
            "The server embeds them in the background; or run: manage.py maintain embed",
        )
        return
    yield ok(f"{number:,} of {embedder.name}, {size:,.1f} MB")


# Interrupted runs are reported for this long; later runs have replaced older ones.
_LATELY = timedelta(days=7)
_MISSED = timedelta(days=2)
_WAITED = timedelta(hours=1)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


def _mark() -> Iterator[str]:
    if marked := mark_interrupted():
        yield f"marked {marked} runs as interrupted"


@check("maintenance runs", needs="tables", fix=_mark)
def maintenance_runs() -> Iterator[Finding]:
    now = timezone.now()
    dead = [run for run in MaintenanceRun.objects.filter(status=Status.RUNNING) if is_lost(run, now)]
    for run in dead:
        yield warn(
            f"{run.operation} (run {run.uid}) is marked as running, but no worker executes it",
            "doctor --fix marks it as interrupted; then: manage.py maintain --resume ID",
        )
    interrupted = MaintenanceRun.objects.filter(
        status=Status.FAILED, cause=Cause.INTERRUPTED, dry_run=False, created_at__gt=now - _LATELY
    )
    for run in interrupted:
        yield warn(
            f"{run.operation} (run {run.uid}) was interrupted after {run.done:,} of {run.total:,}",
            f"manage.py maintain --resume {run.uid}",
        )
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, created_at__lt=now - _WAITED).count()
    if waiting:
        yield warn(
            f"{waiting:,} runs have waited for more than an hour",
            "Start the server, or: manage.py maintain --waiting",
        )
    if not dead and not interrupted and not waiting:
        yield ok("none is stuck")


@check("daily maintenance", needs="tables")
def daily_maintenance() -> Iterator[Finding]:
    if unknown := scheduler.unknown_operations():
        yield fail(
            f"maintenance_operations contains unknown names: {', '.join(unknown)}",
            "Correct it; manage.py maintain --list shows the known ones.",
        )
        return
    now, last = timezone.now(), scheduler.last_scheduled_day()
    born = MigrationRecorder.Migration.objects.aggregate(first=Min("applied"))["first"] or now
    late = now - born > _MISSED and (last is None or timezone.localdate(now) - last >= _MISSED)
    if late:
        when = f"since {last:%Y-%m-%d}" if last else "since the store was made"
        kept = settings.MEMORYHUB.maintenance_at and settings.MEMORYHUB.maintenance_worker
        hint = "Start the server" if kept else "Set maintenance_at and maintenance_worker"
        yield warn(f"has not run {when}", f"{hint}, or let cron run: manage.py maintain")
    elif last:
        yield ok(f"ran on {last:%Y-%m-%d}")
    else:
        following = scheduler.next_due_time(now)
        yield ok(f"runs first on {following:%Y-%m-%d %H:%M}" if following else "the store is new")

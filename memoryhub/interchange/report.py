"""What became of an import that runs on its own: found, steered and told, for the pages and the API alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from memoryhub.interchange.formats import FORMATS
from memoryhub.interchange.running import FAILED, IGNORED, NAME, NOT_TAKEN, UNMAPPED, WITHOUT_TTL
from memoryhub.lifecycle import reach, runs
from memoryhub.models import MaintenanceRun, RunChanges
from memoryhub.sensitivity import Actor
from memoryhub.store.errors import NotFound

_NOTES = frozenset({FAILED, UNMAPPED, IGNORED, NOT_TAKEN, WITHOUT_TTL})


@dataclass
class Report:
    """``counts``: how many of each kind and outcome ("memories created"), the most first. ``errors``: a page
    of what failed, each with its place; ``failed`` counts all of it. The others are told with their number.
    """

    counts: list[tuple[str, int]] = field(default_factory=list)
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    more_errors: bool = False
    unmapped: list[tuple[str, int]] = field(default_factory=list)
    ignored: list[tuple[str, int]] = field(default_factory=list)
    not_taken: list[tuple[str, int]] = field(default_factory=list)
    without_ttl: int = 0


def find(uid: str, actor: Actor) -> MaintenanceRun:
    """One's own import, or one that reached no more than one may see; NotFound otherwise."""
    runs.mark_interrupted()
    run = MaintenanceRun.objects.filter(uid=uid, operation=NAME).first()
    if run is None or not (run.actor == actor.name or reach.covers(actor.clearance, run)):
        raise NotFound("there is no such import")
    return run


def own(actor: Actor) -> QuerySet[MaintenanceRun]:
    """Imports that this actor asked for, newest first."""
    return MaintenanceRun.objects.filter(operation=NAME, actor=actor.name).order_by("-created_at", "-pk")


def steering(run: MaintenanceRun, actor: Actor) -> Actor:
    """Who stops or resumes a run: its own actor may do so, whatever they look at right now."""
    return Actor(run.actor, reach.of(run)) if run.actor == actor.name else actor


def label(run: MaintenanceRun) -> str:
    """What wrote the file, for people."""
    found = FORMATS.get(str(run.params.get("format")))
    return found.label if found else str(run.params.get("format"))


def of(run: MaintenanceRun, start: int = 0, limit: int = 100) -> Report:
    """All numbers, and a page of the errors."""
    told: dict[str, int] = (run.result or {}).get("counts", {})
    report = Report(
        sorted(((words, n) for words, n in told.items() if words not in _NOTES), key=lambda one: -one[1]),
        told.get(FAILED, 0),
        without_ttl=told.get(WITHOUT_TTL, 0),
    )
    notes: dict[str, Counter[str]] = {UNMAPPED: Counter(), IGNORED: Counter(), NOT_TAKEN: Counter()}
    seen = 0
    for action, reason, count in _kept(run):
        if action in notes:
            notes[action][reason] += count
        elif action == FAILED:
            seen += 1
            if start < seen <= start + limit:
                report.errors.append(reason if count == 1 else f"{count:,} {reason}")
    report.more_errors = seen > start + limit
    report.unmapped = notes[UNMAPPED].most_common()
    report.ignored, report.not_taken = notes[IGNORED].most_common(), notes[NOT_TAKEN].most_common()
    return report


def _kept(run: MaintenanceRun) -> Iterator[tuple[str, str, int]]:
    for step in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        for change in step.changes:
            yield change["action"], change.get("reason", ""), change.get("count", 1)

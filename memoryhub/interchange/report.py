"""What became of an import that runs on its own: found, steered and told, for the pages and the API alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from memoryhub.interchange.formats import FORMATS
from memoryhub.interchange.load import over_cap
from memoryhub.interchange.running import FAILED, IGNORED, NAME, NOT_TAKEN, PROJECT, UNMAPPED, WITHOUT_TTL
from memoryhub.lifecycle import reach, runs
from memoryhub.models import MaintenanceRun, Memory, RunChanges
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.store.errors import Forbidden, NotFound

_NOTES = frozenset({FAILED, UNMAPPED, IGNORED, NOT_TAKEN, WITHOUT_TTL, PROJECT})


@dataclass
class Report:
    """``counts``: how many of each kind and outcome ("memories created"), the most first. ``errors``: a page
    of what failed, each with its place; ``failed`` counts all of it. ``over_cap``: projects that memories
    came into and that hold (after a dry run: would hold) more than ``max_memories``. The others are told with
    their number.
    """

    counts: list[tuple[str, int]] = field(default_factory=list)
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    more_errors: bool = False
    unmapped: list[tuple[str, int]] = field(default_factory=list)
    ignored: list[tuple[str, int]] = field(default_factory=list)
    not_taken: list[tuple[str, int]] = field(default_factory=list)
    without_ttl: int = 0
    over_cap: list[tuple[str, int]] = field(default_factory=list)


def find(uid: str, actor: Actor) -> MaintenanceRun:
    """One's own import, or one that reached no more than one may see; NotFound otherwise."""
    runs.mark_interrupted()
    run = MaintenanceRun.objects.filter(uid=uid, operation=NAME).first()
    if run is None or not (_is_own(run, actor) or reach.covers(actor.clearance, run)):
        raise NotFound("there is no such import")
    return run


def _is_own(run: MaintenanceRun, actor: Actor) -> bool:
    """Asked for by this actor; tokens of several people may have the same name."""
    return run.actor == actor.name and reach.of(run).owner == actor.owner


def own(actor: Actor) -> QuerySet[MaintenanceRun]:
    """Imports that this actor asked for, newest first."""
    mine = MaintenanceRun.objects.filter(operation=NAME, actor=actor.name, reach__owner=actor.owner)
    return mine.order_by("-created_at", "-pk")


def stop(run: MaintenanceRun, actor: Actor) -> MaintenanceRun:
    """Ask an import to stop. Its own actor may do so, whatever they may see by now."""
    return runs.stop(run.uid, Actor(run.actor, reach.of(run)) if _is_own(run, actor) else actor)


def resume(run: MaintenanceRun, actor: Actor, *, restores: bool) -> MaintenanceRun:
    """Let an import go on as it was asked for; Forbidden, NotFound when that is beyond the actor by now.

    ``actor``: with all that they may see at most. ``restores``: they may restore the store.
    """
    if run.params.get("restores") and not restores:
        raise Forbidden("this import restores a store; leave it to those who may, or import the file again")
    return runs.resume(run.uid, actor)


def label(run: MaintenanceRun) -> str:
    """What wrote the file, for people."""
    found = FORMATS.get(str(run.params.get("format")))
    return found.label if found else str(run.params.get("format"))


def of(run: MaintenanceRun, clearance: Clearance, start: int = 0, limit: int = 100) -> Report:
    """All numbers, and a page of the errors. What a project holds is counted as far as it may be seen."""
    told: dict[str, int] = (run.result or {}).get("counts", {})
    report = Report(
        sorted(((words, n) for words, n in told.items() if words not in _NOTES), key=lambda one: -one[1]),
        told.get(FAILED, 0),
        without_ttl=told.get(WITHOUT_TTL, 0),
    )
    notes: dict[str, Counter[str]] = {UNMAPPED: Counter(), IGNORED: Counter(), NOT_TAKEN: Counter()}
    coming: Counter[str] = Counter()
    seen = 0
    for action, reason, count, after in _kept(run):
        if action in notes:
            notes[action][reason] += count
        elif action == PROJECT:
            coming[reason] += int(after)
        elif action == FAILED:
            seen += 1
            if start < seen <= start + limit:
                report.errors.append(reason if count == 1 else f"{count:,} {reason}")
    report.more_errors = seen > start + limit
    report.unmapped = notes[UNMAPPED].most_common()
    report.ignored, report.not_taken = notes[IGNORED].most_common(), notes[NOT_TAKEN].most_common()
    visible = Memory.objects.visible_to(clearance)
    report.over_cap = sorted(over_cap(coming, visible, run.dry_run).items())
    return report


def _kept(run: MaintenanceRun) -> Iterator[tuple[str, str, int, float]]:
    """Action, reason, count, and the number ``after``."""
    for step in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        for change in step.changes:
            yield change["action"], change.get("reason", ""), change.get("count", 1), change.get("after", 0)

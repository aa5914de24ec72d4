"""Runs and what they change, told in words and numbers: for the pages and the admin alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memoryhub.lifecycle import reach
from memoryhub.lifecycle.operations import known as known_operation
from memoryhub.lifecycle.outcome import Told
from memoryhub.models import MaintenanceRun, Memory
from memoryhub.sensitivity import Clearance

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

# Of each action of a change: what a run did, and what a dry run says that one would do.
DEEDS = {
    "boost": ("raised in importance", "would be raised in importance"),
    "decay": ("faded in importance", "would fade in importance"),
    "evict": ("sent to the trash", "would go to the trash"),
    "merge": ("merged", "would be merged"),
    "summarise": ("summarised", "would be summarised"),
    "purge": ("purged for good", "would be purged for good"),
    "erase": ("erased for good", "would be erased for good"),
    "prune": ("pruned", "would be pruned"),
    "reindex": ("indexed anew", "would be indexed anew"),
    "embed": ("given a vector", "would be given a vector"),
    "undone": ("changes taken back", "changes would be taken back"),
}
# Where one change is about several memories: how their number is told.
GROUPS = {
    "merge": ("groups made one memory each", "groups would become one memory each"),
    "summarise": ("groups summarised in one memory each", "groups would be summarised in one memory each"),
}
# Of operations of higher floors, which tell of them on pages of their own.
_UNTOLD = frozenset({"upload", "name", "restores", "dry_run"})
_FAILED = {Cause.INTERRUPTED: "Interrupted", Cause.STOPPED: "Stopped"}


def title(run: MaintenanceRun) -> str:
    """What a run is, in a few words."""
    operation = known_operation(run.operation)
    label = operation.label if operation else run.operation.replace("_", " ").capitalize()
    if run.undoes_id:
        return f"Undo: {label}"
    return f"Dry run: {label}" if run.dry_run else label


def state(run: MaintenanceRun) -> str:
    """How it stands with a run, in a few words."""
    if run.status == Status.QUEUED:
        return "Waiting to begin"
    if run.status == Status.RUNNING:
        return "Stopping" if run.stop_requested else "Running"
    if run.status == Status.FAILED:
        return _FAILED.get(Cause(run.cause), "Failed") if run.cause else "Failed"
    if run.undone_at:
        return "Done, and undone since"
    return "Done"


def is_under_way(run: MaintenanceRun) -> bool:
    return run.status in (Status.QUEUED, Status.RUNNING)


def is_broken(run: MaintenanceRun) -> bool:
    """Ended before its end, and by nobody's wish."""
    return run.status == Status.FAILED and run.cause != Cause.STOPPED


def deed(action: str, dry_run: bool) -> str:
    """What became of a memory, or would."""
    return DEEDS[action][dry_run] if action in DEEDS else action


def results(run: MaintenanceRun, told: Told) -> list[tuple[str, int]]:
    """How many of each deed, the most first; of groups, how many memories were in them too."""
    counts = sorted(told.counts.items(), key=lambda one: (-one[1], one[0]))
    lines = [
        (GROUPS[action][run.dry_run] if action in GROUPS else deed(action, run.dry_run), count)
        for action, count in counts
    ]
    if told.whole and counts and set(told.counts) <= set(GROUPS):
        lines.append(("memories in them", (run.result or {}).get("changed", 0)))
    return lines


def percent(run: MaintenanceRun, told: Told) -> int:
    """How far a run has come, 0 to 100."""
    if run.status == Status.DONE:
        return 100
    return min(100, 100 * told.done // told.total) if told.total else 0


def params(found: Iterable[MaintenanceRun], clearance: Clearance) -> dict[int, list[tuple[str, Any]]]:
    """What each run was told, by its key. A project is named to those who know of it already."""
    found = list(found)
    unsure = {run.project for run in found if run.project and not reach.covers(clearance, run)}
    live = Memory.objects.visible_to(clearance).live().filter(project__in=unsure)
    known = set(live.order_by().values_list("project", flat=True).distinct()) if unsure else set()
    hidden = unsure - known
    return {
        run.pk: [
            (name, value)
            for name, value in run.params.items()
            if value is not None and name not in _UNTOLD and not (name == "project" and value in hidden)
        ]
        for run in found
    }

"""Results of runs as one viewer can see them: labels, counts and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.core.chunks import batched
from memoryhub.maintenance import run_scope
from memoryhub.maintenance.operations.base import Change
from memoryhub.maintenance.registry import find_operation
from memoryhub.maintenance.registry import find_operation as known_operation
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, RunChanges

MAX_LISTED_CHANGES = 20_000  # changes that a run lists; beyond it they are counted
_CHUNK = 500


@dataclass(frozen=True)
class VisibleChange:
    """``memory``: what it is about, None when that is gone; ``members``: those that may be seen."""

    change: Change
    memory: Memory | None
    members: tuple[Memory, ...] = ()


@dataclass(frozen=True)
class VisibleResult:
    """A run's numbers for one viewer.

    ``whole``: those of the run itself. Otherwise it reached further than the viewer may see: ``done`` of
    ``total`` are percent, and the others are about what the viewer may see. ``listed``: the rows of its list,
    which ends after :data:`KEPT`; one may stand for many things that have no ids.
    """

    done: int
    total: int
    counts: dict[str, int]
    changes: int
    listed: int
    whole: bool


def visible_result(run: MaintenanceRun, clearance: Clearance, *, counted: bool = True) -> VisibleResult:
    """The numbers of a run. Without ``counted`` none are looked up: for lists, and while a bar moves."""
    if _may_see_totals(run, clearance):
        result = run.result or {}
        numbers = (result.get("changes", 0), result.get("listed", 0))
        return VisibleResult(run.done, run.total, result.get("counts", {}), *numbers, True)
    share = 100 * min(run.done, run.total) // run.total if run.total else 0
    if run.status == MaintenanceRun.Status.DONE:
        share = 100
    counts: Counter[str] = Counter()
    listed = 0
    for change in visible_changes(run, clearance) if counted else ():
        counts[change.action] += change.count
        listed += 1
    return VisibleResult(share, 100, dict(counts), counts.total(), listed, False)


def _may_see_totals(run: MaintenanceRun, clearance: Clearance) -> bool:
    """Whether the numbers of a run count nothing that is hidden from this viewer."""
    return (
        run_scope.sees_everything(clearance)
        if _covers_whole_store(run)
        else run_scope.can_see_all(clearance, run)
    )


def _covers_whole_store(run: MaintenanceRun) -> bool:
    operation = find_operation(run.operation)
    return operation is not None and operation.whole_store


def list_changes(
    run: MaintenanceRun, clearance: Clearance, start: int = 0, count: int = 50
) -> list[VisibleChange]:
    """A page of the changes that may be seen, in the order in which they were made or planned."""
    page = list(islice(visible_changes(run, clearance), start, start + count))
    uids = {uid for change in page for uid in _memory_uids(change) | {change.into}}
    seen = {
        memory.uid: memory
        for chunk in batched(sorted(uids), _CHUNK)
        for memory in Memory.objects.visible_to(clearance).filter(uid__in=chunk)
    }
    return [
        VisibleChange(
            change if change.into in seen else replace(change, into=""),
            seen.get(change.uid),
            tuple(seen[uid] for uid in change.members if uid in seen),
        )
        for change in page
    ]


def visible_changes(run: MaintenanceRun, clearance: Clearance) -> Iterator[Change]:
    """The kept changes all of whose memories may be seen; those about none, to who may see all of the run.

    Those about the store as a whole tell of no memory, and are for all. What is gone by now shows to those
    who may see how it ended.
    """
    whole = _covers_whole_store(run) or run_scope.can_see_all(clearance, run)
    for chunk in batched(_listed_changes(run), _CHUNK):
        seen = _visible_uids(set().union(*map(_memory_uids, chunk)), clearance)
        yield from (
            change for change in chunk if (_memory_uids(change) <= seen if _memory_uids(change) else whole)
        )


def _listed_changes(run: MaintenanceRun) -> Iterator[Change]:
    for step in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        yield from map(Change.from_json, step.changes)


def _memory_uids(change: Change) -> set[str]:
    return {uid for uid in (change.uid, *change.members) if uid}


def _visible_uids(asked: set[str], clearance: Clearance) -> set[str]:
    seen: set[str] = set()
    for uids in batched(sorted(asked), _CHUNK):
        seen |= _visible_uids_in_chunk(set(uids), clearance)
    return seen


def _visible_uids_in_chunk(asked: set[str], clearance: Clearance) -> set[str]:
    seen = set(Memory.objects.visible_to(clearance).filter(uid__in=asked).values_list("uid", flat=True))
    gone = asked - seen - set(Memory.objects.filter(uid__in=asked - seen).values_list("uid", flat=True))
    if gone:
        ends = JournalEntry.objects.visible_to(clearance).filter(
            object_type="memory", operation__in=("purge", "erase"), object_id__in=gone
        )
        seen |= set(ends.values_list("object_id", flat=True))
    return seen


Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

# Of each action of a change: what a run did, and what a dry run says that one would do.
ACTION_LABELS = {
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
GROUP_LABELS = {
    "merge": ("groups made one memory each", "groups would become one memory each"),
    "summarise": ("groups summarised in one memory each", "groups would be summarised in one memory each"),
}
# Of operations of higher floors, which tell of them on pages of their own.
_HIDDEN_PARAMS = frozenset({"upload", "name", "restores", "dry_run"})
_FAILURE_LABELS = {Cause.INTERRUPTED: "Interrupted", Cause.STOPPED: "Stopped"}


def run_title(run: MaintenanceRun) -> str:
    """What a run is, in a few words."""
    operation = known_operation(run.operation)
    label = operation.label if operation else run.operation.replace("_", " ").capitalize()
    if run.undoes_id:
        return f"Undo: {label}"
    return f"Dry run: {label}" if run.dry_run else label


def run_state(run: MaintenanceRun) -> str:
    """How it stands with a run, in a few words."""
    if run.status == Status.QUEUED:
        return "Waiting to begin"
    if run.status == Status.RUNNING:
        return "Stopping" if run.stop_requested else "Running"
    if run.status == Status.FAILED:
        return _FAILURE_LABELS.get(Cause(run.cause), "Failed") if run.cause else "Failed"
    if run.undone_at:
        return "Done, and undone since"
    return "Done"


def is_active(run: MaintenanceRun) -> bool:
    return run.status in (Status.QUEUED, Status.RUNNING)


def is_failed(run: MaintenanceRun) -> bool:
    """Ended before its end, and by nobody's wish."""
    return run.status == Status.FAILED and run.cause != Cause.STOPPED


def action_label(action: str, dry_run: bool) -> str:
    """What became of a memory, or would."""
    return ACTION_LABELS[action][dry_run] if action in ACTION_LABELS else action


def result_lines(run: MaintenanceRun, told: VisibleResult) -> list[tuple[str, int]]:
    """How many of each deed, the most first; of groups, how many memories were in them too."""
    counts = sorted(told.counts.items(), key=lambda one: (-one[1], one[0]))
    lines = [
        (
            GROUP_LABELS[action][run.dry_run]
            if action in GROUP_LABELS
            else action_label(action, run.dry_run),
            count,
        )
        for action, count in counts
    ]
    if told.whole and counts and set(told.counts) <= set(GROUP_LABELS):
        lines.append(("memories in them", (run.result or {}).get("changed", 0)))
    return lines


def progress_percent(run: MaintenanceRun, told: VisibleResult) -> int:
    """How far a run has come, 0 to 100."""
    if run.status == Status.DONE:
        return 100
    return min(100, 100 * told.done // told.total) if told.total else 0


def visible_params(found: Iterable[MaintenanceRun], clearance: Clearance) -> dict[int, list[tuple[str, Any]]]:
    """What each run was told, by its key. A project is named to those who know of it already."""
    found = list(found)
    unsure = {run.project for run in found if run.project and not run_scope.can_see_all(clearance, run)}
    live = Memory.objects.visible_to(clearance).live().filter(project__in=unsure)
    known = set(live.order_by().values_list("project", flat=True).distinct()) if unsure else set()
    hidden = unsure - known
    return {
        run.pk: [
            (name, value)
            for name, value in run.params.items()
            if value is not None
            and name not in _HIDDEN_PARAMS
            and not (name == "project" and value in hidden)
        ]
        for run in found
    }

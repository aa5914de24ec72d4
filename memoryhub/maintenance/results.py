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
from memoryhub.maintenance.plan import Change
from memoryhub.maintenance.registry import known
from memoryhub.maintenance.registry import known as known_operation
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, RunChanges

KEPT = 20_000  # changes that a run lists; beyond it they are counted
_AT_ONCE = 500


@dataclass(frozen=True)
class ShownChange:
    """``memory``: what it is about, None when that is gone; ``members``: those that may be seen."""

    change: Change
    memory: Memory | None
    members: tuple[Memory, ...] = ()


@dataclass(frozen=True)
class Told:
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


def told(run: MaintenanceRun, clearance: Clearance, *, counted: bool = True) -> Told:
    """The numbers of a run. Without ``counted`` none are looked up: for lists, and while a bar moves."""
    if _tells_numbers(run, clearance):
        result = run.result or {}
        numbers = (result.get("changes", 0), result.get("listed", 0))
        return Told(run.done, run.total, result.get("counts", {}), *numbers, True)
    share = 100 * min(run.done, run.total) // run.total if run.total else 0
    if run.status == MaintenanceRun.Status.DONE:
        share = 100
    counts: Counter[str] = Counter()
    listed = 0
    for change in visible_changes(run, clearance) if counted else ():
        counts[change.action] += change.count
        listed += 1
    return Told(share, 100, dict(counts), counts.total(), listed, False)


def _tells_numbers(run: MaintenanceRun, clearance: Clearance) -> bool:
    """Whether the numbers of a run count nothing that is hidden from this viewer."""
    return run_scope.knows_all(clearance) if _is_of_store(run) else run_scope.covers(clearance, run)


def _is_of_store(run: MaintenanceRun) -> bool:
    operation = known(run.operation)
    return operation is not None and operation.whole_store


def changes_of(
    run: MaintenanceRun, clearance: Clearance, start: int = 0, count: int = 50
) -> list[ShownChange]:
    """A page of the changes that may be seen, in the order in which they were made or planned."""
    page = list(islice(visible_changes(run, clearance), start, start + count))
    uids = {uid for change in page for uid in _named(change) | {change.into}}
    seen = {
        memory.uid: memory
        for chunk in batched(sorted(uids), _AT_ONCE)
        for memory in Memory.objects.visible_to(clearance).filter(uid__in=chunk)
    }
    return [
        ShownChange(
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
    whole = _is_of_store(run) or run_scope.covers(clearance, run)
    for chunk in batched(_kept(run), _AT_ONCE):
        seen = _visible(set().union(*map(_named, chunk)), clearance)
        yield from (change for change in chunk if (_named(change) <= seen if _named(change) else whole))


def _kept(run: MaintenanceRun) -> Iterator[Change]:
    for step in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        yield from map(Change.from_json, step.changes)


def _named(change: Change) -> set[str]:
    return {uid for uid in (change.uid, *change.members) if uid}


def _visible(asked: set[str], clearance: Clearance) -> set[str]:
    seen: set[str] = set()
    for uids in batched(sorted(asked), _AT_ONCE):
        seen |= _visible_of(set(uids), clearance)
    return seen


def _visible_of(asked: set[str], clearance: Clearance) -> set[str]:
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
    unsure = {run.project for run in found if run.project and not run_scope.covers(clearance, run)}
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

"""Results of runs as one viewer may see them: labels, counts and changes.

A run works with the clearance of its requester, which is stored with it (``reach``). Viewers with access to
everything that the run covered see its totals. Others see its progress in percent and the changes of memories
that they may see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet

from memoryhub.access.policy import EVERYTHING, Actor, Clearance
from memoryhub.core.database import batched
from memoryhub.maintenance.operations import find_operation
from memoryhub.maintenance.operations.base import UNCHANGED, Change
from memoryhub.memories.rows import fetch_by_uid
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, RunChanges

MAX_LISTED_CHANGES = 20_000  # further changes of a run are only counted
_CHUNK = 500


@dataclass(frozen=True)
class VisibleChange:
    """A change with its memory (None if it was deleted) and the members that the viewer may see."""

    change: Change
    memory: Memory | None
    members: tuple[Memory, ...] = ()


@dataclass(frozen=True)
class VisibleResult:
    """A run's numbers for one viewer.

    ``whole``: these are the totals of the run. Otherwise the viewer may not see all of it: ``done`` of
    ``total`` is a percentage, and the other numbers only count visible changes.
    ``listed``: number of listed changes, at most :data:`MAX_LISTED_CHANGES`.
    """

    done: int
    total: int
    counts: dict[str, int]
    changes: int
    listed: int
    whole: bool


def visible_result(run: MaintenanceRun, clearance: Clearance, *, counted: bool = True) -> VisibleResult:
    """Return the numbers of a run. Without ``counted``, visible changes are not counted, which is faster."""
    whole_store = _covers_whole_store(run)
    sees_totals = sees_everything(clearance) if whole_store else can_see_all(clearance, run)
    if sees_totals:
        result = run.result or {}
        numbers = (result.get("changes", 0), result.get("listed", 0))
        return VisibleResult(run.done, run.total, result.get("counts", {}), *numbers, True)
    percent = 100 * min(run.done, run.total) // run.total if run.total else 0
    if run.status == MaintenanceRun.Status.DONE:
        percent = 100
    counts: Counter[str] = Counter()
    listed = 0
    for change in visible_changes(run, clearance) if counted else ():
        counts[change.action] += change.count
        listed += 1
    return VisibleResult(percent, 100, dict(counts), counts.total(), listed, False)


def _covers_whole_store(run: MaintenanceRun) -> bool:
    operation = find_operation(run.operation)
    return operation is not None and operation.whole_store


def list_changes(
    run: MaintenanceRun, clearance: Clearance, start: int = 0, count: int = 50
) -> list[VisibleChange]:
    """Return a page of the visible changes, in the order in which they were made or planned."""
    page = list(islice(visible_changes(run, clearance), start, start + count))
    uids = {uid for change in page for uid in _memory_uids(change) | {change.into}}
    memories = fetch_by_uid(Memory.objects.visible_to(clearance), sorted(uids))
    return [
        VisibleChange(
            change if change.into in memories else replace(change, into=""),
            memories.get(change.uid),
            tuple(memories[uid] for uid in change.members if uid in memories),
        )
        for change in page
    ]


def visible_changes(run: MaintenanceRun, clearance: Clearance) -> Iterator[Change]:
    """Yield the listed changes whose memories are all visible.

    Changes without memories are visible to viewers with access to all of the run. Those of whole-store
    operations are visible to everyone. A deleted memory is visible if the journal entry of its deletion is.
    """
    without_memories = _covers_whole_store(run) or can_see_all(clearance, run)
    for chunk in batched(_listed_changes(run), _CHUNK):
        visible = _visible_uids(set().union(*map(_memory_uids, chunk)), clearance)
        for change in chunk:
            uids = _memory_uids(change)
            is_visible = uids <= visible if uids else without_memories
            if is_visible:
                yield change


def _listed_changes(run: MaintenanceRun) -> Iterator[Change]:
    for row in RunChanges.objects.filter(run=run).order_by("pk").iterator(chunk_size=100):
        yield from map(Change.from_json, row.changes)


def _memory_uids(change: Change) -> set[str]:
    return {uid for uid in (change.uid, *change.members) if uid}


def _visible_uids(uids: set[str], clearance: Clearance) -> set[str]:
    visible: set[str] = set()
    deletions = JournalEntry.objects.visible_to(clearance).filter(
        object_type="memory", operation__in=("purge", "erase")
    )
    for chunk in batched(sorted(uids), _CHUNK):
        memories = Memory.objects.visible_to(clearance).filter(uid__in=chunk)
        visible.update(memories.values_list("uid", flat=True))
        invisible = set(chunk) - visible
        deleted = invisible - set(Memory.objects.filter(uid__in=invisible).values_list("uid", flat=True))
        if deleted:
            visible.update(deletions.filter(object_id__in=deleted).values_list("object_id", flat=True))
    return visible


Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

# For each action, the words for a run and for a dry run.
ACTION_LABELS = {
    "boost": ("gained importance", "would gain importance"),
    "decay": ("lost importance", "would lose importance"),
    "fade": ("fell below the recall threshold", "would fall below the recall threshold"),
    "evict": ("sent to the trash", "would go to the trash"),
    "merge": ("merged", "would be merged"),
    "summarise": ("summarised", "would be summarised"),
    "purge": ("permanently deleted", "would be permanently deleted"),
    "erase": ("permanently erased", "would be permanently erased"),
    "prune": ("pruned", "would be pruned"),
    "reindex": ("rebuilt", "would be rebuilt"),
    "embed": ("embedded", "would be embedded"),
    "change": ("changed", "would be changed"),
    UNCHANGED: ("left unchanged", "would be left unchanged"),
    "undone": ("changes undone", "changes would be undone"),
}
# Words for changes that concern several memories each.
GROUP_LABELS = {
    "merge": ("groups merged", "groups would be merged"),
    "summarise": ("groups summarised", "groups would be summarised"),
}
_SINGULAR = {"groups": "group", "changes": "change"}
# Parameters of imports, which name projects and fields of the file, and of bulk actions, which contain search
# queries. The pages of imports show theirs to the person who imported.
_HIDDEN_PARAMS = frozenset(
    {"upload", "name", "restores", "dry_run", "kind", "values", "address", "mapping", "infer_types", "caps"}
)
_FAILURE_LABELS = {Cause.INTERRUPTED: "Interrupted", Cause.STOPPED: "Stopped"}


def run_title(run: MaintenanceRun) -> str:
    """Return the name of the run's operation, with a note for dry runs and undo runs."""
    operation = find_operation(run.operation)
    label = operation.title(run.params) if operation else run.operation.replace("_", " ").capitalize()
    if run.undoes_id:
        return f"Undo: {label}"
    return f"Dry run: {label}" if run.dry_run else label


def run_state(run: MaintenanceRun) -> str:
    """Return the state of a run in words."""
    if run.status == Status.QUEUED:
        return "Waiting to start"
    if run.status == Status.RUNNING:
        return "Stopping" if run.stop_requested else "Running"
    if run.status == Status.FAILED:
        return _FAILURE_LABELS.get(Cause(run.cause), "Failed") if run.cause else "Failed"
    if run.undone_at:
        return "Undone"
    return "Done"


def is_active(run: MaintenanceRun) -> bool:
    return run.status in (Status.QUEUED, Status.RUNNING)


def is_failed(run: MaintenanceRun) -> bool:
    """Whether a run ended early without being stopped by a user."""
    return run.status == Status.FAILED and run.cause != Cause.STOPPED


def action_label(action: str, dry_run: bool) -> str:
    return ACTION_LABELS.get(action, (action, action))[dry_run]


def result_lines(run: MaintenanceRun, result: VisibleResult) -> list[tuple[str, int]]:
    """Return labels and counts of the actions, the most frequent first.

    If all changes are groups, the number of memories in them follows.
    """
    lines = count_lines(result.counts, run.dry_run)
    if result.whole and lines and set(result.counts) <= set(GROUP_LABELS):
        memories = (run.result or {}).get("changed", 0)
        lines.append((f"memor{'y' if memories == 1 else 'ies'} in them", memories))
    return lines


def count_lines(counts: Mapping[str, int], dry_run: bool) -> list[tuple[str, int]]:
    """Return labels and counts of actions, the most frequent first."""
    return [
        (_count_label(action, dry_run, count), count)
        for action, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _count_label(action: str, dry_run: bool, count: int) -> str:
    label = GROUP_LABELS.get(action, ACTION_LABELS.get(action, (action, action)))[dry_run]
    if count != 1:
        return label
    # The labels that begin with a noun begin with its plural.
    noun, _, verb = label.partition(" ")
    return f"{_SINGULAR[noun]} {verb}" if noun in _SINGULAR else label


def progress_percent(run: MaintenanceRun, result: VisibleResult) -> int:
    if run.status == Status.DONE:
        return 100
    return min(100, 100 * result.done // result.total) if result.total else 0


def visible_params(runs: Iterable[MaintenanceRun], clearance: Clearance) -> dict[int, list[tuple[str, Any]]]:
    """Return the parameters by primary key of the run, without projects in which the viewer sees nothing."""
    runs = list(runs)
    hidden = {run.project for run in runs if run.project and not can_see_all(clearance, run)}
    if hidden:
        live = Memory.objects.visible_to(clearance).live().filter(project__in=hidden)
        hidden -= set(live.order_by().values_list("project", flat=True).distinct())
    return {
        run.pk: [
            (name, value)
            for name, value in run.params.items()
            if value is not None
            and name not in _HIDDEN_PARAMS
            and not (name == "project" and value in hidden)
        ]
        for run in runs
    }


def clearance_to_json(clearance: Clearance) -> dict[str, Any]:
    projects = clearance.projects
    stored: dict[str, Any] = {
        "levels": sorted(clearance.levels),
        "owner": clearance.owner,
        "projects": None if projects is None else sorted(projects),
        "every_owner": clearance.every_owner,
    }
    if clearance.grants:
        stored["grants"] = {project: sorted(levels) for project, levels in clearance.grants}
    return stored


def reach_to_json(actor: Actor) -> dict[str, Any]:
    """Return the stored form of what the runs of an actor may change."""
    stored = clearance_to_json(actor.clearance)
    return stored if actor.may_delete else stored | {"may_delete": False}


def clearance_from_json(stored: dict[str, Any]) -> Clearance:
    """Read a stored clearance; an empty one allows nothing."""
    stored = stored or {"levels": (), "projects": ()}
    projects = stored.get("projects", ())
    return Clearance(
        frozenset(stored.get("levels", ())),
        owner=stored.get("owner", ""),
        projects=None if projects is None else frozenset(projects),
        every_owner=stored.get("every_owner", False),
        grants=tuple((project, frozenset(levels)) for project, levels in stored.get("grants", {}).items()),
    )


def clearance_of(run: MaintenanceRun) -> Clearance:
    """Return the clearance that the run works with."""
    return clearance_from_json(run.reach)


def can_see_all(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether a viewer may see everything that the run covered."""
    covered = _covered_clearance(run)
    owners = clearance.every_owner or (not covered.every_owner and covered.owner in ("", clearance.owner))
    return owners and can_control(clearance, run)


def can_control(clearance: Clearance, run: MaintenanceRun) -> bool:
    """Whether a viewer with this clearance may stop, resume and undo the run.

    The clearance must include all levels and projects of the run, but not the personal memories of others, so
    that any curator can stop or undo the scheduled runs.
    """
    covered = _covered_clearance(run)
    return clearance.covers(replace(covered, projects=frozenset({run.project})) if run.project else covered)


def _covered_clearance(run: MaintenanceRun) -> Clearance:
    """Return the run's clearance; a run without one may have covered everything."""
    return clearance_of(run) if run.reach else EVERYTHING


def sees_everything(clearance: Clearance) -> bool:
    """Whether no memory of a known level is hidden. This is only true for system actors."""
    return clearance.every_owner and clearance.is_whole


def overlaps(run: MaintenanceRun, project: str, clearance: Clearance) -> bool:
    """Whether a run shares a project with a run on ``project``, or on all of ``clearance`` if it is empty."""
    own = {run.project} if run.project else clearance_of(run).projects
    others = {project} if project else clearance.projects
    return own is None or others is None or bool(own & others)


def visible_runs(clearance: Clearance) -> QuerySet[MaintenanceRun]:
    """Return the runs on projects that the clearance includes, newest first."""
    runs = MaintenanceRun.objects.order_by("-created_at", "-pk")
    if clearance.projects is None:
        return runs
    without_project = runs.filter(project="").only("project", "reach")
    shared = [run.pk for run in without_project if overlaps(run, "", clearance)]
    return runs.filter(Q(project__in=sorted(clearance.projects)) | Q(pk__in=shared))

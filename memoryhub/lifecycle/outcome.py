"""What a run did or would do, as one viewer may know it: numbers, and changes behind the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from memoryhub.batches import batched
from memoryhub.lifecycle import reach
from memoryhub.lifecycle.operations import Change, known
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, RunChanges
from memoryhub.sensitivity import Clearance

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
    return reach.knows_all(clearance) if _is_of_store(run) else reach.covers(clearance, run)


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
    whole = _is_of_store(run) or reach.covers(clearance, run)
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

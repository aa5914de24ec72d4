"""What maintenance writes, a step at a time: importances, and the journal rows that let a run be undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.backends import bulk
from memoryhub.core.chunks import batched
from memoryhub.core.transactions import write
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.delete import restore, to_trash
from memoryhub.memories.rows import CHUNK, pick
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet

# One journal row for all memories of a step that share these: a row for each would drown the journal.
GATE = ("project", "sensitivity", "owner")


@dataclass(frozen=True)
class Worth:
    """A memory's importance as it was read, and as it is to be; ``accesses`` are those counted in it."""

    pk: int
    uid: str
    before: float
    after: float
    accesses: int
    gate: tuple[str, str, str]


def weigh(worths: Sequence[Worth], actor: Actor, run: str, now: datetime) -> set[str]:
    """Write importances of memories that are as they were read; returns the ids of these.

    ``consolidated_at`` and ``consolidated_accesses`` follow, ``updated_at`` stays. One journal row for each
    project, level and owner names all old and new values, which is what :func:`unweigh` goes by.
    """
    with write():
        there = _as_read(worths, actor, now)
        held = [
            worth for worth in worths if there.get(worth.pk) == (worth.before, worth.accesses, worth.gate)
        ]
        at = bulk.adapt_moment(now)
        bulk.update(
            Memory,
            ("importance", "consolidated_at", "consolidated_accesses"),
            [(one.after, at, one.accesses, one.pk) for one in held],
        )
        changes: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
        for one in held:
            changes[one.gate].append([one.uid, one.before, one.after])
        note("consolidate", run, {gate: {"changes": rows} for gate, rows in changes.items()}, actor, now)
    return {one.uid for one in held}


def _as_read(worths: Sequence[Worth], actor: Actor, now: datetime) -> dict[int, tuple[Any, ...]]:
    live = Memory.objects.visible_to(actor.clearance).live(now)
    found: dict[int, tuple[Any, ...]] = {}
    for chunk in batched(worths, CHUNK):
        rows = live.filter(pk__in=[worth.pk for worth in chunk])
        for pk, importance, accesses, *gate in rows.values_list("pk", "importance", "accessed_count", *GATE):
            found[pk] = (importance, accesses, tuple(gate))
    return found


def note(
    operation: str,
    run: str,
    details: dict[tuple[str, str, str], dict[str, Any]],
    actor: Actor,
    now: datetime,
    *,
    about: str = "memories",
) -> None:
    """A journal row about several things for each group of one project, level and owner."""
    journal.record(
        actor,
        [
            journal.Change(operation, about, run, {"run": run, **detail}, *gate)
            for gate, detail in sorted(details.items())
        ],
        now,
    )


def noted(operation: str, run: str, actor: Actor, *, about: str = "memories") -> Iterator[JournalEntry]:
    """What :func:`note` wrote about a run within the actor's reach; newest first.

    Also rows that name a memory which is hidden from the actor by now: the others come back all the same.
    """
    rows = JournalEntry.objects.of_reach(actor.clearance).filter(
        object_id=run, object_type=about, operation=operation
    )
    yield from list(rows.order_by("-seq"))


def unweigh(changes: Iterable[tuple[str, float, float]], run: str, actor: Actor, now: datetime) -> set[str]:
    """Give memories the importance back that they had before; what was changed since stays as it is.

    ``changes``: the ids with the importances before and after, of rows that :func:`weigh` wrote about this
    run. Returns the ids of those changed. They stay marked as consolidated: what was undone is not done again
    by the next run.
    """
    wanted = {uid: (before, after) for uid, before, after in changes if before != after}
    undone: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    rows: list[tuple[float, int]] = []
    with write():
        for pk, uid, importance, *gate in _still(wanted, actor):
            before, after = wanted[uid]
            if importance == after:
                rows.append((before, pk))
                undone[tuple(gate)].append([uid, after, before])
        bulk.update(Memory, ("importance",), rows)
        details = {gate: {"changes": changes} for gate, changes in undone.items()}
        note("undo_consolidate", run, details, actor, now)
    return {uid for rows_of_gate in undone.values() for uid, *_ in rows_of_gate}


def _still(uids: Iterable[str], actor: Actor) -> Iterator[Any]:
    visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
    for chunk in batched(uids, CHUNK):
        yield from visible.filter(uid__in=chunk).values_list("pk", "uid", "importance", *GATE)


def evict(
    candidates: MemoryQuerySet, uids: Iterable[str], actor: Actor, run: str, now: datetime
) -> list[Memory]:
    """Move those of the candidates to the trash as evicted: a journal row for each.

    Another row for each project, level and owner is what :func:`unevict` goes by.
    """
    with write():
        memories = pick(candidates, uids)
        to_trash(memories, actor, TrashReason.EVICTED, now, "evict")
        gone: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for memory in memories:
            gone[(memory.project, memory.sensitivity, memory.owner)].append(memory.uid)
        note("evict", run, {gate: {"evicted": uids} for gate, uids in gone.items()}, actor, now)
    return memories


def unevict(uids: Iterable[str], at: datetime, actor: Actor, now: datetime) -> set[str]:
    """Take out of the trash what a run moved there at that moment and still lies there as evicted."""
    with write():
        out = restore(still_there(uids, at, TrashReason.EVICTED, actor), actor, now)
    return {memory.uid for memory in out}


def still_there(uids: Iterable[str], at: datetime, reason: TrashReason, actor: Actor) -> list[str]:
    """Those of the ids that lie in the trash since that moment, for that reason.

    Looked up by id alone: SQLite would take the index of ``deleted_at``, and all of a run share one moment.
    """
    visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
    found: list[str] = []
    for chunk in batched(uids, CHUNK):
        rows = visible.filter(uid__in=chunk).order_by("pk").values_list("uid", "deleted_at", "trash_reason")
        found += [uid for uid, since, why in rows if since == at and why == reason.value]
    return found

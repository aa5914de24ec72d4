"""Undo: one executor for every action that can be undone, and the inverse records that it reads.

An undoable action writes journal rows with its id and the values that an undo needs: a row for each memory or
fact (``act`` is the id), or one row about many (:func:`record_action`, ``object_id`` is the id). The module
that writes such rows registers with :func:`inverse_of` how to undo them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.memories.errors import NotFound
from memoryhub.memories.schemas import to_patch
from memoryhub.memories.update import apply_patch, find_twins, next_copy_number
from memoryhub.models import JournalEntry, Memory, Revision

CHUNK_SIZE = 50  # objects in one transaction, which limits how long other writers wait
PAUSE_SECONDS = 0.02  # between two transactions: waiting writers retry every millisecond
# Journal rows between the first and the last row of an action: its own, and those of concurrent writers.
MAX_JOURNAL_ROWS = 50_000
AccessKey = tuple[str, str, str]


@dataclass(frozen=True)
class Inverse:
    """How to undo the rows of some journal operations.

    ``units``: splits the rows into parts that can be restored one after the other. ``restore``: restores some
    of them in the current transaction and returns how many objects that were. ``undone_by``: the operation of
    the row that marks an action as undone, if it has one.
    """

    units: Callable[[list[JournalEntry]], Sequence[Any]]
    restore: Callable[[Undo, Sequence[Any]], int]
    undone_by: str = ""


_inverses: dict[tuple[str, str], Inverse] = {}  # by object type and operation of the rows


def inverse_of(inverse: Inverse, *operations: str, about: str = "memories") -> None:
    """Register how to undo the rows of these operations about this type of object."""
    _inverses.update({(about, operation): inverse for operation in operations})


@dataclass
class Undo:
    """The undo of one action. ``rows``: its journal rows, the newest first.

    ``restored``: the objects that were restored. ``refused``: ids of others and the reason as a text to show.
    """

    id: str
    actor: Actor
    now: datetime
    rows: list[JournalEntry]
    restored: list[Any] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of_action(
        cls,
        uid: str,
        actor: Actor,
        operations: Collection[str],
        now: datetime | None = None,
        *,
        about: str = "memories",
    ) -> Self:
        """Return the undo of an action by :func:`record_action`, without the rows that were undone already.

        ``rows`` is empty if the actor may not know of the action.
        """
        rows = action_rows(uid, actor, operations, about=about)
        undone_by = {_inverses[about, operation].undone_by for operation in operations} - {""}
        undone = {access_key(row) for row in action_rows(uid, actor, undone_by, about=about)}
        return cls(uid, actor, now or timezone.now(), [row for row in rows if access_key(row) not in undone])

    @classmethod
    def of_span(cls, uid: str, actor: Actor, first: int, last: int, *, about: str) -> Self:
        """Return the undo of an action of this actor, whose journal rows are between these numbers.

        Raise :class:`NotFound` if the actor has no such action. Imported rows do not count.
        """
        rows: list[JournalEntry] = []
        if uid and 0 < first <= last and last - first < MAX_JOURNAL_ROWS:
            found = JournalEntry.objects.filter(
                seq__range=(first, last), actor=actor.name, object_type=about, detail__act=uid
            )
            rows = list(found.exclude(detail__has_key="imported").order_by("-seq"))
        if not rows:
            raise NotFound("there is no such action of yours")
        return cls(uid, actor, timezone.now(), rows)

    def steps(
        self, batches: Callable[[Sequence[Any]], Iterable[Sequence[Any]]] | None = None
    ) -> Iterator[int]:
        """Undo in short transactions. Yield the number of objects that each restores."""
        by_inverse: dict[Inverse, list[JournalEntry]] = {}
        for row in self.rows:
            by_inverse.setdefault(_inverses[row.object_type, row.operation], []).append(row)
        for inverse, rows in by_inverse.items():
            for batch in (batches or pause_between)(inverse.units(rows)):
                with write_transaction():
                    restored = inverse.restore(self, batch)
                yield restored

    def run(self) -> Self:
        """Undo everything."""
        for _ in self.steps():
            pass
        return self


def pause_between(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield chunks, with pauses in which other writers get a chance."""
    for number, chunk in enumerate(batched(items, CHUNK_SIZE)):
        time.sleep(PAUSE_SECONDS if number else 0)
        yield chunk


def access_key(row: Memory | JournalEntry) -> AccessKey:
    """Return the columns that decide the visibility of a journal row about several memories."""
    return row.project, row.sensitivity, row.owner


def record_action(
    operation: str,
    uid: str,
    details: Mapping[AccessKey, dict[str, Any]],
    actor: Actor,
    now: datetime,
    *,
    about: str = "memories",
) -> None:
    """Record one journal row about several objects for each group of one project, level and owner."""
    rows = [
        journal.Change(operation, about, uid, {"run": uid, **detail}, *key)
        for key, detail in sorted(details.items())
    ]
    journal.record(actor, rows, now)


def action_rows(
    uid: str, actor: Actor, operations: Collection[str], *, about: str = "memories"
) -> list[JournalEntry]:
    """Return the rows of :func:`record_action` about an action that the actor may see, the newest first.

    Includes rows that name a memory which is now hidden from the actor: an undo restores the others.
    """
    if not operations:
        return []
    rows = JournalEntry.objects.visible_as_recorded(actor.clearance).filter(
        object_id=uid, object_type=about, operation__in=operations
    )
    return list(rows.order_by("-seq"))


def take_snapshot(memory: Memory, names: Iterable[str]) -> dict[str, Any]:
    """Return numbers and moments of a memory as the journal stores them."""
    return {
        name: format_moment(value) if isinstance(value := getattr(memory, name), datetime) else value
        for name in names
    }


def format_moment(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment else None


def revert_numbers(
    before: Mapping[str, Any], after: Mapping[str, Any], current: Mapping[str, Any], names: Iterable[str]
) -> dict[str, Any]:
    """Return the values from before a change. A value that was changed again since stays as it is now.

    Maintenance changes importances and readers renew expiries: neither makes an undo impossible.
    """
    return {name: before[name] if current[name] == after[name] else current[name] for name in names}


def apply_snapshot(memory: Memory, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(memory, name, parse_moment(value) if isinstance(value, str) else value)


def restore_fields(
    memory: Memory,
    revision: Revision,
    actor: Actor,
    now: datetime,
    *,
    reason: str,
    equal_to: Collection[int] = (),
    **detail: Any,
) -> list[journal.Change]:
    """Set the fields that a revision stores to their old values, which makes another revision.

    Title and abstract stay as they are unless the revision stores them: otherwise they would follow the
    content. See :func:`memoryhub.memories.update.apply_patch` for ``equal_to`` and the result.
    """
    patch = to_patch({"title": memory.title, "abstract": memory.abstract, **revision.before})
    return apply_patch(memory, patch, patch.given, actor, now, reason=reason, equal_to=equal_to, **detail)


def restore_copy_number(memory: Memory, copy: int) -> None:
    """Set an earlier copy number, or the next free one if a twin has it now."""
    twins = find_twins(memory)
    memory.copy = next_copy_number(twins) if twins.filter(copy=copy).exists() else copy

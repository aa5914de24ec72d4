"""Empty the trash: delete its memories permanently, including their bytes in the file.

Rows are deleted in short transactions, and SQLite overwrites them with zeros (``secure_delete``). Their words
leave the text indexes when these are merged, step by step. The write-ahead log is emptied at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from memoryhub.access.policy import Actor
from memoryhub.backends import schema
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    Pace,
    ProjectParams,
    Step,
    chore_steps,
    format_count,
)
from memoryhub.maintenance.operations.purge import deletion_steps
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet


class EmptyTrashParams(ProjectParams):
    older_than_days: float = Field(
        default=0, ge=0, le=36_500, description="Spare what was moved there more recently than this, days."
    )
    compact: bool = Field(
        default=False, description="Rewrite the whole file at the end; writers wait while it lasts, seconds."
    )


class EmptyTrash(Operation[EmptyTrashParams]):
    name = "empty_trash"
    label = "Empty the trash"
    help = (
        "Permanently deletes the memories in the trash: rows, words in the indexes and bytes in the file. It "
        "cannot be undone. The file keeps its size; the freed space contains zeros and is used again. With "
        "“compact” the whole file is rewritten at the end. This makes it smaller and removes copies that an "
        "earlier reordering of pages may have left behind, but writers wait for seconds in a large store."
    )
    Params = EmptyTrashParams

    def total(self, params: EmptyTrashParams, actor: Actor, now: datetime) -> int:
        return _trashed(params, actor, now).count()

    def steps(
        self, params: EmptyTrashParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        def reason(since: datetime, trash_reason: str) -> str:
            days = (now - since).days
            when = f"{format_count(days, 'day')} ago" if days else "today"
            return f"{trash_reason or 'in the trash'}, {when}"

        position = position or {"phase": "erase"}
        if position["phase"] == "erase":
            erased = 0
            rows, columns = _trashed(params, actor, now), ("deleted_at", "trash_reason")
            for step in deletion_steps("erase", rows, columns, reason, position, actor, now):
                yield step
                erased += len(step.applied)
            if not erased and not position.get("after"):
                return
        yield from _cleanup_steps(params)


def _trashed(params: EmptyTrashParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    trashed: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).trashed()
    return params.in_project(trashed.filter(deleted_at__lte=now - timedelta(days=params.older_than_days)))


def _cleanup_steps(params: EmptyTrashParams) -> Iterator[Step]:
    """Yield chores. A resumed run repeats them all; finished ones find nothing to do."""
    position = {"phase": "clean"}
    for table in schema.INDEXES:

        def merge(pages: int, is_first: bool, table: str = table) -> bool:
            return schema.merge_step(table, pages, begin=is_first)

        yield from chore_steps(merge, Pace(50, 2000, min_size=16), position)
    if params.compact:
        yield Step((), position, 0, _rewrite_file, chore=True)
    else:
        # Not inside the transaction, or threads of this process would wait until the disk has all of it.
        yield Step((), position, 0, chore=True, afterwards=schema.truncate_log)


def _rewrite_file(run_uid: str) -> tuple[Change, ...]:
    with write_transaction():
        schema.scrub_erased()
    return ()

"""``empty_trash``: what lies in the trash is erased, its bytes with it, without anybody having to wait.

Rows are deleted in short transactions, which overwrite their bytes with zeros (``secure_delete``). The words
in the text indexes go as these are merged, step by step. The write-ahead log is emptied at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Length
from pydantic import Field

from memoryhub.access.policy import Actor
from memoryhub.backends import schema
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    format_count,
    indexing_weight,
    steps_by_page,
)
from memoryhub.memories import delete
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
        "Erases for good what lies in the trash: rows, words in the indexes, bytes in the file. It cannot be "
        "undone. The file keeps its size, with zeros in the place of what is gone, and is used again; with "
        "“compact” it is rewritten as a whole at the end, which makes it smaller, leaves no copy that an "
        "earlier reordering of pages may have left behind, and lets all writers wait for seconds in a large "
        "store."
    )
    Params = EmptyTrashParams

    def total(self, params: EmptyTrashParams, actor: Actor, now: datetime) -> int:
        return _trashed(params, actor, now).count()

    def steps(
        self, params: EmptyTrashParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {"phase": "erase"}
        if position["phase"] == "erase":
            erased = 0
            for step in _erase_steps(params, actor, now, position):
                yield step
                erased += len(step.applied)
            if not erased and not position.get("after"):
                return
        yield from _cleanup_steps(params)


def _trashed(params: EmptyTrashParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    trashed: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).trashed()
    return params.within(trashed.filter(deleted_at__lte=now - timedelta(days=params.older_than_days)))


def _erase_steps(
    params: EmptyTrashParams, actor: Actor, now: datetime, position: dict[str, Any]
) -> Iterator[Step]:
    trashed = _trashed(params, actor, now)

    def plan(page: list[Any]) -> PagePlan:
        changes = {pk: Change("erase", uid, reason=_reason(at, why, now)) for pk, uid, at, why, _ in page}

        def commit(run_uid: str) -> tuple[Change, ...]:
            gone = delete.delete_memories(trashed.filter(pk__in=list(changes)), actor, "erase", now)
            uids = {memory.uid for memory in gone}
            return tuple(change for change in changes.values() if change.uid in uids)

        return list(changes.values()), commit

    columns = ("pk", "uid", "deleted_at", "trash_reason", "size")
    sized = trashed.annotate(size=Length("content"))
    yield from steps_by_page(
        sized, columns, plan, position, Pace(20, 500, least=8), lambda row: indexing_weight(row[-1])
    )


def _reason(since: datetime, why: str, now: datetime) -> str:
    days = int((now - since) / timedelta(days=1))
    return f"{why or 'in the trash'}, {format_count(days, 'day') + ' ago' if days else 'today'}"


def _cleanup_steps(params: EmptyTrashParams) -> Iterator[Step]:
    """Chores, done anew after a break: they find nothing to do where they were done."""
    position = {"phase": "clean"}
    for table in schema.INDEXES:
        yield from merge_index_steps(table, position)
    if params.compact:
        yield Step((), position, 0, _rewrite_file, chore=True)
    else:
        # Not in the transaction's own end: threads of this process would wait until the disk has it all.
        yield Step((), position, 0, chore=True, afterwards=schema.truncate_log)


def merge_index_steps(table: str, position: dict[str, Any]) -> Iterator[Step]:
    """An index in one piece, in short steps."""
    pace, more = Pace(50, 2000, least=16), [True]
    begin = True
    while more[0]:

        def commit(run_uid: str, pages: int = pace.size, begin: bool = begin) -> tuple[Change, ...]:
            with write_transaction():
                more[0] = schema.merge_step(table, pages, begin=begin)
            return ()

        step = Step((), position, 0, commit, chore=True)
        yield step
        if not step.took_ms:
            return  # a dry run
        pace.after(step)
        begin = False


def _rewrite_file(run_uid: str) -> tuple[Change, ...]:
    with write_transaction():
        schema.scrub_erased()
    return ()

"""``reindex``: both text indexes are built anew from the memories, beside those in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from memoryhub.access.policy import Actor
from memoryhub.backends import reindexing
from memoryhub.backends.schema import INDEXES
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance.operations.base import CHARS_PER_WEIGHT, Change, Operation, Pace, Step
from memoryhub.models import Memory

_INDEX_LABELS = {"memoryhub_text": "the index of words", "memoryhub_trigram": "the index of substrings"}
_MIN_ROWS = 20
_BUILD_POSITION = {"phase": "build"}


class NoParams(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class BrokenIndex(RuntimeError):
    """An index does not fit the memories although it has just been built."""


class Reindex(Operation[NoParams]):
    name = "reindex"
    label = "Rebuild the indexes"
    help = (
        "Builds both text indexes anew from the memories, in short steps beside those in use, so that "
        "searches and writes go on; then examines them in a copy of the store, which needs as much room "
        "again on the disk for some seconds. A dry run examines alone. Memories do not change: there is "
        "nothing to undo."
    )
    whole_store = True
    Params = NoParams

    def total(self, params: NoParams, actor: Actor, now: datetime) -> int:
        return Memory.objects.count() * len(INDEXES)

    def steps(
        self, params: NoParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        if not (position or {}).get("phase"):
            for name in [name for table in INDEXES for name in reindexing.leftover_tables(table)]:
                yield from _clear_steps(name, {})
            first = _examine_step()
            yield first
            if not first.took_ms:
                return  # a dry run
        for table in INDEXES:
            yield from _build_steps(table)
        if left := reindexing.find_unsound_indexes():
            raise BrokenIndex(f"{_INDEX_LABELS[left[0]]} does not fit the memories after all; run doctor")


def _examine_step() -> Step:
    unsound = reindexing.find_unsound_indexes()
    changes = tuple(Change("reindex", reason=_reason(table, table in unsound)) for table in INDEXES)

    def commit(run_uid: str) -> tuple[Change, ...]:
        with write_transaction():
            for table in INDEXES:
                reindexing.begin_rebuild(table)
        return changes

    return Step(changes, _BUILD_POSITION, 0, commit)


def _reason(table: str, unsound: bool) -> str:
    if unsound:
        return f"{_INDEX_LABELS[table]} does not fit the memories: searches miss some or find what is gone"
    return f"{_INDEX_LABELS[table]} fits the memories; it is built anew all the same"


def _build_steps(table: str) -> Iterator[Step]:
    """Copy all rows, exchange, clear away; goes on where it was, and clears away at least."""

    def copy(rows: int) -> bool:
        """The last few rows, and those that come meanwhile, are copied with the exchange."""
        return reindexing.copy_rows(table, rows, rows * CHARS_PER_WEIGHT)

    if reindexing.copy_position(table) is not None:
        yield from _chore_steps(copy, Pace(50, 2000, least=4), _BUILD_POSITION, count=True)
        yield from _chore_steps(lambda amount: reindexing.swap_index(table), Pace(), _BUILD_POSITION)
    yield from _clear_steps(f"{table}_old", _BUILD_POSITION)


def _clear_steps(name: str, position: dict[str, Any]) -> Iterator[Step]:
    pace = Pace(50, 5000, least=_MIN_ROWS)
    yield from _chore_steps(lambda amount: reindexing.drop_in_steps(name, amount), pace, position)


def _chore_steps(
    work: Callable[[int], bool | None], pace: Pace, position: dict[str, Any], *, count: bool = False
) -> Iterator[Step]:
    """Steps of the same work until there is no more to do."""
    more: list[bool | None] = [True]
    while more[0]:
        amount = pace.size

        def commit(run_uid: str, amount: int = amount) -> tuple[Change, ...]:
            with write_transaction():
                more[0] = work(amount)
            return ()

        step = Step((), position, amount if count else 0, commit, chore=True)
        yield step
        if not step.took_ms:
            return
        pace.after(step)

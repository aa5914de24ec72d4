"""``reindex``: both text indexes are built anew from the memories, beside those in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from memoryhub.access.policy import Actor
from memoryhub.backends import reindexing
from memoryhub.backends.schema import INDEXES
from memoryhub.core.transactions import write
from memoryhub.maintenance.plan import HEAVY, Change, Operation, Pace, Step
from memoryhub.models import Memory

_NAMES = {"memoryhub_text": "the index of words", "memoryhub_trigram": "the index of substrings"}
_FEW = 20
_BUILDING = {"phase": "build"}


class Nothing(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class IndexUnsound(RuntimeError):
    """An index does not fit the memories although it has just been built."""


class Reindex(Operation[Nothing]):
    name = "reindex"
    label = "Rebuild the indexes"
    help = (
        "Builds both text indexes anew from the memories, in short steps beside those in use, so that "
        "searches and writes go on; then examines them in a copy of the store, which needs as much room "
        "again on the disk for some seconds. A dry run examines alone. Memories do not change: there is "
        "nothing to undo."
    )
    whole_store = True
    Params = Nothing

    def total(self, params: Nothing, actor: Actor, now: datetime) -> int:
        return Memory.objects.count() * len(INDEXES)

    def steps(
        self, params: Nothing, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        if not (position or {}).get("phase"):
            for name in [name for table in INDEXES for name in reindexing.left_over(table)]:
                yield from _cleared(name, {})
            first = _examined()
            yield first
            if not first.took_ms:
                return  # a dry run
        for table in INDEXES:
            yield from _build(table)
        if left := reindexing.unsound():
            raise IndexUnsound(f"{_NAMES[left[0]]} does not fit the memories after all; run doctor")


def _examined() -> Step:
    unsound = reindexing.unsound()
    changes = tuple(Change("reindex", reason=_reason(table, table in unsound)) for table in INDEXES)

    def commit(run_uid: str) -> tuple[Change, ...]:
        with write():
            for table in INDEXES:
                reindexing.begin(table)
        return changes

    return Step(changes, _BUILDING, 0, commit)


def _reason(table: str, unsound: bool) -> str:
    if unsound:
        return f"{_NAMES[table]} does not fit the memories: searches miss some or find what is gone"
    return f"{_NAMES[table]} fits the memories; it is built anew all the same"


def _build(table: str) -> Iterator[Step]:
    """Copy all rows, exchange, clear away; goes on where it was, and clears away at least."""

    def copy(rows: int) -> bool:
        """The last few rows, and those that come meanwhile, are copied with the exchange."""
        return reindexing.copy_rows(table, rows, rows * HEAVY)

    if reindexing.position(table) is not None:
        yield from _chores(copy, Pace(50, 2000, least=4), _BUILDING, count=True)
        yield from _chores(lambda amount: reindexing.exchange(table), Pace(), _BUILDING)
    yield from _cleared(f"{table}_old", _BUILDING)


def _cleared(name: str, position: dict[str, Any]) -> Iterator[Step]:
    pace = Pace(50, 5000, least=_FEW)
    yield from _chores(lambda amount: reindexing.clear_away(name, amount), pace, position)


def _chores(
    work: Callable[[int], bool | None], pace: Pace, position: dict[str, Any], *, count: bool = False
) -> Iterator[Step]:
    """Steps of the same work until there is no more to do."""
    more: list[bool | None] = [True]
    while more[0]:
        amount = pace.size

        def commit(run_uid: str, amount: int = amount) -> tuple[Change, ...]:
            with write():
                more[0] = work(amount)
            return ()

        step = Step((), position, amount if count else 0, commit, chore=True)
        yield step
        if not step.took_ms:
            return
        pace.after(step)

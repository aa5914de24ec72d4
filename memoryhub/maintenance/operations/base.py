"""Building blocks of maintenance operations: changes, steps, pacing and the operation base class."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from statistics import median
from typing import Any, ClassVar, Generic, TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.access.policy import Actor


@dataclass(frozen=True)
class Change:
    """One thing that changes, and why, in words for a person.

    ``action``: boost, decay, evict, merge, summarise, purge, erase, prune, reindex. ``uid``: the memory; of a
    merge the member that the summary is named after. ``before``, ``after``: importances. ``members``: the
    ids of all memories that become one, ``uid`` among them; ``into``: the id of that one, known once it is
    made. ``count``: how many things it stands for where they have no ids. ``reason`` never holds words of a
    memory. Show a change only to those who may see ``uid`` and all members.
    """

    action: str
    uid: str = ""
    before: float | None = None
    after: float | None = None
    reason: str = ""
    members: tuple[str, ...] = ()
    into: str = ""
    count: int = 1

    def as_json(self) -> dict[str, Any]:
        """Without what is empty."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["members"] = list(self.members)
        if self.count == 1:
            del values["count"]
        return {name: value for name, value in values.items() if value not in (None, "", [])}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Change:
        """What :meth:`as_json` gave; names that are not known are left out."""
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        return cls(**{**known, "members": tuple(known.get("members", ()))})


CHARS_PER_WEIGHT = 2000  # characters that take as long to index as all else that is done to a memory
T = TypeVar("T")
Rows = TypeVar("Rows", bound="QuerySet[Any]")
Commit = Callable[[str], tuple[Change, ...]]


@dataclass
class Step:
    """What one short transaction would change.

    ``position``: where to go on once this step is done. ``seen``: how many of the operation's ``total`` it
    looked at, for a progress bar. After :meth:`apply`, ``applied`` holds what was really changed (with
    ``into`` filled in) and ``took_ms`` for how long others had to wait. ``chore``: work that changes no
    memory, like cleaning an index; there may be many such steps, and a dry run meets one or two of them.
    ``afterwards``: what follows outside the transaction, when nobody waits for it.
    """

    changes: tuple[Change, ...]
    position: dict[str, Any]
    seen: int = 0
    commit: Commit = field(default=lambda run_uid: (), repr=False)
    applied: tuple[Change, ...] = ()
    took_ms: float = 0.0
    chore: bool = False
    afterwards: Callable[[], None] | None = field(default=None, repr=False)

    def apply(self, run_uid: str = "") -> int:
        """Make the changes that still hold, in one transaction; returns how many memories that were.

        Inside a transaction of the caller's it is for them to call ``afterwards``.
        """
        if not self.changes and not self.chore:
            return 0
        start = time.perf_counter()
        self.applied = self.commit(run_uid)
        self.took_ms = (time.perf_counter() - start) * 1000
        if self.afterwards and not connection.in_atomic_block:
            self.afterwards()
        return sum(len(change.members) or change.count for change in self.applied)


class Pace:
    """How many rows a step takes, so that it lasts about ``maintenance_step_ms``, and a rest after each.

    It goes by the median of the last steps: one that met a busy disk says little about the next. The rest is
    as long as the step: a writer of another process, which SQLite has asleep for a while between two tries,
    meets an open door at every second try.
    """

    def __init__(
        self, first: int = 200, most: int = 5000, least: int = 1, *, stretch: float = 1.0, rest: float = 1.0
    ) -> None:
        """``least``: below this the cost of a transaction outweighs that of its rows.

        ``stretch``: how many times as long a step may last, and ``rest``: for what share of it to rest
        afterwards, where somebody waits for the end.
        """
        self.size, self.most, self.least = first, most, least
        self.stretch, self.rest = stretch, rest
        self.costs: deque[float] = deque(maxlen=5)

    def after(self, step: Step) -> None:
        """Take the measure of a step that was applied (or was not: nothing to learn then)."""
        if step.took_ms:
            self.took(step.took_ms)

    def took(self, milliseconds: float) -> None:
        """So long did the last ``size`` rows take."""
        self.costs.append(milliseconds / self.size)
        aim = settings.MEMORYHUB.maintenance_step_ms * self.stretch
        wanted = aim / max(median(self.costs), 1e-6)
        self.size = max(self.least, min(int(wanted), self.size * 2, self.most))
        if not connection.in_atomic_block:
            time.sleep(min(milliseconds, 200) * self.rest / 1000)

    def page(self, rows: Sequence[T], weigh: Callable[[T], float] | None) -> Sequence[T]:
        """The first of the rows, as many as weigh no more than ``size``; one at least.

        A row weighs 1 unless ``weigh`` says more: what is long takes long.
        """
        if weigh is None:
            return rows[: self.size]
        weight = 0.0
        for number, row in enumerate(rows):
            weight += weigh(row)
            if weight > self.size and number:
                return rows[:number]
        return rows


def indexing_weight(characters: int) -> float:
    """What a memory of so many characters weighs where its words leave the text indexes or enter them."""
    return 1 + characters / CHARS_PER_WEIGHT


def undo_in_batches(items: Sequence[T], deed: Callable[[Sequence[T]], int], pace: Pace) -> Iterator[int]:
    """Do to items, some at a time, what undoes something, in one short transaction; what each gave back."""
    at = 0
    while at < len(items):
        some = items[at : at + pace.size]
        began = time.perf_counter()
        given = deed(some)
        took, at = (time.perf_counter() - began) * 1000, at + len(some)
        yield given
        pace.took(took)


PagePlan = tuple[Sequence[Change], Commit]


def steps_by_page(
    rows: QuerySet[Any],
    columns: Sequence[str],
    plan: Callable[[list[Any]], PagePlan],
    position: dict[str, Any],
    pace: Pace | None = None,
    weigh: Callable[[Any], float] | None = None,
) -> Iterator[Step]:
    """Steps through all rows by primary key, whatever happens to them meanwhile; none is met twice.

    ``columns`` begin with ``pk``. ``plan`` makes the changes of a page of rows, and what commits them.
    ``weigh``: what a row weighs, where that is more than 1 (:meth:`Pace.page`).
    """
    pace, after = pace or Pace(), position.get("after", 0)
    while found := list(rows.order_by("pk").filter(pk__gt=after)[: pace.size].values_list(*columns)):
        page = list(pace.page(found, weigh))
        after = page[-1][0]
        changes, commit = plan(page)
        step = Step(tuple(changes), {**position, "after": after}, len(page), commit)
        yield step
        pace.after(step)


def format_count(number: int, noun: str) -> str:
    """``1 day``, ``2 days``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class ProjectParams(BaseModel):
    """What may be asked of any operation on memories."""

    model_config = ConfigDict(extra="forbid")

    project: str | None = Field(default=None, max_length=200, description="This project alone.")

    def within(self, rows: Rows) -> Rows:
        """Those of the project, or all."""
        return rows if self.project is None else rows.filter(project=self.project)


P = TypeVar("P", bound=BaseModel)


class Operation(ABC, Generic[P]):
    """One thing that maintenance does; without state of its own."""

    name: ClassVar[str]
    label: ClassVar[str]
    help: ClassVar[str]
    undoable: ClassVar[bool] = False
    # Whether it walks through everything, whatever its actor may see: its progress counts hidden things.
    whole_store: ClassVar[bool] = False
    Params: type[P]

    @abstractmethod
    def total(self, params: P, actor: Actor, now: datetime) -> int:
        """How many things there are to look at: what ``seen`` of all steps adds up to, about."""

    @abstractmethod
    def steps(
        self, params: P, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        """The steps from a position on; empty or None: from the start."""

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        """Undo what a run did, in short transactions; yields how many memories each gave back."""
        raise NotImplementedError(f"{self.name} cannot be undone")

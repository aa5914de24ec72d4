"""Building blocks of maintenance operations: changes, steps, pacing and the operation base class.

An operation walks through the store and yields steps. A step lists its planned changes with reasons.
:meth:`Step.apply` makes them in one short transaction, after checking that they still apply. A dry run is the
same walk without ``apply``, so it lists exactly what a run would do.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from statistics import median
from typing import Any, ClassVar, Generic, TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import Max, QuerySet
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.access.policy import Actor
from memoryhub.core.database import write_transaction
from memoryhub.memories.undo import Undo
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

UNCHANGED = "left"  # the action of a refused change, which is listed with its reason


@dataclass(frozen=True)
class Change:
    """One planned or applied change with its reason. Show it only to viewers of ``uid`` and all ``members``.

    ``action``: boost, decay, fade (a decay that recall notices), evict, merge, summarise, purge, erase,
    prune, reindex, embed, change, or :data:`UNCHANGED`.
    ``uid``: the memory; for a merge, the member that gives the summary its title.
    ``before``, ``after``: importances.
    ``reason``: text for people, which never contains content of a memory.
    ``members``: ids of all merged memories, including ``uid``; ``into``: id of the result, after the merge.
    ``count``: number of changed rows, if they are not listed by id.
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
        """Return the fields without empty values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["members"] = list(self.members)
        if self.count == 1:
            del values["count"]
        return {name: value for name, value in values.items() if value not in (None, "", [])}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Change:
        """Read the result of :meth:`as_json`; unknown names are ignored."""
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        return cls(**{**known, "members": tuple(known.get("members", ()))})


CHARS_PER_WEIGHT = 2000  # indexing this much text takes as long as the other work on one memory
T = TypeVar("T")
Rows = TypeVar("Rows", bound="QuerySet[Any]")
Commit = Callable[[str], tuple[Change, ...]]
Refusals = list[tuple[str, str]]  # ids of memories, and the reasons to display


@dataclass
class Step:
    """The changes of one short transaction.

    ``position``: where the operation continues after this step.
    ``seen``: how many of the operation's ``total`` the step covers, for the progress bar.
    ``applied``, ``took_ms``: the changes that :meth:`apply` really made, and the duration of its transaction.
    ``chore``: the step changes no memory, for example because it cleans an index. There may be many such
    steps; a dry run sees one or two of them.
    ``afterwards``: work to do outside the transaction.
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
        """Make the changes that still apply in one transaction; return the number of changed memories.

        A caller that has its own transaction calls ``afterwards`` after it.
        """
        if not self.changes and not self.chore:
            return 0
        start = time.perf_counter()
        self.applied = self.commit(run_uid)
        self.took_ms = (time.perf_counter() - start) * 1000
        if self.afterwards and not connection.in_atomic_block:
            self.afterwards()
        return count_memories(self.applied)


def count_memories(changes: Iterable[Change]) -> int:
    return sum(len(change.members) or change.count for change in changes if change.action != UNCHANGED)


class Pace:
    """Sizes the steps so that each takes about ``maintenance_step_ms``, and sleeps after each.

    The size follows the median cost of the last steps, so that one busy moment of the disk hardly counts.
    The sleep is as long as the step: SQLite makes writers of other processes sleep between retries, so about
    every second retry finds the database free.
    """

    def __init__(
        self,
        size: int = 200,
        max_size: int = 5000,
        min_size: int = 1,
        *,
        stretch: float = 1.0,
        rest: float = 1.0,
    ) -> None:
        """``min_size``: below this, the cost of a transaction exceeds that of its rows.

        ``stretch``: factor of the step duration. ``rest``: sleep after a step, as a share of its duration.
        """
        self.size, self.max_size, self.min_size = size, max_size, min_size
        self.stretch, self.rest = stretch, rest
        self.costs: deque[float] = deque(maxlen=5)

    def after(self, step: Step) -> None:
        """Adjust the size to the duration of a step, if it was applied."""
        if step.took_ms:
            self.adjust(step.took_ms)

    def adjust(self, milliseconds: float) -> None:
        """Adjust the size to the duration of the last ``size`` rows, then sleep."""
        self.costs.append(milliseconds / self.size)
        target = settings.MEMORYHUB.maintenance_step_ms * self.stretch
        size = int(target / max(median(self.costs), 1e-6))
        self.size = max(self.min_size, min(size, self.size * 2, self.max_size))
        if not connection.in_atomic_block:
            time.sleep(min(milliseconds, 200) * self.rest / 1000)

    def batches(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield the items in batches, sized by the time that the caller takes for each."""
        done = 0
        while done < len(items):
            batch = items[done : done + self.size]
            start = time.perf_counter()
            yield batch
            done += len(batch)
            self.adjust((time.perf_counter() - start) * 1000)

    def page(self, rows: Sequence[T], weigh: Callable[[T], float] | None) -> Sequence[T]:
        """Return the first rows whose total weight is at most ``size``, at least one row.

        Without ``weigh``, each row weighs 1.
        """
        if weigh is None:
            return rows[: self.size]
        weight = 0.0
        for number, row in enumerate(rows):
            weight += weigh(row)
            if weight > self.size and number:
                return rows[:number]
        return rows


PagePlan = tuple[Sequence[Change], Commit]


def steps_by_page(
    rows: QuerySet[Any],
    columns: Sequence[str],
    plan: Callable[[list[Any]], PagePlan],
    position: dict[str, Any],
    pace: Pace | None = None,
    weigh: Callable[[Any], float] | None = None,
    chore: bool = False,
) -> Iterator[Step]:
    """Yield steps through the rows that exist at the start, in order of primary key, each row once.

    Rows that are added later are left out, or a run would not end while agents add them as fast as it reads.
    ``columns`` begin with ``pk``. ``plan`` returns the changes of a page of rows and a function that commits
    them. ``weigh`` returns the weight of a row (see :meth:`Pace.page`). ``chore``: also commit pages without
    listed changes.
    """
    pace, after = pace or Pace(), position.get("after", 0)
    last = position.get("last") or rows.aggregate(last=Max("pk"))["last"] or 0
    remaining = rows.order_by("pk").filter(pk__lte=last)
    while fetched := list(remaining.filter(pk__gt=after)[: pace.size].values_list(*columns)):
        page = list(pace.page(fetched, weigh))
        after = page[-1][0]
        changes, commit = plan(page)
        step = Step(
            tuple(changes), {**position, "after": after, "last": last}, len(page), commit, chore=chore
        )
        yield step
        pace.after(step)


def chore_steps(
    work: Callable[[int, bool], bool | None], pace: Pace, position: dict[str, Any], *, counted: bool = False
) -> Iterator[Step]:
    """Yield steps that call ``work(amount, is_first)`` until it returns false; a dry run gets one step.

    ``counted``: whether the amounts count towards the operation's total.
    """
    has_more: bool | None = True
    is_first = True
    while has_more:
        amount = pace.size

        def commit(run_uid: str, amount: int = amount, is_first: bool = is_first) -> tuple[Change, ...]:
            nonlocal has_more
            with write_transaction():
                has_more = work(amount, is_first)
            return ()

        step = Step((), position, amount if counted else 0, commit, chore=True)
        yield step
        if not step.took_ms:
            return
        pace.after(step)
        is_first = False


class ProjectParams(BaseModel):
    """The parameters of an operation that can be limited to one project."""

    model_config = ConfigDict(extra="forbid")

    project: str | None = Field(default=None, max_length=200, description="Only this project.")

    def in_project(self, rows: Rows) -> Rows:
        """Return the rows of the project, or all rows if none is set."""
        return rows if self.project is None else rows.filter(project=self.project)

    def live_memories(self, actor: Actor, now: datetime) -> MemoryQuerySet:
        return self.in_project(Memory.objects.visible_to(actor.clearance).live(now))


P = TypeVar("P", bound=BaseModel)


class Operation(ABC, Generic[P]):
    """A maintenance operation. Instances have no state."""

    name: ClassVar[str]
    label: ClassVar[str]
    help: ClassVar[str]
    # The journal operations whose rows an undo of a run needs. Empty: it cannot be undone.
    inverse_records: ClassVar[tuple[str, ...]] = ()
    # Whether it covers the whole store regardless of its actor, so that its progress counts hidden memories.
    whole_store: ClassVar[bool] = False
    # Whether it depends on the age of memories. Such operations pause while the clock is in doubt.
    depends_on_age: ClassVar[bool] = False
    Params: type[P]

    @abstractmethod
    def total(self, params: P, actor: Actor, now: datetime) -> int:
        """Return the approximate sum of ``seen`` over all steps."""

    @abstractmethod
    def steps(
        self, params: P, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        """Yield the steps from a position; empty or None means from the start."""

    def clean_up(self, params: P) -> None:
        """Remove what a run needed, after it is marked as done: an interrupted one needs it to continue."""

    def resume_refusal(self, params: Mapping[str, Any]) -> str:
        """Return why a run with these parameters cannot be resumed, and what to do; empty if it can."""
        return ""

    def title(self, params: Mapping[str, Any]) -> str:
        """Return the name of a run with these stored parameters."""
        return self.label

    @property
    def summary(self) -> str:
        """The first sentence of ``help``."""
        return self.help.partition(". ")[0].rstrip(".") + "."

    @property
    def undoable(self) -> bool:
        return bool(self.inverse_records)

    def undo(
        self, run_uid: str, actor: Actor, now: datetime | None = None, *, refused: Refusals | None = None
    ) -> Iterator[int]:
        """Undo a run in short transactions; yield the number of memories that each restores.

        ``refused``: receives the ids of memories that are left as they are, and the reasons.
        """
        undo = Undo.of_action(run_uid, actor, self.inverse_records, now)
        undo.refused = undo.refused if refused is None else refused
        yield from undo.steps(Pace(20, min_size=4).batches)

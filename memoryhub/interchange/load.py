"""Storing what an interchange file holds, batch by batch, and counting what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memoryhub import store
from memoryhub.drafts import MemoryDraft
from memoryhub.interchange.jsonl import READ_ONLY, BadLine, Line, Lines, parse
from memoryhub.interchange.problems import Problem
from memoryhub.models import Memory
from memoryhub.retrieval.overview import counts
from memoryhub.sensitivity import Actor
from memoryhub.transactions import write

BATCH = 1000
# A file with a new field name in every line must not fill the memory.
_MOST_FIELDS = 200
OTHER_FIELDS = "other fields"


@dataclass
class Tally:
    """What became of the lines."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    blank: int = 0
    from_trash: int = 0
    without_ttl: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    created_in: Counter[str] = field(default_factory=Counter)

    @property
    def stored(self) -> int:
        return sum(self.outcomes.values())

    def ignore(self, names: list[str]) -> None:
        """Count one line's fields that were not taken over."""
        for name in names:
            counted = name in self.ignored or len(self.ignored) < _MOST_FIELDS
            self.ignored[name if counted else OTHER_FIELDS] += 1

    @property
    def unknown_fields(self) -> dict[str, int]:
        """Fields that mean nothing here, with the number of lines that had them."""
        return {name: n for name, n in self.ignored.most_common() if name not in READ_ONLY}

    @property
    def read_only_fields(self) -> dict[str, int]:
        """Fields that the store sets itself, with the number of lines that had them."""
        return {name: n for name, n in self.ignored.most_common() if name in READ_ONLY}


@dataclass(frozen=True)
class Order:
    """How to load. ``project`` is for lines that name none; ``report`` hears of every line that fails."""

    actor: Actor
    report: Callable[[int, Problem], None]
    project: str = ""
    dry_run: bool = False
    strict: bool = False


def load(lines: Lines, order: Order, tally: Tally) -> Iterator[None]:
    """Store the memories of these lines; comes back after each batch, when ``lines`` tells how far it is.

    A line that holds no memory does not lose the others, unless the order is strict: then it ends it.
    The cap of a project is not held: it bounds what agents pile up, and this is a person's doing. Upkeep
    counts from now: years of history do not fade in the night after they came.
    """
    batch: list[tuple[Line, MemoryDraft]] = []
    for line in lines:
        if len(batch) >= BATCH:
            if _store(batch, order, tally) and order.strict:
                return
            batch = []
            yield
        draft = _read(line, order, tally)
        if draft is not None:
            batch.append((line, draft))
        elif order.strict and tally.failed:
            break
    if not (_store(batch, order, tally) and order.strict):
        yield


def _read(line: Line, order: Order, tally: Tally) -> MemoryDraft | None:
    try:
        draft = parse(line)
    except BadLine as bad:
        tally.failed += 1
        for problem in bad.problems:
            order.report(line.number, problem)
        return None
    if draft is None:
        tally.blank += 1
    elif order.project and not draft.project:
        draft.project = order.project
    return draft


def _store(batch: list[tuple[Line, MemoryDraft]], order: Order, tally: Tally) -> int:
    """Store a batch in one transaction; how many of it were refused."""
    drafts = [draft for _, draft in batch]
    vectors = store.embed_ahead(drafts)
    with write():
        results = store.remember_many(
            drafts, order.actor, hold_cap=False, imported_at=timezone.now(), vectors=vectors
        )
        if order.dry_run:
            transaction.set_rollback(True)
    refused = 0
    for (line, draft), result in zip(batch, results, strict=True):
        if isinstance(result, store.StoreError):
            refused += 1
            order.report(line.number, Problem(result.field, result.message))
            continue
        tally.outcomes[result.outcome] += 1
        tally.ignore(draft.ignored)
        tally.created_in[result.memory.project] += result.outcome == "created"
        tally.without_ttl += "ttl_days" not in draft.given
        tally.from_trash += bool((draft.model_extra or {}).get("deleted_at"))
    tally.failed += refused
    return refused


def over_cap(tally: Tally, dry_run: bool = False) -> dict[str, int]:
    """Of the projects that were loaded those that hold (or would hold) more than ``max_memories``."""
    cap = settings.MEMORYHUB.max_memories
    held = counts(Memory.objects.live(), "project") if cap else {}
    coming = tally.created_in if dry_run else Counter[str]()
    after = {project: held.get(project, 0) + coming[project] for project in tally.created_in}
    return {project: n for project, n in after.items() if cap and n > cap}

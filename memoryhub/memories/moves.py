"""Move whole sets of memories and facts to another project, including hidden ones, and back.

For services that act on projects as a whole. The memories do not change: no revision, no new ``updated_at``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q

from memoryhub.core.database import batched
from memoryhub.memories.update import find_twins, next_copy_number
from memoryhub.models import Fact, Memory

CHUNK_SIZE = 500  # keys in one statement
_PLACE = ("scope", "owner", "sensitivity", "key")
_FACT = ("subject", "predicate", "object", "sensitivity")
Moved = list[list[int]]  # the primary key and the copy number of each row, before it was moved


def move_memories(source: str, target: str, keys: Sequence[int] | None = None) -> Moved:
    """Move memories between projects: all, or those with these keys. Call it in a transaction."""
    moved: Moved = []
    twins = Memory.objects.filter(
        Q(content_hash=OuterRef("content_hash")) | Q(key=OuterRef("key")) & ~Q(key=""),
        project=target,
        **{name: OuterRef(name) for name in _PLACE},
    )
    for rows in _chunks(Memory.objects.filter(project=source), keys):
        moved += [list(pair) for pair in rows.values_list("pk", "copy")]
        for memory in rows.filter(Exists(twins)).order_by("copy", "pk"):
            memory.project = target
            memory.copy = next_copy_number(find_twins(memory))
            memory.save(update_fields=["project", "copy"])
        rows.update(project=target)
    return moved


def move_facts(source: str, target: str, keys: Sequence[int] | None = None) -> Moved:
    """Move facts between projects, like :func:`move_memories`."""
    moved: Moved = []
    twins = Fact.objects.filter(project=target, **{name: OuterRef(name) for name in _FACT})
    for rows in _chunks(Fact.objects.filter(project=source), keys):
        moved += [list(pair) for pair in rows.values_list("pk", "copy")]
        for fact in rows.filter(Exists(twins)).order_by("copy", "pk"):
            equal = Fact.objects.filter(project=target, **{name: getattr(fact, name) for name in _FACT})
            fact.project, fact.copy = target, next_copy_number(equal)
            fact.save(update_fields=["project", "copy"])
        rows.update(project=target)
    return moved


def move_back(model: type[Memory | Fact], source: str, target: str, moved: Moved) -> None:
    """Undo a move. Rows that were erased or moved elsewhere since stay as they are."""
    move = move_memories if model is Memory else move_facts
    move(source, target, [pk for pk, _ in moved])
    copies = {pk: copy for pk, copy in moved}  # noqa: C416 pairs are lists
    for chunk in batched(copies, CHUNK_SIZE):
        for row in model._default_manager.filter(pk__in=chunk, project=target):
            if row.copy != copies[row.pk]:
                _restore_copy(row, copies[row.pk])


def _restore_copy(row: Any, copy: int) -> None:
    """Set an earlier copy number, unless a twin has it now."""
    if isinstance(row, Memory):
        is_taken = find_twins(row).filter(copy=copy).exists()
    else:
        equal = {name: getattr(row, name) for name in (*_FACT, "project")}
        is_taken = Fact.objects.filter(**equal, copy=copy).exclude(pk=row.pk).exists()
    if not is_taken:
        row.copy = copy
        row.save(update_fields=["copy"])


def _chunks(rows: Any, keys: Sequence[int] | None) -> Any:
    """Yield the rows with these keys in parts that fit into a statement, or all rows at once."""
    if keys is None:
        yield rows
        return
    for chunk in batched(keys, CHUNK_SIZE):
        yield rows.filter(pk__in=chunk)

"""The journal: who changed what and when, in the same transaction as the change.

Each row's hash covers its stored bytes and the hash of the row before, so a changed, missing or inserted row
breaks the chain from there on. Rows are mirrored as JSON lines to ``LETSGO_MEMORY_LOG`` after the commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection, models, transaction
from django.db.models.functions import Cast
from django.utils import timezone

from memoryhub import mirror
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.search import bulk
from memoryhub.sensitivity import Actor, Sensitivity

GENESIS = "0" * 64
LINE = ("seq", "at", "actor", "operation", "object_type", "object_id", "detail", "hash")
_HASHED = ("seq", "at", "actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner", "detail")


@dataclass(frozen=True)
class Change:
    """What happened to one object; ``detail`` names fields and counts, never a memory's text."""

    operation: str
    object_type: str
    object_id: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    project: str = ""
    sensitivity: str = Sensitivity.PUBLIC.value
    owner: str = ""


def of_memory(operation: str, memory: Memory, **detail: Any) -> Change:
    """A change of a memory, under the memory's own level, project and owner."""
    return Change(
        operation,
        "memory",
        memory.uid,
        {"content_hash": memory.content_hash, **detail},
        memory.project,
        memory.sensitivity,
        memory.owner,
    )


def of_fact(operation: str, fact: Fact, **detail: Any) -> Change:
    """A change of a fact; one that hangs on a personal memory is its owner's too."""
    owner = fact.memory.owner if fact.memory else ""
    return Change(operation, "fact", fact.uid, detail, fact.project, fact.sensitivity, owner)


def record(actor: Actor, changes: Iterable[Change], now: datetime | None = None) -> None:
    """Append the changes. Must run in the transaction that makes them; the write lock orders the chain."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("a change and its journal row are one transaction")
    at = now or timezone.now()
    stored_at = str(connection.ops.adapt_datetimefield_value(at))
    shown_at = shown(at)
    seq, previous = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first() or (0, GENESIS)
    rows, lines = [], []
    for seq, change in enumerate(changes, start=seq + 1):
        place = (change.operation, change.object_type, change.object_id)
        detail = json.dumps(dict(sorted(change.detail.items())))
        stored = (seq, stored_at, actor.name, *place, change.project, change.sensitivity, change.owner, detail)
        previous = _digest(map(str, stored), previous)
        rows.append((*stored, previous))
        lines.append(dict(zip(LINE, (seq, shown_at, actor.name, *place, change.detail, previous), strict=True)))
    if rows:
        bulk.insert(JournalEntry, (*_HASHED, "hash"), rows)
        transaction.on_commit(partial(mirror.append, lines))


def as_line(row: JournalEntry) -> dict[str, Any]:
    """A row in the shape of the API and of the mirror."""
    return {name: shown(row.at) if name == "at" else getattr(row, name) for name in LINE}


def shown(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class Verification:
    """``first_bad_seq`` is the first number whose row is not as it was written, or is missing."""

    ok: bool
    rows: int
    first_bad_seq: int | None = None


def verify() -> Verification:
    """Recompute the whole chain from the stored bytes."""
    previous, expected, bad = GENESIS, 1, None
    rows = 0
    for *stored, digest in _stored_rows():
        rows += 1
        if bad is None and (stored[0] != str(expected) or _digest(stored, previous) != digest):
            bad = expected
        previous, expected = digest, expected + 1
    return Verification(bad is None, rows, bad)


def _stored_rows() -> Iterator[tuple[str, ...]]:
    """Rows as the text the database holds: a parsed value could hide a changed byte."""
    texts = {f"{name}_text": Cast(name, models.TextField()) for name in (*_HASHED, "hash")}
    return JournalEntry.objects.order_by("seq").annotate(**texts).values_list(*texts).iterator(chunk_size=5000)


def _digest(stored: Iterable[str | None], previous: str) -> str:
    """SHA-256 over the row's texts, each with its length in front, and the hash before."""
    whole = "".join(f"{len(text or '')}:{text}" for text in stored)
    return hashlib.sha256((whole + previous).encode("utf-8", "surrogatepass")).hexdigest()

"""What became of one memory: its earlier versions and its journal rows, as far as a clearance reaches."""

from __future__ import annotations

from memoryhub.models import JournalEntry, Memory, Revision
from memoryhub.querysets import JournalQuerySet
from memoryhub.sensitivity import Clearance
from memoryhub.store.versions import walk


def revisions(memory: Memory, clearance: Clearance) -> list[Revision]:
    """The earlier versions that may be seen, newest first."""
    return [row for row, seen in walk(memory, clearance) if seen]


def journal_of(memory: Memory, clearance: Clearance) -> JournalQuerySet:
    """The journal's rows about a memory that the caller has found behind the gate, newest first."""
    rows: JournalQuerySet = JournalEntry.objects.about(memory, clearance)
    return rows.order_by("-seq")

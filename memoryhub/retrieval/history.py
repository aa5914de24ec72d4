"""What became of one memory: its earlier versions and its journal rows, as far as a clearance reaches."""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.models import JournalEntry, Memory, Revision
from memoryhub.querysets import JournalQuerySet
from memoryhub.sensitivity import Clearance
from memoryhub.vocabulary import Scope


def revisions(memory: Memory, clearance: Clearance) -> list[Revision]:
    """The earlier versions that may be seen, newest first."""
    return [row for row, seen in walk(memory, clearance) if seen]


def walk(memory: Memory, clearance: Clearance) -> Iterator[tuple[Revision, bool]]:
    """Every earlier version, newest first, and whether it may be seen. One query, read as it is asked for.

    A version shows only to those who may read the level, the project and the scope it was under: a memory
    that was personal, or of a closed project, does not take its past along when it is shared.
    """
    scope, project, same_owner = memory.scope, memory.project, True
    for row in memory.revisions.order_by("-number").iterator(chunk_size=20):
        # Going back in time, each row brings the values from before its change; with another scope the owner,
        # whom revisions do not keep, may have been another too.
        same_owner = same_owner and "scope" not in row.before
        scope, project = row.before.get("scope", scope), row.before.get("project", project)
        open_to_all = scope != Scope.PERSONAL.value or same_owner
        yield row, clearance.opens(project, row.sensitivity) and open_to_all


def journal_of(memory: Memory, clearance: Clearance) -> JournalQuerySet:
    """The journal's rows about a memory that the caller has found behind the gate, newest first."""
    rows: JournalQuerySet = JournalEntry.objects.about(memory, clearance)
    return rows.order_by("-seq")

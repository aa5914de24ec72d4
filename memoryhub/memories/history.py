"""What happened to memories: earlier versions and journal rows that a clearance can see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from memoryhub.access.policy import Clearance
from memoryhub.memories.versions import walk
from memoryhub.models import JournalEntry, Memory, Revision
from memoryhub.models.querysets import JournalQuerySet


def revisions(memory: Memory, clearance: Clearance) -> list[Revision]:
    """The earlier versions that may be seen, newest first."""
    return [row for row, seen in walk(memory, clearance) if seen]


def journal_of(memory: Memory, clearance: Clearance) -> JournalQuerySet:
    """The journal's rows about a memory that the caller has found behind the gate, newest first."""
    rows: JournalQuerySet = JournalEntry.objects.about(memory, clearance)
    return rows.order_by("-seq")


@dataclass
class Provenance:
    """The newest rows about each memory, the newest first; ``most`` of each."""

    clearance: Clearance
    most: int
    rows: dict[str, list[JournalEntry]] = field(default_factory=dict)

    def read(self, memories: Iterable[Memory]) -> None:
        """One query for memories that the caller has found behind the gate."""
        self.rows = defaultdict(list)
        uids = [memory.uid for memory in memories]
        found: JournalQuerySet = JournalEntry.objects.of_reach(self.clearance)
        for row in found.filter(object_type="memory", object_id__in=uids).order_by("-seq").iterator():
            if len(self.rows[row.object_id]) < self.most:
                self.rows[row.object_id].append(row)


def of_one(uid: str, clearance: Clearance) -> JournalQuerySet:
    """All rows about one memory, which may be gone by now, newest first. Lazy."""
    rows: JournalQuerySet = JournalEntry.objects.visible_to(clearance)
    return rows.filter(object_type="memory", object_id=uid).order_by("-seq")

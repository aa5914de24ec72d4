"""Whether memories still fit the code: references to lines, and the mark "may be outdated".

A memory is marked when at least half of the lines that it is about are gone from one of its files, and
unmarked when enough of them are shown again. Only hashes of lines are compared.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from memoryhub.access.policy import LEVELS, Actor, stricter_level
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict
from memoryhub.models import CodeReference, Memory

OUTDATED_SHARE = 0.5  # of the lines in one file
MAX_REFERENCES = 200  # to one file that one event is compared with
MARKED, UNMARKED = "mark_outdated", "unmark_outdated"


@dataclass(frozen=True)
class FileChange:
    """What an event says about a file. ``shown``: lines that it has now; ``removed``: lines taken out of it.

    ``is_whole``: it has no other lines than those shown. ``moved_to``: its new path. A removed or moved
    ``path`` can be a folder.
    """

    path: str
    shown: Collection[str] = ()
    removed: Collection[str] = ()
    is_whole: bool = False
    moved_to: str = ""

    def lines_gone(self, reference: CodeReference) -> list[str]:
        """Return the lines of a reference that are gone after this change."""
        lines = reference.lines
        is_certain = self.path == reference.path or self.contains(reference.path)
        if self.is_whole and (is_certain or not set(lines).isdisjoint(self.shown)):
            return [line for line in lines if line not in self.shown]
        removed = {*reference.gone, *self.removed}.difference(self.shown)
        return [line for line in lines if line in removed]

    def contains(self, path: str) -> bool:
        """Whether the change is about a folder of the file."""
        return path.startswith(f"{self.path}/")

    def path_after(self, path: str) -> str:
        """Return the new path of a moved file, or of a file in a moved folder; empty if nothing moved."""
        rest = path.removeprefix(self.path) if self.moved_to and self.contains(path) else ""
        return self.moved_to + rest


@dataclass(frozen=True)
class ChangedFile:
    """How many of the lines that a memory is about are gone from a file."""

    path: str
    gone: int
    lines: int

    @property
    def is_outdated(self) -> bool:
        return self.gone >= self.lines * OUTDATED_SHARE and self.gone > 0


def store_references(memory: Memory, lines: Mapping[str, Sequence[str]], at: datetime) -> None:
    """Store which lines of which files a memory is about, unless it has such references."""
    rows = [
        CodeReference(
            memory=memory, path=path, basename=posixpath.basename(path), lines=list(hashes), as_of=at
        )
        for path, hashes in lines.items()
    ]
    if rows:
        with write_transaction():
            CodeReference.objects.bulk_create(rows, ignore_conflicts=True)


def compare_with_code(
    changes: Sequence[FileChange], project: str, level: str, actor: Actor, at: datetime, session_id: str
) -> list[Memory]:
    """Mark the memories of a project whose lines are gone, and unmark those whose lines are back.

    Memories that the actor may not see, or that readers below the level of the event may see, stay unchanged.
    Return the memories whose mark changed.
    """
    if not any(_find_changed(change, project, level, actor, at) for change in changes):
        return []
    changed: list[Memory] = []
    with write_transaction():
        by_memory: dict[int, Memory] = {}
        for change in changes:
            for reference, gone in _find_changed(change, project, level, actor, at):
                _update_reference(reference, gone, change, at)
                by_memory[reference.memory_id] = reference.memory
        entries = []
        for memory in by_memory.values():
            if entry := _update_mark(memory, at, session_id):
                entries.append(entry)
                changed.append(memory)
        journal.record(actor, entries)
    return changed


def _find_changed(
    change: FileChange, project: str, level: str, actor: Actor, at: datetime
) -> list[tuple[CodeReference, list[str]]]:
    """Return the references that a change affects, with their lines that are gone after it."""
    visible = Memory.objects.visible_to(actor.clearance).filter(
        project=project,
        deleted_at__isnull=True,
        sensitivity__in=[one for one in LEVELS if stricter_level(one, level) == one],
    )
    names = Q(basename=posixpath.basename(change.path))
    if change.moved_to or not change.shown:
        names |= Q(path__startswith=f"{change.path}/")
    found = CodeReference.objects.filter(names, memory__in=visible, as_of__lte=at).select_related("memory")
    affected = []
    for reference in found.order_by("-pk")[:MAX_REFERENCES]:
        if _is_same_file(reference.path, change.path) or change.contains(reference.path):
            gone = change.lines_gone(reference)
            if change.moved_to or sorted(gone) != sorted(reference.gone):
                affected.append((reference, gone))
    return affected


def _is_same_file(path: str, other: str) -> bool:
    """Whether two paths are one file, as seen from the repository or from one of its folders."""
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")


def _update_reference(reference: CodeReference, gone: list[str], change: FileChange, at: datetime) -> None:
    reference.gone, reference.as_of = gone, at
    # A dismissed line that is back counts again.
    reference.dismissed = {
        action: left
        for action, lines in reference.dismissed.items()
        if (left := [x for x in lines if x in gone])
    }
    fields = ["gone", "as_of", "dismissed"]
    moved_to = change.path_after(reference.path)
    if moved_to and not reference.memory.code_references.filter(path=moved_to).exists():
        reference.path, reference.basename = moved_to, posixpath.basename(moved_to)
        fields += ["path", "basename"]
    reference.save(update_fields=fields)


def changed_files(memories: Iterable[Memory]) -> dict[int, list[ChangedFile]]:
    """Return the files because of which memories may be outdated, by primary key. One statement."""
    keys = [memory.pk for memory in memories if memory.may_be_outdated]
    found: dict[int, list[ChangedFile]] = defaultdict(list)
    for row in CodeReference.objects.filter(memory__in=keys).order_by("pk") if keys else ():
        compared = row.compared
        changed = ChangedFile(row.path, len(set(row.gone).intersection(compared)), len(compared))
        if changed.is_outdated:
            found[row.memory_id].append(changed)
    return found


def _update_mark(memory: Memory, at: datetime, session_id: str) -> journal.Change | None:
    """Mark or unmark a memory by its references. Return the journal row if that changes something."""
    was, memory.outdated_at = memory.outdated_at, at  # changed_files skips memories without a mark
    files = changed_files([memory]).get(memory.pk, [])
    memory.outdated_at = (was or at) if files else None
    if memory.outdated_at == was:
        return None
    memory.save(update_fields=["outdated_at"])
    counts = {"lines": sum(one.lines for one in files), "gone": sum(one.gone for one in files)}
    detail = {**counts, "session": session_id} if files else {"session": session_id}
    return journal.memory_change(MARKED if files else UNMARKED, memory, **detail)


def dismiss_mark(memory: Memory, action: str) -> dict[str, str]:
    """Remove the mark; the lines that are gone no longer count. Return what an undo restores.

    Call this inside a transaction. Raise :class:`Conflict` if the memory is not marked.
    """
    if memory.outdated_at is None:
        raise Conflict("it is not marked as outdated", "uid")
    for row in _references(memory):
        ignored = {line for lines in row.dismissed.values() for line in lines}
        if new := [line for line in row.gone if line not in ignored]:
            row.dismissed = {**row.dismissed, action: new}
            row.save(update_fields=["dismissed"])
    was = {"outdated_at": memory.outdated_at.isoformat()}
    memory.outdated_at = None
    memory.save(update_fields=["outdated_at"])
    return was


def restore_mark(memory: Memory, action: str, outdated_at: datetime | None) -> None:
    """Undo :func:`dismiss_mark`. Raise :class:`Conflict` if the memory was marked again since."""
    if memory.outdated_at is not None:
        raise Conflict("it was marked as outdated again since")
    references = list(_references(memory))
    rows = [row for row in references if action in row.dismissed]
    if references and not rows:
        raise Conflict("its text or its code was changed since")
    for row in rows:
        row.dismissed = {other: lines for other, lines in row.dismissed.items() if other != action}
        row.save(update_fields=["dismissed"])
    memory.outdated_at = outdated_at
    memory.save(update_fields=["outdated_at"])


def clear_after_edit(memory: Memory) -> None:
    """Remove the mark of a memory whose text changes, with the lines that are gone. The caller saves it."""
    if memory.outdated_at is None:
        return
    memory.outdated_at = None
    for row in _references(memory):
        row.lines = [line for line in row.lines if line not in row.gone]
        row.gone, row.dismissed = [], {}
        if row.lines:
            row.save(update_fields=["lines", "gone", "dismissed"])
        else:
            row.delete()


def _references(memory: Memory) -> QuerySet[CodeReference]:
    return CodeReference.objects.filter(memory=memory).order_by("pk")

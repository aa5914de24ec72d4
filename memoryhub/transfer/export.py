"""Select the memories (or the whole store) that an actor may export, serialize them, and count the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Actor, Clearance, Sensitivity
from memoryhub.audit import journal
from memoryhub.audit.journal import MAX_NAMED_IDS
from memoryhub.checks import to_draft, visible_checks
from memoryhub.core.database import write_transaction
from memoryhub.core.pagination import iterate_rows, row_pages
from memoryhub.core.vocabulary import Scope
from memoryhub.maintenance.results import sees_everything
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import ListValues, load_lists
from memoryhub.memories.versions import walk_revisions
from memoryhub.models import (
    AbsenceSpan,
    CodeReference,
    Event,
    EventCount,
    Evidence,
    Fact,
    JournalEntry,
    Memory,
    Project,
    ProjectIdentity,
    Revision,
    Session,
)
from memoryhub.models.querysets import FactQuerySet, MemoryQuerySet
from memoryhub.stats.counts import count_values
from memoryhub.transfer.schema import HISTORY_LINES, VERSION, MemoryLine

UNKNOWN_LEVEL = "unknown"


@dataclass(frozen=True)
class ExportSelection:
    """The exported rows: those that the actor may see and that match the filter.

    ``whole`` adds trashed and expired memories, earlier versions, evidence, facts, sessions, events, checks
    and the journal; then only the filter's project applies. Only the hub's own format can contain these.
    """

    actor: Actor
    filter: MemoryFilter
    whole: bool = False

    @property
    def everything(self) -> bool:
        """Whether the actor sees all rows of known levels, so that the file can restore the store."""
        return sees_everything(self.actor.clearance)

    def memories(self) -> MemoryQuerySet:
        """Return the memories in storage order."""
        visible = Memory.objects.visible_to(self.actor.clearance)
        return self._narrowed(visible).order_by("pk")

    def facts(self) -> FactQuerySet:
        """Return the facts in storage order; none if a filter concerns only memories."""
        facts = Fact.objects.visible_to(self.actor.clearance)
        if self.whole and self.everything:  # including facts of trashed memories
            facts = Fact.objects.exclude(pk__in=Fact.objects.hidden_from(self.actor.clearance).values("pk"))
        narrowed: FactQuerySet = self._in_project(facts).select_related("memory").order_by("pk")
        return narrowed

    def total(self) -> int:
        """Return the number of exported memories."""
        return self.memories().count()

    def lines(self) -> Generator[bytes]:
        """Yield the JSON lines, loading a thousand memories at a time.

        With history, the first line is a header. The last one has the number of lines between them, so that
        an import notices missing ones. It is of the header's kind: older releases ignore further headers.
        """
        if not self.whole:
            yield from self._memory_lines()
            yield from self._replacement_lines()
            return
        header = {"kind": "memoryhub", "version": VERSION}
        yield to_line({**header, **self._about_history(), "has_end": True})
        count = 0
        for line in self._all_lines():
            count += 1
            yield line
        yield to_line({**header, "lines": count})

    def _about_history(self) -> dict[str, Any]:
        return {
            "exported_at": serializers.moment(timezone.now()),
            "levels": sorted(self.actor.clearance.levels_in_any_project()),
            "whole": self.everything,  # a file without omissions, which can restore the store
        }

    def _all_lines(self) -> Iterator[bytes]:
        if self.everything:
            yield from self._project_lines()
            yield from _history_lines("session", self._sessions())
        else:
            for row in iterate_rows(self._sessions()):  # with the visible values only
                yield to_line({"kind": "session", **serializers.session(row)})
        yield from self._memory_lines()
        yield from self._lines_about_memories()
        yield from self._fact_lines()
        yield from _history_lines("event", self._events())
        visible = Memory.objects.visible_to(self.actor.clearance).values("pk")
        yield from _history_lines("summary", self._sessions().filter(summary__in=visible))
        for row in iterate_rows(self._in_project(visible_checks(self.actor.clearance))):
            yield _history_to_line("check", row, **to_draft(row))
        for row in iterate_rows(self._in_project(JournalEntry.objects.visible_to(self.actor.clearance))):
            yield to_line(serialize_journal_row(row, numbered=self.actor.clearance.is_whole))

    def left_out(self, known: Clearance | None = None) -> dict[str, int]:
        """Count the matching memories that are not exported, by level, ``unknown`` or others' ``personal``.

        ``known`` counts only rows within this clearance, for actors who must not learn how many others exist.
        """
        hidden = Memory.objects.hidden_from(self.actor.clearance)
        matching = self._narrowed(hidden if known is None else hidden.visible_to(known))
        found: dict[str, int] = {}
        for level, n in count_values(matching.exclude(scope=Scope.PERSONAL.value), "sensitivity").items():
            name = level if level in LEVELS else UNKNOWN_LEVEL
            found[name] = found.get(name, 0) + n
        if personal := matching.filter(scope=Scope.PERSONAL.value).count():
            found[Scope.PERSONAL.value] = personal
        return found

    def journal_secrets(self) -> int:
        """Journal how many secret memories are exported, if any.

        The row names the newest ``MAX_NAMED_IDS`` of them. Personal memories get a separate row that belongs
        to their owner.
        """
        exported = self.memories().filter(sensitivity=Sensitivity.SECRET.value)
        owners = count_values(exported, "owner")
        if owners:
            rows = [
                self._secrets_change(exported.filter(owner=owner), n, owner)
                for owner, n in sorted(owners.items())
            ]
            with write_transaction():
                journal.record(self.actor, rows, timezone.now())
        return sum(owners.values())

    def _secrets_change(self, exported: MemoryQuerySet, n: int, owner: str) -> journal.Change:
        ids = list(exported.order_by("-pk").values_list("uid", flat=True)[:MAX_NAMED_IDS])
        detail, project = {"secret": n, "ids": ids}, self.filter.project or ""
        return journal.Change("export", "store", "", detail, project, Sensitivity.SECRET.value, owner)

    def _narrowed(self, memories: MemoryQuerySet) -> MemoryQuerySet:
        return self._in_project(memories) if self.whole else self.filter.narrow(memories)

    def _in_project(self, rows: Any, column: str = "project") -> Any:
        return rows.filter(**{column: self.filter.project}) if self.filter.project else rows

    def _memory_lines(self) -> Iterator[bytes]:
        for chunk in row_pages(self.memories()):
            lists = load_lists(chunk)
            for row in chunk:
                yield memory_to_line(row, lists[row.pk], whole=self.everything)

    def _lines_about_memories(self) -> Iterator[bytes]:
        yield from self._revision_lines()
        exported = {"memory__in": self.memories().order_by().values("pk")}
        yield from _history_lines("evidence", Evidence.objects.filter(**exported))
        yield from _history_lines("absence", AbsenceSpan.objects.filter(**exported))
        if self.everything:  # hashes of lines of code allow a guess at the code
            yield from _history_lines("reference", CodeReference.objects.filter(**exported))
        visible = Memory.objects.visible_to(self.actor.clearance).values("pk")
        yield from _history_lines("merge", self.memories().filter(merged_into__in=visible))
        yield from self._replacement_lines()

    def _revision_lines(self) -> Iterator[bytes]:
        clearance = self.actor.clearance
        changed = self.memories().filter(Exists(Revision.objects.filter(memory=OuterRef("pk"))))
        for memory in iterate_rows(changed):
            known = [
                row
                for row, visible in walk_revisions(memory, clearance)
                if visible or (self.everything and row.sensitivity in LEVELS)
            ]
            for row in reversed(known):
                yield _history_to_line("revision", row, memory_id=memory.uid)

    def _replacement_lines(self) -> Iterator[bytes]:
        """Yield the replacements whose memories are both exported."""
        exported = self.memories().order_by().values("pk")
        return _history_lines("replacement", self.memories().filter(superseded_by__in=exported))

    def _fact_lines(self) -> Iterator[bytes]:
        """Yield the facts, and then the links between superseded facts and their successors."""
        for row in iterate_rows(self.facts()):
            yield _fact_to_line(row, whole=self.everything)
        visible = self.facts().order_by().values("pk")
        yield from _history_lines("superseded", self.facts().filter(superseded_by__in=visible))

    def _sessions(self) -> Any:
        if not self.everything:
            return self._in_project(Session.objects.visible_to(self.actor.clearance)).order_by("pk")
        # Skip a session if all its rows have an unknown level.
        memories = Memory.objects.filter(session_id=OuterRef("session_id"), project=OuterRef("project"))
        events = Event.objects.filter(session=OuterRef("pk"))
        known = Exists(memories.filter(sensitivity__in=LEVELS)) | Exists(
            events.filter(sensitivity__in=LEVELS)
        )
        is_empty = ~Exists(memories) & ~Exists(events)
        return self._in_project(Session.objects.filter(known | is_empty)).order_by("pk")

    def _project_lines(self) -> Iterator[bytes]:
        yield from _history_lines("project", self._in_project(Project.objects.all(), "name"))
        for kind, model in (("identity", ProjectIdentity), ("count", EventCount)):
            yield from _history_lines(kind, self._in_project(model.objects.all(), "project__name"))

    def _events(self) -> Any:
        rows = Event.objects.visible_to(self.actor.clearance)
        if self.everything:  # including events of trashed memories
            known = Q(memory__isnull=True) | Q(memory__sensitivity__in=LEVELS)
            rows = Event.objects.filter(known, sensitivity__in=LEVELS)
        return self._in_project(rows, "session__project")


_JOURNAL_FIELDS = ("actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner")


def memory_to_line(row: Memory, lists: ListValues | None = None, *, whole: bool = False) -> bytes:
    """Serialize a memory to an importable line. ``whole`` adds its copy number, which may reveal hidden ones.

    ``superseded_by`` is exported as a separate line after both memories.
    """
    values = {"kind": "memory", **serializers.memory(row, {}, lists), "ttl_days": row.ttl_days}
    more = [name for name in MemoryLine.model_fields if name not in values and name != "copy_number"]
    values |= {name: _read(row, name) for name in more}
    del values["superseded_by"], values["may_be_outdated"]
    return to_line({**values, "copy_number": row.copy} if whole else values)


def _fact_to_line(row: Fact, *, whole: bool) -> bytes:
    values = {"kind": "fact", **serializers.fact(row), "author": row.author}
    return to_line({**values, "copy_number": row.copy} if whole else values)


# Where a row has values of its line under another name.
_PATHS: dict[str, dict[str, str]] = {
    "identity": {"project": "project.name"},
    "count": {"project": "project.name"},
    "event": {"session_id": "session.session_id", "project": "session.project"},
    "merge": {"memory_id": "uid", "into": "merged_into.uid"},
    "replacement": {"memory_id": "uid", "by": "superseded_by.uid"},
    "superseded": {"fact_id": "uid", "by": "superseded_by.uid"},
    "summary": {"memory_id": "summary.uid"},
    "check": {"id": "uid"},
}


def _history_lines(kind: str, rows: QuerySet[Any]) -> Iterator[bytes]:
    """Yield a line for each row."""
    related = {path.split(".")[0] for path in _paths(kind).values() if "." in path}
    for row in iterate_rows(rows.select_related(*related) if related else rows):
        yield _history_to_line(kind, row)


def _history_to_line(kind: str, row: Any, **values: Any) -> bytes:
    """Serialize a row with the fields of its schema. ``values`` replace those of the row."""
    read = {name: _read(row, path) for name, path in _paths(kind).items() if name not in values}
    return to_line({"kind": kind, **read, **values})


@cache
def _paths(kind: str) -> dict[str, str]:
    """Return the path in a row to each value of its line."""
    paths = {"memory_id": "memory.uid", **_PATHS.get(kind, {})}
    return {name: paths.get(name, name) for name in HISTORY_LINES[kind].model_fields if name != "kind"}


def _read(row: Any, path: str) -> Any:
    """Return a value as JSON; None if a row on its path is missing."""
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    if isinstance(row, datetime):
        return serializers.moment(row)
    return row.isoformat() if isinstance(row, date) else row


def serialize_journal_row(row: JournalEntry, *, numbered: bool) -> dict[str, Any]:
    """Serialize a journal row; an imported row is exported as in its original store.

    Number and hash in the chain depend on all rows. Unless ``numbered``, there is no number, and the hash is
    of this row alone.
    """
    detail = dict(row.detail)
    origin = detail.pop("imported", None) or {"seq": row.seq, "hash": row.hash}
    values = {
        "at": serializers.moment(row.at),
        **{name: getattr(row, name) for name in _JOURNAL_FIELDS},
        "detail": detail,
    }
    if not numbered:
        origin = {"seq": None, "hash": hashlib.sha256(to_line(values)).hexdigest()}
    return {"kind": "journal", "seq": origin["seq"], "hash": origin["hash"], **values}


def to_line(shape: dict[str, Any]) -> bytes:
    """Serialize a dictionary to a line."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

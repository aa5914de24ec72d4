"""The exports of memory services for any agent: mem0, its server OpenMemory, and Hindsight."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryhub.core.database import batched
from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.files import LineReader, member_names, open_member, select_members
from memoryhub.transfer.foreign_json import (
    JsonSample,
    SqliteOrJsonFormat,
    count_lines,
    first_objects,
    open_json,
    parse_line,
    read_items,
    read_json,
    read_members,
    read_objects,
    sample_json,
)
from memoryhub.transfer.foreign_sqlite import ForeignDatabase
from memoryhub.transfer.records import Format, InvalidItem, Item, Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.values import (
    ROW_NUMBER,
    FieldReader,
    ReadNotes,
    foreign_id,
    load_field_rules,
    make_revision,
    printable_name,
)

_MEM0 = load_field_rules("mem0")
_MEM0_FIELDS = frozenset(
    "id memory hash metadata created_at updated_at user_id agent_id app_id run_id actor_id role categories"
    " expiration_date score".split()
)
_MEM0_METADATA = frozenset(("project", "category", "tags"))
_MEM0_LISTS = {"results": "memory", "memories": "memory", "": "memory"}
_HISTORY_COLUMNS = (
    "memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role".split()
)
_CHUNK_MEMORIES = 200


class Mem0(SqliteOrJsonFormat):
    """mem0: the JSON of ``get_all`` and of its platform's export, and the SQLite file ``history.db``.

    The vector store is in the format of its provider. ``history.db`` contains each change of each memory.
    """

    name = "mem0"
    label = "mem0"
    hint = "The JSON of Memory.get_all() or of the platform's export; or history.db in ~/.mem0."

    counted = ("history",)

    def is_known(self, sample: JsonSample) -> bool:
        rows = [row for key in _MEM0_LISTS for row in sample.get(key, [])]
        return bool(rows) and all(isinstance(row, dict) and {"id", "memory"} <= row.keys() for row in rows)

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        return read_items(members, _MEM0_LISTS, notes, lambda _, fields: [_read_mem0(fields)])

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        """Yield the last state of each memory, and then the texts that its changes replaced as versions."""
        numbers: dict[str, list[int]] = {}  # of the rows of each memory
        for row in database.rows("history", ("memory_id",)):
            numbers.setdefault(str(row["memory_id"]), []).append(row[ROW_NUMBER])
        for build in (_read_history, _read_versions):
            for chunk in batched(numbers, _CHUNK_MEMORIES):
                for memory_id, changes in _load_changes(database, chunk, notes).items():
                    yield from build(memory_id, changes, numbers[memory_id])


def _load_changes(
    database: ForeignDatabase, memory_ids: Sequence[str], notes: ReadNotes
) -> dict[str, list[FieldReader]]:
    """Return the changes of these memories in order, as they occurred."""
    columns = [name for name in _HISTORY_COLUMNS if database.has("history", name)]
    found: dict[str, list[FieldReader]] = {}
    for row in database.matching_rows("history", "memory_id", memory_ids, columns):
        found.setdefault(str(row["memory_id"]), []).append(FieldReader(row, notes))
    return found


def _mem0_id(memory_id: str) -> str:
    return foreign_id(Mem0.name, memory_id)


def _read_mem0(fields: FieldReader) -> Item:
    fields.note_unknown(_MEM0_FIELDS)
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, _MEM0_METADATA)
    categories = fields.words("categories")
    category = metadata.text("category") or (categories[0] if categories else "")
    identities = [
        f"{name}:{word}"[:100] for name in ("user", "agent", "app") if (word := fields.text(f"{name}_id"))
    ]
    computed = {
        "type": MemoryType.FACT,
        "category": category[:100] or "general",
        "project": metadata.text("project"),
        "tags": [*categories[1:], *metadata.words("tags"), *identities],
    }
    return fields.memory(_MEM0["memory"], uid=_mem0_id(fields.text("id")), **computed)


def _read_history(memory_id: str, changes: list[FieldReader], numbers: list[int]) -> Iterator[Item]:
    """Yield the memory in its last state, in the trash if it was deleted."""
    first, last = changes[0], changes[-1]
    deleted = last.text("event") == "DELETE" or last.count("is_deleted") > 0
    changed = last.past_moment("updated_at", "created_at")
    last.note_unsupported("actor_id")
    yield last.memory(
        {},
        part=f"history row {numbers[-1]}",
        uid=_mem0_id(memory_id),
        content=last.text("old_memory") if deleted else last.text("new_memory"),
        type=MemoryType.FACT,
        ttl_days=0,
        created_at=first.past_moment("created_at", "updated_at"),
        updated_at=changed,
        deleted_at=changed if deleted else None,
    )


def _read_versions(memory_id: str, changes: list[FieldReader], numbers: list[int]) -> Iterator[Item]:
    version = 0
    for fields, number in zip(changes, numbers, strict=False):
        if fields.text("event") == "UPDATE" and (before := fields.text("old_memory")):
            version += 1
            at = fields.past_moment("updated_at", "created_at")
            place = f"history row {number}, earlier version"
            yield make_revision(
                place, _mem0_id(memory_id), version, at, "mem0", "public", {"content": before}
            )


_OPENMEMORY = load_field_rules("openmemory")
_TABLES_FILE, _LINES_FILE = "memories.json", "memories.jsonl.gz"
_STATES = ("active", "paused", "archived", "deleted")
_INACTIVE_STATES = ("paused", "archived")  # not shown in OpenMemory, but not deleted: tagged here
# Keys without information beyond the memories themselves.
_KNOWN_KEYS = frozenset(("memories", "apps", "categories", "memory_categories", "export_meta"))
_OPENMEMORY_FIELDS = frozenset(
    ("id", "user_id", "app_id", "app", "content", "metadata", "state", "vector", "category_ids", "categories")
) | {"created_at", "updated_at", "archived_at", "deleted_at"}
_LINE_SIGNS = frozenset(("content", "state", "categories"))


class OpenMemory(Format):
    """A zip archive of ``memories.json`` and ``memories.jsonl.gz``, or the latter alone.

    ``memories.json`` has more details (when a memory was archived or deleted); memories that only the other
    file contains are read from there.
    """

    name = "openmemory"
    label = "OpenMemory (export zip)"
    extensions = (".zip", ".gz", ".jsonl")
    hint = "memories_export_USER.zip, which OpenMemory's dashboard made under Export."

    def recognises(self, path: Path) -> bool:
        if names := member_names(path):
            return _TABLES_FILE in names or _LINES_FILE in names
        found = first_objects(path)
        return bool(found) and all(set(one) >= _LINE_SIGNS for one in found)

    def count(self, path: Path) -> int | None:
        return None if member_names(path) else count_lines(path)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        reader = _OpenMemoryReader(options.now or datetime.now(UTC))
        names = member_names(path)
        if not names:
            for found in read_objects(path):
                yield (
                    found
                    if isinstance(found, InvalidItem)
                    else reader.read_memory(found[1], f"line {found[0]}")
                )
        elif _TABLES_FILE not in names and _LINES_FILE not in names:
            raise UnreadableFile(
                f"{path.name}: contains neither {_TABLES_FILE} nor {_LINES_FILE}; is it OpenMemory's export?"
            )
        else:
            yield from _read_archive(path, names, reader)
        yield from reader.notes.items()


def _read_archive(path: Path, names: dict[str, str], reader: _OpenMemoryReader) -> Iterator[Item]:
    if _TABLES_FILE in names:
        # Referenced tables may follow the memories.
        with open_member(path, names[_TABLES_FILE]) as stream:
            for key, value in read_members(stream, _TABLES_FILE):
                reader.add_reference(key, value)
        with open_member(path, names[_TABLES_FILE]) as stream:
            rows = (value for key, value in read_members(stream, _TABLES_FILE) if key == "memories")
            for number, row in enumerate(rows, start=1):
                yield reader.read_row(row, f"{_TABLES_FILE} memory {number}")
    if _LINES_FILE in names:
        with open_member(path, names[_LINES_FILE]) as stream:
            for line in LineReader(stream):
                found = parse_line(line)
                if isinstance(found, InvalidItem):
                    yield InvalidItem(f"{_LINES_FILE} {found.place}", found.problems)
                elif found and str(found[1].get("id")) not in reader.seen:
                    yield reader.read_memory(found[1], f"{_LINES_FILE} line {found[0]}")


@dataclass
class _OpenMemoryReader:
    now: datetime
    notes: ReadNotes = field(default_factory=ReadNotes)
    apps: dict[str, str] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def add_reference(self, key: str, value: Any) -> None:
        """Collect the names of referenced apps and categories; note unsupported tables."""
        if key in ("apps", "categories") and isinstance(value, dict):
            known = self.apps if key == "apps" else self.categories
            known[str(value.get("id"))] = str(value.get("name") or "").strip()
            self.notes.add(f"descriptions of {key}", int(bool(value.get("description"))))
        elif key not in _KNOWN_KEYS and value:
            self.notes.add(f"{printable_name(key)} (of {_TABLES_FILE})")

    def read_row(self, row: Any, place: str) -> Item:
        """Read a memory of ``memories.json``, which references its app and categories by id."""
        if not isinstance(row, dict):
            return InvalidItem(place, [Problem("", "is not a JSON object")])
        self.seen.add(str(row.get("id")))
        ids = row.get("category_ids")
        named = [self.categories.get(str(one), "") for one in ids] if isinstance(ids, list) else []
        app = self.apps.get(str(row.get("app_id")), "")
        return self.read_memory({**row, "app": app, "categories": [name for name in named if name]}, place)

    def read_memory(self, values: dict[str, Any], place: str) -> Item:
        fields = FieldReader(values, self.notes, place)
        fields.note_unsupported_metadata(fields.mapping("metadata"))
        fields.note_unsupported("vector", why="recomputed")
        fields.note_unknown(_OPENMEMORY_FIELDS)
        categories, app, state = fields.words("categories"), fields.text("app"), self._state(fields)
        tags = [*categories[1:], *([app] if app else []), *([state] if state in _INACTIVE_STATES else [])]
        updated = fields.past_moment("updated_at", "created_at")
        deleted = fields.past_moment("deleted_at") or updated or self.now
        return fields.memory(
            _OPENMEMORY["memory"],
            source_id=fields.text("id"),
            type=MemoryType.FACT,
            category=categories[0] if categories else "general",
            tags=tags,
            updated_at=updated,
            deleted_at=deleted if state == "deleted" else None,
        )

    def _state(self, fields: FieldReader) -> str:
        state = fields.text("state", "active")
        if state in _INACTIVE_STATES:
            self.notes.add(f"state {state} (stored with the tag {state})")
        elif state not in _STATES:
            self.notes.add(f"state {printable_name(state)} (stored as active)")
        return state


_HINDSIGHT = load_field_rules("hindsight")
_MANIFEST, _OBSERVATIONS = "manifest.json", "observations.json"
_DOCUMENT = re.compile(r"(?:^|/)documents/\d+\.json$")
_HINDSIGHT_FIELDS = frozenset(
    "text source_id fact_type context event_date occurred_start occurred_end mentioned_at metadata tags"
    " entities created_at observation_scopes chunk_index causal_relations consolidated_at"
    " consolidation_failed_at proof_count sources".split()
)
_HINDSIGHT_TYPES = {
    "world": MemoryType.FACT,
    "experience": MemoryType.CONTEXT,
    "observation": MemoryType.DISCOVERY,
    "opinion": MemoryType.SELF,
}


class Hindsight(Format):
    """An archive of a bank or of documents: a zip file with its facts and observations."""

    name = "hindsight"
    label = "Hindsight (archive)"
    extensions = (".zip",)
    hint = "The archive of: hindsight-admin export-bank --bank BANK --output FILE.zip."

    def recognises(self, path: Path) -> bool:
        manifest = member_names(path).get(_MANIFEST)
        return bool(manifest) and "source_bank_id" in sample_json(path, manifest or "")

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes, names = ReadNotes(), member_names(path)
        if _MANIFEST not in names:
            raise UnreadableFile(f"{path.name}: contains no {_MANIFEST}; is it an archive of Hindsight?")
        bank = str(sample_json(path, names[_MANIFEST]).get("source_bank_id", [""])[0])
        documents = select_members(path, _DOCUMENT)
        for name in documents:
            yield from _read_document(path, name, bank, notes)
        if _OBSERVATIONS in names:
            with open_json(path, names[_OBSERVATIONS]) as stream:
                members = read_json(stream, _OBSERVATIONS)
                yield from read_items(members, {"": "observation"}, notes, _fact_reader(bank, ""))
        for base, name in names.items():
            if base and name not in documents and base not in (_MANIFEST, _OBSERVATIONS):
                notes.add(f"file {printable_name(base)}" if base.endswith(".json") else "attachments")
        yield from notes.items()


def _read_document(path: Path, name: str, bank: str, notes: ReadNotes) -> Iterator[Item]:
    """Yield the facts of a document. The hub does not store the text from which they were extracted."""
    document = str(sample_json(path, name).get("id", [""])[0])
    with open_json(path, name) as stream:
        members = read_json(stream, name)
        read, labels = _fact_reader(bank, document), {"facts": f"{name}, fact"}
        yield from read_items(members, labels, notes, read, ("id", "created_at"))


def _fact_reader(bank: str, document: str) -> Callable[[str, FieldReader], list[Item]]:
    return lambda _, fields: [_read_fact(fields, bank, document)]


def _read_fact(fields: FieldReader, bank: str, document: str) -> Item:
    fields.note_unknown(_HINDSIGHT_FIELDS)
    fields.note_unsupported("occurred_start", "occurred_end", "causal_relations", "sources")
    fields.note_unsupported_metadata(fields.mapping("metadata"))
    default = MemoryType.GENERAL if document else MemoryType.DISCOVERY  # an observation has no document
    kind, tags = fields.memory_type("fact_type", _HINDSIGHT_TYPES, default)
    uid = foreign_id(Hindsight.name, fields.text("source_id") or f"{bank}/{document}/{fields.text('text')}")
    return fields.memory(
        _HINDSIGHT["fact"],
        uid=uid,
        type=kind,
        tags=[*fields.words("tags"), *tags, *([f"document:{document}"[:100]] if document else [])],
        entities=[{"entity": name[:200]} for name in fields.words("entities")],
        project=bank[:200],
    )

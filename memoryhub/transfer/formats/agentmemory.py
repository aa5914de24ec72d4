"""agentmemory, the name of two programs: export and ``standalone.json`` (npm), and export (Python)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.foreign_json import JsonFormat, JsonSample
from memoryhub.transfer.records import InvalidItem, Item, Problem, ReadOptions
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    append_statements,
    foreign_id,
    load_field_rules,
    make_replacement,
    printable_name,
)

_RULES = load_field_rules("agentmemory")
_TYPES = {"bug": MemoryType.BUGFIX, "insight": MemoryType.DISCOVERY, "lesson": MemoryType.DISCOVERY}
_FIELDS = {
    "memories": "id createdAt updatedAt type title content concepts files sessionIds strength version"
    " parentId supersedes isLatest forgetAfter project",
    "observations": "id sessionId timestamp type title subtitle facts narrative concepts files importance"
    " confidence",
    "summaries": "sessionId project createdAt title narrative keyDecisions filesModified concepts"
    " observationCount",
    "semanticMemories": "id fact confidence sourceSessionIds sourceMemoryIds accessCount lastAccessedAt"
    " strength createdAt updatedAt",
    "lessons": "id content context confidence tags project createdAt updatedAt",
}
_IGNORED = frozenset(("version", "exportedAt", "pagination"))
_STORES = {"mem:memories": "memories", "mem:sessions": "sessions"}  # of standalone.json
_PYTHON_FIELDS = {"document", "metadata", "id"}
_PYTHON_METADATA = frozenset(("created_at", "updated_at", "confidence"))


class AgentMemory(JsonFormat):
    name = "agentmemory"
    label = "agentmemory (JSON)"
    hint = "The JSON of its export; ~/.agentmemory/standalone.json; or memory.json of the Python package."

    def is_known(self, sample: JsonSample) -> bool:
        if sample.keys() & _STORES.keys():
            return True
        memories = [row for row in sample.get("memories", []) if isinstance(row, dict)]
        if "version" in sample and ("exportedAt" in sample or any("isLatest" in row for row in memories)):
            return True
        rows = [row for items in sample.values() for row in items]
        return bool(rows) and all(isinstance(row, dict) and row.keys() >= _PYTHON_FIELDS for row in rows)

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        numbers: Counter[str] = Counter()
        replacements: list[Item] = []
        for key, value in _flatten(members):
            if key in _IGNORED:
                continue
            numbers[key] += 1
            place = f"{printable_name(key)} {numbers[key]}"
            if not isinstance(value, dict):
                yield InvalidItem(place, [Problem("", "is not a JSON object")])
                continue
            fields = FieldReader(value, notes, place)
            if key in _FIELDS:
                fields.note_unknown(frozenset(_FIELDS[key].split()))
            if key in _READERS:
                yield _READERS[key](fields)
                replacements += _replacements(fields) if key == "memories" else ()
            elif value.keys() >= _PYTHON_FIELDS:
                yield _read_python(key, fields)
            else:
                notes.add(printable_name(key))
        yield from replacements


def _flatten(members: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the records, including those in objects that map ids to records or sessions to lists."""
    for key, value in members:
        if key in _STORES and isinstance(value, dict):
            yield from ((_STORES[key], one) for one in value.values())
        elif key == "observations" and isinstance(value, dict):
            for rows in value.values():
                yield from ((key, one) for one in (rows if isinstance(rows, list) else [rows]))
        else:
            yield key, value


def _uid(kind: str, source_id: str) -> str:
    return foreign_id(f"agentmemory {kind}", source_id)


def _record(fields: FieldReader, kind: str, id_name: str = "id", **computed: Any) -> Item:
    """Return a memory, by the rules for all kinds and for its kind."""
    created = fields.past_moment("createdAt", "timestamp")
    return fields.memory(
        {**_RULES["common"], **_RULES[kind]},
        uid=_uid(kind, fields.text(id_name)),
        created_at=created,
        updated_at=fields.past_moment("updatedAt") or created,
        **computed,
    )


def _read_memory(fields: FieldReader) -> Item:
    kind, tags = fields.memory_type("type", _TYPES)
    sessions = fields.words("sessionIds")
    if len(sessions) > 1:
        fields.notes.add("sessionIds beyond the first", len(sessions) - 1)
    session = sessions[0] if sessions else ""
    return _record(fields, "memory", type=kind, tags=tags, session_id=session)


def _replacements(fields: FieldReader) -> Iterator[Item]:
    by = _uid("memory", fields.text("id"))
    for old in dict.fromkeys([*fields.words("supersedes"), fields.text("parentId")]):
        if old:
            yield make_replacement(f"{fields.place}, supersedes", _uid("memory", old), by)


def _read_observation(fields: FieldReader) -> Item:
    kind, tags = fields.memory_type("type", _TYPES, MemoryType.CHANGE)
    text = append_statements(fields.text("narrative"), fields.words("facts"))
    content = text or fields.text("subtitle") or fields.text("title")
    return _record(fields, "observation", content=content, type=kind, tags=tags)


def _read_summary(fields: FieldReader) -> Item:
    content = append_statements(fields.text("narrative"), fields.words("keyDecisions"))
    content, kind = content or fields.text("title"), MemoryType.SESSION_SUMMARY
    return _record(fields, "summary", "sessionId", content=content, type=kind)


def _read_lesson(fields: FieldReader) -> Item:
    content = "\n\n".join(filter(None, (fields.text("content"), fields.text("context"))))
    return _record(fields, "lesson", content=content, type=MemoryType.DISCOVERY)


def _read_session(fields: FieldReader) -> Item:
    fields.note_unsupported("firstPrompt", "summary", "commitShas", "tags", "model")
    return fields.session(fields.text("id"), agent="agentmemory", cwd=fields.text("cwd"))


def _read_python(collection: str, fields: FieldReader) -> Item:
    """Read a document of the Python package. The collection is the category; ids are unique within it."""
    metadata = fields.inner("metadata")
    fields.note_unsupported("embedding", why="recomputed")
    fields.note_unsupported_metadata(metadata.values, _PYTHON_METADATA)
    uid = _uid(f"document {collection}", fields.text("id"))
    created = metadata.past_moment("created_at")
    computed = {
        "content": fields.text("document"),
        "category": collection[:100],
        "confidence": metadata.share("confidence", 0.5),
        "type": MemoryType.GENERAL,
        "created_at": created,
        "updated_at": metadata.past_moment("updated_at", "created_at"),
    }
    return fields.memory({}, uid=uid, ttl_days=0, **computed)


_READERS: dict[str, Callable[[FieldReader], Item]] = {
    "sessions": _read_session,
    "memories": _read_memory,
    "observations": _read_observation,
    "summaries": _read_summary,
    "semanticMemories": lambda fields: _record(fields, "semantic", type=MemoryType.FACT),
    "lessons": _read_lesson,
}

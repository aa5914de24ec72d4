"""The stores of plug-ins that record the sessions of coding agents: claude-mem, Engram, agentmemory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from memoryhub.core.text import make_title
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.transfer.foreign_json import JsonFormat, JsonSample, SqliteOrJsonFormat, read_items
from memoryhub.transfer.foreign_sqlite import (
    ForeignDatabase,
    RowValues,
    SqliteFormat,
    chunked,
    read_prompts,
    row_fields,
)
from memoryhub.transfer.records import InvalidItem, Item, Problem, ReadOptions
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    append_statements,
    foreign_id,
    load_field_rules,
    make_prompt,
    make_replacement,
    make_session,
    printable_name,
    summary_text,
)

_CLAUDE_MEM = load_field_rules("claude-mem")
_SESSION_ID_COLUMNS = ("memory_session_id", "sdk_session_id")
_USER_SESSION_ID_COLUMNS = ("content_session_id", "claude_session_id")


class ClaudeMem(SqliteFormat):
    """claude-mem's SQLite file: observations, session summaries, directives, and memories of early versions.

    Some columns were renamed (``sdk_session_id`` became ``memory_session_id``); both names are supported.
    """

    name = "claude-mem"
    label = "claude-mem (SQLite)"
    hint = "claude-mem.db in ~/.claude-mem, or in the folder that CLAUDE_MEM_DATA_DIR names."

    counted = (
        *("sdk_sessions", "memories", "overviews", "observations", "session_summaries", "directives"),
        "user_prompts",
    )

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        for fields in self.fields(database, "sdk_sessions", notes):
            yield _read_claude_mem_session(fields, database.has("user_prompts"))
        for fields in self.fields(database, "memories", notes):
            yield _read_old_memory(fields)
        for fields in self.fields(database, "overviews", notes):
            yield _make_claude_mem(fields, "overviews", type=MemoryType.SESSION_SUMMARY)
        for row in _join_user_sessions(database, self.rows(database, "observations")):
            yield _read_claude_mem_observation(row_fields("observations", row, notes))
        for row in _join_user_sessions(database, self.rows(database, "session_summaries")):
            yield _read_claude_mem_summary(row_fields("session_summaries", row, notes))
        for fields in self.fields(database, "directives", notes):
            yield _read_directive(fields)
        for column in _USER_SESSION_ID_COLUMNS:
            if database.has("user_prompts", column):
                rows = self.rows(database, "user_prompts")
                yield from read_prompts(database, rows, notes, "sdk_sessions", column)


def _read_claude_mem_session(fields: FieldReader, has_prompts: bool) -> Item:
    fields.note_unsupported("custom_title")
    if not has_prompts:
        fields.note_unsupported("user_prompt")
    session_id = fields.text(_USER_SESSION_ID_COLUMNS[0]) or fields.text(_USER_SESSION_ID_COLUMNS[1])
    agent = fields.text("platform_source", "claude")
    return make_session(fields, session_id, agent=agent)


def _join_user_sessions(database: ForeignDatabase, rows: Iterator[RowValues]) -> Iterator[RowValues]:
    """Yield rows with the session id of the user; claude-mem's own ids have no meaning elsewhere."""
    for chunk in chunked(rows):
        session_ids = dict.fromkeys(_agent_session_id(row) for row in chunk)
        known: dict[Any, Any] = {}
        for ours, theirs in product(_SESSION_ID_COLUMNS, _USER_SESSION_ID_COLUMNS):
            found = database.matching_rows("sdk_sessions", ours, session_ids, (ours, theirs))
            known |= {session[ours]: session[theirs] for session in found}
        for row in chunk:
            session = _agent_session_id(row)
            yield row | {"session_id": known.get(session) or session}


def _agent_session_id(row: RowValues) -> Any:
    return row.get("memory_session_id") or row.get("sdk_session_id")


def _merged_project(fields: FieldReader, tags: Sequence[str] = ()) -> dict[str, Any]:
    """Assign rows of a merged worktree to the project it was merged into, with the origin as a tag."""
    origin, into = fields.text("project"), fields.text("merged_into_project")
    if not into:
        return {"tags": list(tags)}
    return {"project": into, "tags": [*tags, *([origin] if origin else [])]}


def _read_claude_mem_observation(fields: FieldReader) -> Item:
    fields.note_unsupported("agent_type", "agent_id", "generated_by_model")
    fields.note_unsupported_metadata(fields.mapping("metadata"))
    kind, tags = fields.memory_type("type", {}, MemoryType.CHANGE)
    text = fields.text("narrative") or fields.text("text")
    content = append_statements(text, fields.words("facts"))
    content = content or fields.text("subtitle") or fields.text("title")
    return _make_claude_mem(
        fields, "observations", content=content, type=kind, **_merged_project(fields, tags)
    )


def _read_claude_mem_summary(fields: FieldReader) -> Item:
    return _make_claude_mem(
        fields,
        "session_summaries",
        content=summary_text(fields),
        title=make_title(fields.text("request")),
        type=MemoryType.SESSION_SUMMARY,
        **_merged_project(fields),
    )


def _read_old_memory(fields: FieldReader) -> Item:
    """Read a memory of an early version: a compressed part of a transcript."""
    fields.note_unsupported("archive_basename")
    content = append_statements(fields.text("text"), fields.words("facts"))
    return _make_claude_mem(fields, "memories", content=content)


def _read_directive(fields: FieldReader) -> Item:
    """Read a user's rule for one project or (scope global) for all; an inactive rule goes to the trash."""
    updated = fields.past_moment("updated_at_epoch", "created_at_epoch", "created_at")
    everywhere = fields.text("scope", "global") == "global"
    active = fields.text("status", "active") == "active"
    return _make_claude_mem(
        fields,
        "directives",
        type=MemoryType.PREFERENCE,
        category="preferences",
        scope="team" if everywhere else "project",
        tags=["directive"],
        updated_at=updated,
        deleted_at=None if active else updated,
    )


def _make_claude_mem(fields: FieldReader, table: str, **computed: Any) -> Item:
    source_id = f"{table}/{fields.text('id')}"
    return fields.memory({**_CLAUDE_MEM["common"], **_CLAUDE_MEM[table]}, source_id=source_id, **computed)


_ENGRAM = load_field_rules("engram")
_ENGRAM_TYPES = {
    "learning": MemoryType.DISCOVERY,
    "manual": MemoryType.GENERAL,
    "preference": MemoryType.PREFERENCE,
}
_ENGRAM_SCOPES = {"project": Scope.PROJECT, "personal": Scope.PERSONAL, "global": Scope.TEAM}
_ENGRAM_OBSERVATION = frozenset(
    "id sync_id session_id type title content tool_name project scope topic_key revision_count"
    " duplicate_count last_seen_at created_at updated_at deleted_at pinned".split()
)
_ENGRAM_LABELS = {"sessions": "session", "observations": "observation", "prompts": "prompt"}
_ENGRAM_TABLES = {"session": "sessions", "observation": "observations", "prompt": "user_prompts"}


class Engram(SqliteOrJsonFormat):
    """Engram (Gentleman-Programming): its SQLite file and the JSON of ``engram export``."""

    name = "engram"
    label = "Engram"
    hint = "engram.db in ~/.engram, or the JSON file of: engram export FILE."

    counted = tuple(_ENGRAM_TABLES.values())

    def is_known(self, sample: JsonSample) -> bool:
        rows = [row for key in ("sessions", "observations") for row in sample.get(key, [])]
        expected = all(
            isinstance(row, dict) and ("started_at" in row or {"session_id", "scope"} <= row.keys())
            for row in rows
        )
        return {"version", "exported_at", "sessions"} <= sample.keys() and expected

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        projects: dict[str, str] = {}
        for kind, table in _ENGRAM_TABLES.items():
            for fields in self.fields(database, table, notes):
                yield from _read_engram(kind, fields, projects)
        for fields in self.fields(database, "memory_relations", notes):
            yield from _read_engram_relation(fields)

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        projects: dict[str, str] = {}

        def read(kind: str, fields: FieldReader) -> Iterator[Item]:
            if kind == "observation":
                fields.note_unknown(_ENGRAM_OBSERVATION)
            return _read_engram(kind, fields, projects)

        return read_items(members, _ENGRAM_LABELS, notes, read, {"version", "exported_at"})


def _read_engram(kind: str, fields: FieldReader, projects: dict[str, str]) -> Iterator[Item]:
    """Read a row. ``projects`` collects the project of each session, which comes before its prompts."""
    if kind == "session":
        projects[fields.text("id")] = fields.text("project")
        yield from _read_engram_session(fields)
    elif kind == "prompt":
        session = fields.text("session_id")
        project = projects.get(session, fields.text("project"))
        yield make_prompt(fields, fields.text("content"), session, project, fields.text("created_at"))
    else:
        yield _read_engram_observation(fields)


def _read_engram_session(fields: FieldReader) -> Iterator[Item]:
    session = fields.text("id")
    yield make_session(fields, session, agent="engram", cwd=fields.text("directory"))
    if fields.text("summary"):
        uid = foreign_id(Engram.name, f"summary/{session}")
        kind = MemoryType.SESSION_SUMMARY
        yield fields.memory(_ENGRAM["summary"], part=", summary", uid=uid, session_id=session, type=kind)


def _engram_id(fields: FieldReader) -> str:
    """Return the id. Exports of early versions have row numbers only."""
    sync_id = fields.text("sync_id")
    return foreign_id(Engram.name, sync_id or f"{fields.text('session_id')}/{fields.text('id')}")


def _read_engram_observation(fields: FieldReader) -> Item:
    fields.note_unsupported("tool_name")
    kind, tags = fields.memory_type("type", _ENGRAM_TYPES)
    scope = _ENGRAM_SCOPES.get(fields.text("scope", "project"))
    if scope is None:
        # Any guess could show the memory to more people than its author wanted.
        fields.refuse("scope", "is unknown; use project, personal or global")
    for name in ("revision_count", "duplicate_count"):
        if fields.count(name) > 1:
            fields.notes.add(name)
    return fields.memory(
        _ENGRAM["observation"],
        uid=_engram_id(fields),
        type=kind,
        tags=tags,
        scope=scope or Scope.PROJECT,
        pinned=fields.count("pinned") > 0,
    )


def _read_engram_relation(fields: FieldReader) -> Iterator[Item]:
    """Yield a judged replacement, and count other relations."""
    relation = fields.text("relation")
    ended = fields.text("deleted_at") or fields.text("judgment_status") != "judged"
    if relation != "supersedes" or ended:
        fields.notes.add("relations other than a judged supersedes")
        return
    old, new = (foreign_id(Engram.name, fields.text(name)) for name in ("target_id", "source_id"))
    yield make_replacement(fields.place, old, new)


_AGENTMEMORY = load_field_rules("agentmemory")
_AGENTMEMORY_TYPES = {
    "bug": MemoryType.BUGFIX,
    "insight": MemoryType.DISCOVERY,
    "lesson": MemoryType.DISCOVERY,
}
_AGENTMEMORY_FIELDS = {
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
_AGENTMEMORY_IGNORED = frozenset(("version", "exportedAt", "pagination"))
_STANDALONE_STORES = {"mem:memories": "memories", "mem:sessions": "sessions"}  # of standalone.json
_PYTHON_FIELDS = {"document", "metadata", "id"}
_PYTHON_METADATA = frozenset(("created_at", "updated_at", "confidence"))


class AgentMemory(JsonFormat):
    """Two programs of this name: export and ``standalone.json`` (npm), and export (Python)."""

    name = "agentmemory"
    label = "agentmemory (JSON)"
    hint = "The JSON of its export; ~/.agentmemory/standalone.json; or memory.json of the Python package."

    def is_known(self, sample: JsonSample) -> bool:
        if sample.keys() & _STANDALONE_STORES.keys():
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
            if key in _AGENTMEMORY_IGNORED:
                continue
            numbers[key] += 1
            place = f"{printable_name(key)} {numbers[key]}"
            if not isinstance(value, dict):
                yield InvalidItem(place, [Problem("", "is not a JSON object")])
                continue
            fields = FieldReader(value, notes, place)
            if key in _AGENTMEMORY_FIELDS:
                fields.note_unknown(frozenset(_AGENTMEMORY_FIELDS[key].split()))
            if key in _AGENTMEMORY_READERS:
                yield _AGENTMEMORY_READERS[key](fields)
                replacements += _replacements(fields) if key == "memories" else ()
            elif value.keys() >= _PYTHON_FIELDS:
                yield _read_python(key, fields)
            else:
                notes.add(printable_name(key))
        yield from replacements


def _flatten(members: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the records, including those in objects that map ids to records or sessions to lists."""
    for key, value in members:
        if key in _STANDALONE_STORES and isinstance(value, dict):
            yield from ((_STANDALONE_STORES[key], one) for one in value.values())
        elif key == "observations" and isinstance(value, dict):
            for rows in value.values():
                yield from ((key, one) for one in (rows if isinstance(rows, list) else [rows]))
        else:
            yield key, value


def _agentmemory_id(kind: str, source_id: str) -> str:
    return foreign_id(f"agentmemory {kind}", source_id)


def _make_agentmemory(fields: FieldReader, kind: str, id_name: str = "id", **computed: Any) -> Item:
    """Return a memory, by the rules for all kinds and for its kind."""
    created = fields.past_moment("createdAt", "timestamp")
    return fields.memory(
        {**_AGENTMEMORY["common"], **_AGENTMEMORY[kind]},
        uid=_agentmemory_id(kind, fields.text(id_name)),
        created_at=created,
        updated_at=fields.past_moment("updatedAt") or created,
        **computed,
    )


def _read_agentmemory(fields: FieldReader) -> Item:
    kind, tags = fields.memory_type("type", _AGENTMEMORY_TYPES)
    sessions = fields.words("sessionIds")
    if len(sessions) > 1:
        fields.notes.add("sessionIds beyond the first", len(sessions) - 1)
    session = sessions[0] if sessions else ""
    return _make_agentmemory(fields, "memory", type=kind, tags=tags, session_id=session)


def _replacements(fields: FieldReader) -> Iterator[Item]:
    by = _agentmemory_id("memory", fields.text("id"))
    for old in dict.fromkeys([*fields.words("supersedes"), fields.text("parentId")]):
        if old:
            yield make_replacement(f"{fields.place}, supersedes", _agentmemory_id("memory", old), by)


def _read_agentmemory_observation(fields: FieldReader) -> Item:
    kind, tags = fields.memory_type("type", _AGENTMEMORY_TYPES, MemoryType.CHANGE)
    text = append_statements(fields.text("narrative"), fields.words("facts"))
    content = text or fields.text("subtitle") or fields.text("title")
    return _make_agentmemory(fields, "observation", content=content, type=kind, tags=tags)


def _read_agentmemory_summary(fields: FieldReader) -> Item:
    content = append_statements(fields.text("narrative"), fields.words("keyDecisions"))
    content, kind = content or fields.text("title"), MemoryType.SESSION_SUMMARY
    return _make_agentmemory(fields, "summary", "sessionId", content=content, type=kind)


def _read_lesson(fields: FieldReader) -> Item:
    content = "\n\n".join(filter(None, (fields.text("content"), fields.text("context"))))
    return _make_agentmemory(fields, "lesson", content=content, type=MemoryType.DISCOVERY)


def _read_agentmemory_session(fields: FieldReader) -> Item:
    fields.note_unsupported("firstPrompt", "summary", "commitShas", "tags", "model")
    return make_session(fields, fields.text("id"), agent="agentmemory", cwd=fields.text("cwd"))


def _read_python(collection: str, fields: FieldReader) -> Item:
    """Read a document of the Python package. The collection is the category; ids are unique within it."""
    metadata = fields.inner("metadata")
    fields.note_unsupported("embedding", why="recomputed")
    fields.note_unsupported_metadata(metadata.values, _PYTHON_METADATA)
    uid = _agentmemory_id(f"document {collection}", fields.text("id"))
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


_AGENTMEMORY_READERS: dict[str, Callable[[FieldReader], Item]] = {
    "sessions": _read_agentmemory_session,
    "memories": _read_agentmemory,
    "observations": _read_agentmemory_observation,
    "summaries": _read_agentmemory_summary,
    "semanticMemories": lambda fields: _make_agentmemory(fields, "semantic", type=MemoryType.FACT),
    "lessons": _read_lesson,
}

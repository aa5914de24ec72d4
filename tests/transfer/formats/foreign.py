"""Files of other programs: their tables and fields, with our own contents."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memoryhub.transfer.formats import FORMATS
from memoryhub.transfer.records import HistoryItem, InvalidItem, Item, ReadOptions, Record, UnmappedField

LETSGO = """
CREATE TABLE memories (
    id TEXT PRIMARY KEY, content TEXT NOT NULL, content_hash TEXT NOT NULL DEFAULT '',
    category TEXT DEFAULT 'general', importance REAL DEFAULT 0.5, trust REAL DEFAULT 0.5,
    sensitivity TEXT DEFAULT 'public', tags TEXT DEFAULT '', created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, expires_at TEXT DEFAULT NULL, title TEXT DEFAULT '', subtitle TEXT DEFAULT '',
    type TEXT DEFAULT 'change', concepts TEXT DEFAULT '[]', files_read TEXT DEFAULT '[]',
    files_modified TEXT DEFAULT '[]', session_id TEXT DEFAULT NULL, project TEXT DEFAULT NULL,
    accessed_count INTEGER DEFAULT 0, discovery_tokens INTEGER DEFAULT 0);
CREATE TABLE schema_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE facts (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL, predicate TEXT NOT NULL, object TEXT NOT NULL,
    confidence REAL DEFAULT 1.0, source_entry_id TEXT DEFAULT NULL, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL);
CREATE TABLE memory_journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL, operation TEXT NOT NULL,
    timestamp TEXT NOT NULL, detail TEXT DEFAULT '');
CREATE VIRTUAL TABLE memories_fts USING fts5(
    content, title, subtitle, content='memories', content_rowid='rowid');
CREATE TRIGGER memories_ai AFTER INSERT ON memories BEGIN
    INSERT INTO memories_fts(rowid, content, title, subtitle)
    VALUES (new.rowid, new.content, new.title, new.subtitle); END;
"""
# Before titles, expiry and the hash; the index has one column.
LETSGO_OLD = """
CREATE TABLE memories (
    id TEXT PRIMARY KEY, content TEXT NOT NULL, category TEXT DEFAULT 'general', importance REAL DEFAULT 0.5,
    trust REAL DEFAULT 0.5, sensitivity TEXT DEFAULT 'public', tags TEXT DEFAULT '',
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE memory_journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL, operation TEXT NOT NULL,
    timestamp TEXT NOT NULL, detail TEXT DEFAULT '');
CREATE VIRTUAL TABLE memories_fts USING fts5(content, content='memories', content_rowid='rowid');
"""
# LetsGo's predecessor: lists in JSON columns, single statements, session summaries.
LETSGO_OLDEST = """
CREATE TABLE memories (
    id TEXT PRIMARY KEY, type TEXT NOT NULL DEFAULT 'change', title TEXT NOT NULL DEFAULT '',
    subtitle TEXT NOT NULL DEFAULT '', content TEXT NOT NULL, facts_json TEXT DEFAULT '[]',
    concepts_json TEXT DEFAULT '[]', files_read_json TEXT DEFAULT '[]',
    files_modified_json TEXT DEFAULT '[]', session_id TEXT, project TEXT,
    category TEXT NOT NULL DEFAULT 'general', importance REAL DEFAULT 0.5, tags_json TEXT DEFAULT '[]',
    metadata_json TEXT DEFAULT '{}', created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
    accessed_count INTEGER DEFAULT 0, discovery_tokens INTEGER DEFAULT 0);
CREATE TABLE session_summaries (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL, project TEXT, request TEXT, investigated TEXT,
    learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, files_read_json TEXT DEFAULT '[]',
    files_edited_json TEXT DEFAULT '[]', discovery_tokens INTEGER DEFAULT 0, created_at TEXT NOT NULL,
    created_at_epoch INTEGER NOT NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, session_id TEXT UNIQUE NOT NULL, project TEXT, user_prompt TEXT,
    started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT,
    completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active', prompt_count INTEGER DEFAULT 0);
CREATE TABLE user_prompts (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
    prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
"""
MEMORY_MCP = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);
CREATE TABLE memories (
    id TEXT PRIMARY KEY, content TEXT NOT NULL,
    type TEXT NOT NULL CHECK(type IN ('fact', 'entity', 'relationship', 'self')),
    importance REAL NOT NULL CHECK(importance >= 0 AND importance <= 10), embedding BLOB,
    created_at INTEGER NOT NULL, last_accessed INTEGER NOT NULL, expires_at INTEGER,
    metadata TEXT NOT NULL DEFAULT '{}',
    is_deleted INTEGER NOT NULL DEFAULT 0 CHECK(is_deleted IN (0, 1)),
    summary TEXT, access_count INTEGER NOT NULL DEFAULT 0);
CREATE TABLE entities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, type TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}', created_at INTEGER NOT NULL);
CREATE TABLE memory_entities (
    memory_id TEXT NOT NULL, entity_id TEXT NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (memory_id, entity_id));
CREATE TABLE provenance (
    id TEXT PRIMARY KEY, memory_id TEXT NOT NULL, operation TEXT NOT NULL, timestamp INTEGER NOT NULL,
    source TEXT NOT NULL, context TEXT, user_id TEXT, changes TEXT);
CREATE VIRTUAL TABLE memories_fts USING fts5(
    memory_id UNINDEXED, content, summary, tokenize = 'porter unicode61');
CREATE VIEW v_active_memories AS SELECT * FROM memories WHERE is_deleted = 0;
CREATE TABLE cloud_sync_queue (memory_id TEXT PRIMARY KEY, status TEXT NOT NULL DEFAULT 'pending');
"""
# The schema in its documentation.
MEMORY_MCP_AS_DOCUMENTED = """
CREATE TABLE memories (
    id INTEGER PRIMARY KEY, content TEXT, summary TEXT, type TEXT, importance REAL, created_at TEXT,
    last_accessed TEXT, access_count INTEGER, expires_at TEXT, is_deleted INTEGER);
CREATE TABLE entities (id INTEGER PRIMARY KEY, memory_id INTEGER, entity TEXT, entity_type TEXT);
CREATE TABLE provenance (
    id INTEGER PRIMARY KEY, memory_id INTEGER, operation TEXT, timestamp TEXT, metadata TEXT);
"""
MIRA = """
CREATE TABLE projects (
    id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, name TEXT, created_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE memory_facts (
    id INTEGER PRIMARY KEY, project_id INTEGER REFERENCES projects(id), key TEXT, content TEXT NOT NULL,
    fact_type TEXT DEFAULT 'general', category TEXT, confidence REAL DEFAULT 0.5,
    created_at TEXT DEFAULT CURRENT_TIMESTAMP, updated_at TEXT DEFAULT CURRENT_TIMESTAMP,
    has_embedding INTEGER DEFAULT 0, session_count INTEGER DEFAULT 1, first_session_id TEXT,
    last_session_id TEXT, status TEXT DEFAULT 'candidate', user_id TEXT, scope TEXT DEFAULT 'project',
    branch TEXT, team_id INTEGER, has_entities INTEGER DEFAULT 0, suspicious INTEGER DEFAULT 0,
    stale_since TEXT, stale_file_path TEXT);
CREATE TABLE memory_entities (
    id INTEGER PRIMARY KEY, project_id INTEGER, canonical_name TEXT NOT NULL, entity_type TEXT NOT NULL,
    display_name TEXT, occurrence_count INTEGER DEFAULT 1, created_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE memory_entity_links (
    id INTEGER PRIMARY KEY, fact_id INTEGER NOT NULL, entity_id INTEGER NOT NULL,
    created_at TEXT DEFAULT CURRENT_TIMESTAMP, UNIQUE(fact_id, entity_id));
CREATE TABLE goals (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
CREATE TABLE schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT);
"""
# The first versions: no scope, no sessions, no entities.
MIRA_FIRST = """
CREATE TABLE memory_facts (
    id INTEGER PRIMARY KEY, project_id INTEGER, key TEXT, content TEXT NOT NULL,
    fact_type TEXT DEFAULT 'general', category TEXT, confidence REAL DEFAULT 1.0, created_at TEXT);
"""
CLAUDE_MEM = """
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT);
CREATE TABLE sdk_sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE NOT NULL,
    memory_session_id TEXT UNIQUE, project TEXT NOT NULL, platform_source TEXT NOT NULL DEFAULT 'claude',
    user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT,
    completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active', custom_title TEXT);
CREATE TABLE observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
    type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT,
    files_read TEXT, files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
    content_hash TEXT, agent_type TEXT, agent_id TEXT, merged_into_project TEXT, generated_by_model TEXT,
    metadata TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
    request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT,
    files_edited TEXT, notes TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
    merged_into_project TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
    prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE directives (
    id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL DEFAULT 'global', project TEXT,
    content TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active', source TEXT NOT NULL DEFAULT 'manual',
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, updated_at_epoch INTEGER NOT NULL);
CREATE VIRTUAL TABLE observations_fts USING fts5(
    title, subtitle, narrative, text, facts, concepts, content='observations', content_rowid='id');
"""
CLAUDE_MEM_4 = """
CREATE TABLE sdk_sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, claude_session_id TEXT UNIQUE NOT NULL,
    sdk_session_id TEXT UNIQUE, project TEXT NOT NULL, started_at TEXT, started_at_epoch INTEGER);
CREATE TABLE observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL,
    text TEXT NOT NULL, type TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
"""
CLAUDE_MEM_FIRST = """
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, text TEXT NOT NULL,
    document_id TEXT UNIQUE, keywords TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
    project TEXT NOT NULL, archive_basename TEXT, origin TEXT NOT NULL DEFAULT 'transcript', title TEXT,
    subtitle TEXT, facts TEXT, concepts TEXT, files_touched TEXT);
CREATE TABLE overviews (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, content TEXT NOT NULL,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, project TEXT NOT NULL,
    origin TEXT NOT NULL DEFAULT 'claude');
CREATE TABLE transcript_events (id INTEGER PRIMARY KEY, session_id TEXT, raw_json TEXT);
"""


# Version 12.2.0; without the virtual table of vectors, which needs an extension, and the tables of its sync.
MCP_MEMORY_SERVICE = """
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL, tags TEXT,
    memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT,
    updated_at_iso TEXT, deleted_at REAL DEFAULT NULL, store TEXT DEFAULT 'default', parent_id TEXT,
    version INTEGER DEFAULT 1,
    confidence REAL DEFAULT 1.0, last_accessed INTEGER, superseded_by TEXT,
    embedding_pending INTEGER NOT NULL DEFAULT 0);
CREATE VIRTUAL TABLE memory_content_fts USING fts5(
    content, content='memories', content_rowid='id', tokenize='trigram');
CREATE TABLE migration_registry (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, filename TEXT NOT NULL, applied_at TEXT NOT NULL,
    checksum TEXT);
CREATE TABLE memory_graph (
    source_hash TEXT NOT NULL, target_hash TEXT NOT NULL, similarity REAL NOT NULL,
    connection_types TEXT NOT NULL, metadata TEXT, created_at REAL NOT NULL,
    relationship_type TEXT DEFAULT 'related', PRIMARY KEY (source_hash, target_hash));
CREATE TABLE beliefs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, belief_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL,
    confidence REAL NOT NULL DEFAULT 0.5, status TEXT NOT NULL DEFAULT 'candidate', created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, derived_from TEXT NOT NULL DEFAULT '[]',
    contradicted_by TEXT NOT NULL DEFAULT '[]', metadata TEXT DEFAULT '{}');
"""

# mem0 2.2.0.
MEM0 = """
CREATE TABLE history (
    id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME,
    updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
CREATE TABLE messages (
    id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT, name TEXT, created_at DATETIME);
"""
# Engram's tables, by its source code.
ENGRAM = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, project TEXT NOT NULL, directory TEXT NOT NULL,
    started_at TEXT NOT NULL DEFAULT (datetime('now')), ended_at TEXT, summary TEXT);
CREATE TABLE observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT, session_id TEXT NOT NULL, type TEXT NOT NULL,
    title TEXT NOT NULL, content TEXT NOT NULL, tool_name TEXT, project TEXT,
    scope TEXT NOT NULL DEFAULT 'project', topic_key TEXT, normalized_hash TEXT,
    revision_count INTEGER NOT NULL DEFAULT 1, duplicate_count INTEGER NOT NULL DEFAULT 1, last_seen_at TEXT,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')),
    deleted_at TEXT);
CREATE VIRTUAL TABLE observations_fts USING fts5(title, content, content='observations', content_rowid='id');
CREATE TABLE user_prompts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT, session_id TEXT NOT NULL, content TEXT NOT NULL,
    project TEXT, created_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE memory_relations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT NOT NULL UNIQUE, source_id TEXT, target_id TEXT,
    relation TEXT NOT NULL DEFAULT 'pending', reason TEXT, evidence TEXT, confidence REAL,
    judgment_status TEXT NOT NULL DEFAULT 'pending', marked_by_actor TEXT, marked_by_kind TEXT,
    marked_by_model TEXT, session_id TEXT, superseded_at TEXT, superseded_by_relation_id INTEGER,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT NOT NULL DEFAULT (datetime('now')));
"""


def sqlite_file(
    path: Path, schema: str, rows: Mapping[str, Iterable[Mapping[str, Any]]], *, wal: bool = False
) -> Path:
    """Write an SQLite file with these tables and rows."""
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(schema)
    for table, values in rows.items():
        for row in values:
            names = ", ".join(row)
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    connection.commit()
    connection.close()
    return path


def lines_file(path: Path, objects: Iterable[Mapping[str, Any] | str]) -> Path:
    """Write JSON lines; a string is written unchanged."""
    lines = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in objects]
    path.write_text("\n".join([*lines, ""]), "utf-8")
    return path


def openmemory_zip(
    path: Path, tables: Mapping[str, Any] | None, lines: Iterable[Mapping[str, Any]] | None, folder: str = ""
) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if tables is not None:
            archive.writestr(f"{folder}memories.json", json.dumps(tables, indent=2))
        if lines is not None:
            raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            archive.writestr(f"{folder}memories.jsonl.gz", gzip.compress(raw))
    return path


class Read:
    """The items that a format reads from a file."""

    def __init__(self, name: str, path: Path) -> None:
        self.items: list[Item] = list(FORMATS[name].read(path, ReadOptions(name=path.name)))
        self.records = [item for item in self.items if isinstance(item, Record)]
        self.bad = {
            item.place: [str(one) for one in item.problems]
            for item in self.items
            if isinstance(item, InvalidItem)
        }
        self.unmapped = {item.what: item.count for item in self.items if isinstance(item, UnmappedField)}

    def history(self, kind: str) -> list[Any]:
        """Return the history items: journal, session, event, revision."""
        shapes: list[Any] = [item.shape for item in self.items if isinstance(item, HistoryItem)]
        return [shape for shape in shapes if shape.kind == kind]

    @property
    def drafts(self) -> list[Any]:
        return [record.draft for record in self.records]

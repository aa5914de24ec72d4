"""All fields of a memory over HTTP, with a value for each settable one."""

FIELDS = {
    *("id", "content", "title", "subtitle", "abstract", "overview", "category", "type", "concepts", "tags"),
    *("importance", "trust", "confidence", "sensitivity", "scope", "project", "session_id", "key"),
    *("files_read", "files_modified", "discovery_tokens", "accessed_count", "created_at", "updated_at"),
    *("last_accessed_at", "expires_at", "deleted_at", "content_hash", "entities"),
    *("aliases", "superseded_by", "pinned", "may_be_outdated"),
}


FULL = {
    "content": "Use WAL",
    "title": "A title",
    "subtitle": "A subtitle",
    "abstract": "One line",
    "overview": "A paragraph",
    "category": "database",
    "type": "decision",
    "concepts": ["trade-off", "gotcha"],
    "tags": ["wal", "sqlite"],
    "aliases": ["write-ahead log", "WAL"],
    "importance": 0.9,
    "trust": 0.8,
    "confidence": 0.7,
    "sensitivity": "private",
    "scope": "team",
    "project": "hub",
    "session_id": "s1",
    "key": "journal-mode",
    "files_read": ["a.py"],
    "files_modified": ["src/c.py", "src/b.py"],
    "discovery_tokens": 12,
    "entities": [{"entity": "SQLite", "entity_type": "tool"}],
}

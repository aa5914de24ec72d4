"""Memories and journal rows as Memory MCP returns them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.memories import serializers, versions
from memoryhub.memories.rows import list_values, make_abstract
from memoryhub.memories.versions import Provenance
from memoryhub.models import JournalEntry, Memory
from memoryhub.search import recall

IMPORTANCE_SCALE = 10


def serialize_stored(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a short description of a stored memory; of a hidden one only the id."""
    if "content" not in shown:
        return {"id": shown["id"]}
    return {
        "id": shown["id"],
        "type": shown["type"],
        "summary": shown["abstract"],
        "importance": round_importance(shown["importance"]),
        "expires_at": shown["expires_at"],
        "entities": shown["entities"],
        "tags": shown["tags"],
    }


def round_importance(importance: float) -> float:
    """Convert from the scale 0 to 1 to 0 to 10; an int if it is whole."""
    steps = round(importance * IMPORTANCE_SCALE, 1)
    return int(steps) if steps == int(steps) else steps


def index_entry(memory: Memory, words: int) -> dict[str, Any]:
    """Return a line of the index; with a shortened summary only the id and the summary."""
    entry = recall.serialize_entry(memory, words)
    if words < recall.SUMMARY_WORDS:
        return {"id": entry["id"], "summary": entry["summary"]}
    return {**entry, "importance": round_importance(memory.importance)}


def memory_detail(
    memory: Memory, score: float, clearance: Clearance, *, times: bool, provenance: Provenance | None
) -> dict[str, Any]:
    """Return a whole memory. Empty fields are omitted, because each costs tokens."""
    is_written = memory.abstract != make_abstract(memory.content)
    rest = {
        "summary": memory.abstract if is_written else "",
        "project": memory.project,
        "entities": [one["entity"] for one in list_values(memory, "entities")],
        "tags": list_values(memory, "tags"),
        "aliases": list_values(memory, "aliases"),
        "superseded_by": versions.current_value(memory, "superseded_by", clearance),
        "pinned": memory.pinned,
        "may_be_outdated": memory.may_be_outdated,
        "provenance": [provenance_row(one) for one in provenance.rows.get(memory.uid, [])]
        if provenance
        else [],
    }
    return {
        **memory_summary(memory, score),
        **{name: value for name, value in rest.items() if value},
        **(_times(memory) if times else {}),
    }


def _times(memory: Memory) -> dict[str, Any]:
    return {
        "created_at": iso_seconds(memory.created_at),
        "last_accessed": iso_seconds(memory.last_accessed_at),
        "access_count": memory.accessed_count,
        "expires_at": iso_seconds(memory.expires_at),
    }


def memory_summary(memory: Memory, score: float) -> dict[str, Any]:
    """Return the content of a memory with its most important fields."""
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "importance": round_importance(memory.importance),
        "score": score,
    }


def provenance_row(entry: JournalEntry) -> dict[str, Any]:
    return {"operation": entry.operation, "timestamp": iso_seconds(entry.at), "actor": entry.actor}


def iso_seconds(at: datetime | None) -> str | None:
    """Format a time without fractional seconds, to save tokens."""
    return serializers.moment(at.replace(microsecond=0)) if at else None

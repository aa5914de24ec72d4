"""How Memory MCP shows a memory: under the names of its document, importance on its scale of 0 to 10."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memoryhub import shapes
from memoryhub.models import JournalEntry, Memory
from memoryhub.retrieval import recall
from memoryhub.retrieval.provenance import Provenance
from memoryhub.store.rows import listed

STEPS = 10  # of importance


def told(shown: dict[str, Any]) -> dict[str, Any]:
    """What storing answers: little, and all that was worked out. Of a hidden memory the id alone."""
    if "content" not in shown:
        return {"id": shown["id"]}
    return {
        "id": shown["id"],
        "type": shown["type"],
        "summary": shown["abstract"],
        "importance": in_steps(shown["importance"]),
        "expires_at": shown["expires_at"],
        "entities": shown["entities"],
        "tags": shown["tags"],
    }


def in_steps(importance: float) -> float:
    """0 to 1 on the scale of 0 to 10, a whole number where it is one."""
    steps = round(importance * STEPS, 1)
    return int(steps) if steps == int(steps) else steps


def entry(memory: Memory, words: int) -> dict[str, Any]:
    return {**recall.entry(memory, words), "importance": in_steps(memory.importance)}


def detail(memory: Memory, score: float, known: Provenance) -> dict[str, Any]:
    """A memory under the names of its document; of the rest only what says something: each costs tokens."""
    rest = {
        "project": memory.project,
        "entities": [one["entity"] for one in listed(memory, "entities")],
        "tags": listed(memory, "tags"),
        "provenance": [row(one) for one in known.rows.get(memory.uid, [])],
    }
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "summary": memory.abstract,
        "importance": in_steps(memory.importance),
        "created_at": second(memory.created_at),
        "last_accessed": second(memory.last_accessed_at),
        "access_count": memory.accessed_count,
        "expires_at": second(memory.expires_at),
        **{name: value for name, value in rest.items() if value},
        "score": score,
    }


def brief(memory: Memory, score: float) -> dict[str, Any]:
    """A memory's whole text, and what it takes to use it."""
    return {
        "id": memory.uid,
        "type": memory.type,
        "content": memory.content,
        "importance": in_steps(memory.importance),
        "score": score,
    }


def row(entry: JournalEntry) -> dict[str, Any]:
    return {
        "operation": entry.operation,
        "timestamp": second(entry.at),
        "actor": entry.actor,
    }


def second(at: datetime | None) -> str | None:
    """A moment without its fraction: digits are tokens."""
    return shapes.moment(at.replace(microsecond=0)) if at else None

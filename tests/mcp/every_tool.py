"""A call of every tool of every toolset with valid arguments, for the official clients.

``$id`` is the id in the latest answer that has one. The TypeScript clients replace it too (client.mjs).
"""

from __future__ import annotations

import re
from typing import Any

NOTE = "The echidna lays eggs, which the zoo learned from its keeper in spring"
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "letsgo": [
        (
            "store_memory",
            {"content": NOTE, "tags": ["zoo"], "files_read": ["zoo/echidna.md"], "concepts": ["gotcha"]},
        ),
        ("search_memories", {"query": "echidna eggs"}),
        ("list_memories", {"limit": 5}),
        ("get_memory", {"id": "$id"}),
        ("update_memory", {"id": "$id", "title": "Eggs of the echidna"}),
        ("search_by_file", {"path": "echidna.md"}),
        ("search_by_concept", {"concept": "gotcha"}),
        ("get_timeline", {"limit": 5}),
        ("memory", {"operation": "get_memory", "memory_id": "$id"}),
        ("delete_memory", {"id": "$id"}),
        ("store_fact", {"subject": "echidna", "predicate": "lays", "object": "eggs", "project": "zoo"}),
        ("query_facts", {"subject": "echidna"}),
        ("delete_fact", {"id": "$id"}),
        ("purge_expired", {}),
        ("summarize_old", {"older_than_days": 1, "min_entries": 100}),
    ],
    "memory-mcp": [
        ("memory_store", {"content": NOTE, "type": "fact", "importance": 7, "tags": ["zoo"]}),
        ("memory_recall", {"query": "echidna eggs", "times": True, "provenance": True}),
        ("memory_forget", {"id": "$id", "reason": "it is a test"}),
    ],
    "mira": [
        ("memory", {"action": "remember", "content": NOTE, "fact_type": "context", "category": "zoo"}),
        ("memory", {"action": "recall", "query": "echidna eggs", "fact_type": "context"}),
        ("memory", {"action": "forget", "id": "$id"}),
    ],
    "pigo": [
        ("memory_remember", {"category": "events", "content": NOTE, "abstract": "Eggs of the echidna"}),
        ("memory_recall", {"query": "echidna eggs", "category": "events", "top_k": 3}),
        ("memory_forget", {"id": "$id"}),
    ],
}
_ID_IN_TEXT = re.compile(r"ID: (\w+)")


def fill_in(arguments: dict[str, Any], latest: str) -> dict[str, Any]:
    """Return the arguments with the latest id."""
    return {name: latest if value == "$id" else value for name, value in arguments.items()}


def find_id(structured: dict[str, Any], text: str) -> str:
    """Return the id in an answer, or an empty text."""
    in_text = _ID_IN_TEXT.search(text)
    return str(structured.get("id") or (in_text[1] if in_text else ""))

"""Serialize rows in the shapes of the wire contract (docs/api.md), for the API, toolsets and exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings

from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import record_reveals
from memoryhub.core.dates import format_iso
from memoryhub.core.text import shorten
from memoryhub.memories.create import StoreResult
from memoryhub.memories.rows import (
    LIST_FIELDS,
    ListValues,
    list_values,
    load_lists,
    to_list_values,
    visible_replacements,
)
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Event, Fact, Memory, Revision

_PLAIN = (
    "content title subtitle abstract overview category type importance trust confidence sensitivity scope"
    " project session_id key discovery_tokens pinned may_be_outdated accessed_count content_hash"
).split()
_MOMENTS = ("created_at", "updated_at", "last_accessed_at", "expires_at", "deleted_at")


def moment(at: datetime | None) -> str | None:
    return format_iso(at) if at else None


def memory(row: Memory, replacements: Mapping[int, str], lists: ListValues | None = None) -> dict[str, Any]:
    """Return a whole memory. Loads the lists unless they are given; :func:`memories` loads those of many.

    ``replacements``: the result of :func:`visible_replacements` for the caller.
    """
    return {
        "id": row.uid,
        **{name: getattr(row, name) for name in _PLAIN},
        **{name: moment(getattr(row, name)) for name in _MOMENTS},
        "superseded_by": replacements.get(row.superseded_by_id or 0),
        **(lists or {name: list_values(row, name) for name in LIST_FIELDS}),
    }


def memories(
    rows: Iterable[Memory],
    clearance: Clearance,
    shape: Callable[[Memory, Mapping[int, str], ListValues], dict[str, Any]] = memory,
) -> list[dict[str, Any]]:
    """Return memories in one of the shapes, with one query for all their lists."""
    rows = list(rows)
    lists, replacements = load_lists(rows), visible_replacements(rows, clearance)
    return [shape(row, replacements, lists[row.pk]) for row in rows]


def preview(row: Memory, replacements: Mapping[int, str], lists: ListValues | None = None) -> dict[str, Any]:
    """Return a memory with a preview instead of the content, for lists."""
    shown = memory(row, replacements, lists)
    del shown["content"]
    return {**shown, "preview": shorten(row.content, settings.MEMORYHUB.preview_chars)}


def fact(row: Fact) -> dict[str, Any]:
    return {
        "id": row.uid,
        "subject": row.subject,
        "predicate": row.predicate,
        "object": row.object,
        "confidence": row.confidence,
        "project": row.project,
        "session_id": row.session_id,
        "sensitivity": row.sensitivity,
        "memory_id": row.memory.uid if row.memory else None,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "valid_from": moment(row.valid_from),
        "valid_until": moment(row.valid_until),
    }


def session(row: Any, **counts: int) -> dict[str, Any]:
    """Return a session from ``Session.objects.visible_to``, which annotates the visible values."""
    return {
        "session_id": row.session_id,
        "project": row.project,
        "agent": row.agent_seen,
        "started_at": moment(row.first_seen),
        "last_at": moment(row.last_seen),
        "ended_at": moment(row.ended_seen),
        **counts,
    }


def event(row: Event) -> dict[str, Any]:
    return {
        "event": row.event,
        "tool_name": row.tool_name,
        "session_id": row.session.session_id,
        "project": row.session.project,
        "files": row.files,
        "segment": row.segment,
        "memorability": row.memorability,
        "memorability_parts": row.memorability_parts,
        "skip_reason": row.skip_reason,
        "memory_id": row.memory.uid if row.memory else None,
        "preview": row.preview,
    }


def revision(row: Revision) -> dict[str, Any]:
    return {
        "number": row.number,
        "at": moment(row.at),
        "actor": row.actor,
        "reason": row.reason,
        "sensitivity": row.sensitivity,
        "before": row.before,
    }


_UNCHANGED_OUTCOMES = ("refreshed", "skipped")  # reads that the journal does not record as writes
_CALLER_FIELDS = ("project", "scope", "content_hash")


def serialize_written_memory(result: StoreResult, draft: MemoryDraft, actor: Actor) -> dict[str, Any]:
    """Return the memory; if the writer may not read it, only the id and what the writer sent.

    The rest of such a memory may have been added by someone else.
    """
    row = result.memory
    if result.outcome == "created":
        lists = {name: to_list_values(getattr(draft, name)) for name in LIST_FIELDS}
        return memory(row, visible_replacements([row], actor.clearance), lists)
    if Memory.objects.visible_to(actor.clearance).filter(pk=row.pk).exists():
        if result.outcome in _UNCHANGED_OUTCOMES:
            record_reveals([row], actor, "store")
        return memories([row], actor.clearance)[0]
    return {"id": row.uid, **{name: getattr(row, name) for name in _CALLER_FIELDS}}


def serialize_memory(row: Memory, actor: Actor) -> dict[str, Any]:
    """Return a memory as its writer may see it."""
    return memory(row, visible_replacements([row], actor.clearance))


def write_warnings(row: Memory) -> dict[str, list[str]]:
    """Return the warnings about a write as a part of its response; empty if there are none."""
    return {"warnings": ["over_cap"]} if row.over_cap else {}

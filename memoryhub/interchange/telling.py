"""Rows of the store as lines of the hub's own file (:mod:`memoryhub.interchange.lines` takes them back)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memoryhub import shapes
from memoryhub.interchange.lines import VERSION
from memoryhub.models import Event, Evidence, Fact, JournalEntry, Memory, Revision, Session

_SESSION = ("session_id", "project", "agent", "cwd", "end_reason", "segment", "state")
_EVENT = (
    *("event", "tool_name", "sensitivity", "files", "keywords", "segment", "boundary", "memorability"),
    *("memorability_parts", "skip_reason", "handlers", "mark", "preview"),
)
_JOURNAL = ("actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner")
_HISTORY = ("author", "owner", "trash_reason", "flags", "scale", "consolidated_accesses")


def header(at: datetime, levels: list[str], everything: bool) -> dict[str, Any]:
    """``whole``: nothing of a known level stayed behind, so that an import restores the store."""
    return {
        "kind": "memoryhub",
        "version": VERSION,
        "exported_at": shapes.moment(at),
        "levels": levels,
        "whole": everything,
    }


def memory(row: Memory, lists: dict[str, list[Any]] | None, *, whole: bool) -> dict[str, Any]:
    """``whole``: with its place beside memories that its reader may not know of."""
    told: dict[str, Any] = {
        "kind": "memory",
        **shapes.memory(row, lists),
        "ttl_days": row.ttl_days,
        **{name: getattr(row, name) for name in _HISTORY},
        "reviewed_at": shapes.moment(row.reviewed_at),
        "consolidated_at": shapes.moment(row.consolidated_at),
    }
    return {**told, "copy_number": row.copy} if whole else told


def fact(row: Fact, *, whole: bool) -> dict[str, Any]:
    told = {"kind": "fact", **shapes.fact(row), "author": row.author}
    return {**told, "copy_number": row.copy} if whole else told


def session(row: Session) -> dict[str, Any]:
    moments = {name: shapes.moment(getattr(row, name)) for name in ("started_at", "last_at", "ended_at")}
    return {"kind": "session", **{name: getattr(row, name) for name in _SESSION}, **moments}


def session_as_seen(row: Any) -> dict[str, Any]:
    """A session as ``Session.objects.visible_to`` gives it: no more than what may be seen of it."""
    return {"kind": "session", **shapes.session(row)}


def event(row: Event) -> dict[str, Any]:
    return {
        "kind": "event",
        "session_id": row.session.session_id,
        "project": row.session.project,
        "at": shapes.moment(row.at),
        **{name: getattr(row, name) for name in _EVENT},
        "memory_id": row.memory.uid if row.memory else None,
    }


def revision(row: Revision, memory_id: str) -> dict[str, Any]:
    return {"kind": "revision", "memory_id": memory_id, **shapes.revision(row)}


def evidence(row: Evidence) -> dict[str, Any]:
    return {
        "kind": "evidence",
        "memory_id": row.memory.uid,
        "session_id": row.session_id,
        "at": shapes.moment(row.at),
    }


def journal(row: JournalEntry) -> dict[str, Any]:
    """A row that was imported itself goes out as it was where it was made."""
    detail = dict(row.detail)
    origin = detail.pop("imported", None) or {"seq": row.seq, "hash": row.hash}
    return {
        "kind": "journal",
        "seq": origin["seq"],
        "hash": origin["hash"],
        "at": shapes.moment(row.at),
        **{name: getattr(row, name) for name in _JOURNAL},
        "detail": detail,
    }

"""Convert the history of other programs to journal rows, sessions, prompts and revisions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from pydantic import BaseModel, ValidationError

from memoryhub.capture.events import parse_prompt
from memoryhub.core.text import collapse_whitespace
from memoryhub.transfer.foreign_sqlite import ROW_NUMBER, ForeignDatabase, RowValues, row_fields
from memoryhub.transfer.records import HistoryItem, InvalidItem, Item, validation_problems
from memoryhub.transfer.schema import (
    EventLine,
    EvidenceLine,
    JournalLine,
    ReplacementLine,
    RevisionLine,
    SessionLine,
)
from memoryhub.transfer.values import FieldReader, ReadNotes

_SHORT_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_MAX_OPERATION_CHARS, _MAX_ACTOR_CHARS = 40, 200


def short_id(source_id: str) -> str:
    """Return a valid id: the given one, or its hash if it is long or contains other characters."""
    return source_id if _SHORT_ID.fullmatch(source_id) else _digest(source_id)[:32] if source_id else ""


def foreign_id(program: str, source_id: str) -> str:
    """Return the id of a memory that another program knows by ``source_id``: the same in every import."""
    return _digest(program, source_id)[:32] if source_id else ""


def make_journal_row(
    fields: FieldReader,
    *,
    actor: str,
    memory_id: str,
    project: str,
    sensitivity: str,
    detail: Mapping[str, Any] | None = None,
) -> Item:
    """Convert a row of another journal. Its hash is computed from its content, to recognise it later."""
    number, operation = fields.get(ROW_NUMBER), collapse_whitespace(fields.text("operation", "unknown"))
    at = fields.past_moment("timestamp")
    values = {
        "kind": "journal",
        "seq": number,
        "hash": _digest(actor, number, memory_id, operation, fields.text("timestamp")),
        "at": at,
        "actor": collapse_whitespace(actor)[:_MAX_ACTOR_CHARS],
        "operation": operation[:_MAX_OPERATION_CHARS],
        "object_type": "memory",
        "object_id": memory_id,
        "project": project,
        "sensitivity": sensitivity,
        "detail": dict(detail or {}),
    }
    return _make_item(fields, JournalLine, values)


def make_session(fields: FieldReader, session_id: str, *, agent: str, cwd: str = "") -> Item:
    """Convert a session with the columns of claude-mem and its derivatives, or of Engram and agentmemory."""
    started = fields.past_moment("started_at_epoch", "started_at", "startedAt")
    ended = fields.past_moment("completed_at_epoch", "completed_at", "ended_at", "endedAt")
    values = {
        "kind": "session",
        "session_id": session_id,
        "project": fields.text("project"),
        "agent": agent,
        "cwd": cwd,
        "started_at": started,
        "last_at": max(started, ended) if started and ended else started,
        "ended_at": ended,
        "end_reason": fields.text("status") if ended else "",
    }
    return _make_item(fields, SessionLine, values)


def make_prompt(fields: FieldReader, text: str, session_id: str, project: str, number: str = "") -> Item:
    """Convert a prompt to an event with the beginning of its text, as the hub stores prompts itself."""
    preview, keywords = parse_prompt(text, settings.MEMORYHUB.event_preview_chars)
    values = {
        "kind": "event",
        "session_id": session_id,
        "project": project,
        "at": fields.past_moment("created_at_epoch", "created_at"),
        "event": "prompt:submit",
        "segment": 1,
        "preview": preview,
        "keywords": list(keywords),
        "mark": _digest("user_prompts", session_id, number, text)[:16],
    }
    return _make_item(fields, EventLine, values)


def read_prompts(
    database: ForeignDatabase, rows: Iterator[RowValues], notes: ReadNotes, sessions: str, column: str
) -> Iterator[Item]:
    """Yield the prompts with the project of their session, which ``column`` names in both tables."""
    for row, session in database.join(rows, column, sessions, column, ("project",)):
        fields, about = row_fields("user_prompts", row, notes), FieldReader(session or {}, notes)
        text, number = fields.text("prompt_text"), fields.text("prompt_number")
        yield make_prompt(fields, text, fields.text(column), about.text("project"), number)


def make_revision(
    place: str,
    memory_id: str,
    number: int,
    at: datetime | None,
    actor: str,
    level: str,
    before: dict[str, Any],
) -> Item:
    """Make a revision from the values that a change replaced."""
    values = {
        "kind": "revision",
        "memory_id": memory_id,
        "number": number,
        "at": at,
        "actor": collapse_whitespace(actor)[:_MAX_ACTOR_CHARS],
        "reason": "update",
        "sensitivity": level,
        "before": before,
    }
    return _validate_item(place, RevisionLine, values)


def make_evidence(place: str, memory_id: str, session: str, at: datetime | None) -> Item:
    """Make the evidence that a session stored a memory."""
    values = {"kind": "evidence", "memory_id": memory_id, "session_id": session, "at": at}
    return _validate_item(place, EvidenceLine, values)


def make_replacement(place: str, memory_id: str, by: str) -> Item:
    """Make the replacement of a memory by another one of the file. Yield it after both."""
    return _validate_item(place, ReplacementLine, {"kind": "replacement", "memory_id": memory_id, "by": by})


def _make_item(fields: FieldReader, shape: type[BaseModel], values: Mapping[str, Any]) -> Item:
    if fields.problems:
        return InvalidItem(fields.place, fields.problems)
    return _validate_item(fields.place, shape, values)


def _validate_item(place: str, shape: type[BaseModel], values: Mapping[str, Any]) -> Item:
    try:
        return HistoryItem(place, shape.model_validate(dict(values)))
    except ValidationError as error:
        return InvalidItem(place, validation_problems(error))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


_SUMMARY_PARTS = {
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def summary_text(fields: FieldReader) -> str:
    """Return the request, followed by a paragraph for each non-empty part."""
    request = fields.text("request")
    parts = [(label, fields.text(name)) for name, label in _SUMMARY_PARTS.items()]
    paragraphs = [f"{label}: {text}" for label, text in parts if text]
    return "\n\n".join([f"Request: {request}", *paragraphs] if request else paragraphs)


def append_statements(text: str, statements: list[str]) -> str:
    """Append statements to a text, one per line."""
    listed = "\n".join(f"- {statement}" for statement in statements if statement not in text)
    return "\n\n".join(part for part in (text, listed) if part)

"""Observations and summaries of sessions, which claude-mem keeps in parts, each as one text."""

from __future__ import annotations

from memoryhub.interchange.values import Fields

SUMMARY_COLUMNS = (
    *("id", "project", "request", "investigated", "learned", "completed", "next_steps", "notes"),
    *("files_read", "files_edited", "files_read_json", "files_edited_json", "discovery_tokens"),
    *("created_at", "created_at_epoch"),
)
_PARTS = {
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def summary_text(fields: Fields) -> str:
    """What was asked, and a paragraph for each part that says something."""
    request = fields.text("request")
    parts = [(label, fields.text(name)) for name, label in _PARTS.items()]
    told = [f"{label}: {text}" for label, text in parts if text]
    return "\n\n".join([f"Request: {request}", *told] if request else told)


def with_statements(text: str, statements: list[str]) -> str:
    """A text, and below it the single statements that belong to it, each on a line."""
    listed = "\n".join(f"- {statement}" for statement in statements if statement not in text)
    return "\n\n".join(part for part in (text, listed) if part)

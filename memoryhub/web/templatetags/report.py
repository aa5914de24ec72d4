"""How a report tells a memory: the whole of it, once."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.access import redaction
from memoryhub.core.text import collapse_whitespace
from memoryhub.models import Memory
from memoryhub.web.base.markdown import render, to_plain_text

MAX_TEXT_CHARS = 60_000  # of one text: what a page bears
_HEADING_LEVEL = 3  # the level of the heading that an entry stands under

register = template.Library()


@register.inclusion_tag("sessions/report_memory.html")
def told_whole(memory: Memory, summary: Memory | None = None) -> dict[str, Any]:
    """A memory with its whole text; title and text do not say the same twice.

    ``summary``: the memory that stands at the head of the report, whose text is not told again.
    """
    told: dict[str, Any] = {"memory": memory, "is_summary": summary is not None and memory.pk == summary.pk}
    return told if told["is_summary"] else {**told, **_text_context(memory)}


@register.inclusion_tag("sessions/report_text.html")
def whole_text(memory: Memory) -> dict[str, Any]:
    """The text of a memory alone."""
    return _text_context(memory)


def _text_context(memory: Memory) -> dict[str, Any]:
    if redaction.is_redacted(memory.sensitivity):
        return {"titled": True, "unopened": redaction.REDACTED_NOTICE}
    title, text = collapse_whitespace(to_plain_text(memory.title)), memory.content
    first, _, rest = text.strip().partition("\n")
    if title and _is_same_line(to_plain_text(first), title):
        text = rest.lstrip("\r\n")
    return {
        "titled": bool(title) and not _is_cut_from(to_plain_text(text), title),
        "html": render(text[:MAX_TEXT_CHARS], below=_HEADING_LEVEL) if text.strip() else "",
        "left_out": max(0, len(text) - MAX_TEXT_CHARS),
    }


def _is_same_line(line: str, title: str) -> bool:
    return collapse_whitespace(line).rstrip(" .:") == title.rstrip(" .:")


def _is_cut_from(text: str, title: str) -> bool:
    """Whether a title was made by cutting the text."""
    return title.endswith("…") and collapse_whitespace(text).startswith(title.rstrip("…").rstrip())

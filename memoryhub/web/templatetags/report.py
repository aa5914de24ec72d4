"""Template tags for the texts of a session report."""

from __future__ import annotations

from typing import Any

from django import template

from memoryhub.access import redaction
from memoryhub.core.text import collapse_whitespace, without_title_line
from memoryhub.models import Memory
from memoryhub.web.base.markdown import render, to_plain_text

MAX_TEXT_CHARS = 60_000  # of one text, to limit the size of a page
_HEADING_LEVEL = 3  # the level of the heading of an entry

register = template.Library()


@register.inclusion_tag("sessions/report_memory.html", name="told_whole")
def report_memory(memory: Memory, summary: Memory | None = None) -> dict[str, Any]:
    """Render a memory with its whole text, or without it if it is the summary at the top of the report."""
    is_summary = summary is not None and memory.pk == summary.pk
    return {"memory": memory, "is_summary": is_summary, **({} if is_summary else _text_context(memory))}


@register.inclusion_tag("sessions/report_text.html")
def whole_text(memory: Memory) -> dict[str, Any]:
    """Render the text of a memory without title and details."""
    return _text_context(memory)


def _text_context(memory: Memory) -> dict[str, Any]:
    if redaction.is_redacted(memory.sensitivity):
        return {"titled": True, "unopened": redaction.REDACTED_NOTICE}
    title = collapse_whitespace(to_plain_text(memory.title))
    text = without_title_line(memory.content, title)
    is_cut_from_text = title.endswith("…") and collapse_whitespace(to_plain_text(text)).startswith(
        title.rstrip("… ")
    )
    return {
        "titled": bool(title) and not is_cut_from_text,
        "html": render(text[:MAX_TEXT_CHARS], below=_HEADING_LEVEL) if text.strip() else "",
        "left_out": max(0, len(text) - MAX_TEXT_CHARS),
    }

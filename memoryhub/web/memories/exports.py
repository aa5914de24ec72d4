"""Export one memory as Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryhub import serializers
from memoryhub.core.text import collapse_whitespace, without_title_line
from memoryhub.models import Memory
from memoryhub.web.memories import queries

_SCALAR_FIELDS = (
    "type category sensitivity scope project session_id key importance trust confidence"
    " created_at updated_at expires_at"
).split()
_LIST_FIELDS = ("tags", "concepts", "files_read", "files_modified")


def to_json(memory: Memory) -> str:
    """Return the memory as ``GET /api/v1/memories/{id}`` does."""
    return json.dumps(serializers.memory(memory), ensure_ascii=False, indent=2) + "\n"


def to_markdown(memory: Memory) -> str:
    """Return title, summaries, content, and below a rule the other fields."""
    fields = serializers.memory(memory)
    title = collapse_whitespace(fields["title"]) or fields["id"]
    parts = [f"# {title}"]
    summaries = dict.fromkeys(collapse_whitespace(fields[name]) for name in ("subtitle", "abstract"))
    parts += [f"> {text}" for text in summaries if text not in ("", title)]
    parts += [without_title_line(fields["content"], title).strip(), fields["overview"].strip()]
    metadata = "\n".join(_metadata_lines(fields))
    return "\n\n".join([*filter(None, parts), "---", metadata]) + "\n"


def _metadata_lines(fields: Mapping[str, Any]) -> list[str]:
    lines = [
        f"- {_field_label(name)}: {fields[name]}" for name in _SCALAR_FIELDS if fields[name] not in (None, "")
    ]
    lines += [f"- {_field_label(name)}: {', '.join(fields[name])}" for name in _LIST_FIELDS if fields[name]]
    if entities := fields["entities"]:
        named = ", ".join(f"{one['entity']} ({one['entity_type']})" for one in entities)
        lines.append(f"- Entities: {named}")
    return [*lines, f"- Id: {fields['id']}"]


def _field_label(name: str) -> str:
    words = {"sensitivity": "level", "session_id": "session", "created_at": "created"}
    words |= {"updated_at": "changed", "expires_at": "expires"}
    return words.get(name, name.replace("_", " ")).capitalize()


# Markdown is sent as plain text: a browser shows it and runs nothing in it.
FORMATS = {
    "markdown": (to_markdown, "text/plain; charset=utf-8"),
    "json": (to_json, "application/json"),
}


@require_safe
def memory_as(request: HttpRequest, uid: str, form: str) -> HttpResponse:
    """Export the memory in a format of :data:`FORMATS`; the reveal of a secret is journaled."""
    if form not in FORMATS:
        raise Http404
    memory = queries.get_visible_memory(request, uid)
    export, content_type = FORMATS[form]
    text = export(memory)
    queries.reveal_if_secret(request, memory, form)
    return HttpResponse(text, content_type=content_type)

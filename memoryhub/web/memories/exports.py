"""One memory as Markdown or JSON to copy elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from memoryhub import serializers
from memoryhub.accounts.clearance import record_reveal
from memoryhub.core.text import collapse_whitespace
from memoryhub.models import Memory
from memoryhub.web.memories import queries

_SCALAR_FIELDS = (
    "type category sensitivity scope project session_id key importance trust confidence"
    " created_at updated_at expires_at"
).split()
_LIST_FIELDS = ("tags", "concepts", "files_read", "files_modified")


def to_json(memory: Memory) -> str:
    """In the shape of ``GET /api/v1/memories/{id}``."""
    return json.dumps(serializers.memory(memory), ensure_ascii=False, indent=2) + "\n"


def to_markdown(memory: Memory) -> str:
    """Title, what is said of it in short, the content, and under a line what is known of it."""
    told = serializers.memory(memory)
    title = collapse_whitespace(told["title"]) or told["id"]
    parts = [f"# {title}"]
    short = dict.fromkeys(collapse_whitespace(told[name]) for name in ("subtitle", "abstract"))
    parts += [f"> {text}" for text in short if text not in ("", title)]
    parts += [text for text in (_body(told["content"], title), told["overview"].strip()) if text]
    return "\n\n".join([*parts, "---", "\n".join(_metadata_lines(told))]) + "\n"


def _body(content: str, title: str) -> str:
    """Without a first line that only says the title again."""
    first, _, rest = content.strip().partition("\n")
    return rest.strip() if first.lstrip("# ").strip() == title else content.strip()


def _metadata_lines(told: Mapping[str, Any]) -> list[str]:
    """A line for each thing that is known."""
    lines = [
        f"- {_field_label(name)}: {told[name]}" for name in _SCALAR_FIELDS if told[name] not in (None, "")
    ]
    lines += [f"- {_field_label(name)}: {', '.join(told[name])}" for name in _LIST_FIELDS if told[name]]
    if entities := told["entities"]:
        named = ", ".join(f"{one['entity']} ({one['entity_type']})" for one in entities)
        lines.append(f"- Entities: {named}")
    return [*lines, f"- Id: {told['id']}"]


def _field_label(name: str) -> str:
    words = {"sensitivity": "level", "session_id": "session", "created_at": "created"}
    words |= {"updated_at": "changed", "expires_at": "expires"}
    return words.get(name, name.replace("_", " ")).capitalize()


# Markdown goes out as plain text: a browser shows it and runs nothing in it.
FORMATS = {
    "markdown": (to_markdown, "text/plain; charset=utf-8"),
    "json": (to_json, "application/json"),
}


@require_safe
def memory_as(request: HttpRequest, uid: str, form: str) -> HttpResponse:
    """``form`` is one of :data:`FORMS`; opening a secret is journaled, as on its page."""
    if form not in FORMATS:
        raise Http404
    found = queries.get_visible_memory(request, uid)
    write, content_type = FORMATS[form]
    text = write(found)
    if queries.is_secret(found.sensitivity):
        record_reveal(request, found, form)
    return HttpResponse(text, content_type=content_type)

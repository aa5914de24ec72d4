"""A memory as a text to take elsewhere: Markdown for people, JSON as the API says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memoryhub import shapes
from memoryhub.models import Memory
from memoryhub.text import collapse

_PLAIN = (
    "type category sensitivity scope project session_id key importance trust confidence"
    " created_at updated_at expires_at"
).split()
_LISTS = ("tags", "concepts", "files_read", "files_modified")


def as_json(memory: Memory) -> str:
    """In the shape of ``GET /api/v1/memories/{id}``."""
    return json.dumps(shapes.memory(memory), ensure_ascii=False, indent=2) + "\n"


def as_markdown(memory: Memory) -> str:
    """Title, what is said of it in short, the content, and under a line what is known of it."""
    told = shapes.memory(memory)
    title = collapse(told["title"]) or told["id"]
    parts = [f"# {title}"]
    short = dict.fromkeys(collapse(told[name]) for name in ("subtitle", "abstract"))
    parts += [f"> {text}" for text in short if text not in ("", title)]
    parts += [text for text in (_body(told["content"], title), told["overview"].strip()) if text]
    return "\n\n".join([*parts, "---", "\n".join(_known(told))]) + "\n"


def _body(content: str, title: str) -> str:
    """Without a first line that only says the title again."""
    first, _, rest = content.strip().partition("\n")
    return rest.strip() if first.lstrip("# ").strip() == title else content.strip()


def _known(told: Mapping[str, Any]) -> list[str]:
    """A line for each thing that is known."""
    lines = [f"- {_named(name)}: {told[name]}" for name in _PLAIN if told[name] not in (None, "")]
    lines += [f"- {_named(name)}: {', '.join(told[name])}" for name in _LISTS if told[name]]
    if entities := told["entities"]:
        named = ", ".join(f"{one['entity']} ({one['entity_type']})" for one in entities)
        lines.append(f"- Entities: {named}")
    return [*lines, f"- Id: {told['id']}"]


def _named(name: str) -> str:
    words = {"sensitivity": "level", "session_id": "session", "created_at": "created"}
    words |= {"updated_at": "changed", "expires_at": "expires"}
    return words.get(name, name.replace("_", " ")).capitalize()

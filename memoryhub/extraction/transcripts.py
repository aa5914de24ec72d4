"""Conversations in files: the shapes in which agents and people keep them. Pure but for reading the file.

A JSON list of messages, or an object with ``messages``; JSON lines of messages, also Claude Code's own
transcripts and its recorded hooks; or plain text in which ``User:`` and ``Assistant:`` begin the turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_BYTES = 50_000_000
_SPEAKER = re.compile(
    r"^(?:#{1,6}\s*|\*\*)?(?P<role>user|human|assistant|ai|model)(?:\*\*)?:(?:\*\*)?[ \t]*", re.I | re.M
)


class NotATranscript(Exception):
    """The file holds no conversation; the message says what was expected."""


def read(path: Path) -> list[dict[str, Any]]:
    """The messages of a file; NotATranscript, or OSError when it cannot be read."""
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise NotATranscript(f"it is larger than {MOST_BYTES:,} bytes; take it in parts")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotATranscript("it is not text in UTF-8") from None
    found = messages(text)
    if not found:
        raise NotATranscript(
            "no message was found: expected are JSON messages with role and content, as a list or one a"
            " line, or lines that begin with User: and Assistant:"
        )
    return found


def messages(text: str) -> list[dict[str, Any]]:
    """The messages in a text; empty where there are none."""
    whole = _json(text)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        whole = whole["messages"]
    if isinstance(whole, list):
        return list(_of_rows(whole))
    rows = [_json(line) for line in text.splitlines() if line.lstrip().startswith("{")]
    return list(_of_rows(rows)) or list(_of_text(text))


def _of_rows(rows: list[Any]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if not isinstance(row, dict):
            continue
        inner = row.get("message")
        if isinstance(inner, dict) and "content" in inner:  # Claude Code keeps the message inside
            if not row.get("isMeta"):
                yield {"role": inner.get("role") or row.get("type"), "content": inner["content"]}
        elif "role" in row and "content" in row:
            yield {"role": row["role"], "content": row["content"]}
        elif isinstance(row.get("hook"), dict):
            yield from _of_hook(row["hook"])


def _of_hook(hook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if prompt := hook.get("prompt"):
        yield {"role": "user", "content": prompt}
    if said := hook.get("last_assistant_message"):
        yield {"role": "assistant", "content": said}


def _of_text(text: str) -> Iterator[dict[str, Any]]:
    starts = list(_SPEAKER.finditer(text))
    ends = [found.start() for found in starts[1:]] + [len(text)]
    for found, end in zip(starts, ends, strict=True) if starts else ():
        if content := text[found.end() : end].strip():
            yield {"role": found["role"].lower(), "content": content}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

"""Conversations: turns with roles, and the transcript files that contain them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryhub.core.text import estimate_tokens, strip_private
from memoryhub.search.prompts import strip_injected_context
from memoryhub.security.secrets import redact_checked

USER, ASSISTANT = "user", "assistant"
# Other roles (tools, system) contain nothing about people that is worth remembering.
_SPEAKERS = {"user": USER, "human": USER, "assistant": ASSISTANT, "ai": ASSISTANT, "model": ASSISTANT}
_TEXT_TYPES = ("text", "input_text", "output_text")  # of the parts of a message
MAX_MESSAGE_CHARS = 100_000  # of one message; a longer one is a document


@dataclass(frozen=True)
class Turn:
    """One message of the user or the assistant, without credentials, private text and injected memories."""

    role: str
    text: str


def parse_turns(messages: Iterable[Any]) -> list[Turn]:
    """Return the user and assistant turns among messages in the shapes that agents use; skip other messages.

    Raise :class:`~memoryhub.security.secrets.CheckTooCostly` if a message is too costly to check for secrets.
    """
    turns = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        role = _SPEAKERS.get(str(message.get("role", "")).lower())
        text = message_text(message.get("content"))
        if role and text.strip():
            public = strip_private(text[:MAX_MESSAGE_CHARS])
            clean = redact_checked(strip_injected_context(public)).strip()
            turns += [Turn(role, clean)] if clean else []
    return turns


def message_text(content: Any) -> str:
    """Return the text of a message: a string, or the text parts of a list (no tool calls)."""
    if isinstance(content, str):
        return content.replace("\x00", "")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [part.get("text") for part in parts if part.get("type", "text") in _TEXT_TYPES]
        return "\n\n".join(text for text in texts if isinstance(text, str)).replace("\x00", "")
    return ""


def to_messages(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Return the turns as JSON for the queue."""
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def split_turns(turns: Sequence[Turn], max_tokens: int) -> list[list[Turn]]:
    """Split turns into consecutive parts with at most ``max_tokens`` tokens; split longer turns too."""
    parts: list[list[Turn]] = [[]]
    room = max_tokens
    for turn in turns:
        for piece in _split_turn(turn, max_tokens):
            cost = estimate_tokens(piece.text) + 4
            if parts[-1] and cost > room:
                parts.append([])
                room = max_tokens
            parts[-1].append(piece)
            room -= cost
    return [part for part in parts if part]


def _split_turn(turn: Turn, max_tokens: int) -> Iterable[Turn]:
    """Split a turn by characters: a token has at least one character."""
    if estimate_tokens(turn.text) + 4 <= max_tokens:
        yield turn
        return
    size = max(max_tokens - 4, 1)
    for start in range(0, len(turn.text), size):
        yield Turn(turn.role, turn.text[start : start + size])


MAX_TRANSCRIPT_BYTES = 50_000_000
_SPEAKER = re.compile(
    r"^(?:#{1,6}\s*|\*\*)?(?P<role>user|human|assistant|ai|model)(?:\*\*)?:(?:\*\*)?[ \t]*", re.I | re.M
)
_COMMAND_OUTPUT = re.compile(r"\s*<(?:local-command|command)-[a-z]+>")


class InvalidTranscript(Exception):
    """The file contains no conversation. The message describes the expected content."""


def read_transcript(path: Path) -> list[dict[str, Any]]:
    """Return the messages of a file. Raise InvalidTranscript, or OSError if the file cannot be read."""
    with path.open("rb") as file:
        raw = file.read(MAX_TRANSCRIPT_BYTES + 1)
    if len(raw) > MAX_TRANSCRIPT_BYTES:
        raise InvalidTranscript(f"it is larger than {MAX_TRANSCRIPT_BYTES:,} bytes; split it into parts")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidTranscript("it is not UTF-8 text") from None
    messages = parse_messages(text)
    if not messages:
        raise InvalidTranscript(
            "it contains no messages; it must contain JSON messages with role and content (a list, or one per"
            " line), or lines that begin with User: and Assistant:"
        )
    return messages


def parse_messages(text: str) -> list[dict[str, Any]]:
    """Return the messages of a transcript: JSON, JSON lines, or text with the names of the speakers."""
    whole = _parse_json(text)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        whole = whole["messages"]
    if isinstance(whole, list):
        return list(_messages_from_rows(whole))
    rows = [_parse_json(line) for line in text.splitlines() if line.lstrip().startswith("{")]
    return list(_messages_from_rows(rows)) or list(_messages_from_text(text))


def _messages_from_rows(rows: list[Any]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if not isinstance(row, dict):
            continue
        if isinstance(row.get("message"), dict) and "content" in row["message"]:
            message = unwrap_claude_code(row)
            if message["content"] is not None:
                yield message
        elif "role" in row and "content" in row:
            yield {"role": row["role"], "content": row["content"]}
        elif isinstance(row.get("hook"), dict):
            yield from _messages_from_hook(row["hook"])


def unwrap_claude_code(row: dict[str, Any]) -> dict[str, Any]:
    """Return the message inside a line of Claude Code's transcript.

    Its content is None if Claude Code wrote it: a summary of a compacted conversation, or command output.
    """
    inner = row["message"]
    content = inner.get("content")
    if row.get("isMeta") or row.get("isCompactSummary") or _COMMAND_OUTPUT.match(message_text(content)):
        content = None
    return {"role": inner.get("role") or row.get("type"), "content": content}


def _messages_from_hook(hook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if prompt := hook.get("prompt"):
        yield {"role": "user", "content": prompt}
    if answer := hook.get("last_assistant_message"):
        yield {"role": "assistant", "content": answer}


def _messages_from_text(text: str) -> Iterator[dict[str, Any]]:
    starts = list(_SPEAKER.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=False):
        if content := text[match.end() : end].strip():
            yield {"role": match["role"].lower(), "content": content}


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

"""A conversation: who said what, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memoryhub.encoding.distillation import without_injections
from memoryhub.encoding.secrets import redact_checked
from memoryhub.text import estimate_tokens

USER, ASSISTANT = "user", "assistant"
# Who else takes part (tools, the system's own instructions) says nothing that is worth remembering of people.
_SPEAKERS = {"user": USER, "human": USER, "assistant": ASSISTANT, "ai": ASSISTANT, "model": ASSISTANT}
MOST_CHARS = 100_000  # of one message; the rest is a document, not something that was said


@dataclass(frozen=True)
class Turn:
    """What one of the two said, without credentials and without memories that were injected."""

    role: str
    text: str


def turns(messages: Iterable[Any]) -> list[Turn]:
    """The turns among messages in the shapes that agents keep them in; what is none is left out.

    Raise :class:`~memoryhub.encoding.secrets.CheckTooCostly` if one is too costly to check for secrets.
    """
    found = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        role = _SPEAKERS.get(str(message.get("role", "")).lower())
        text = text_of(message.get("content"))
        if role and text.strip():
            said = redact_checked(without_injections(text[:MOST_CHARS])).strip()
            found += [Turn(role, said)] if said else []
    return found


def text_of(content: Any) -> str:
    """A content as a text: it is one, or a list of parts of which the texts count (no calls of tools)."""
    if isinstance(content, str):
        return content.replace("\x00", "")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and _says(part)]
        return "\n\n".join(text for text in texts if isinstance(text, str)).replace("\x00", "")
    return ""


def _says(part: dict[str, Any]) -> bool:
    return part.get("type", "text") in ("text", "input_text", "output_text")


def as_messages(found: Sequence[Turn]) -> list[dict[str, str]]:
    """As they are kept while they wait."""
    return [{"role": turn.role, "content": turn.text} for turn in found]


def in_parts(found: Sequence[Turn], most_tokens: int) -> list[list[Turn]]:
    """Consecutive turns of so many tokens at most; a turn that is longer by itself is cut into several."""
    parts: list[list[Turn]] = [[]]
    room = most_tokens
    for turn in found:
        for piece in _pieces(turn, most_tokens):
            cost = estimate_tokens(piece.text) + 4
            if parts[-1] and cost > room:
                parts.append([])
                room = most_tokens
            parts[-1].append(piece)
            room -= cost
    return [part for part in parts if part]


def _pieces(turn: Turn, most_tokens: int) -> Iterable[Turn]:
    """A token has at least one character, so a piece of so many characters never has more tokens."""
    if estimate_tokens(turn.text) + 4 <= most_tokens:
        yield turn
        return
    size = max(most_tokens - 4, 1)
    for start in range(0, len(turn.text), size):
        yield Turn(turn.role, turn.text[start : start + size])

"""What a chat endpoint answered, taken only if it is what was asked for. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from memoryhub.llm.protocol import ModelError, Reply

# A count below this share of the hub's own estimate, or above this, is not believed.
_LEAST_SHARE, _MOST = 0.25, 1_000_000


def read(body: bytes, sent_tokens: int, estimate: Callable[[str], int]) -> Reply:
    """The text of a chat completion; ModelError when it is none, is empty, was cut off or refused.

    ``sent_tokens``: the hub's estimate of what was sent; ``estimate``: counts the tokens of a text.
    """
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        refusal = message.get("refusal")
        finish = choice.get("finish_reason")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ModelError("the language model's endpoint answers with no chat completion") from None
    if refusal or finish == "content_filter":
        raise ModelError("the language model refuses to answer")
    if not text.strip():
        raise ModelError("the language model's answer is empty")
    usage = data.get("usage") if isinstance(data, dict) else None
    counted = usage if isinstance(usage, dict) else {}
    return Reply(
        text,
        _believed(counted.get("prompt_tokens"), sent_tokens),
        _believed(counted.get("completion_tokens"), estimate(text)),
    )


def _text(content: Any) -> str:
    """A content is a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part))
    if content is None:
        return ""
    raise TypeError


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") in (None, "text", "output_text") and isinstance(part.get("text"), str)


def _believed(counted: Any, estimated: int) -> int:
    """The endpoint's count, unless it cannot be true: thinking that is not shown counts too."""
    if type(counted) is not int or not estimated * _LEAST_SHARE <= counted <= _MOST:
        return estimated
    return counted

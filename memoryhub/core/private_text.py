"""Remove what a person marked with ``<private>…</private>``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 20  # of nested objects and lists; nothing below is read
_TAG = re.compile(r"<\s*(?P<end>/?)\s*private(?:\s[^<>]*)?>", re.I)


def strip_private(value: Any) -> Any:
    """Return a text, or the texts of any JSON value, without private blocks.

    Blocks may be nested. A block that is not closed extends to the end of the text, and in a list also over
    the items that follow, because agents send the lines of a text as a list.
    """
    return _strip(value, 0, 0)[0]


def _strip(value: Any, opened: int, depth: int) -> tuple[Any, int]:
    """Return the value without private text, and how many blocks are open after it."""
    if isinstance(value, str):
        return _strip_text(value, opened)
    if not isinstance(value, Mapping | list | tuple):
        return (None if opened else value), opened
    if depth > MAX_DEPTH:
        return None, opened
    if isinstance(value, Mapping):
        found, after = {}, opened
        for name, one in value.items():
            found[_strip_text(name, 0)[0] if isinstance(name, str) else name], left = _strip(
                one, opened, depth + 1
            )
            after = left if left != opened else after
        return found, after
    items = []
    for one in value:
        item, opened = _strip(one, opened, depth + 1)
        items.append(item)
    return items, opened


def _strip_text(text: str, opened: int) -> tuple[str, int]:
    parts, start = [], 0
    for tag in _TAG.finditer(text):
        if not opened:
            # A tag that closes nothing stays, with the text before it.
            parts.append(text[start : tag.end() if tag["end"] else tag.start()])
        opened = max(opened - 1, 0) if tag["end"] else opened + 1
        start = tag.end()
    return "".join(parts) + ("" if opened else text[start:]), opened

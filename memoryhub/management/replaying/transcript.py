"""A recorded session: hooks of Claude Code, one JSON object a line, each with its seconds since the start."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_SECONDS = 366 * 86_400  # a session longer than a year is a mistake
LINE = '{"offset": seconds, "hook": {"hook_event_name": …, "session_id": …, …}}'


class NotATranscript(Exception):
    """The file holds no hook at all; the message says where reading it failed first."""


class BadLine(ValueError):
    """What is wrong with one line."""


@dataclass(frozen=True)
class Recorded:
    """One hook. ``number``: its line, from 1; ``offset``: seconds since the session began."""

    number: int
    offset: float
    hook: dict[str, Any]

    @property
    def session_id(self) -> str:
        return str(self.hook["session_id"])

    @property
    def name(self) -> str:
        return str(self.hook["hook_event_name"])

    @property
    def tool(self) -> str:
        return str(self.hook.get("tool_name") or "")


@dataclass(frozen=True)
class Transcript:
    """The hooks in the order of the file, and the lines that are none: number and reason."""

    hooks: list[Recorded]
    broken: list[tuple[int, str]]

    @property
    def seconds(self) -> float:
        return max(hook.offset for hook in self.hooks)


def read_transcript(path: Path) -> Transcript:
    """Read a file; NotATranscript when no line of it is a hook, OSError when it cannot be read."""
    hooks: list[Recorded] = []
    broken: list[tuple[int, str]] = []
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        if not raw.strip():
            continue
        try:
            hooks.append(_recorded(number, raw))
        except BadLine as problem:
            broken.append((number, str(problem)))
    if not hooks:
        where = f"line {broken[0][0]}: {broken[0][1]}" if broken else "it is empty"
        raise NotATranscript(f"{path} is no recorded session; {where}. A line looks like {LINE}")
    return Transcript(hooks, broken)


def _recorded(number: int, raw: bytes) -> Recorded:
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadLine("not JSON") from None
    if not isinstance(row, dict):
        raise BadLine("not an object")
    offset, hook = row.get("offset"), row.get("hook")
    if not isinstance(offset, int | float) or isinstance(offset, bool) or not math.isfinite(offset):
        raise BadLine("offset must be a number of seconds")
    if not 0 <= offset <= MOST_SECONDS:
        raise BadLine("offset must be 0 or more seconds, and at most a year")
    if not isinstance(hook, dict):
        raise BadLine("hook must be an object")
    for name in ("hook_event_name", "session_id"):
        if not isinstance(hook.get(name), str) or not hook[name].strip():
            raise BadLine(f"hook.{name} must be a text")
    return Recorded(number, float(offset), hook)

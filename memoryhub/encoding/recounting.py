"""A session in words: what was done, decided, solved and learnt, and in which files. Pure.

Made from what was captured and nothing else, so that the same session always gives the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryhub.text import shorten
from memoryhub.vocabulary import MemoryType

MOST_LINES = 12  # of one section; the most important ones, in the order of time
MOST_FILES = 20
LINE_CHARS = 200
_SECTIONS = (
    ("Decisions", (MemoryType.DECISION,)),
    ("Problems solved", (MemoryType.BUGFIX,)),
    ("Done", (MemoryType.FEATURE, MemoryType.REFACTOR, MemoryType.CHANGE)),
    ("Learnt", (MemoryType.DISCOVERY,)),
)


@dataclass(frozen=True)
class Told:
    """One memory of the session, as far as a summary tells of it."""

    type: str
    title: str
    importance: float
    concepts: tuple[str, ...] = ()


def recount(told: Sequence[Told], modified: Iterable[str], asked: str = "") -> str:
    """The text of a summary; empty when nothing was kept and no file was changed."""
    files = list(dict.fromkeys(modified))
    if not told and not files:
        return ""
    parts = [f"Asked for: {asked}"] if asked else []
    known = [kind for _, kinds in _SECTIONS for kind in kinds]
    for name, kinds in (*_SECTIONS, ("Also noted", ())):
        lines = [one for one in told if (one.type in kinds if kinds else one.type not in known)]
        if lines:
            parts.append("\n".join([f"{name}:", *_lines(lines)]))
    if files:
        more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
        parts.append(f"Files changed: {', '.join(files[:MOST_FILES])}{more}")
    return "\n\n".join(parts)


def headline(told: Sequence[Told], modified: Sequence[str]) -> str:
    """What stands above it: the most important thing, and how many more there are."""
    if not told:
        return f"Changes in {len(modified)} file{'s' if len(modified) != 1 else ''}"
    best = max(told, key=lambda one: one.importance)
    return shorten(best.title, 120) + (f", and {len(told) - 1} more" if len(told) > 1 else "")


def gist(told: Sequence[Told], chars: int = 200) -> str:
    """The most important things in one line, as many as there is room for; empty when nothing was kept."""
    line = ""
    for one in sorted(told, key=lambda one: -one.importance):
        longer = f"{line}; {one.title}" if line else one.title
        if line and len(longer) > chars:
            break
        line = longer
    return shorten(line, chars)


def shared_concepts(told: Sequence[Told], most: int = 3) -> list[str]:
    """The concepts of most of them."""
    counted: dict[str, int] = {}
    for one in told:
        for concept in one.concepts:
            counted[concept] = counted.get(concept, 0) + 1
    return sorted(counted, key=lambda name: (-counted[name], name))[:most]


def _lines(told: Sequence[Told]) -> list[str]:
    best = sorted(range(len(told)), key=lambda number: -told[number].importance)[:MOST_LINES]
    shown = [f"- {shorten(told[number].title, LINE_CHARS)}" for number in sorted(best)]
    return [*shown, *([f"- and {len(told) - MOST_LINES} more"] if len(told) > MOST_LINES else [])]

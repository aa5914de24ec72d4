"""How much of a long list goes into a page, told by what it weighs as markup: texts are short or long."""

from __future__ import annotations

from collections.abc import Callable


def weight(markup: str) -> int:
    """Bytes as they are sent."""
    return len(markup.encode())


def fitting(shown: Callable[[int], str], count: int, most: int, least: int = 1) -> tuple[str, int]:
    """The markup of the first of ``count`` things, no heavier than ``most`` bytes, and how many those are.

    ``shown`` makes the markup of so many. The first ``least`` are shown whatever they weigh.
    """
    markup = shown(count)
    while (heavy := weight(markup)) > most and count > least:
        count = max(least, min(count - 1, count * most // heavy))
        markup = shown(count)
    return markup, count

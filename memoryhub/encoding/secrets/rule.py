"""What a rule is: a kind, a pattern, and the test that tells a match from a stand-in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from memoryhub.encoding.secrets.values import varied

Real = Callable[[re.Match[str]], bool]
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A token stands alone, or behind an escaped line break in quoted code.
_BEFORE = r"(?:(?<![\w-])|(?<=\\[nrt]))"


@dataclass(frozen=True, eq=False)
class Rule:
    """``markers``: in small letters, one of which every match holds; one of ``hints``, where there
    are any, is then sought in the lowered text.
    ``real`` tells a match from a stand-in.
    """

    kind: str
    markers: tuple[str, ...]
    source: str
    real: Real
    hints: tuple[str, ...] = ()
    flags: int = 0

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text first holds a marker: most hold none, and rules are many."""
        return re.compile(self.source, re.ASCII | self.flags)


def hinted(hints: tuple[str, ...], low: str) -> bool:
    """Whether a lowered text holds one of these hints."""
    return any(_hint(hint).search(low) for hint in hints)


@cache
def _hint(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


def value_of(match: re.Match[str]) -> str:
    """The credential itself; the whole match when the rule names no value."""
    return match["value"] if "value" in match.re.groupindex else match[0]


def span_of(match: re.Match[str]) -> tuple[int, int]:
    """Where the credential stands."""
    return match.span("value" if "value" in match.re.groupindex else 0)


def matches(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    """What the rule finds that is real; behind a stand-in the search goes on where its value begins."""
    position = 0
    while match := rule.pattern.search(text, position):
        if rule.real(match):
            yield match
            position = match.end()
        else:
            position = max(span_of(match)[0], match.start() + 1)


def has_variety(match: re.Match[str]) -> bool:
    return varied(value_of(match))


def any_match(match: re.Match[str]) -> bool:
    return True


def rule(
    kind: str, markers: str, pattern: str, real: Real = has_variety, *hints: str, flags: int = 0
) -> Rule:
    """``UUID`` in the pattern stands for the pattern of one."""
    return Rule(kind, tuple(markers.split()), pattern.replace("UUID", _UUID), real, hints, flags)


def issued(kind: str, markers: str, pattern: str) -> Rule:
    """A token with its issuer's prefix, standing alone."""
    return rule(kind, markers, rf"{_BEFORE}(?:{pattern})(?![\w-])")

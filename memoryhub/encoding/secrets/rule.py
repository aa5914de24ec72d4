"""What a rule is: a kind, a pattern, and the test that tells a match from a stand-in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    pattern: re.Pattern[str]
    real: Real
    hints: tuple[re.Pattern[str], ...] = ()


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
    found = tuple(re.compile(hint, re.ASCII) for hint in hints)
    compiled = re.compile(pattern.replace("UUID", _UUID), re.ASCII | flags)
    return Rule(kind, tuple(markers.split()), compiled, real, found)


def issued(kind: str, markers: str, pattern: str) -> Rule:
    """A token with its issuer's prefix, standing alone."""
    return rule(kind, markers, rf"{_BEFORE}(?:{pattern})(?![\w-])")

"""What a rule is: a kind, a pattern, and the test that tells a match from a stand-in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from memoryhub.security.secrets.budget import Budget
from memoryhub.security.secrets.values import varied

Real = Callable[[re.Match[str]], bool]
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A token stands alone, or behind an escaped line break in quoted code.
_BEFORE = r"(?:(?<![\w-])|(?<=\\[nrt]))"
_LITERAL_START = re.compile(r"(?:[\w-]|\\[.$+])+(?![*+?{])", re.ASCII)


@dataclass(frozen=True, eq=False)
class Rule:
    """``markers``: in small letters, one of which every match holds; one of ``hints``, where there
    are any, is then sought in the lowered text.
    ``real`` tells a match from a stand-in; ``plausible`` is a cheap test that comes before it.
    """

    kind: str
    markers: tuple[str, ...]
    source: str
    real: Real
    hints: tuple[str, ...] = ()
    flags: int = 0
    plausible: Real | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text first holds a marker: most hold none, and rules are many."""
        return re.compile(self.source, re.ASCII | self.flags)


def contains_hint(hints: tuple[str, ...], low: str) -> bool:
    """Whether a lowered text holds one of these hints."""
    return any(_compile_hint(hint).search(low) for hint in hints)


@cache
def _compile_hint(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


def secret_value(match: re.Match[str]) -> str:
    """The credential itself; the whole match when the rule names no value."""
    return match["value"] if "value" in match.re.groupindex else match[0]


def secret_span(match: re.Match[str]) -> tuple[int, int]:
    """Where the credential stands."""
    return match.span("value" if "value" in match.re.groupindex else 0)


def find_matches(rule: Rule, text: str, budget: Budget) -> Iterator[re.Match[str]]:
    """Yield the real matches of a rule. After a stand-in, search again from the start of its value.

    Values may overlap, so one character can be examined many times. The budget limits that.
    """
    position = 0
    while match := rule.pattern.search(text, position):
        if _is_real(rule, match, budget):
            yield match
            position = match.end()
        else:
            position = max(secret_span(match)[0], match.start() + 1)


def _is_real(rule: Rule, match: re.Match[str], budget: Budget) -> bool:
    if rule.plausible and not rule.plausible(match):
        budget.spend(0)
        return False
    budget.spend(match.end() - match.start())
    return rule.real(match)


def has_variety(match: re.Match[str]) -> bool:
    return varied(secret_value(match))


def any_match(match: re.Match[str]) -> bool:
    return True


def rule(
    kind: str,
    markers: str,
    pattern: str,
    real: Real = has_variety,
    *hints: str,
    flags: int = 0,
    plausible: Real | None = None,
) -> Rule:
    """``UUID`` in the pattern stands for the pattern of one."""
    return Rule(kind, tuple(markers.split()), pattern.replace("UUID", _UUID), real, hints, flags, plausible)


def issued(kind: str, markers: str, pattern: str) -> Rule:
    """A token with its issuer's prefix, standing alone."""
    return rule(kind, markers, rf"{_standing_alone(pattern)}(?![\w-])")


def _standing_alone(pattern: str) -> str:
    """The pattern, matching only where a token may begin.

    ``re`` skips quickly to a literal, but only if the pattern starts with it. So the check of the characters
    before the token comes after its literal start.
    """
    literal = _LITERAL_START.match(pattern)
    if literal is None:
        return rf"{_BEFORE}(?:{pattern})"
    head = literal[0]
    before = rf"(?:(?<![\w-]{head})|(?<=\\[nrt]{head}))"
    return rf"{head}{before}(?:{pattern[len(head) :]})"

"""Credentials in a text: which kind, on which line. Never the value itself.

Precision comes first, for what is found is refused: a rule wants a prefix that its issuer gives out, the
name of a service before a value that chance wrote, or a name like ``password`` before a value that no person
would write as a placeholder. Pure, and linear in the text's length: every repetition that could start anew
at each character is bounded, or kept from doing so by what must stand before it. A :class:`Budget` limits how
often overlapping candidates are examined; a text that exceeds it raises :class:`CheckTooCostly`. Which rules
may find something is decided by the runs of three letters that a text has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from memoryhub.security.secrets.assigned import ANY, ASSIGNED
from memoryhub.security.secrets.budget import Budget, CheckTooCostly
from memoryhub.security.secrets.commands import COMMANDS
from memoryhub.security.secrets.connections import CONNECTIONS
from memoryhub.security.secrets.issued import ISSUED
from memoryhub.security.secrets.nearby import find_near_service_names
from memoryhub.security.secrets.patterns import Rule, contains_hint, find_matches, secret_span

__all__ = [
    "KINDS",
    "REDACTED",
    "UNCHECKED",
    "CheckTooCostly",
    "DetectedSecret",
    "compile_rules",
    "find_secrets",
    "may_contain_secrets",
    "redact",
    "redact_checked",
]

REDACTED = "[secret removed]"
UNCHECKED = "[text removed: too costly to check for secrets]"
_RULES = (*ISSUED, *CONNECTIONS, *COMMANDS, *ASSIGNED)
KINDS = frozenset(rule.kind for rule in _RULES)
_PEM_END = re.compile(r"-----END [A-Za-z0-9 ]{1,60}-----")


class DetectedSecret(NamedTuple):
    """What a credential seems to be, and the line it begins on, from 1."""

    kind: str
    line: int


class _Span(NamedTuple):
    start: int
    end: int
    kind: str


def compile_rules() -> None:
    """All of them now, some 40 ms; else each is compiled when a text first holds one of its markers."""
    for rule in _RULES:
        _ = rule.pattern


def find_secrets(text: str) -> list[DetectedSecret]:
    """Every credential in the text, by line; several of one kind on one line count once.

    Raise :class:`CheckTooCostly` if the check needs more work than the text's length allows.
    """
    found, line, seen = [], 1, 0
    kinds: dict[int, str] = {}
    for start, _, kind in _find_spans(text):
        if kinds.get(start, ANY) == ANY:  # the more telling one of several names for one value
            kinds[start] = kind
    for start in sorted(kinds):
        line += text.count("\n", seen, start)
        seen = start
        found.append((line, kinds[start]))
    return [DetectedSecret(kind, line) for line, kind in sorted(set(found))]


def may_contain_secrets(text: str) -> bool:
    """Return True if the text holds a credential, or is too costly to check."""
    try:
        return bool(find_secrets(text))
    except CheckTooCostly:
        return True


def redact(text: str) -> str:
    """Like :func:`redact_checked`, but return :data:`UNCHECKED` for a text that is too costly to check."""
    try:
        return redact_checked(text)
    except CheckTooCostly:
        return UNCHECKED


def redact_checked(text: str) -> str:
    """The text with :data:`REDACTED` in the place of every credential; of a private key nothing is left.

    Raise :class:`CheckTooCostly` like :func:`find_secrets`.
    """
    pieces, position = [], 0
    for start, end, _ in sorted(_find_spans(text)):
        if start >= position:
            pieces += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def _find_spans(text: str) -> Iterator[_Span]:
    budget = Budget(len(text))
    for rule in _applicable_rules(text.lower()):
        budget.check_time()
        closing: re.Match[str] | None = None
        for match in find_matches(rule, text, budget):
            start, end = secret_span(match)
            if "-----BEGIN" in match[0]:
                if closing is None or closing.start() < end:  # many keys may share one end: seek it once
                    closing = _PEM_END.search(text, end)
                if not closing:
                    yield _Span(start, len(text), rule.kind)
                    break  # all the rest is gone; seeking its end again and again would cost a square
                end = closing.end()
            yield _Span(start, end, rule.kind)
    for kind, start, end in find_near_service_names(text, budget):
        yield _Span(start, end, kind)


def _applicable_rules(low: str) -> Iterator[Rule]:
    """The rules that may find something in a text, given in small letters."""
    grams = _TRIGRAMS.intersection(map("".join, zip(low, low[1:], low[2:], strict=False)))
    marked = chain(_SHORT_MARKERS, *(_MARKERS_BY_TRIGRAM[gram] for gram in grams))
    numbers = {number for marker, rules in marked if marker in low for number in rules}
    held: dict[tuple[str, ...], bool] = {(): True}
    for rule in (_RULES[number] for number in sorted(numbers)):
        if rule.hints not in held:
            held[rule.hints] = contains_hint(rule.hints, low)
        if held[rule.hints]:
            yield rule


_MarkedRules = list[tuple[str, list[int]]]  # markers, each with the numbers of its rules


def _index_markers() -> tuple[_MarkedRules, dict[str, _MarkedRules]]:
    """Markers of one or two letters; the others under their rarest three: few texts hold those of many."""
    rules: dict[str, list[int]] = {}
    for number, rule in enumerate(_RULES):
        for marker in rule.markers:
            rules.setdefault(marker, []).append(number)
    common = Counter(gram for marker in rules for gram in _trigrams(marker))
    found: dict[str, _MarkedRules] = {}
    for marker, numbers in rules.items():
        gram = min(_trigrams(marker), key=lambda gram: common[gram], default="")
        found.setdefault(gram, []).append((marker, numbers))
    return found.pop("", []), found


def _trigrams(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(len(text) - 2)]


_SHORT_MARKERS, _MARKERS_BY_TRIGRAM = _index_markers()
_TRIGRAMS = frozenset(_MARKERS_BY_TRIGRAM)

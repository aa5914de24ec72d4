"""Secret detection: which kinds of credentials a text contains, and on which lines. No Django.

Memories with secrets are refused, so precision comes first. A rule requires a prefix that the issuer
documents, the name of a service before a random value, or a name such as ``password`` before a value that is
not a placeholder. The rules are in ``rules/*.toml``. Results never contain the value of a secret.

The time is linear in the length of the text: every repetition in a pattern is bounded, or can start only at
few places. A :class:`Budget` limits how often overlapping candidates are examined; a text that exceeds it
raises :class:`CheckTooCostly`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryhub.security.secrets.checks import secret_span
from memoryhub.security.secrets.nearby import find_near_service_names
from memoryhub.security.secrets.secret_rules import (
    Budget,
    CheckTooCostly,
    SecretRule,
    contains_hint,
    find_matches,
    load_rules,
    lower_case,
)

__all__ = [
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
GENERIC_KIND = "password or key"
_PEM_END = re.compile(r"-----END [A-Za-z0-9 ]{1,60}-----")


class DetectedSecret(NamedTuple):
    """The kind of a secret, and the line on which it starts, counted from 1."""

    kind: str
    line: int


class _Span(NamedTuple):
    start: int
    end: int
    kind: str


def compile_rules() -> None:
    """Load and compile all rules. Without this call, a rule is compiled when a text first needs it."""
    for rule in _rule_index().rules:
        _ = rule.pattern


def find_secrets(text: str) -> list[DetectedSecret]:
    """Return the secrets in a text, by line. Secrets of one kind on one line count once.

    If the check needs more work than the text's length allows, return the secrets that were found up to then.
    Raise :class:`CheckTooCostly` if there are none.
    """
    kinds: dict[int, str] = {}
    try:
        for start, _, kind in _find_spans(text):
            if kinds.get(start, GENERIC_KIND) == GENERIC_KIND:  # a more specific kind replaces it
                kinds[start] = kind
    except CheckTooCostly:
        if not kinds:
            raise
    found, line, counted = set(), 1, 0
    for start in sorted(kinds):
        line += text.count("\n", counted, start)
        counted = start
        found.add((line, kinds[start]))
    return [DetectedSecret(kind, line) for line, kind in sorted(found)]


def may_contain_secrets(text: str) -> bool:
    """Return True if the text contains a secret or is too costly to check."""
    try:
        return any(True for _ in _find_spans(text))
    except CheckTooCostly:
        return True


def redact(text: str) -> str:
    """Like :func:`redact_checked`, but return :data:`UNCHECKED` for a text that is too costly to check."""
    try:
        return redact_checked(text)
    except CheckTooCostly:
        return UNCHECKED


def redact_checked(text: str) -> str:
    """Replace each secret by :data:`REDACTED`. A private key is replaced as a whole.

    Raise :class:`CheckTooCostly` like :func:`find_secrets`.
    """
    pieces, position = [], 0
    for start, end, _ in sorted(_find_spans(text)):
        if start >= position:
            pieces += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def _find_spans(text: str) -> Iterator[_Span]:
    """Yield the secrets, those of a specific kind first. A value that one rule found is not checked again."""
    budget, rules = Budget(len(text)), list(_applicable_rules(lower_case(text)))
    found: set[int] = set()
    specific = (_find_by_rule(rule, text, budget, found) for rule in rules if not _is_generic(rule))
    nearby = (_Span(start, end, kind) for kind, start, end in find_near_service_names(text, budget))
    generic = (_find_by_rule(rule, text, budget, found) for rule in rules if _is_generic(rule))
    for span in chain(chain.from_iterable(specific), nearby, chain.from_iterable(generic)):
        found.add(span.start)
        yield span


def _is_generic(rule: SecretRule) -> bool:
    return rule.kind == GENERIC_KIND


def _find_by_rule(rule: SecretRule, text: str, budget: Budget, found: Container[int]) -> Iterator[_Span]:
    budget.check_time()
    closing: re.Match[str] | None = None
    for match in find_matches(rule, text, budget, found):
        start, end = secret_span(match)
        if "-----BEGIN" in match[0]:
            if closing is None or closing.start() < end:  # many keys may share one end: search it once
                closing = _PEM_END.search(text, end)
            if not closing:
                yield _Span(start, len(text), rule.kind)
                return  # the rest is redacted; searching the end for each key would take quadratic time
            end = closing.end()
        yield _Span(start, end, rule.kind)


_KeywordRules = list[tuple[str, list[int]]]  # keywords, each with the positions of its rules
_LONG_TEXT = 150  # characters, from which NumPy is faster
_CODE_BITS = 6  # of each character in the code of a trigram


class _RuleIndex(NamedTuple):
    """The rules, and their keywords by one of their trigrams: a text contains few of these trigrams."""

    rules: tuple[SecretRule, ...]
    short: _KeywordRules  # keywords of one or two characters
    by_trigram: dict[str, _KeywordRules]
    by_code: dict[int, _KeywordRules]  # the same keywords by the codes of these trigrams
    is_used: NDArray[np.bool_]  # for each code, whether ``by_code`` has it


@cache
def _rule_index() -> _RuleIndex:
    rules = load_rules()
    positions: dict[str, list[int]] = {}
    for position, rule in enumerate(rules):
        for keyword in rule.keywords:
            positions.setdefault(keyword, []).append(position)
    common = Counter(trigram for keyword in positions for trigram in _trigrams(keyword))
    by_trigram: dict[str, _KeywordRules] = {}
    for keyword, numbers in positions.items():
        rarest = min(_trigrams(keyword), key=lambda trigram: common[trigram], default="")
        by_trigram.setdefault(rarest, []).append((keyword, numbers))
    short = by_trigram.pop("", [])
    by_code: dict[int, _KeywordRules] = {}
    for trigram, keywords in by_trigram.items():
        by_code.setdefault(int(_trigram_codes(trigram)[0]), []).extend(keywords)
    is_used = np.zeros(1 << 3 * _CODE_BITS, np.bool_)
    is_used[list(by_code)] = True
    return _RuleIndex(rules, short, by_trigram, by_code, is_used)


def _trigrams(text: str) -> Iterable[str]:
    return map("".join, zip(text, text[1:], text[2:], strict=False))


def _trigram_codes(text: str) -> NDArray[np.integer]:
    """Return a number for each trigram of a text. Equal trigrams have equal numbers; others may, too."""
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    low = characters & (1 << _CODE_BITS) - 1
    return low[:-2] << 2 * _CODE_BITS | low[1:-1] << _CODE_BITS | low[2:]


def _keywords_to_look_for(lowered: str, index: _RuleIndex) -> Iterator[tuple[str, list[int]]]:
    """Yield keywords of which a lower-case text contains a trigram, and all short ones."""
    if len(lowered) < _LONG_TEXT:
        trigrams = index.by_trigram.keys() & _trigrams(lowered)
        return chain(index.short, *(index.by_trigram[trigram] for trigram in trigrams))
    codes = _trigram_codes(lowered)
    found: set[int] = set(codes[index.is_used[codes]].tolist())
    return chain(index.short, *(index.by_code[code] for code in found))


def _applicable_rules(lowered: str) -> Iterator[SecretRule]:
    """Yield the rules of which a lower-case text contains a keyword and a hint."""
    index = _rule_index()
    keywords = _keywords_to_look_for(lowered, index)
    positions = {position for keyword, numbers in keywords if keyword in lowered for position in numbers}
    hinted: dict[tuple[str, ...], bool] = {(): True}
    for rule in (index.rules[position] for position in sorted(positions)):
        if rule.hints not in hinted:
            hinted[rule.hints] = contains_hint(rule.hints, lowered)
        if hinted[rule.hints]:
            yield rule

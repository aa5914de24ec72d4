"""Secret detection: which kinds of credentials a text contains, and on which lines. No Django.

Memories with secrets are refused, so precision comes first. A rule requires a prefix that the issuer
documents, the name of a service before a random value, or a name such as ``password`` before a value that is
not a placeholder. The rules are in ``rules/*.toml``. Results never contain the value of a secret.

The time is linear in the length of the text: every repetition in a pattern is bounded, or can start only at
few places. A :class:`Scan` counts the work; a text that needs more than its length allows raises
:class:`CheckTooCostly`.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryhub.security.secrets.secret_rules import (
    SecretRule,
    has_token_form,
    is_name,
    is_secret_file,
    load_rules,
    load_service_names,
    may_be_token,
    names_secret_file,
    secret_span,
    split_last_paragraph,
    split_words,
)

# The units of a step are proportional to its time. Prose of 2,000 characters uses at most 0.5 units for each,
# a list of tokens or settings up to 1.2. Short texts need more: a few rules for one secret.
UNITS_PER_CHARACTER = 1.7
UNITS_PER_SHORT_TEXT = 300  # and half a unit per character
UNITS_PER_TEXT = 40  # to choose the rules; and 0.08 per character, and 1 for each of their words in the text
UNITS_PER_RULE, CHARACTERS_PER_UNIT = 6, 16  # to search the whole text with a regex
UNITS_PER_NAME = 7  # to find that a name is harmless or a value is a placeholder; and 0.05 per character
UNITS_PER_VALUE = 4  # to find that a value is a name or a path; and 0.05 per character
UNITS_PER_RANDOM_VALUE = 14  # to find whether another value is random; and 0.2 per character
UNITS_PER_TOKEN = 10  # to read the words before a random value
UNITS_PER_ISSUER = 12  # to find who issued a token; and 0.6 per word
MAX_CPU_SECONDS = 5.0  # a backstop for slow machines; the units are used up much earlier
CHARACTERS_AROUND = 100  # of a match, in which ``near`` must match
_STEPS_PER_CLOCK_CHECK = 256

REDACTED = "[secret removed]"
UNCHECKED = "[text removed: too costly to check for secrets]"
GENERIC_KIND = "password or key"
_PEM_END = re.compile(r"-----END [A-Za-z0-9 ]{1,60}-----")


class CheckTooCostly(Exception):
    """Checking a text for secrets takes more work than its length allows. The text is unchecked."""

    def __init__(self) -> None:
        super().__init__("the text is too costly to check for secrets. Shorten it or split it.")


class Scan:
    """One text and the work spent on it.

    The units of work are deterministic. The CPU time of the thread is a second limit.
    """

    def __init__(self, text: str) -> None:
        self.text, self.lowered = text, _lower_case(text)
        self.words = _words_in(self.lowered)
        self.limit = max(UNITS_PER_SHORT_TEXT + len(text) / 2, UNITS_PER_CHARACTER * len(text))
        self.spent: float = UNITS_PER_TEXT + 0.08 * len(text) + len(self.words)
        self._steps = 0
        self._deadline = time.thread_time() + MAX_CPU_SECONDS
        self._positions: dict[tuple[str, ...], list[int]] = {}

    def spend(self, units: float) -> None:
        """Count a step of work. Raise :class:`CheckTooCostly` if it exceeds the limit."""
        self.spent += units
        if self.spent > self.limit:
            raise CheckTooCostly
        if self._steps % _STEPS_PER_CLOCK_CHECK == 0 and time.thread_time() > self._deadline:
            raise CheckTooCostly
        self._steps += 1

    def positions_of(self, words: tuple[str, ...]) -> list[int]:
        """Return the positions where one of the words starts, in order. Several rules share them."""
        if words not in self._positions:
            lists = [self._positions_of_word(word) for word in words if word in self.words]
            self._positions[words] = lists[0] if len(lists) == 1 else sorted(set().union(*lists))
        return self._positions[words]

    def _positions_of_word(self, word: str) -> list[int]:
        if (word,) not in self._positions:
            found, at = [], self.lowered.find(word)
            while at >= 0:
                found.append(at)
                at = self.lowered.find(word, at + 1)
            self._positions[(word,)] = found
        return self._positions[(word,)]


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
    scan = Scan(text)
    found: dict[int, int] = {}  # the end of each secret by its start
    rules = list(applicable_rules(scan))
    specific = (_find_by_rule(rule, scan, found) for rule in rules if rule.kind != GENERIC_KIND)
    generic = (_find_by_rule(rule, scan, found) for rule in rules if rule.kind == GENERIC_KIND)
    for span in chain(
        chain.from_iterable(specific), find_near_service_names(scan, found), chain.from_iterable(generic)
    ):
        found[span.start] = max(span.end, found.get(span.start, 0))
        yield span


def _find_by_rule(rule: SecretRule, scan: Scan, found: Container[int]) -> Iterator[_Span]:
    closing: re.Match[str] | None = None
    for match in find_matches(rule, scan, found):
        start, end = secret_span(match)
        if "-----BEGIN" in match[0]:
            if closing is None or closing.start() < end:  # many keys may share one end: search it once
                closing = _PEM_END.search(scan.text, end)
            if not closing:
                yield _Span(start, len(scan.text), rule.kind)
                return  # the rest is redacted; searching the end for each key would take quadratic time
            end = closing.end()
        yield _Span(start, end, rule.kind)


_LONG_TEXT = 150  # characters, from which NumPy is faster
_CODE_BITS = 6  # of each character in the code of a trigram


class _RuleIndex(NamedTuple):
    """The rules, and the words that they look for by one of their trigrams: a text contains few of these."""

    rules: tuple[SecretRule, ...]
    by_keyword: dict[str, list[int]]  # the positions of the rules with a keyword
    short: list[str]  # words of one or two characters
    by_trigram: dict[str, list[str]]
    by_code: dict[int, list[str]]  # the same words by the codes of these trigrams
    is_used: NDArray[np.bool_]  # for each code, whether ``by_code`` has it


@cache
def _rule_index() -> _RuleIndex:
    rules = load_rules()
    by_keyword: dict[str, list[int]] = {}
    for position, rule in enumerate(rules):
        for keyword in rule.keywords:
            by_keyword.setdefault(keyword, []).append(position)
    words = by_keyword.keys() | {word for rule in rules for word in rule.starts}
    common = Counter(trigram for word in words for trigram in _trigrams(word))
    by_trigram: dict[str, list[str]] = {}
    for word in sorted(words):
        rarest = min(_trigrams(word), key=lambda trigram: common[trigram], default="")
        by_trigram.setdefault(rarest, []).append(word)
    short = by_trigram.pop("", [])
    by_code: dict[int, list[str]] = {}
    for trigram, found in by_trigram.items():
        by_code.setdefault(int(_trigram_codes(trigram)[0]), []).extend(found)
    is_used = np.zeros(1 << 3 * _CODE_BITS, np.bool_)
    is_used[list(by_code)] = True
    return _RuleIndex(rules, by_keyword, short, by_trigram, by_code, is_used)


def _trigrams(text: str) -> Iterable[str]:
    return map("".join, zip(text, text[1:], text[2:], strict=False))


def _trigram_codes(text: str) -> NDArray[np.integer]:
    """Return a number for each trigram of a text. Equal trigrams have equal numbers; others may, too."""
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    low = characters & (1 << _CODE_BITS) - 1
    return low[:-2] << 2 * _CODE_BITS | low[1:-1] << _CODE_BITS | low[2:]


def _words_in(lowered: str) -> set[str]:
    """Return the keywords and starts of rules in a lower-case text."""
    return {word for word in _words_to_look_for(lowered, _rule_index()) if word in lowered}


def _words_to_look_for(lowered: str, index: _RuleIndex) -> Iterator[str]:
    """Yield the words that share a trigram with a lower-case text, and all short ones."""
    if len(lowered) < _LONG_TEXT:
        trigrams = index.by_trigram.keys() & _trigrams(lowered)
        return chain(index.short, *(index.by_trigram[trigram] for trigram in trigrams))
    codes = _trigram_codes(lowered)
    found: set[int] = set(codes[index.is_used[codes]].tolist())
    return chain(index.short, *(index.by_code[code] for code in found))


def applicable_rules(scan: Scan) -> Iterator[SecretRule]:
    """Yield the rules whose keyword and hint occur in a text."""
    index = _rule_index()
    keywords = scan.words & index.by_keyword.keys()
    positions = {position for keyword in keywords for position in index.by_keyword[keyword]}
    for rule in (index.rules[position] for position in sorted(positions)):
        if not rule.hint or _compile_lower_case(rule.hint).search(scan.lowered):
            yield rule


def _lower_case(text: str) -> str:
    """Return the text in lower case, with every character in its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(map(_lower_character, text))


def _lower_character(character: str) -> str:
    lowered = character.lower()
    return lowered if len(lowered) == 1 else character


@cache
def _compile_lower_case(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.ASCII)


def find_matches(rule: SecretRule, scan: Scan, found: Container[int] = ()) -> Iterator[re.Match[str]]:
    """Yield the matches that are secrets, except values that start at a position in ``found``.

    After a placeholder, search again from the start of its value. So values may overlap, and one character
    can be examined many times. The units of the scan limit that.
    """
    position = 0
    if not rule.starts:
        scan.spend(UNITS_PER_RULE + len(scan.text) // CHARACTERS_PER_UNIT)
        while match := rule.pattern.search(scan.text, position):
            is_secret, position = _examine(rule, match, scan, found)
            if is_secret:
                yield match
        return
    starts = scan.positions_of(rule.starts)
    scan.spend(UNITS_PER_RULE + rule.start_units * len(starts))
    for start in starts:
        if start >= position and (match := rule.pattern.match(scan.text, start)):
            is_secret, position = _examine(rule, match, scan, found)
            if is_secret:
                yield match


def _examine(rule: SecretRule, match: re.Match[str], scan: Scan, found: Container[int]) -> tuple[bool, int]:
    """Return whether a match is a secret, and the position to search on from."""
    start, end = match.start(rule.value_group), match.end()
    if start in found:
        return False, end
    if not rule.precheck or rule.precheck(match):
        scan.spend(rule.check_cost.of(match))
        if rule.check(match) and (not rule.near or _is_near(rule.near, match)):
            return True, end
    else:
        scan.spend(UNITS_PER_NAME + 0.05 * (end - match.start()))
    return False, max(start, match.start() + 1)


def _is_near(regex: str, match: re.Match[str]) -> bool:
    start, end = match.start() - CHARACTERS_AROUND, match.end() + CHARACTERS_AROUND
    return _compile_lower_case(regex).search(match.string[max(0, start) : end].lower()) is not None


_MAX_CHARACTERS_BEFORE = 90  # in which the service is named
_VALUE = re.compile(r"(?<![\w+/.~-])[\w+/.~:-]{14,300}={0,3}(?![\w+/~-])", re.ASCII)
_NAME_IN_VALUE = re.compile(r"[A-Za-z_]\w{0,40}+:{1,2}(?=\S{14})")  # `key:value`


def find_near_service_names(scan: Scan, found: Mapping[int, int]) -> Iterator[_Span]:
    """Yield the random values after the name of a service, and values in the usual form of a token.

    Skip values that end in a secret that was ``found``: the end of each by its start.
    """
    mentions = _Mentions(scan.text)
    secrets = sorted(found.items(), reverse=True)
    covered = 0  # the end of the secrets that start before the end of a value
    for run in _VALUE.finditer(scan.text):
        start, value = run.start(), run[0].rstrip(".:")
        while secrets and secrets[-1][0] < start + len(value):
            covered = max(covered, secrets.pop()[1])
        if start + len(value) <= covered:
            continue
        scan.spend(UNITS_PER_VALUE + 0.05 * len(value))
        if name := _NAME_IN_VALUE.match(value):
            start, value = start + name.end(), value[name.end() :]
        if is_name(value):
            continue
        scan.spend(UNITS_PER_RANDOM_VALUE + 0.2 * len(value))
        if not may_be_token(value):
            continue
        scan.spend(UNITS_PER_TOKEN)
        if service := _find_service(scan, mentions, start, value):
            yield _Span(start, start + len(value), f"{service} key")
        elif has_token_form(value):
            yield _Span(start, start + len(value), "token")


def _find_service(scan: Scan, mentions: _Mentions, start: int, value: str) -> str:
    """Return the service that the text before a value names as its issuer, or ""."""
    if not mentions.has_one_before(start):
        return ""
    before = scan.text[max(0, start - _MAX_CHARACTERS_BEFORE) : start]
    words = split_last_paragraph(before)
    scan.spend(UNITS_PER_ISSUER + 0.6 * len(words))
    return load_service_names().find_issuer(before, words, value)


class _Mentions:
    """The names of services before the values of a text. Each part of the text is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read = 0  # the end of the part that was read
        self._latest = -1  # the end of the latest part with a name

    def has_one_before(self, position: int) -> bool:
        """Return True if the text just before a position may contain the name of a service."""
        first = max(0, position - _MAX_CHARACTERS_BEFORE)
        words = split_words(self._text[max(first, self._read) : position])
        self._read = position
        if load_service_names().are_in(words):
            self._latest = position
        return self._latest > first


class RedactSecretsFilter(logging.Filter):
    """Redact the secrets in each log record. No record is dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (redacted := redact(message)) != message:
            record.msg, record.args = redacted, ()
        return True

"""Secret detection: which kinds of credentials a text contains, and on which lines. No Django.

Memories with secrets are refused, so precision comes first. A rule requires a prefix that the issuer
documents, the name of a service before a random value, or a name such as ``password`` before a value that is
not a placeholder. The rules are in ``rules/*.toml``. Results never contain the value of a secret.

The time is linear in the length of the text: every repetition in a pattern is bounded, or can start only at
few places. A :class:`Budget` limits how often overlapping candidates are examined; a text that exceeds it
raises :class:`CheckTooCostly`.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file
from memoryhub.security.secrets.assignments import HEX, UUID, has_digit, is_random, is_reference
from memoryhub.security.secrets.checks import secret_span
from memoryhub.security.secrets.secret_rules import (
    Budget,
    CheckTooCostly,
    SecretRule,
    contains_hint,
    find_matches,
    load_rules,
    lower_case,
)

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


_SERVICES = Path(__file__).with_name("rules") / "services.toml"
_MAX_CHARACTERS_BEFORE = 90  # in which the service is named
_VALUE = re.compile(r"(?<![\w+/.~-])[\w+/.~:-]{14,300}={0,3}(?![\w+/~-])", re.ASCII)
_NAME_IN_VALUE = re.compile(r"[A-Za-z_]\w{0,40}:{1,2}(?=\S{14})")  # `key:value`
# The usual form of tokens, for issuers without a rule: `acme_live_…`, `acme_secret_…`, `sk-acme-…`.
_TOKEN_FORM = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9]{1,11}[_-]){0,2}"
    r"(?:sk|key|secret|token|pat|api|live|prod|auth|oauth|access|priv(?:ate)?)[_-](?:[a-z0-9]{1,6}[_-])?"
    r"(?P<body>[A-Za-z0-9_-]{20,200})",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]?[a-z]+\d{0,2}|[A-Z]+(?![a-z])|\d+")
_SEPARATOR = re.compile(r"(?:=>|[=:>,|]|\bis|----)[\s\"'`\\(\[{]{0,12}$")
_OPENING = " \t\r\n\"'`\\([{<"


class ServiceNames(RuleSchema):
    """``services``: the name in lower case without spaces, and the name to show."""

    key_words: Words
    harmless_words: Words
    services: dict[str, str]


@cache
def load_service_names() -> ServiceNames:
    return load_rule_file(_SERVICES, ServiceNames)


class NearbySecret(NamedTuple):
    """The kind of a value, and its place."""

    kind: str
    start: int
    end: int


def find_near_service_names(text: str, budget: Budget) -> Iterator[NearbySecret]:
    """Yield the random values after the name of a service, and values in the usual form of a token."""
    mentions = _Mentions(text)
    for run in _VALUE.finditer(text):
        start, value = run.start(), run[0]
        budget.spend(len(value))
        if name := _NAME_IN_VALUE.match(value):
            start, value = start + name.end(), value[name.end() :]
        value = value.rstrip(".:")
        if not _may_be_secret(value):
            continue
        service = ""
        if mentions.has_one_before(start):
            budget.spend(_MAX_CHARACTERS_BEFORE)
            service = _find_service(text[max(0, start - _MAX_CHARACTERS_BEFORE) : start], value)
        if service:
            yield NearbySecret(f"{service} key", start, start + len(value))
        elif _has_token_form(value):
            yield NearbySecret("token", start, start + len(value))


class _Mentions:
    """The names of services before the values of a text. Each part of the text is read once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read = 0  # the end of the part that was read
        self._latest = -1  # the position of the last name in it

    def has_one_before(self, position: int) -> bool:
        """Return True if the text just before a position contains the name of a service."""
        services, first = load_service_names().services, max(0, position - _MAX_CHARACTERS_BEFORE)
        previous = ""
        for match in _WORD.finditer(self._text, max(first, self._read), position):
            word = match[0].lower()
            if word in services or previous + word in services:
                self._latest = match.start()
            previous = word
        self._read = position
        return self._latest >= first


def _may_be_secret(value: str) -> bool:
    if UUID.fullmatch(value):
        return True
    plain = value.replace("-", "").replace(":", "")
    if HEX.fullmatch(plain):
        return len(plain) >= 20 and len(set(plain)) >= 8
    return not is_reference(value) and is_random(value)


def _has_token_form(value: str) -> bool:
    match = _TOKEN_FORM.fullmatch(value)
    if not match or UUID.fullmatch(match["body"]):
        return False
    body = match["body"]
    if HEX.fullmatch(body):
        return len(body) >= 32
    return is_random(body) and has_digit(body) and "__" not in body and "--" not in body


def _find_service(before: str, value: str) -> str:
    """Return the service that the text before the value names as its issuer, or ""."""
    names = load_service_names()
    last_paragraph = before.rstrip(_OPENING + "=>:,|-?").rpartition("\n\n")[2]
    words = [word.lower() for word in _WORD.findall(last_paragraph)]
    service = next((names.services[name] for name in _possible_names(words) if name in names.services), "")
    if not service:
        return ""
    is_assigned = bool(_SEPARATOR.search(before))
    last, near = words[-1], words[-4:]
    has_key_word = not names.key_words.isdisjoint(near)
    if last in names.harmless_words and (last != "id" or "key" not in near[-2:]):
        return ""
    if not has_key_word and not names.harmless_words.isdisjoint(near):
        return ""
    ends_with_key_word = last in names.key_words
    if UUID.fullmatch(value) or HEX.fullmatch(value):
        return service if has_key_word and (is_assigned or ends_with_key_word) else ""
    return service if ends_with_key_word or (is_assigned and (has_key_word or len(words) <= 3)) else ""


def _possible_names(words: list[str]) -> Iterator[str]:
    """Yield each word, and each pair of words as one (`new relic`, `launchDarkly`), starting at the end."""
    for at in range(len(words) - 1, -1, -1):
        yield words[at]
        if at:
            yield words[at - 1] + words[at]


_ARGUMENT = re.compile(r"[^\s'\"`=<>|;&()]{3,300}")


class SecretFileRules(PatternFile):
    file: Regex
    folder: Regex
    harmless: Regex
    hints: Words


_FILE_RULES = load_rule_file(Path(__file__).with_name("secret_files.toml"), SecretFileRules)


def is_secret_file(path: str) -> bool:
    """Return True if files with this path usually contain secrets."""
    return bool(
        (_FILE_RULES.file.search(path) or _FILE_RULES.folder.search(path))
        and not _FILE_RULES.harmless.search(path)
    )


def names_secret_file(command: str) -> bool:
    """Return True if a shell command names such a file."""
    lowered = command.lower()
    if not any(hint in lowered for hint in _FILE_RULES.hints):
        return False
    return any(is_secret_file(argument) for argument in _ARGUMENT.findall(command))


class RedactSecretsFilter(logging.Filter):
    """Redact the secrets in each log record. No record is dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (redacted := redact(message)) != message:
            record.msg, record.args = redacted, ()
        return True

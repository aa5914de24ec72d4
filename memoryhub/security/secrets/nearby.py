"""Secrets without a prefix of their own, recognised by the text before them. No Django.

Many services issue plain hexadecimal or base 62. The search starts at the values: find a run of characters
that looks random, then look for the name of a service before it. So the time grows with the length of the
text, whatever the text contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from memoryhub.core.rule_files import RuleSchema, Words, load_rule_file
from memoryhub.security.secrets.secret_rules import Budget
from memoryhub.security.secrets.values import HEX, UUID, has_digit, is_random, is_reference

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

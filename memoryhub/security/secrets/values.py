"""Tests of a value: placeholder, reference, word, hash or random. No Django."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"your|example|change.?me|place.?holder|dummy|redacted|replace|(?-i:xxx|XXX)|\*\*\*|\.\.\.|…|todo|foobar|lorem"
    r"|environ|getenv|process\.env|\$\{|\{\{|%\(|secrets\.|vault:|encrypted:",
    re.IGNORECASE,
)
# Each match of _PLACEHOLDER contains one of these words. Searching for them is many times faster.
_PLACEHOLDER_WORDS = (
    *("your", "example", "change", "place", "dummy", "redacted", "xxx", "***", "...", "todo", "foobar"),
    *("lorem", "environ", "getenv", "process.env", "${", "{{", "%(", "secrets.", "vault:", "encrypted:"),
)
_ASKS_TO_BE_REPLACED = re.compile(r"your|x{4}|\*{3}|\.{3}", re.IGNORECASE)
# Words that made-up values consist of. Only the rest of a value can be a secret.
_FILLER = re.compile(
    r"my|the|test|fake|some|secret|passw(?:or)?d|token|api|key|here|value|super|user|admin|abc|1234*5?6?7?8?9?0?",
    re.IGNORECASE,
)
_FILLER_SAMPLE = 160  # characters at the start of a long value that usually show it is no filler
_LONGEST_FILLER = 10
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
ENV_NAME = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)*")
_DIGEST = re.compile(r"(?:sha\d+|md5|blake2\w?|pbkdf2\w*|argon2\w*|bcrypt\w*|\$\w+\$)[-:$]", re.IGNORECASE)
_PATH = re.compile(r"[.~]{0,2}/|[A-Za-z]:[\\/]|https?:|[\w./-]+/[\w.-]*\.\w{1,5}$|[\w-]+\.\w{1,4}$")
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_PLAIN_WORDS = re.compile(r"(?:(?:[a-z]+\d{0,3}|\d{1,4}|[a-z]\d[a-z])(?:[^A-Za-z0-9!$%^&*?#@]+|$))+")
CAMEL_WORDS = re.compile(r"(?:[A-Za-z]*+\d{0,4}+(?:[^A-Za-z0-9]++|$))++")  # possessive: else exponential
# A run of one character class: a word, capitals or digits. Random values change the class often.
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)


def is_varied(value: str) -> bool:
    """Return True if the value has many different characters and does not ask to be replaced."""
    return len(set(value)) > 6 and not _ASKS_TO_BE_REPLACED.search(value)


def has_digit(value: str) -> bool:
    return any(c.isdigit() for c in value)


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def count_classes(text: str) -> int:
    """Return how many of these the text contains: lower case, upper case, digits, other characters."""
    classes = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return sum(any(is_in(c) for c in text) for is_in in classes)


def is_placeholder(value: str) -> bool:
    if _contains_placeholder(value) or value[0] in "<$%{[&@#":
        return True
    if len(value) > _FILLER_SAMPLE:
        rest = _FILLER.sub("", value[:_FILLER_SAMPLE])[:-_LONGEST_FILLER]  # the cut may split a word
        if len(rest.strip("-_.!")) >= 5:
            return False
    return len(_FILLER.sub("", value).strip("-_.!")) < 5


def _contains_placeholder(value: str) -> bool:
    if value.isascii():
        lowered = value.lower()
        if not any(word in lowered for word in _PLACEHOLDER_WORDS):
            return False
    return bool(_PLACEHOLDER.search(value))


def is_reference(value: str) -> bool:
    """Return True for a name, a path or a digest: it refers to a value or is derived from one."""
    return bool(
        _PLAIN_WORDS.fullmatch(value)
        or _PATH.match(value)
        or _DOTTED_NAME.fullmatch(value)
        or ENV_NAME.fullmatch(value)
        or UUID.fullmatch(value)
        or _DIGEST.match(value)
    )


def is_random(value: str) -> bool:
    """Return True if a value of 14 or more characters looks generated.

    Its runs of one character class are short, and most of it is not in runs that could be words.
    """
    return len(set(value)) >= 8 and _looks_generated(value) and not _contains_placeholder(value)


def _looks_generated(value: str) -> bool:
    runs = _RUN.findall(value)
    length = sum(map(len, runs))
    if length < 12 or len(runs) < 4:
        return length >= 14 and len(set(value)) >= 10 and is_unpronounceable(value)
    if not has_digit(value):
        return is_scrambled(value)
    if length / len(runs) > 4.5:
        return False
    in_words = sum(
        len(run) for run in runs if len(run) >= 4 and run.isalpha() and not is_unpronounceable(run)
    )
    return in_words <= 0.7 * length


def is_scrambled(value: str) -> bool:
    """Return True if the value has capitals in places where names do not have them."""
    runs = _RUN.findall(value)
    return len(runs) >= 4 and sum(map(len, runs)) / len(runs) <= 2.6


def is_unpronounceable(text: str) -> bool:
    """Return True for letters that are no word: five consonants in a row, or no vowel."""
    return bool(_CONSONANTS.search(text)) or not _VOWEL.search(text)


def decode_base64(text: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding. Return ``b""`` for anything else."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""

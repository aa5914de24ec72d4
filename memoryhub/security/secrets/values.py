"""Tests of a value: placeholder, reference, word, hash or random. No Django."""

from __future__ import annotations

import base64
import binascii
import math
import re

_PLACEHOLDER = re.compile(
    r"your|example|change.?me|place.?holder|dummy|redacted|replace|(?-i:xxx|XXX)|\*\*\*|\.\.\.|…|todo|foobar|lorem"
    r"|environ|getenv|process\.env|%\(|secrets\.|vault:|encrypted:"
    r"|\$\{[\w.]*(?:[}:|-]|$)|\{\{[\w .|-]*(?:\}\}|$)",
    re.IGNORECASE,
)
# Each lower-case match of _PLACEHOLDER contains one of these. Searching for them is many times faster.
_PLACEHOLDER_WORD = re.compile(
    r"your|example|change|place|dummy|redacted|xxx|\*{3}|\.{3}|…|todo|foobar|lorem|environ|getenv|process\.env"
    r"|[$]\{|\{{2}|%\(|secrets\.|vault:|encrypted:"
)
_ASKS_TO_BE_REPLACED = re.compile(r"your|x{4}|\*{3}|\.{3}", re.IGNORECASE)
# Words that made-up values consist of. Only the rest of a value can be a secret.
_FILLER = re.compile(
    r"my|the|test|fake|some|secret|passw(?:or)?d|token|api|key|here|value|super|user|admin|abc|1234*5?6?7?8?9?0?"
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
CAMEL_WORDS = re.compile(r"(?>(?:[A-Za-z]*+\d{0,4}+(?:[^A-Za-z0-9]++|$))+)")  # atomic: else exponential
# A run of one character class: a word, capitals or digits. Random values change the class often.
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DIGIT = re.compile(r"\d")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)


def is_varied(value: str) -> bool:
    """Return True if the value has many different characters and does not ask to be replaced."""
    return len(set(value)) > 6 and not _ASKS_TO_BE_REPLACED.search(value)


def has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    counts = [text.count(character) for character in set(text)]
    return math.log2(len(text)) - sum(n * math.log2(n) for n in counts if n > 1) / len(text)


def count_classes(text: str) -> int:
    """Return how many of these the text contains: lower case, upper case, digits, other characters."""
    has_lower, has_upper = text.upper() != text, text.lower() != text
    return has_lower + has_upper + has_digit(text) + (not text.isalnum())


def is_placeholder(value: str) -> bool:
    if _contains_placeholder(value) or value[0] in "<$%{[&@#":
        return True
    lowered = value.lower()
    if len(value) > _FILLER_SAMPLE:
        rest = _FILLER.sub("", lowered[:_FILLER_SAMPLE])[:-_LONGEST_FILLER]  # the cut may split a word
        if len(rest.strip("-_.!")) >= 5:
            return False
    return len(_FILLER.sub("", lowered).strip("-_.!")) < 5


def _contains_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER_WORD.search(value.lower()) and _PLACEHOLDER.search(value))


def is_reference(value: str) -> bool:
    """Return True for words, a name, a path or a digest: it refers to a value or is derived from one."""
    return is_plain_words(value) or names_other_value(value)


def is_plain_words(value: str) -> bool:
    """Return True for words and small numbers with joints between them."""
    return _PLAIN_WORDS.fullmatch(value) is not None


def names_other_value(value: str) -> bool:
    """Return True for a path, a dotted name, a constant, an id or a digest."""
    return bool(
        _PATH.match(value)
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
    length = len("".join(runs))
    if length < 12 or len(runs) < 4:
        return length >= 14 and len(set(value)) >= 10 and is_unpronounceable(value)
    if not has_digit(value):
        return is_scrambled(value)
    if length / len(runs) > 4.5:
        return False
    words = [run for run in runs if len(run) >= 4 and run.isalpha()]
    return sum(len(run) for run in words if not is_unpronounceable(run)) <= 0.7 * length


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

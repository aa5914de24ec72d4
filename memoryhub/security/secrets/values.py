"""What tells a value that could open something from a stand-in, a reference, a word or a hash. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter

_STAND_IN = re.compile(
    r"your|example|change.?me|place.?holder|dummy|redacted|replace|(?-i:xxx|XXX)|\*\*\*|\.\.\.|…|todo|foobar|lorem"
    r"|environ|getenv|process\.env|\$\{|\{\{|%\(|secrets\.|vault:|encrypted:",
    re.IGNORECASE,
)
# Each match contains one of these words. Searching for them is many times faster.
_STAND_IN_WORDS = (
    *("your", "example", "change", "place", "dummy", "redacted", "xxx", "***", "...", "todo", "foobar"),
    *("lorem", "environ", "getenv", "process.env", "${", "{{", "%(", "secrets.", "vault:", "encrypted:"),
)
_ASKS_TO_BE_REPLACED = re.compile(r"your|x{4}|\*{3}|\.{3}", re.IGNORECASE)
# Words that a made-up value is made of; what is left without them is what could be real.
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
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_PLAIN_WORDS = re.compile(r"(?:(?:[a-z]+\d{0,3}|\d{1,4}|[a-z]\d[a-z])(?:[^A-Za-z0-9!$%^&*?#@]+|$))+")
CAMEL_WORDS = re.compile(r"(?:[A-Za-z]*+\d{0,4}+(?:[^A-Za-z0-9]++|$))++")  # possessive: else exponential
# Stretches of one sort: a word, capitals, digits. What chance wrote changes its sort all the time.
_STRETCH = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.IGNORECASE)


def varied(value: str) -> bool:
    """Not a row of one sign, nor a value that asks to be replaced."""
    return len(set(value)) > 6 and not _ASKS_TO_BE_REPLACED.search(value)


def entropy(text: str) -> float:
    """Shannon entropy, bits for each character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def classes(text: str) -> int:
    """How many of: small letters, capitals, digits, other signs."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum())
    return sum(any(kind(c) for c in text) for kind in kinds)


def is_stand_in(value: str) -> bool:
    if _has_stand_in(value) or value[0] in "<$%{[&@#":
        return True
    if len(value) > _FILLER_SAMPLE:
        left = _FILLER.sub("", value[:_FILLER_SAMPLE])[:-_LONGEST_FILLER]  # the cut may split a word
        if len(left.strip("-_.!")) >= 5:
            return False
    return len(_FILLER.sub("", value).strip("-_.!")) < 5


def _has_stand_in(value: str) -> bool:
    if value.isascii():
        low = value.lower()
        if not any(word in low for word in _STAND_IN_WORDS):
            return False
    return bool(_STAND_IN.search(value))


def is_reference(value: str) -> bool:
    """A name, a path, a digest: something that points at a value or is made from one."""
    shapes = (UUID, ENV_NAME, _DOTTED, _PLAIN_WORDS)
    return any(shape.fullmatch(value) for shape in shapes) or bool(_PATH.match(value) or _DIGEST.match(value))


def is_random(value: str) -> bool:
    """Whether chance seems to have written a value of 14 characters or more, and no person.

    Stretches of one sort are short in it, and not most of it stands in what could be words.
    """
    if len(set(value)) < 8 or _has_stand_in(value):
        return False
    stretches = _STRETCH.findall(value)
    signs = sum(map(len, stretches))
    if signs < 12 or len(stretches) < 4:
        return signs >= 14 and len(set(value)) >= 10 and is_no_word(value)
    if not any(c.isdigit() for c in value):
        return is_scrambled(value)
    wordy = sum(len(one) for one in stretches if len(one) >= 4 and one.isalpha() and not is_no_word(one))
    return signs / len(stretches) <= 4.5 and wordy <= 0.7 * signs


def is_scrambled(value: str) -> bool:
    """Capitals in places where no name has them."""
    stretches = _STRETCH.findall(value)
    return len(stretches) >= 4 and sum(map(len, stretches)) / len(stretches) <= 2.6


def is_no_word(text: str) -> bool:
    """Letters that no language would put side by side."""
    return bool(_CONSONANTS.search(text)) or not _VOWEL.search(text)


def decoded(text: str) -> bytes:
    """Of base64 in either alphabet, with or without padding; nothing when it is not base64."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""

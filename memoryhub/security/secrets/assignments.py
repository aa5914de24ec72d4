"""Assignments such as ``password = …``: which names with which values are secrets. No Django.

A credential name, a separator and eight or more characters are a secret, unless the value is a placeholder, a
word that describes secrets, or refers to a value elsewhere (a variable, a path, a call).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from memoryhub.core.rule_files import RuleSchema, Words, load_rule_file

MIN_LENGTH = 8
_NAME_LENGTH = 24  # characters before the end of a name, which its other words are in
_MIN_HEX, _MIN_HEX_IN_PROSE = 16, 32
_MIN_BASE64 = 32  # of a value that could be a path
_MIN_LETTERS = 16  # a longer run of small letters is rarely a word

_Ends = Annotated[tuple[str, ...], BeforeValidator(str.split)]  # as str.endswith takes them


class AssignmentWords(RuleSchema):
    """Words in names and values; the file describes them."""

    passwords: _Ends
    access_keys: _Ends
    harmless_keys: _Ends
    harmless_tokens: _Ends
    derived: _Ends
    uuid_keys: _Ends
    token_issuers: _Ends
    descriptions: Words


_WORDS: AssignmentWords = load_rule_file(Path(__file__).with_suffix(".toml"), AssignmentWords)

_PUNCTUATION = re.compile(r"[!$%^&*?+~#@]")  # without hyphens and dots, which also join words
_PUNCTUATION_INSIDE = re.compile(r"\w[!$%^&*?#@](?:\w|$)")
_JOINT = re.compile(r"[-_.]")
_CODE = re.compile(r"[()\[\]{}<>|]|::")
_REGEX = re.compile(r"\(\?|[azAZ09]-|\\")
_WORD_AND_NUMBER = re.compile(r"[A-Za-z]{3,}\d{2,}")
_MIXED = re.compile(r"[A-Za-z]\d+[A-Za-z]+\d|[A-Za-z]\d{2,}[A-Za-z]")
_ALGORITHM = re.compile(
    r"sha\d|md5|aes|rsa|hmac|pbkdf|argon|bcrypt|scrypt|base\d|utf|oauth|x509|ed25519|[hrep]s256|jwt|rfc|iso",
    re.IGNORECASE,
)
_LITERAL_QUOTES = ('"', "'", '\\"', "\\'")
_CREDENTIAL_WORD = re.compile(r"pass|pwd|secret|token|key|cred|auth|user|login|hash|crypt", re.IGNORECASE)


def text_before(match: re.Match[str], start: int) -> str:
    """Return the lower-case text before a name that can be a part of it, without one joint at its end."""
    before = match.string[max(0, start - _NAME_LENGTH) : start].lower()
    return before[:-1] if before.endswith((" ", "_", "-")) else before


def is_harmless_token(before: str) -> bool:
    """Return True if the words before ``token`` say that it marks a position or a request."""
    return before.endswith(_WORDS.harmless_tokens)


def assigned_name(match: re.Match[str]) -> str:
    """Return the name in lower case, or "" if it is not the name of a secret, as in ``primary_key``.

    Keys and tokens get a common name: ``api_key`` for names that mean an API key, ``some_key`` and
    ``some_token`` for others. ``some_pass`` is "pass:" alone, which may mean something else.
    """
    end, start = match["name"], match.start("name")
    before, last = text_before(match, start), match.string[max(0, start - 1) : start]
    lowered = end.lower()
    if before.endswith(_WORDS.derived):
        return ""
    if lowered == "key":
        return "api_key" if before.endswith(_WORDS.access_keys) else _other_key(before, last, end)
    if lowered == "pat":
        return lowered if last in ("_", "-") and before.endswith(_WORDS.token_issuers) else ""
    if lowered in ("pass", "pw"):
        is_joined = last in ("_", "-", "$") or (end == "Pass" and last.isalpha())
        if is_joined or last.isalnum():
            return lowered if is_joined else ""
        if lowered == "pass":
            return "some_pass" if match.string.startswith(":", match.end("name")) else ""
        return lowered
    if lowered == "token":
        return "some_token" if before[-1:].isalpha() and last != " " else lowered
    return lowered


def _other_key(before: str, last: str, end: str) -> str:
    """Return ``some_key`` for a name such as ``acmeKey``: only the value can show that it is secret."""
    is_joined = (end == "Key" and last.isalnum()) or last in ("_", "-")
    return "some_key" if is_joined and last and not before.endswith(_WORDS.harmless_keys) else ""


def may_be_secret_assignment(match: re.Match[str]) -> bool:
    """Return True unless the name is not that of a secret, or the value is short, a placeholder or code."""
    if not (name := assigned_name(match)):
        return False
    value = _assigned_value(match, name)
    if len(value) < MIN_LENGTH or _is_code(value, bool(match["quote"])):
        return False
    return not is_placeholder(value) or is_long_hex(value)


def _is_code(value: str, is_quoted: bool) -> bool:
    """Return True for a call, an index or a type, and for a path or name that cannot be a random value."""
    if not is_quoted and _CODE.search(value):
        return True
    may_be_random = UUID.fullmatch(value) or (value[0] == "/" and len(value) >= _MIN_BASE64)
    return names_other_value(value) and not may_be_random


def _assigned_value(match: re.Match[str], name: str) -> str:
    value = match["value"].rstrip(".!?:\\")
    return value.rpartition(":")[2] if name.startswith("cred") else value  # without the user


def is_secret_assignment(match: re.Match[str]) -> bool:
    """Return True if a value that :func:`may_be_secret_assignment` accepts is a secret."""
    name = assigned_name(match)
    value = _assigned_value(match, name)
    if name == "some_pass":
        return is_password_in_prose(value)
    if UUID.fullmatch(value):
        return _may_be_uuid(match, name)
    if name == "some_key" and not (match["quote"] and len(value) >= 32 and not HEX.fullmatch(value)):
        return False
    if value[0] == "/" and not is_random(value):
        return False
    if value.isalnum() and value.isascii():
        return _is_secret_run(match, name, value)
    return not is_plain_words(value) and _is_secret_value(match, name, value)


def _may_be_uuid(match: re.Match[str], name: str) -> bool:
    """Return True if a UUID with this name is a secret and not an id."""
    before = text_before(match, match.start("name"))
    if name == "api_key":
        return before.endswith(_WORDS.uuid_keys)
    if name == "some_token":
        return not is_harmless_token(before)
    return name.startswith(("secret", "pass"))


def _separator(match: re.Match[str]) -> str:
    return match["sep"].strip(" \t:")


def _is_secret_run(match: re.Match[str], name: str, value: str) -> bool:
    """Decide on a value of ASCII letters and digits."""
    of_password, in_prose = name.startswith(_WORDS.passwords), _separator(match) in ("is", "to")
    if value.isdigit():
        return of_password and not in_prose and len(set(value)) >= 4
    if in_prose and not match["quote"]:
        return _is_secret_in_prose(match, of_password, value)
    if value.isalpha():
        return _is_secret_letters(match, of_password, value)
    if is_long_hex(value):
        is_harmless = name.endswith("token") and is_harmless_token(text_before(match, match.start("name")))
        return entropy(value) > 2.6 and not is_harmless
    if _ALGORITHM.match(value) or entropy(value) < 2.5:
        return False
    if CAMEL_WORDS.fullmatch(value) and not is_random(value):
        return of_password or bool(match["quote"] and name.startswith("secret"))
    return True


def _is_secret_in_prose(match: re.Match[str], of_password: bool, value: str) -> bool:
    """Decide on a value after ``is`` or ``to``, where most values are words."""
    if _separator(match) == "to":
        return is_scrambled(value) and (of_password or _is_long_random(value))
    if not of_password:
        return _is_long_random(value)
    return is_password_in_prose(value, after_verb=True)


def is_password_in_prose(value: str, after_verb: bool = False) -> bool:
    """Return True if a value after the word "password" in a sentence is no word, id or hash.

    After a verb, as in "the password is …", a word with a number is a password, too.
    """
    if names_other_value(value) or _ALGORITHM.match(value) or HEX.fullmatch(value) or _CODE.search(value):
        return False
    if after_verb and _WORD_AND_NUMBER.fullmatch(value):
        return True
    if not (value.isalnum() and value.isascii()):
        return has_digit(value) and count_classes(value) >= 3 and is_scrambled(value)
    return is_scrambled(value) if value.isalpha() else bool(_MIXED.search(value)) or is_random(value)


def is_long_hex(value: str) -> bool:
    return len(value) >= _MIN_HEX and HEX.fullmatch(value) is not None


def _is_secret_letters(match: re.Match[str], of_password: bool, value: str) -> bool:
    """Decide on letters: a name, a word or a secret."""
    if not (value[1:].islower() or value.isupper()):
        return is_scrambled(value) or (len(value) >= 24 and is_random(value))
    if value.lower() in _WORDS.descriptions or len(set(value)) < 5:
        return False
    if "," in match["sep"]:
        return False  # a list of names
    if of_password and match["quote"] in _LITERAL_QUOTES:
        return len(value) >= _MIN_LETTERS or not _CREDENTIAL_WORD.search(value)
    if _CREDENTIAL_WORD.search(value):
        return False
    return len(set(value)) >= 8 and (len(value) >= _MIN_LETTERS or is_unpronounceable(value))


def _is_secret_value(match: re.Match[str], name: str, value: str) -> bool:
    """Separate secrets from code, words and names by the characters, the length and the separator."""
    quoted = bool(match["quote"])
    if "(?" in value:
        return False  # a regex
    of_password = name.startswith(_WORDS.passwords)
    is_strong = count_classes(match["value"]) == 4 and bool(_PUNCTUATION.search(match["value"]))
    may_be_words = of_password and (quoted or is_strong or "=" in match["sep"])
    separator = _separator(match)
    # Prose about tokens and keys, or about changing a password to something.
    if separator in ("is", "to") and not (of_password or _is_long_random(value)):
        return False
    if separator == "to" and not is_scrambled(value):
        return False
    is_words = not may_be_words and CAMEL_WORDS.fullmatch(value)
    if is_words and not is_random(value):
        return False
    if not has_digit(value) or not any(map(str.isalpha, value)):
        if quoted and (_has_many_symbols(value) or (may_be_words and _has_odd_characters(value))):
            return True
        return len(value) >= 24 and bool(is_words or is_random(value))
    return entropy(value) >= 2.5 and (count_classes(value) >= 3 or len(value) >= (10 if may_be_words else 16))


def _has_odd_characters(value: str) -> bool:
    return is_scrambled(value) or _PUNCTUATION_INSIDE.search(value) is not None


def _has_many_symbols(value: str) -> bool:
    """Return True for letters with many symbols between them that are no regex."""
    return len({c for c in value if not c.isalnum()}) >= 5 and not _REGEX.search(value)


def _is_long_random(value: str) -> bool:
    """Return True for 20 or more random letters and digits that are no joined words."""
    if any(
        len(part) >= 5 and part.isalpha() and not is_unpronounceable(part) for part in _JOINT.split(value)
    ):
        return False
    if HEX.fullmatch(value):
        return len(value) >= _MIN_HEX_IN_PROSE and entropy(value) > 3
    return len(value) >= 20 and has_digit(value) and is_random(value)


_PLACEHOLDER = re.compile(
    r"your|example|change.?me|place.?holder|dummy|redacted|replace|(?-i:xxx|XXX)|\*\*\*|\.\.\.|…|todo|foobar|lorem"
    r"|environ|getenv|process\.env|%\(|secrets\.|vault:|encrypted:"
    r"|\$\{[\w.]*(?:[}:|-]|$)|\{\{[\w .|-]*(?:\}\}|$)",
    re.IGNORECASE,
)
# Each lower-case match of _PLACEHOLDER contains one of these. Searching for them is many times faster.
_PLACEHOLDER_WORDS = (
    "your example change place dummy redacted xxx *** ... … todo foobar lorem environ getenv process.env"
    " ${ {{ %( secrets. vault: encrypted:"
).split()
_ASKS_TO_BE_REPLACED = re.compile(r"your|x{4}|\*{3}|\.{3}", re.IGNORECASE)
# Words that made-up values consist of. Only the rest of a value can be a secret.
_FILLER = re.compile(
    r"my|the|test|fake|some|secret|passw(?:or)?d|token|api|key|here|value|super|user|admin|abc|1234*5?6?7?8?9?0?"
)
_FILLER_SAMPLE = 64  # characters at the start of a long value that usually show it is no filler
_LONGEST_FILLER = 10
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
ENV_NAME = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)*")
# A path, a dotted name, a constant, an id or a digest. One regex is several times faster than one for each.
_OTHER_VALUE = re.compile(
    r"[.~]{0,2}/|[A-Za-z]:[\\/]|https?:|(?>(?:[\w.-]*+/)+)[\w.-]*\.\w{1,5}$|[\w-]++\.\w{1,4}$"
    r"|[A-Za-z_]\w*+(?>(?:(?:\.|->|::)[A-Za-z_]\w*+)+)\Z"
    rf"|(?:{ENV_NAME.pattern}|(?i:{UUID.pattern}))\Z"
    r"|(?i:sha\d+|md5|blake2\w?|pbkdf2\w*|argon2\w*|bcrypt\w*|\$\w+\$)[-:$]"
)
_PLAIN_WORDS = re.compile(r"(?:(?:[a-z]+\d{0,3}|\d{1,4}|[a-z]\d[a-z])(?:[^A-Za-z0-9!$%^&*?#@]+|$))+")
CAMEL_WORDS = re.compile(r"(?>(?:[A-Za-z]*+\d{0,4}+(?:[^A-Za-z0-9]++|$))+)")  # atomic: else exponential
# A run of one character class: a word, capitals or digits. Random values change the class often.
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_WORD_RUN = re.compile(r"[A-Za-z]{4,}")
_MAX_SCRAMBLED_RUN = 2.6  # characters on average
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
    counts = map(text.count, set(text))
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
    may_match = any(map(value.lower().__contains__, _PLACEHOLDER_WORDS))
    return may_match and _PLACEHOLDER.search(value) is not None


def is_reference(value: str) -> bool:
    """Return True for words, a name, a path or a digest: it refers to a value or is derived from one."""
    return is_plain_words(value) or names_other_value(value)


def is_plain_words(value: str) -> bool:
    """Return True for words and small numbers with joints between them."""
    return _PLAIN_WORDS.fullmatch(value) is not None


def names_other_value(value: str) -> bool:
    """Return True for a path, a dotted name, a constant, an id or a digest."""
    return _OTHER_VALUE.match(value) is not None


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
        return length / len(runs) <= _MAX_SCRAMBLED_RUN
    if length / len(runs) > 4.5:
        return False
    if not _WORD_RUN.search(value):
        return True
    words = _WORD_RUN.findall(" ".join(runs))
    return sum(len(run) for run in words if not is_unpronounceable(run)) <= 0.7 * length


def is_scrambled(value: str) -> bool:
    """Return True if the value has capitals in places where names do not have them."""
    runs = _RUN.findall(value)
    return len(runs) >= 4 and len("".join(runs)) / len(runs) <= _MAX_SCRAMBLED_RUN


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

"""The checks that rules name: functions that separate secrets from placeholders, words and ids. No Django."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import NamedTuple

from memoryhub.security.secrets import assignments
from memoryhub.security.secrets.assignments import (
    ENV_NAME,
    HEX,
    UUID,
    count_classes,
    decode_base64,
    entropy,
    has_digit,
    is_placeholder,
    is_random,
    is_reference,
    is_scrambled,
    is_varied,
)

Check = Callable[[re.Match[str]], bool]
CHECKS: dict[str, Check] = {}  # by the name that rules use


class Cost(NamedTuple):
    """Units of work: fixed ones, and more for each of the first characters of the match."""

    fixed: float = 5
    per_character: float = 0.25
    max_characters: float = math.inf

    def of(self, match: re.Match[str]) -> float:
        return self.fixed + self.per_character * min(match.end() - match.start(), self.max_characters)


_COSTS = {
    "is_assigned_secret": Cost(12, 0.85, 100),
    "is_password_argument_with_digits": Cost(24),
    "is_named_in_prose": Cost(18),
    "is_bearer_value": Cost(10),
    "is_plain_header_value": Cost(10),
    "is_password_argument": Cost(10),
}


def _register(check: Check) -> Check:
    CHECKS[check.__name__] = check
    return check


def cost_of(check: Check) -> Cost:
    """Return the work of a check."""
    return _COSTS.get(check.__name__, Cost())


def secret_value(match: re.Match[str]) -> str:
    """Return the group ``value`` of a match, or the whole match if the rule has no such group."""
    return str(match[match.re.groupindex.get("value", 0)])


def secret_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of :func:`secret_value`."""
    return match.span(match.re.groupindex.get("value", 0))


@_register
def always(_match: re.Match[str]) -> bool:
    return True


_MAX_INDENT = 20  # characters


@_register
def begins_line(match: re.Match[str]) -> bool:
    """Return True if only spaces and marks of a quotation come before the match on its line."""
    before = match.string[max(0, match.start() - _MAX_INDENT - 1) : match.start()]
    _, newline, indent = before.rpartition("\n")
    return bool(newline or len(before) <= _MAX_INDENT) and not indent.strip(" \t>\"'")


@_register
def has_variety(match: re.Match[str]) -> bool:
    return is_varied(secret_value(match))


@_register
def is_mixed(match: re.Match[str]) -> bool:
    """Return True for letters and digits as in a random value. Words with hyphens have few digits or none."""
    value = match["value"]
    mixed = has_digit(value) and (not value.islower() or len(value) >= 32)
    return has_variety(match) and mixed and "--" not in value


@_register
def has_three_digits(match: re.Match[str]) -> bool:
    return has_variety(match) and sum(c.isdigit() for c in match["value"]) >= 3


# ---- passwords in URLs, connection strings and commands

_PASSWORD_PLACEHOLDER = re.compile(
    r"your|example|change.?me|place.?holder|redacted|xxx|\*\*\*|\.\.\.|…|\$\{|\{\{|%\(|[<>{}]", re.IGNORECASE
)
_PLACEHOLDER_START = re.compile(r"[<${\[*:#@]|%(?![0-9A-Fa-f]{2})")
_EXAMPLE_PASSWORDS = frozenset(
    "password passwd passw0rd p@ssw0rd changeit foobared pass pwd pw secret token key postgres guest hunter2"
    " mypassword mypass foobar".split()
)


def _is_password(value: str, user: str = "") -> bool:
    """Return True if a value in the place of a password is no placeholder and not the name of the user."""
    if len(value) < 4 or _PASSWORD_PLACEHOLDER.search(value) or _PLACEHOLDER_START.match(value):
        return False
    return value.lower() not in _EXAMPLE_PASSWORDS | {user.lower()} and not ENV_NAME.fullmatch(value)


@_register
def is_url_password(match: re.Match[str]) -> bool:
    return _is_password(match["value"], match["user"])


@_register
def is_connection_string_password(match: re.Match[str]) -> bool:
    """Return True unless the value is a placeholder. Connection strings may have words as passwords."""
    value = match["value"].strip("\"' )")
    if _PASSWORD_PLACEHOLDER.search(value) or re.match(r"[<${\[*(%]", value) or len(set(value)) < 4:
        return False
    is_example = value.lower() in _EXAMPLE_PASSWORDS - {"secret", "mypassword"}
    return len(value) >= 5 and not is_example and not ENV_NAME.fullmatch(value)


@_register
def is_password_argument(match: re.Match[str]) -> bool:
    value = match["value"].strip("\"'")
    if not _is_password(value) or value.startswith(("-", "/", "%", "(")) or is_placeholder(value):
        return False
    if "(" in value or re.search(r"\w\[", value):  # a call or an index
        return False
    is_name = re.search(r"pass|pwd|secret|token|_", value, re.IGNORECASE)
    return not is_name and (any(not c.isalpha() for c in value) or is_scrambled(value))


@_register
def is_password_argument_with_digits(match: re.Match[str]) -> bool:
    return is_password_argument(match) and has_digit(match["value"]) and not is_reference(match["value"])


@_register
def is_strong_password(match: re.Match[str]) -> bool:
    """Return True for a value with three character classes, at least one digit, and no placeholder."""
    value = match["value"].rstrip(".!?)")
    if len(value) < 8 or is_placeholder(value) or is_reference(value):
        return False
    return has_digit(value) and count_classes(value) >= 3


@_register
def is_scrambled_password(match: re.Match[str]) -> bool:
    value = match["value"]
    return is_strong_password(match) and (is_scrambled(value) or count_classes(value) == 4)


# ---- headers and queries


@_register
def is_query_value(match: re.Match[str]) -> bool:
    value = match["value"]
    if is_placeholder(value) or is_reference(value):
        return False
    return len(value) >= 16 and has_digit(value) and entropy(value) >= 3


@_register
def is_bearer_value(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["scheme"] and UUID.fullmatch(value):
        return not value.startswith("123e4567")  # the usual example of a UUID
    if is_placeholder(value) or is_reference(value):
        return False
    if match["scheme"].lower() == "basic":
        return b":" in decode_base64(value)
    return len(value) >= 12 and has_digit(value) and entropy(value) >= 3


@_register
def is_header_value(match: re.Match[str]) -> bool:
    value = match["value"]
    if is_placeholder(value) or ENV_NAME.fullmatch(value):
        return False
    return has_digit(value) and entropy(value) >= 2.75


@_register
def is_plain_header_value(match: re.Match[str]) -> bool:
    return is_header_value(match) and not is_reference(match["value"])


@_register
def is_client_argument(match: re.Match[str]) -> bool:
    return is_mixed(match) and not is_reference(match["value"])


# ---- encoded values


@_register
def is_jwt(match: re.Match[str]) -> bool:
    """Return True for an object with a usual key. Without a signature, the payload must be an object too."""
    header = _decode_object(match["header"])
    if header.keys().isdisjoint({"alg", "typ", "enc", "kid"}):
        return False
    return len(match["signature"] or "") >= 16 or bool(_decode_object(match["payload"]))


def _decode_object(text: str) -> dict[str, object]:
    """Decode a JSON object in base64. Return an empty one for anything else."""
    try:
        decoded = json.loads(decode_base64(text))
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


@_register
def is_base64_of_jwt(match: re.Match[str]) -> bool:
    return re.match(rb"eyJ[\w-]{10}", decode_base64(secret_value(match))[:20]) is not None


@_register
def is_base64_of_private_key(match: re.Match[str]) -> bool:
    return b"PRIVATE KEY" in decode_base64(secret_value(match)[:80])


@_register
def is_base64_of_text(match: re.Match[str]) -> bool:
    """Return True for readable text in base64, as in the values of a Kubernetes secret."""
    value = match["value"]
    plain = decode_base64(value)
    return (
        len(value) % 4 == 0
        and len(plain) >= 7
        and plain.strip().isascii()
        and plain.strip().decode().isprintable()
    )


@_register
def is_base64_of_pair(match: re.Match[str]) -> bool:
    """Return True for ``user:password`` in base64, as in the credentials of a registry."""
    user, _, password = decode_base64(match["value"]).partition(b":")
    return bool(user) and len(password) >= 4 and (user + password).isascii()


@_register
def is_discord_token(match: re.Match[str]) -> bool:
    """Return True if the first part is the numeric id of the bot in base64."""
    return decode_base64(match["id"]).isdigit()


# ---- text around the value

_CONSONANTS = re.compile(r"(?<![a-z])[bcdfghjklmnpqrstvwxz]{4}(?![a-z])")


@_register
def is_in_json_web_key(match: re.Match[str]) -> bool:
    """Return True if ``"kty"`` is nearby: the match is a private field, ``d`` or ``k``, of a JSON Web Key."""
    return '"kty"' in match.string[max(0, match.start() - 3000) : match.end() + 3000]


@_register
def is_named_in_prose(match: re.Match[str]) -> bool:
    """Return True for a long random value soon after its name, for hexadecimal directly after it."""
    value, between = match["value"], match["between"].strip()
    before = assignments.text_before(match, match.start())
    if is_placeholder(value) or UUID.fullmatch(value) or assignments.is_harmless_token(before):
        return False
    if HEX.fullmatch(value):
        return len(value) >= 32 and len(set(value)) >= 8 and (not between or between.endswith("is"))
    return not is_reference(value) and count_classes(value) >= 3 and is_random(value) and has_digit(value)


@_register
def is_password_of_something(match: re.Match[str]) -> bool:
    """Return True for a password after its service or account, as in "the password for staging is …"."""
    value = match["value"].rstrip(".!?:)*")
    if len(value) < 8 or is_placeholder(value):
        return False
    return assignments.is_password_in_prose(value, after_verb=match["sep"].strip() != ":")


@_register
def has_no_words(match: re.Match[str]) -> bool:
    return _CONSONANTS.search(match["value"]) is not None


# ---- assignments: ``password = ...``


@_register
def may_be_assigned_secret(match: re.Match[str]) -> bool:
    return assignments.may_be_secret_assignment(match)


@_register
def is_assigned_secret(match: re.Match[str]) -> bool:
    return assignments.is_secret_assignment(match)


# The usual form of tokens, for issuers without a rule: `acme_live_…`, `acme_secret_…`, `sk-acme-…`.
_TOKEN_FORM = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9]{1,11}[_-]){0,2}"
    r"(?:sk|key|secret|token|pat|api|live|prod|auth|oauth|access|priv(?:ate)?)[_-](?:[a-z0-9]{1,6}[_-])?"
    r"(?P<body>[A-Za-z0-9_-]{20,200})",
    re.IGNORECASE,
)


def is_name(value: str) -> bool:
    """Return True for words, a name or a path. Ids and hashes are none."""
    return is_reference(value) and not (UUID.fullmatch(value) or HEX.fullmatch(_without_joints(value)))


def may_be_token(value: str) -> bool:
    """Return True for an id, a hash or a random value, if :func:`is_name` is not true of it."""
    if UUID.fullmatch(value):
        return True
    plain = _without_joints(value)
    if HEX.fullmatch(plain):
        return len(plain) >= 20 and len(set(plain)) >= 8
    return is_random(value)


def _without_joints(value: str) -> str:
    return value.replace("-", "").replace(":", "")


def has_token_form(value: str) -> bool:
    """Return True for a random value after a prefix such as ``acme_live_``."""
    match = _TOKEN_FORM.fullmatch(value)
    if not match or UUID.fullmatch(match["body"]):
        return False
    body = match["body"]
    if HEX.fullmatch(body):
        return len(body) >= 32
    return is_random(body) and has_digit(body) and "__" not in body and "--" not in body

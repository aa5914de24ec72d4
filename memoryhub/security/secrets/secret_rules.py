"""Secret rules from TOML files, and the checks that they name. No Django."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import chain, zip_longest
from operator import add
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file
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


RULES = Path(__file__).with_name("rules")
# The order decides the kind of a secret that several rules find.
RULE_FILES = (
    "tokens_code_and_cloud",
    "tokens_models",
    "tokens_services",
    "webhooks",
    "keys",
    "connections",
    "headers",
    "commands",
    "calls",
    "settings",
    "prose",
    "assignments",
)
# A token starts after a character that is no part of a word, or after an escaped line break in quoted code.
_WORD_START = r"(?<![\w-](?<!\\[nrt]))"
_WORD_END = r"(?![\w-])"


def _find_check(name: str) -> Check:
    if name not in CHECKS:
        raise ValueError(f"unknown check {name!r}")
    return CHECKS[name]


def _require_lower_case(keyword: str) -> str:
    if keyword != keyword.lower():
        raise ValueError("keywords are compared with lower-case text: write it in lower case")
    return keyword


def _join_lines(regex: str) -> str:
    return regex.replace("\n", "")


_Keywords = tuple[Annotated[str, Field(min_length=1), AfterValidator(_require_lower_case)], ...]


class SecretRule(RuleSchema):
    """One rule.

    ``keywords``: every match contains one of them. They are in lower case.
    ``starts``: every match starts with one of them, so the regex is tried only there. By default, these are
    the keywords. Empty if a match may start with anything.
    ``hint``: a regex that must match the lower-case text.
    ``check``: the function that separates secrets from placeholders. ``precheck``: a cheap test before it.
    ``start_units``: the work to try the regex at one start.
    ``near``: a regex that must match the lower-case text around a match.
    ``standalone``: the regex matches a whole token and never a part of a longer word.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: str = Field(min_length=1)
    keywords: _Keywords = Field(min_length=1)
    starts: _Keywords = Field(default_factory=lambda rule: rule.get("keywords", ()))
    regex: Annotated[str, Field(min_length=1), AfterValidator(_join_lines)]
    hint: Annotated[str, AfterValidator(_join_lines)] = ""
    check: Annotated[Check, BeforeValidator(_find_check)] = has_variety
    precheck: Annotated[Check, BeforeValidator(_find_check)] | None = None
    start_units: float = 1
    near: str = ""
    standalone: bool = False

    @cached_property
    def check_cost(self) -> Cost:
        return cost_of(self.check)

    @cached_property
    def value_group(self) -> int:
        """The group of the value in a match, or 0 if the whole match is the value."""
        return self.pattern.groupindex.get("value", 0)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. Most texts contain a keyword of few rules, so the others stay uncompiled."""
        regex = f"{_WORD_START}(?:{self.regex}){_WORD_END}" if self.standalone else self.regex
        return re.compile(regex, re.ASCII)


class SecretRuleFile(PatternFile):
    """One file of rules. ``defaults``: values for the keys that a rule does not have."""

    defaults: dict[str, Any] = {}
    rules: tuple[SecretRule, ...]

    @model_validator(mode="before")
    @classmethod
    def _complete_rules(cls, data: dict[str, Any]) -> dict[str, Any]:
        defaults, rules = data.get("defaults", {}), data.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(table, dict) for table in [defaults, *rules]):
            return data  # the validation of the fields reports the error
        return data | {"rules": [defaults | rule for rule in rules]}


@cache
def load_rules() -> tuple[SecretRule, ...]:
    """Return the rules of all files, in the order of :data:`RULE_FILES`."""
    files = (load_rule_file(RULES / f"{name}.toml", SecretRuleFile) for name in RULE_FILES)
    return tuple(rule for file in files for rule in file.rules)


SERVICES = RULES / "services.toml"
_WORD = re.compile(r"[A-Z]?[a-z]+\d{0,2}|[A-Z]+(?![a-z])|\d+")
_SEPARATOR = re.compile(r"(?:=>|[=:>,|]|\bis|----)[\s\"'`\\(\[{]{0,12}$")
_MAX_SEPARATOR = 20  # characters
_OPENING = " \t\r\n\"'`\\([{<"


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case. Names such as `launchDarkly` are several words."""
    return " ".join(_WORD.findall(text)).lower().split()


def split_last_paragraph(before: str) -> list[str]:
    """Return the words of the last paragraph before a value."""
    return split_words(before.rstrip(_OPENING + "=>:,|-?").rpartition("\n\n")[2])


class ServiceNames(RuleSchema):
    """``services``: the name in lower case without spaces, and the name to show."""

    key_words: Words
    harmless_words: Words
    services: dict[str, str]

    def are_in(self, words: list[str]) -> bool:
        """Return True if the words name a service, alone or in pairs (`new relic`)."""
        known = self.services.keys()
        return not (known.isdisjoint(words) and known.isdisjoint(map(add, words, words[1:])))

    def find_issuer(self, before: str, words: list[str], value: str) -> str:
        """Return the service that the text before the value names as its issuer, or "".

        ``words``: those of the last paragraph before the value.
        """
        last, near = words[-1:], words[-4:]
        has_key_word = not self.key_words.isdisjoint(near)
        if not has_key_word and (len(words) > 3 or not self.harmless_words.isdisjoint(near)):
            return ""
        if not self.harmless_words.isdisjoint(last) and (last != ["id"] or "key" not in near[-2:]):
            return ""
        if self.key_words.isdisjoint(last) and not _SEPARATOR.search(before[-_MAX_SEPARATOR:]):
            return ""
        if not has_key_word and (UUID.fullmatch(value) or HEX.fullmatch(value)):
            return ""
        # This takes the most time, so it is last.
        return next(filter(None, map(self.services.get, _possible_names(words))), "")


def _possible_names(words: list[str]) -> Iterator[str]:
    """Yield each word, and each pair of words as one (`new relic`, `launchDarkly`), starting at the end."""
    backwards = words[::-1]
    pairs = map(add, backwards[1:], backwards)
    return chain.from_iterable(zip_longest(backwards, pairs, fillvalue=""))


@cache
def load_service_names() -> ServiceNames:
    return load_rule_file(SERVICES, ServiceNames)


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

"""Secret rules, names of services, and names of files with secrets, from TOML files. No Django."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import chain, zip_longest
from operator import add
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, Words, load_rule_file
from memoryhub.security.secrets.assignments import HEX, UUID
from memoryhub.security.secrets.checks import CHECKS, Check, Cost, cost_of, has_variety

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

"""Secret rules: their schema, their files in ``rules/``, and the search with one rule. No Django."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from memoryhub.core.rule_files import PatternFile, RuleSchema, load_rule_file
from memoryhub.security.secrets.checks import CHECKS, Check, has_variety, secret_span

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
_WORD_START = r"(?:(?<![\w-])|(?<=\\[nrt]))"
_WORD_END = r"(?![\w-])"
_LITERAL_START = re.compile(r"(?:[\w-]|\\[.$+])+(?![*+?{])", re.ASCII)

# Ordinary prose, code and logs of more than 2,000 characters use at most 1.3 units per character; lists of
# ids and files of settings use at most 3.
UNITS_PER_CHARACTER = 4
MIN_UNITS = 10_000
UNITS_PER_CANDIDATE = 15  # in addition to one unit per character of the candidate
MAX_CPU_SECONDS = 5.0  # a backstop for slow machines; the units are used up much earlier
CHARACTERS_AROUND = 100  # of a match, in which ``near`` must match
_CANDIDATES_PER_CLOCK_CHECK = 64


class CheckTooCostly(Exception):
    """Checking a text for secrets takes more work than its length allows. The text is unchecked."""

    def __init__(self) -> None:
        super().__init__("the text is too costly to check for secrets. Shorten it or split it.")


class Budget:
    """Count the work spent on one text; raise :class:`CheckTooCostly` when it exceeds the limit.

    The count is deterministic: each candidate that a rule examines costs its length plus a constant. The CPU
    time of the thread is a second limit.
    """

    def __init__(self, length: int) -> None:
        self.limit = max(MIN_UNITS, UNITS_PER_CHARACTER * length)
        self.spent = 0
        self._candidates = 0
        self._deadline = time.thread_time() + MAX_CPU_SECONDS

    def spend(self, characters: int) -> None:
        """Count one candidate of this many characters."""
        self.spent += UNITS_PER_CANDIDATE + characters
        if self.spent > self.limit:
            raise CheckTooCostly
        self._candidates += 1
        if self._candidates % _CANDIDATES_PER_CLOCK_CHECK == 0:
            self.check_time()

    def check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise CheckTooCostly


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


class SecretRule(RuleSchema):
    """One rule.

    ``keywords``: every match contains one of them. They are in lower case.
    ``hints``: regexes of which one must match the lower-case text, if there are any.
    ``check``: the function that separates secrets from placeholders. ``precheck``: a cheap test before it.
    ``near``: a regex that must match the lower-case text around a match.
    ``standalone``: the regex matches a whole token and never a part of a longer word.
    ``anchored``: every match starts where a hint matches, so the regex is tried only there.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: str = Field(min_length=1)
    keywords: tuple[Annotated[str, Field(min_length=1), AfterValidator(_require_lower_case)], ...] = Field(
        min_length=1
    )
    regex: Annotated[str, Field(min_length=1), AfterValidator(_join_lines)]
    hints: tuple[Annotated[str, AfterValidator(_join_lines)], ...] = ()
    check: Annotated[Check, BeforeValidator(_find_check)] = has_variety
    precheck: Annotated[Check, BeforeValidator(_find_check)] | None = None
    near: str = ""
    standalone: bool = False
    anchored: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. Most texts contain a keyword of few rules, so the others stay uncompiled."""
        return re.compile(_as_standalone(self.regex) if self.standalone else self.regex, re.ASCII)


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


def _as_standalone(regex: str) -> str:
    """Return the regex with conditions on the characters before and after a match.

    ``re`` skips quickly to a literal, but only if the pattern starts with it. So the check of the characters
    before the token comes after its literal start.
    """
    literal = _LITERAL_START.match(regex)
    if literal is None:
        return f"{_WORD_START}(?:{regex}){_WORD_END}"
    head = literal[0]
    start = rf"(?:(?<![\w-]{head})|(?<=\\[nrt]{head}))"
    return f"{head}{start}(?:{regex[len(head) :]}){_WORD_END}"


def lower_case(text: str) -> str:
    """Return the text in lower case, with every character in its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(map(_lower_character, text))


def _lower_character(character: str) -> str:
    lowered = character.lower()
    return lowered if len(lowered) == 1 else character


def contains_hint(hints: tuple[str, ...], lowered: str) -> bool:
    """Return True if one of the hints matches the lower-case text."""
    return any(_compile_hint(hint).search(lowered) for hint in hints)


@cache
def _compile_hint(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.ASCII)


def _find_anchors(hints: tuple[str, ...], lowered: str) -> list[int]:
    """Return the positions in the lower-case text where a hint matches, in order."""
    return sorted({match.start() for hint in hints for match in _compile_hint(hint).finditer(lowered)})


def find_matches(
    rule: SecretRule, text: str, budget: Budget, found: Container[int] = ()
) -> Iterator[re.Match[str]]:
    """Yield the matches that are secrets, except values that start at a position in ``found``.

    After a placeholder, search again from the start of its value. So values may overlap, and one character
    can be examined many times. The budget limits that.
    """
    if rule.anchored:
        return _search_at_anchors(rule, text, budget, found)
    return _search(rule, text, budget, found)


def _search(rule: SecretRule, text: str, budget: Budget, found: Container[int]) -> Iterator[re.Match[str]]:
    position = 0
    while match := rule.pattern.search(text, position):
        is_secret, position = _examine(rule, match, budget, found)
        if is_secret:
            yield match


def _search_at_anchors(
    rule: SecretRule, text: str, budget: Budget, found: Container[int]
) -> Iterator[re.Match[str]]:
    position = 0
    for anchor in _find_anchors(rule.hints, lower_case(text)):
        if anchor >= position and (match := rule.pattern.match(text, anchor)):
            is_secret, position = _examine(rule, match, budget, found)
            if is_secret:
                yield match


def _examine(
    rule: SecretRule, match: re.Match[str], budget: Budget, found: Container[int]
) -> tuple[bool, int]:
    """Return whether a match is a secret, and the position to search on from."""
    start, end = secret_span(match)[0], match.end()
    if start in found:
        return False, end
    if rule.precheck and not rule.precheck(match):
        budget.spend(0)
    else:
        budget.spend(end - match.start())
        if rule.check(match) and (not rule.near or _is_near(rule.near, match)):
            return True, end
    return False, max(start, match.start() + 1)


def _is_near(regex: str, match: re.Match[str]) -> bool:
    start, end = match.start() - CHARACTERS_AROUND, match.end() + CHARACTERS_AROUND
    return contains_hint((regex,), match.string[max(0, start) : end].lower())

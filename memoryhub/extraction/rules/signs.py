"""Weighted signs that a sentence states something, and the names in a text. The rules are in ``signs.toml``.

Regexes are bounded, so matching is linear in the sentence. No database access.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, RuleSchema, load_rule_file

CANDIDATE_THRESHOLD = 1.0
_MAX_SEARCHED_CHARS = 4000


class Sign(RuleSchema):
    """A weighted regex. An empty ``category`` supports any category; ``why`` is shown to people.

    A ``claim`` does not count in sentences about the mood or the conversation.
    """

    category: str = ""
    weight: float = 1.0
    why: str
    regex: Regex | None = None
    claim: bool = False

    def matches(self, text: str) -> bool:
        return self.regex is not None and bool(self.regex.search(text))


class NamePatterns(RuleSchema):
    subject: Regex
    introduced: Regex


class SentencePatterns(RuleSchema):
    concrete: Regex
    how_to_write: Regex
    counter_signs: Regex
    not_a_claim: Regex
    request: Regex
    off_the_record: Regex
    acknowledged: Regex
    pointed_out: Regex
    stated_decision: Regex
    writing_task: Regex
    asked_for_facts: Regex
    reference: Regex
    dialogue_steer: Regex
    polite_request: Regex
    need: Regex


class SignFile(PatternFile):
    names: NamePatterns
    sentences: SentencePatterns
    signs: tuple[Sign, ...]


@cache
def load_signs() -> SignFile:
    """Return the rules. Compiling them takes 0.1 s, which most processes do not need."""
    return load_rule_file(Path(__file__).with_suffix(".toml"), SignFile)


def find_names(text: str) -> set[str]:
    """Return the first names (casefolded) of the people that a text is about."""
    start, names = text[:_MAX_SEARCHED_CHARS], load_signs().names
    found = [match["name"] for regex in (names.subject, names.introduced) for match in regex.finditer(start)]
    return {_fold_name(name.split()[0]) for name in found}


def name_different_people(one: str, other: str) -> bool:
    """Return whether both texts name people and have none in common."""
    mine, theirs = find_names(one), find_names(other)
    return bool(mine and theirs) and not mine & theirs


def _fold_name(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))

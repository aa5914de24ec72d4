"""Evidence made searchable: rules, and which of them a line of symbols can match at all. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from memoryhub.security.prompt_injection.evidence import EVIDENCE
from memoryhub.security.prompt_injection.lexicon import LEXICON, WALL


@dataclass(frozen=True)
class Rule:
    """One kind of evidence.

    ``order``: the first word must stand where an order begins, not in a description ("users who ignore ...").
    ``located``: no evidence when the object is in a place ("the instructions in the README").
    ``part``: evidence for the same part of an order does not add up; evidence for another part does.
    """

    kind: str
    evidence: str
    weight: float
    pattern: str
    order: bool = False
    located: bool = False
    part: str = ""


def _rules() -> Iterator[Rule]:
    for kind, rows in EVIDENCE.items():
        for evidence, weight, options, pattern in rows:
            flags, _, part = options.partition("+")
            yield Rule(kind, evidence, weight, pattern, "!" in flags or "@" in flags, "@" in flags, part)


RULES: tuple[Rule, ...] = tuple(_rules())
_MACROS = {"<youmust>": "({you} ~1 ({must}|{ought})|{obliged})"}
_PART = re.compile(r"\{(\w+)\}")
_GAP = re.compile(r"~(\d+)")
_CLOSE_GAP = re.compile(r"_(\d+)")
_WIDE_GAP = re.compile(r"%(\d+)")


@dataclass(frozen=True)
class Branch:
    """One alternative of a rule, ready to be searched; ``need``: the parts it cannot do without, as bits."""

    rule: Rule
    pattern: re.Pattern[str]
    need: int


def possible_branches(symbols: str) -> list[Branch]:
    """What a line with these symbols can match at all: a cheap look before the search."""
    present = 0
    for symbol in set(symbols):
        present |= LEXICON.masks.get(symbol, 0)
    found: list[tuple[int, Branch]] = []
    for part, rows in _BY_PART:
        if part & present == part:
            found += [(place, branch) for place, branch in rows if branch.need & present == branch.need]
    return [branch for _, branch in sorted(found, key=itemgetter(0))]


def _compiled(rule: Rule) -> Iterator[Branch]:
    pattern = rule.pattern
    for macro, meaning in _MACROS.items():
        pattern = pattern.replace(macro, meaning)
    for source in _alternatives(pattern):
        need = 0
        for part in _required_parts(source):
            need |= LEXICON.masks[part]
        yield Branch(rule, re.compile(_expand(source)), need)


def _alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern at its top level."""
    found, depth = [""], 0
    for sign in pattern:
        depth += (sign in "([") - (sign in ")]")
        if sign == "|" and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def _required_parts(source: str) -> list[str]:
    """The parts without which an alternative cannot match: those outside brackets that are not optional."""
    bare = source
    while "(" in bare:
        bare = re.sub(r"\([^()]*\)[?*]?", "", bare)
    return _PART.findall(re.sub(r"\{\w+\}[?*]", "", bare))


def _expand(source: str) -> str:
    """The regular expression over a line of symbols (``reading.py``)."""
    found = _PART.sub(lambda match: _character_class(match.group(1)), source.replace(" ", ""))
    found = _CLOSE_GAP.sub(r"[^\\n/,:]{0,\1}?", found)
    found = _GAP.sub(r"[^\\n]{0,\1}?", found)
    return _WIDE_GAP.sub(lambda match: f"[^{WALL}]{{0,{match[1]}}}?", found)


def _character_class(part: str) -> str:
    return f"[{''.join(map(re.escape, sorted(LEXICON.members[part])))}]"


BRANCHES: tuple[Branch, ...] = tuple(branch for rule in RULES for branch in _compiled(rule))


def _index_by_part() -> tuple[tuple[int, list[tuple[int, Branch]]], ...]:
    """The branches, with their places, by one of the parts that they need."""
    groups: dict[int, list[tuple[int, Branch]]] = {}
    for place, branch in enumerate(BRANCHES):
        part = 1 << (branch.need.bit_length() - 1) if branch.need else 0
        groups.setdefault(part, []).append((place, branch))
    return tuple(groups.items())


_BY_PART = _index_by_part()

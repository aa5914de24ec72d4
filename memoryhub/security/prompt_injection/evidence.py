"""The rules that find evidence of orders, compiled to patterns over a line of symbols. No Django."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter, or_
from pathlib import Path

from pydantic import Field

from memoryhub.core.rule_files import RuleFileError, RuleSchema, load_rule_file
from memoryhub.security.prompt_injection.lexicon import BREAK, LEXICON, WALL

EVIDENCE = Path(__file__).with_name("rules") / "evidence"
# The order decides between kinds of the same weight.
KINDS = (
    "override",
    "newtask",
    "persona",
    "leak",
    "secrecy",
    "exfiltration",
    "destructive",
    "addressed",
    "role",
    "notice",
)


class EvidenceRule(RuleSchema):
    """One rule.

    ``evidence``: the description in findings. ``order``: the first word must be where an order begins, and
    not in a description ("users who ignore ..."). ``located``: no evidence if the object is in a place ("the
    instructions in the README"). ``part``: rules for the same part of an order do not add up; rules for
    different parts do.
    """

    evidence: str = Field(min_length=1)
    weight: float = Field(ge=0.2, le=1.2)
    pattern: str = Field(min_length=1)
    order: bool = False
    located: bool = False
    part: str = ""


class EvidenceFile(RuleSchema):
    rules: tuple[EvidenceRule, ...]


def load_evidence(kind: str) -> tuple[EvidenceRule, ...]:
    return load_rule_file(EVIDENCE / f"{kind}.toml", EvidenceFile).rules


_MACROS = {"<youmust>": "({you} ~1 ({must}|{ought})|{obliged})"}
_PART = re.compile(r"\{(\w+)\}")
_GAP = re.compile(r"~(\d+)")
_CLOSE_GAP = re.compile(r"_(\d+)")
_WIDE_GAP = re.compile(r"%(\d+)")


@dataclass(frozen=True)
class Branch:
    """One alternative of a rule, compiled.

    ``need``: the bits of the parts that a match contains. ``in_one_line``: they are between two line ends.
    """

    kind: str
    rule: EvidenceRule
    pattern: re.Pattern[str]
    need: int
    in_one_line: bool


def possible_branches(symbols: str) -> list[Branch]:
    """Return the branches whose needed parts occur together in the line. This is faster than a search."""
    lines = {_find_parts(line) for line in symbols.split(BREAK)}
    present = reduce(or_, lines)
    found: list[tuple[int, Branch]] = []
    for part, rows in _BY_PART:
        if part & present != part:
            continue
        possible = [row for row in rows if row[1].need & present == row[1].need]
        near = [line for line in lines if line & part] if possible else []
        found += [
            (place, branch)
            for place, branch in possible
            if not branch.in_one_line or any(branch.need & line == branch.need for line in near)
        ]
    return [branch for _, branch in sorted(found, key=itemgetter(0))]


def _find_parts(line: str) -> int:
    """Return the bits of the parts that the words of a line have."""
    present = 0
    for symbol in set(line):
        present |= LEXICON.masks.get(symbol, 0)
    return present


def _compile_rule(kind: str, rule: EvidenceRule) -> Iterator[Branch]:
    pattern = "".join(rule.pattern.split())
    for macro, expanded in _MACROS.items():
        pattern = pattern.replace(macro, expanded.replace(" ", ""))
    if unknown := set(_PART.findall(pattern)) - LEXICON.members.keys():
        raise RuleFileError(f"{kind}.toml: no word has the part {', '.join(sorted(unknown))}")
    for source in _alternatives(pattern):
        need = 0
        for part in _required_parts(source):
            need |= LEXICON.masks[part]
        yield Branch(kind, rule, re.compile(_expand(source)), need, _is_in_one_line(source))


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars outside brackets."""
    found, depth = [""], 0
    for sign in pattern:
        depth += (sign in "([") - (sign in ")]")
        if sign == "|" and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def _required_parts(source: str) -> list[str]:
    """Return the parts outside brackets that are not optional."""
    bare = source
    while "(" in bare:
        bare = re.sub(r"\([^()]*\)[?*]?", "", bare)
    return _PART.findall(re.sub(r"\{\w+\}[?*]", "", bare))


def _is_in_one_line(source: str) -> bool:
    """Return whether no line end can be between the parts outside brackets."""
    parts = [
        part
        for part in _PART.finditer(source)
        if source.count("(", 0, part.start()) == source.count(")", 0, part.start())
    ]
    between = source[parts[0].start() : parts[-1].end()] if parts else source
    return bool(parts) and "%" not in between and "\\n" not in between


def _expand(source: str) -> str:
    """Return the regex over a line of symbols."""
    found = _PART.sub(lambda match: _character_class(match.group(1)), source)
    found = _CLOSE_GAP.sub(r"[^\\n/,:]{0,\1}?", found)
    found = _GAP.sub(r"[^\\n]{0,\1}?", found)
    return _WIDE_GAP.sub(lambda match: f"[^{WALL}]{{0,{match[1]}}}?", found)


def _character_class(part: str) -> str:
    return f"[{''.join(map(re.escape, sorted(LEXICON.members[part])))}]"


BRANCHES = tuple(
    branch for kind in KINDS for rule in load_evidence(kind) for branch in _compile_rule(kind, rule)
)


def _index_by_part() -> tuple[tuple[int, list[tuple[int, Branch]]], ...]:
    """Group the branches, with their places, by one of the parts that they need."""
    groups: dict[int, list[tuple[int, Branch]]] = {}
    for place, branch in enumerate(BRANCHES):
        part = 1 << (branch.need.bit_length() - 1) if branch.need else 0
        groups.setdefault(part, []).append((place, branch))
    return tuple(groups.items())


_BY_PART = _index_by_part()

"""Decide whether a predicate takes one object or many.

``located_in`` takes one object, ``depends_on`` many. No schema says which, so this is derived from decisions
of people about its facts, from a list of verbs, and from use. An unknown predicate takes one object, because
two objects of it are worth a check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from memoryhub.core.rule_files import RuleSchema, load_rule_file
from memoryhub.core.text import collapse_whitespace

_GAPS = re.compile(r"[\s_\-.]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Many objects by use: of at least MIN_SUBJECTS, more than MIN_SHARE have several, or one has MIN_LIST_LENGTH.
MIN_SUBJECTS, MIN_SHARE, MIN_LIST_LENGTH = 8, 1 / 2, 5
MIN_DECISIONS = 2  # one decision that objects are compatible may be an exception


class PredicateRules(RuleSchema):
    """``multi_object``: predicates that take many objects, in the form of :func:`normalise_predicate`."""

    multi_object: frozenset[str]


MULTI_OBJECT_PREDICATES = load_rule_file(Path(__file__).with_suffix(".toml"), PredicateRules).multi_object


@dataclass(frozen=True)
class PredicateUse:
    """Use of a predicate, and decisions about it.

    ``subjects``: subjects with it; ``several``: those with several objects; ``most``: the largest number of
    objects. ``superseded``: facts that were replaced by another; ``held``: subjects whose objects were marked
    as compatible.
    """

    subjects: int = 0
    several: int = 0
    most: int = 0
    superseded: int = 0
    held: int = 0


@dataclass(frozen=True)
class Verdict:
    """Whether a predicate takes one object, and the reason in a few words."""

    one: bool
    why: str


def normalise_predicate(predicate: str) -> str:
    """Return the form in which predicates are compared: ``usesDatabase`` equals ``uses_database``."""
    return _GAPS.sub(" ", _HUMPS.sub(" ", predicate)).strip().casefold()


def normalise_name(text: str) -> str:
    """Return the form in which subjects and objects are compared: without case and extra white space."""
    return collapse_whitespace(text).casefold()


def judge_predicate(predicate: str, evidence: PredicateUse) -> Verdict:
    """Judge a predicate in the form of :func:`normalise_predicate`.

    Decisions of people outweigh the list of verbs, which outweighs use.
    """
    if evidence.superseded > evidence.held:
        return Verdict(True, "its earlier values were replaced by newer ones")
    if evidence.held >= evidence.superseded + MIN_DECISIONS:
        return Verdict(False, "people confirmed several values")
    if predicate in MULTI_OBJECT_PREDICATES:
        return Verdict(False, "this predicate usually has several values")
    if evidence.most >= MIN_LIST_LENGTH:
        return Verdict(False, f"one subject has {evidence.most} values")
    if evidence.subjects >= MIN_SUBJECTS and evidence.several > MIN_SHARE * evidence.subjects:
        return Verdict(False, f"{evidence.several} of {evidence.subjects} subjects have several")
    if evidence.subjects >= MIN_SUBJECTS:
        return Verdict(
            True, f"{evidence.subjects - evidence.several} of {evidence.subjects} subjects have one"
        )
    return Verdict(True, "this predicate usually has one value")

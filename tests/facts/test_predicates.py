"""Whether a predicate takes one object, by decisions, words and use."""

from __future__ import annotations

import pytest

from memoryhub.facts.predicates import (
    MULTI_OBJECT_PREDICATES,
    PredicateUse,
    judge_predicate,
    normalise_name,
    normalise_predicate,
)


@pytest.mark.parametrize(
    "predicate", ["uses_database", "usesDatabase", "Uses database", " uses-database ", "USES_DATABASE"]
)
def test_spellings_of_one_predicate_are_equal(predicate):
    assert normalise_predicate(predicate) == "uses database"


def test_names_are_compared_without_case_and_white_space():
    assert normalise_name("Red  boat\n") == normalise_name("red boat") != normalise_name("redboat")


def test_listed_verbs_are_normalised():
    assert {normalise_predicate(word) for word in MULTI_OBJECT_PREDICATES} == MULTI_OBJECT_PREDICATES
    assert "responsible for" in MULTI_OBJECT_PREDICATES


@pytest.mark.parametrize(
    ("predicate", "evidence", "one"),
    [
        ("led by", PredicateUse(subjects=1, several=1, most=2), True),
        ("depends on", PredicateUse(subjects=1, several=1, most=2), False),
        # from use
        ("paints", PredicateUse(subjects=8, several=5, most=3), False),
        ("paints", PredicateUse(subjects=8, several=4, most=3), True),
        ("paints", PredicateUse(subjects=7, several=7, most=3), True),
        ("paints", PredicateUse(subjects=50, several=1, most=5), False),
        # from decisions, which outweigh words and use
        ("depends on", PredicateUse(subjects=9, several=9, most=9, superseded=1), True),
        ("led by", PredicateUse(subjects=9, several=1, most=2, held=1), True),
        ("led by", PredicateUse(subjects=9, several=1, most=2, held=2), False),
        ("led by", PredicateUse(subjects=9, several=1, most=2, held=3, superseded=2), True),
    ],
)
def test_decisions_outweigh_words_and_words_outweigh_use(predicate, evidence, one):
    verdict = judge_predicate(predicate, evidence)
    assert verdict.one is one
    assert verdict.why

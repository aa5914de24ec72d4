"""Which predicates take one object: told from decisions, words and use."""

from __future__ import annotations

import pytest

from memoryhub.facts.predicates import MANY, Evidence, judge, plain, same_thing


@pytest.mark.parametrize(
    "predicate", ["uses_database", "usesDatabase", "Uses database", " uses-database ", "USES_DATABASE"]
)
def test_one_predicate_is_written_in_many_ways(predicate):
    assert plain(predicate) == "uses database"


def test_things_are_the_same_but_for_case_and_white_space():
    assert same_thing("Red  boat\n") == same_thing("red boat") != same_thing("redboat")


def test_the_known_verbs_are_written_as_they_are_compared():
    assert {plain(word) for word in MANY} == MANY
    assert "responsible for" in MANY


@pytest.mark.parametrize(
    ("predicate", "evidence", "one"),
    [
        ("led by", Evidence(subjects=1, several=1, most=2), True),
        ("depends on", Evidence(subjects=1, several=1, most=2), False),
        # from use
        ("paints", Evidence(subjects=8, several=5, most=3), False),
        ("paints", Evidence(subjects=8, several=4, most=3), True),
        ("paints", Evidence(subjects=7, several=7, most=3), True),
        ("paints", Evidence(subjects=50, several=1, most=5), False),
        # from decisions, which outweigh words and use
        ("depends on", Evidence(subjects=9, several=9, most=9, superseded=1), True),
        ("led by", Evidence(subjects=9, several=1, most=2, held=1), True),
        ("led by", Evidence(subjects=9, several=1, most=2, held=2), False),
        ("led by", Evidence(subjects=9, several=1, most=2, held=3, superseded=2), True),
    ],
)
def test_the_verdict_goes_by_decisions_then_words_then_use(predicate, evidence, one):
    verdict = judge(predicate, evidence)
    assert verdict.one is one
    assert verdict.why

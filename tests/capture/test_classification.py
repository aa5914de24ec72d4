"""Test how observations are classified and how their memorability is scored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.capture.classification import (
    MemorabilityWeights,
    classify,
    distinctiveness,
    salience,
    score,
    substance,
)
from memoryhub.core.text import terms
from memoryhub.core.vocabulary import TYPES


@pytest.mark.conformance("guide-85")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fix(api): refuse NUL characters", "bugfix"),
        ("feat: dark mode", "feature"),
        ("We decided to use SQLite instead of PostgreSQL", "decision"),
        ("Rename store.put to store.remember; no behaviour change", "refactor"),
        ("Turns out the index flushes at each savepoint", "discovery"),
        ("Bump the version to 1.2", "change"),
    ],
)
def test_all_types_are_detected(text, kind):
    assert classify(text).type == kind


def test_title_has_no_commit_prefix_and_no_full_stop():
    assert classify("fix(api): refuse NUL characters.").title == "Refuse NUL characters"


@pytest.mark.parametrize(
    ("text", "source", "kind"),
    [
        ("Never on Sundays, always on Mondays, rather than daily.", "answer", "discovery"),
        ("We decided to publish on Mondays only.", "answer", "decision"),
        ("must never be None here, because the writer truncates", "comment", "discovery"),
        ("Wir haben uns für eine Datei entschieden, weil nur eine Person schreibt.", "", "decision"),
        ("依存関係は追加しないことにした。放送局の機械には何も入れられないため。", "", "decision"),
        (
            'Revert "feat: lazy reading"\n\nErrors came too late, because no one had asked yet.',
            "commit",
            "decision",
        ),
        ('Revert "feat: lazy reading"\n\nThis reverts commit 1234567.', "commit", "change"),
    ],
)
def test_source_decides_the_type_of_an_explanation(text, source, kind):
    assert classify(text, source).type == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Rename the permission that the new demo plugin created", "refactor"),
        ("Allow functions in write queries", "feature"),
        ("--flatten option for insert", "feature"),
        ("Fix the new index that was added twice", "bugfix"),
    ],
)
def test_first_word_of_a_headline_decides_the_type(text, kind):
    assert classify(text).type == kind


GATE = 0.30
KEPT = [
    ("Fixed the deadlock: the journal's lock was taken twice because remember called itself", "bugfix"),
    (
        "We decided to keep SQLite instead of PostgreSQL because one machine is enough for the team",
        "decision",
    ),
    (
        "Turns out the trigger opens a savepoint for every statement, and each one flushes the index",
        "discovery",
    ),
]
ROUTINE = ["", "ok", "total 12\ndrwxr-xr-x 3 root root", "Done.", "src tests README.md"]


def test_useful_text_scores_above_the_threshold():
    for text, kind in KEPT:
        assert score(text, kind, [], MemorabilityWeights()).total >= GATE, text


@pytest.mark.conformance("guide-119")
def test_routine_output_scores_below_the_threshold():
    for text in ROUTINE:
        assert score(text, "change", [], MemorabilityWeights()).total < GATE, text


@pytest.mark.conformance("guide-79")
def test_repetition_of_a_neighbour_scores_zero():
    text, kind = KEPT[0]
    assert score(text, kind, [terms(text)], MemorabilityWeights()).total == 0


@pytest.mark.conformance("guide-77")
def test_substance_grows_with_distinct_terms():
    assert substance(set()) == 0 < substance({"one"}) < substance(set("abcdefghij")) < 1


@pytest.mark.conformance("guide-78")
def test_each_salience_pattern_counts_once():
    assert salience("fixed fixed fixed") == salience("fixed")
    assert salience("fixed because of a security decision") > salience("fixed")


def test_short_text_has_low_distinctiveness():
    assert distinctiveness({"ok"}, []) < distinctiveness(set("abcdefghijkl"), []) == 1


def test_urls_numbers_and_hashes_add_no_substance():
    said = "The index is built anew at night"
    links = f"{said} #12 #13 https://example.org/a/long/path/with/words 4f0c2ab91d 10:45 3.14"
    assert score(links, "change", [], MemorabilityWeights()) == score(
        said, "change", [], MemorabilityWeights()
    )


@pytest.mark.conformance("guide-76")
@given(
    st.text(max_size=400),
    st.sampled_from(TYPES),
    st.lists(st.sets(st.text(max_size=5), max_size=8), max_size=4),
)
def test_all_parts_are_between_0_and_1(text, kind, neighbours):
    for value in score(text, kind, neighbours, MemorabilityWeights()).parts().values():
        assert 0 <= value <= 1

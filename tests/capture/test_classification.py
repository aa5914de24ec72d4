"""Test how observations are classified and how their memorability is scored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.capture.classification import classify
from memoryhub.capture.memorability import MemorabilityWeights, distinctiveness, salience, score, substance
from memoryhub.core.text import terms
from memoryhub.core.vocabulary import TYPES


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
def test_all_six_types_are_told_apart(text, kind):
    assert classify(text).type == kind


def test_a_title_loses_its_commit_prefix_and_ends_without_a_full_stop():
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
            'Revert "feat: lazy reading"\n\nErrors came too late, because nobody had asked yet.',
            "commit",
            "decision",
        ),
        ('Revert "feat: lazy reading"\n\nThis reverts commit 1234567.', "commit", "change"),
    ],
)
def test_who_says_it_tells_what_it_is(text, source, kind):
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
def test_the_first_word_of_a_headline_says_what_was_done(text, kind):
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


def test_what_a_colleague_would_tell_passes_the_gate():
    for text, kind in KEPT:
        assert score(text, kind, [], MemorabilityWeights()).total >= GATE, text


def test_routine_output_scores_below_the_gate():
    for text in ROUTINE:
        assert score(text, "change", [], MemorabilityWeights()).total < GATE, text


def test_a_repetition_of_a_neighbour_is_worth_nothing():
    text, kind = KEPT[0]
    assert score(text, kind, [terms(text)], MemorabilityWeights()).total == 0


def test_the_more_is_said_the_more_substance_there_is():
    assert substance(set()) == 0 < substance({"one"}) < substance(set("abcdefghij")) < 1


def test_each_kind_of_mark_counts_once():
    assert salience("fixed fixed fixed") == salience("fixed")
    assert salience("fixed because of a security decision") > salience("fixed")


def test_a_few_words_can_hardly_be_distinct():
    assert distinctiveness({"ok"}, []) < distinctiveness(set("abcdefghijkl"), []) == 1


def test_addresses_numbers_and_hashes_add_nothing():
    said = "The index is built anew at night"
    links = f"{said} #12 #13 https://example.org/a/long/path/with/words 4f0c2ab91d 10:45 3.14"
    assert score(links, "change", [], MemorabilityWeights()) == score(
        said, "change", [], MemorabilityWeights()
    )


@given(
    st.text(max_size=400),
    st.sampled_from(TYPES),
    st.lists(st.sets(st.text(max_size=5), max_size=8), max_size=4),
)
def test_every_part_stays_between_0_and_1(text, kind, neighbours):
    for value in score(text, kind, neighbours, MemorabilityWeights()).parts().values():
        assert 0 <= value <= 1

"""Is it worth remembering: four parts, each 0..1, and their weighted sum."""

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.capture.memorability import Shares, distinctiveness, salience, score, substance
from memoryhub.core.text import terms
from memoryhub.core.vocabulary import TYPES

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
        assert score(text, kind, [], Shares()).total >= GATE, text


def test_routine_output_scores_below_the_gate():
    for text in ROUTINE:
        assert score(text, "change", [], Shares()).total < GATE, text


def test_a_repetition_of_a_neighbour_is_worth_nothing():
    text, kind = KEPT[0]
    assert score(text, kind, [terms(text)], Shares()).total == 0


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
    assert score(links, "change", [], Shares()) == score(said, "change", [], Shares())


@given(
    st.text(max_size=400),
    st.sampled_from(TYPES),
    st.lists(st.sets(st.text(max_size=5), max_size=8), max_size=4),
)
def test_every_part_stays_between_0_and_1(text, kind, neighbours):
    for value in score(text, kind, neighbours, Shares()).parts().values():
        assert 0 <= value <= 1

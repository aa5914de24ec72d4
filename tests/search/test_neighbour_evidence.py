"""Evidence for a memory: its words, those of its neighbours, its cosine and its speaker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search import scoring
from memoryhub.search.scoring import (
    Neighbours,
    Question,
    Signals,
    combine_evidence,
    ends_with_question,
    link_both_ways,
    parse_speaker,
)

TWO = Question((1.0, 3.0))  # a common word and a rare one


def match(signals, neighbours=None, question=TWO, of=1):
    return combine_evidence(question, signals, neighbours or {})[of].match


def test_rare_word_is_more_evidence_than_a_common_one():
    assert match({1: Signals((0, 1))}) > match({1: Signals((1, 0))}) > match({1: Signals((0, 0))}) == 0


def test_match_does_not_depend_on_unrelated_memories():
    alone = match({1: Signals((1, 0), 0.4)})
    assert match({1: Signals((1, 0), 0.4), 2: Signals((1, 1), 0.9)}) == alone


def test_cosine_and_words_add_up():
    both = match({1: Signals((1, 0), 0.5)})
    assert both > match({1: Signals((1, 0))})
    assert both > match({1: Signals((0, 0), 0.5)})


def test_negative_cosine_does_not_lower_the_match():
    assert match({1: Signals((1, 0), -0.8)}) == match({1: Signals((1, 0))})


def test_neighbour_adds_missing_words():
    signals = {1: Signals((1, 0)), 2: Signals((0, 1))}
    neighbours = link_both_ways({1: Neighbours(before=[2])})
    assert match({1: Signals((1, 1))}) > match(signals, neighbours) > match({1: Signals((1, 0))})


def test_neighbour_does_not_add_present_words():
    signals = {1: Signals((1, 1)), 2: Signals((1, 1))}
    assert match(signals, {1: Neighbours(before=[2])}) == match({1: Signals((1, 1))})


def test_nearer_neighbour_adds_more():
    signals = {1: Signals((0, 0)), 2: Signals((0, 1)), 3: Signals((0, 0))}
    assert match(signals, {1: Neighbours(before=[2, 3])}) > match(signals, {1: Neighbours(before=[3, 2])})


def test_memory_after_a_question_gets_more_of_its_words():
    question, statement = Signals((0, 1), asks=True), Signals((0, 1))
    after = {1: Neighbours(before=[2])}
    assert match({1: Signals((0, 0)), 2: question}, after) > match({1: Signals((0, 0)), 2: statement}, after)


def test_memory_before_a_question_gets_no_bonus():
    question, statement = Signals((0, 1), asks=True), Signals((0, 1))
    before = {1: Neighbours(after=[2])}
    assert match({1: Signals((0, 0)), 2: question}, before) == match(
        {1: Signals((0, 0)), 2: statement}, before
    )


def test_long_text_counts_less_for_itself_and_neighbours():
    assert match({1: Signals((0, 1), chars=5000)}) < match({1: Signals((0, 1), chars=100)})
    near = {1: Neighbours(before=[2])}
    long, short = Signals((0, 1), 0.5, chars=5000), Signals((0, 1), 0.5, chars=100)
    assert match({1: Signals((0, 0)), 2: long}, near) < match({1: Signals((0, 0)), 2: short}, near)


def test_neighbour_without_signals_adds_nothing():
    assert match({1: Signals((1, 0))}, {1: Neighbours(before=[7], after=[8, 9])}) == match(
        {1: Signals((1, 0))}
    )


@pytest.mark.parametrize(
    ("text", "speaker_name"),
    [
        ("Ada: I moved to Graz", "ada"),
        ("  Juan Pérez: hola", "juan perez"),
        ("user: where is it?", "user"),
        ("Anna Maria Fischer: hallo", "anna maria fischer"),
        ("Decided to keep SQLite: it is enough", ""),
        ("https://example.org: down", ""),
        ("12:30 lunch", ""),
        ("no colon here", ""),
        ("a" * 60 + ": too long a name", ""),
        ("", ""),
    ],
)
def test_speaker_is_parsed(text, speaker_name):
    assert parse_speaker(text) == speaker_name


def test_named_speaker_counts_more_than_others():
    question = Question.of("Where did Ada move?", (1.0, 1.0))
    signals = {1: Signals((1, 1), speaker="ada"), 2: Signals((1, 1), speaker="bob"), 3: Signals((1, 1))}
    found = combine_evidence(question, signals, {})
    assert found[1].match == found[3].match > found[2].match


def test_all_speakers_count_fully_if_none_is_named():
    question = Question.of("Where is the harbour?", (1.0, 1.0))
    found = combine_evidence(
        question, {1: Signals((1, 1), speaker="ada"), 2: Signals((1, 1), speaker="bob")}, {}
    )
    assert found[1] == found[2]


def test_user_counts_more_than_assistant():
    question = Question.of("When does my sprint end?", (1.0, 1.0))
    found = combine_evidence(
        question, {1: Signals((1, 1), speaker="user"), 2: Signals((1, 1), speaker="assistant")}, {}
    )
    assert found[1].match > found[2].match


def test_system_text_counts_fully_without_a_user():
    question = Question.of("Is the disk full?", (1.0,))
    assert (
        combine_evidence(question, {1: Signals((1,), speaker="system")}, {})[1]
        == combine_evidence(question, {1: Signals((1,))}, {})[1]
    )


def test_stop_word_does_not_name_a_speaker():
    question = Question.of("When is the roof repaired?", (1.0,))
    found = combine_evidence(
        question, {1: Signals((1,), speaker="the plan"), 2: Signals((1,), speaker="ada")}, {}
    )
    assert found[1] == found[2]


def test_named_assistant_counts_fully():
    question = Question.of("What did the assistant suggest?", (1.0, 1.0))
    found = combine_evidence(
        question, {1: Signals((1, 1), speaker="user"), 2: Signals((1, 1), speaker="assistant")}, {}
    )
    assert found[2].match == found[1].match


def test_question_at_the_end_is_detected():
    assert ends_with_question("And then? Where did you go?")
    assert ends_with_question("どこ？")
    assert not ends_with_question("What? " + "I statement you all about it at length. " * 10)


def test_neighbours_are_linked_both_ways():
    links = link_both_ways({5: Neighbours(before=[4, 3], after=[6])})
    assert links[4].after[0] == 5
    assert links[3].after[1] == 5
    assert links[6].before[0] == 5


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.floats(-1, 1),
    st.integers(0, 10**6),
)
def test_match_is_between_0_and_1_and_never_falls_with_a_neighbour(own, lent, cosine, chars):
    alone = match({1: Signals(tuple(own), cosine, chars)})
    neighbours = match(
        {1: Signals(tuple(own), cosine, chars), 2: Signals(tuple(lent), 0.3)}, {1: Neighbours(before=[2])}
    )
    assert 0 <= alone <= neighbours < 1


def test_only_the_cosine_counts_without_terms():
    question = Question((0.0, 0.0))
    assert combine_evidence(question, {1: Signals((1, 1), 0.5)}, {})[1].match > scoring.COSINE_WEIGHT * 0.5

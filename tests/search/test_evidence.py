"""Evidence for a memory: its words, those of its neighbours, its cosine and its speaker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search import scoring
from memoryhub.search.scoring import Pairs, Question, Signals, combine_evidence, parse_speaker

TWO = Question((1.0, 3.0))  # a common word and a rare one


@dataclass(frozen=True)
class Memory:
    """The signals of one memory."""

    terms: tuple[float, ...]
    cosine: float = 0.0
    chars: int = 0
    speaker: str = ""
    asks: bool = False


def matches(*memories, question=TWO, pairs=()):
    """Return the match of each memory; ``pairs``: (earlier, later) at distance 1, then at distance 2."""
    signals = Signals(
        np.array([one.terms for one in memories], float),
        np.array([one.cosine for one in memories]),
        np.array([one.chars for one in memories]),
        [one.speaker for one in memories],
        np.array([one.asks for one in memories]),
    )
    linked = [Pairs(*np.array(one, int).reshape(-1, 2).T) for one in pairs]
    return combine_evidence(question, signals, linked).match.tolist()


def match(*memories, **more):
    """Return the match of the first memory."""
    return matches(*memories, **more)[0]


def test_rare_word_is_more_evidence_than_a_common_one():
    assert match(Memory((0, 1))) > match(Memory((1, 0))) > match(Memory((0, 0))) == 0


def test_match_does_not_depend_on_unrelated_memories():
    alone = match(Memory((1, 0), 0.4))
    assert match(Memory((1, 0), 0.4), Memory((1, 1), 0.9)) == alone


def test_cosine_and_words_add_up():
    both = match(Memory((1, 0), 0.5))
    assert both > match(Memory((1, 0)))
    assert both > match(Memory((0, 0), 0.5))


def test_negative_cosine_does_not_lower_the_match():
    assert match(Memory((1, 0), -0.8)) == match(Memory((1, 0)))


def test_neighbour_adds_missing_words():
    with_neighbour = match(Memory((1, 0)), Memory((0, 1)), pairs=[[1, 0]])
    assert match(Memory((1, 1))) > with_neighbour > match(Memory((1, 0)))


def test_neighbour_does_not_add_present_words():
    assert match(Memory((1, 1)), Memory((1, 1)), pairs=[[1, 0]]) == match(Memory((1, 1)))


def test_nearer_neighbour_adds_more():
    memories = Memory((0, 0)), Memory((0, 1)), Memory((0, 0))
    assert match(*memories, pairs=[[1, 0], [2, 0]]) > match(*memories, pairs=[[2, 0], [1, 0]])


def test_neighbours_add_to_each_other():
    question, answer = matches(Memory((1, 0)), Memory((0, 1)), pairs=[[0, 1]])
    assert question > match(Memory((1, 0)))
    assert answer > match(Memory((0, 1)))


def test_memory_after_a_question_gets_more_of_its_words():
    question, statement = Memory((0, 1), asks=True), Memory((0, 1))
    after = [[1, 0]]
    assert match(Memory((0, 0)), question, pairs=after) > match(Memory((0, 0)), statement, pairs=after)


def test_memory_before_a_question_gets_no_bonus():
    question, statement = Memory((0, 1), asks=True), Memory((0, 1))
    before = [[0, 1]]
    assert match(Memory((0, 0)), question, pairs=before) == match(Memory((0, 0)), statement, pairs=before)


def test_long_text_counts_less_for_itself_and_neighbours():
    assert match(Memory((0, 1), chars=5000)) < match(Memory((0, 1), chars=100))
    long, short = Memory((0, 1), 0.5, chars=5000), Memory((0, 1), 0.5, chars=100)
    assert match(Memory((0, 0)), long, pairs=[[1, 0]]) < match(Memory((0, 0)), short, pairs=[[1, 0]])


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
    ada, bob, unnamed = matches(
        Memory((1, 1), speaker="ada"),
        Memory((1, 1), speaker="bob"),
        Memory((1, 1)),
        question=question,
    )
    assert ada == unnamed > bob


def test_all_speakers_count_fully_if_none_is_named():
    question = Question.of("Where is the harbour?", (1.0, 1.0))
    ada, bob = matches(Memory((1, 1), speaker="ada"), Memory((1, 1), speaker="bob"), question=question)
    assert ada == bob


def test_user_counts_more_than_assistant():
    question = Question.of("When does my sprint end?", (1.0, 1.0))
    user, assistant = matches(
        Memory((1, 1), speaker="user"), Memory((1, 1), speaker="assistant"), question=question
    )
    assert user > assistant


def test_system_text_counts_fully_without_a_user():
    question = Question.of("Is the disk full?", (1.0,))
    system, unnamed = matches(Memory((1,), speaker="system"), Memory((1,)), question=question)
    assert system == unnamed


def test_stop_word_does_not_name_a_speaker():
    question = Question.of("When is the roof repaired?", (1.0,))
    plan, ada = matches(Memory((1,), speaker="the plan"), Memory((1,), speaker="ada"), question=question)
    assert plan == ada


def test_named_assistant_counts_fully():
    question = Question.of("What did the assistant suggest?", (1.0, 1.0))
    user, assistant = matches(
        Memory((1, 1), speaker="user"), Memory((1, 1), speaker="assistant"), question=question
    )
    assert assistant == user


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.floats(-1, 1),
    st.integers(0, 10**6),
)
def test_match_is_between_0_and_1_and_never_falls_with_a_neighbour(own, lent, cosine, chars):
    memory, neighbour = Memory(tuple(own), cosine, chars), Memory(tuple(lent), 0.3)
    assert 0 <= match(memory) <= match(memory, neighbour, pairs=[[1, 0]]) < 1


def test_only_the_cosine_counts_without_terms():
    assert match(Memory((1, 1), 0.5), question=Question((0.0, 0.0))) > scoring.COSINE_WEIGHT * 0.5

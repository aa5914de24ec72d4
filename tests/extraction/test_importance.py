"""How important a memory is of which nobody says it."""

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.extraction.entities import extract_entities
from memoryhub.extraction.importance import BASE_IMPORTANCE, score_importance
from tests.extraction.notes import NOTES, demo_notes


@pytest.mark.parametrize(("text", "kind", "least", "most"), NOTES)
def test_a_note_is_worth_about_what_a_person_would_say(text, kind, least, most):
    assert least <= score_importance(text, kind).importance <= most


@pytest.mark.parametrize("kind", BASE_IMPORTANCE)
def test_what_says_nothing_of_itself_is_worth_what_its_type_is(kind):
    judged = score_importance("The walls of the office kitchen are painted yellow", kind)
    assert judged.importance == BASE_IMPORTANCE[kind]
    assert judged.reasons == (f"a memory of type {kind} ({BASE_IMPORTANCE[kind]})",)


def test_each_reason_is_named_with_what_it_adds():
    judged = score_importance("Never deploy on Fridays because the last outage began on one", "fact")
    assert judged.importance == 9
    assert judged.reasons == (
        "a memory of type fact (5)",
        "sets a rule (+2)",
        "is about safety, money or production (+1)",
        "says why, or what went wrong (+1)",
    )


def test_many_names_make_it_more_important():
    text = "The walls of the office kitchen are painted yellow"
    assert score_importance(text, "fact", names=3).importance == score_importance(text, "fact").importance + 1


def test_what_people_call_important_is_worth_more_here_too():
    """Over the notes of the demo: the half that is worth most to their authors, and the other half."""
    notes = sorted(demo_notes(), key=lambda note: note[1])
    assert len(notes) > 100
    worth = [score_importance(text, "fact", len(extract_entities(text))).importance for text, _ in notes]
    third = len(worth) // 3
    assert mean(worth[-third:]) >= mean(worth[:third]) + 0.5
    assert sum(4 <= one <= 7 for one in worth) >= 0.8 * len(worth)


@given(st.text(max_size=300), st.sampled_from([*BASE_IMPORTANCE, "decision"]), st.integers(0, 50))
def test_any_text_gets_one_to_ten(text, kind, names):
    judged = score_importance(text, kind, names)
    assert 1 <= judged.importance <= 10
    assert judged.reasons

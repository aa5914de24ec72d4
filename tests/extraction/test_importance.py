"""Importance scores."""

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.extraction.entities import extract_entities
from memoryhub.toolsets.memory_mcp import BASE_IMPORTANCE, score_importance
from tests.extraction.notes import NOTES, demo_notes


@pytest.mark.parametrize(("text", "kind", "least", "most"), NOTES)
def test_score_is_close_to_a_human_rating(text, kind, least, most):
    assert least <= score_importance(text, kind).importance <= most


@pytest.mark.parametrize("kind", BASE_IMPORTANCE)
def test_plain_text_gets_the_score_of_its_type(kind):
    judged = score_importance("The walls of the office kitchen are painted yellow", kind)
    assert judged.importance == BASE_IMPORTANCE[kind]
    assert judged.reasons == (f"a memory of type {kind} ({BASE_IMPORTANCE[kind]})",)


def test_reasons_name_their_share():
    judged = score_importance("Never deploy on Fridays because the last outage began on one", "fact")
    assert judged.importance == 9
    assert judged.reasons == (
        "a memory of type fact (5)",
        "sets a rule (+2)",
        "is about safety, money or production (+1)",
        "says why, or what went wrong (+1)",
    )


def test_many_names_increase_the_importance():
    text = "The walls of the office kitchen are painted yellow"
    assert score_importance(text, "fact", names=3).importance == score_importance(text, "fact").importance + 1


def test_scores_correlate_with_the_demo():
    """In the demo, the more important half of the memories has the higher average score."""
    notes = sorted(demo_notes(), key=lambda note: note[1])
    assert len(notes) > 100
    worth = [score_importance(text, "fact", len(extract_entities(text))).importance for text, _ in notes]
    third = len(worth) // 3
    assert mean(worth[-third:]) >= mean(worth[:third]) + 0.5
    assert sum(4 <= one <= 7 for one in worth) >= 0.8 * len(worth)


@given(st.text(max_size=300), st.sampled_from([*BASE_IMPORTANCE, "decision"]), st.integers(0, 50))
def test_any_text_scores_one_to_ten(text, kind, names):
    judged = score_importance(text, kind, names)
    assert 1 <= judged.importance <= 10
    assert judged.reasons

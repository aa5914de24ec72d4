"""Test the boundary detection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.capture.segments import detect_boundary
from memoryhub.core.text import extract_keywords, most_common_keywords

DATABASE = "journal mode database index query planner statistics trigger"
DESIGN = "button colour contrast margin font heading stylesheet theme"


def feed(*outputs, size=5, threshold=0.15):
    window, found = (), []
    for output in outputs:
        judgement = detect_boundary(extract_keywords(output), window, threshold, size)
        window = judgement.window
        found.append(judgement.boundary)
    return found, window


@pytest.mark.conformance("guide-83")
def test_different_output_opens_a_segment():
    found, _ = feed(DATABASE, DATABASE + " vacuum", DESIGN)
    assert found == [False, False, True]


def test_repeated_output_is_no_boundary():
    found, _ = feed(DATABASE, DESIGN, DATABASE, DATABASE, DESIGN, DESIGN)
    assert not found[3]
    assert not found[5]


def test_return_to_recent_work_is_no_boundary():
    found, _ = feed(DATABASE, DATABASE + " checkpoint", DATABASE + " font", DATABASE)
    assert not any(found)


def test_new_segment_starts_with_an_empty_window():
    _, window = feed(DATABASE, DATABASE, DESIGN)
    assert window == (frozenset(extract_keywords(DESIGN)),)


def test_short_output_is_no_boundary():
    found, window = feed(DATABASE, DATABASE, "ok done")
    assert not found[2]
    assert len(window) == 2


def test_keywords_exclude_numbers_and_stop_words():
    assert extract_keywords("the 42 and of 7 trigger") == ["trigger"]


def test_keywords_are_whole_words():
    assert extract_keywords("The merged queues: merging a queue, then what was merged") == ["merged", "queue"]


def test_keywords_are_compared_by_stem():
    decision = detect_boundary(
        ["merged", "queues", "orders", "banks"],
        [frozenset(["merging", "queue", "order", "bank"])] * 2,
        0.5,
        5,
    )
    assert (decision.boundary, decision.similarity) == (False, 1.0)


def test_common_keywords_are_listed_once_in_their_most_common_form():
    outputs = [["queue", "bank"], ["queues", "order"], ["queues"]]
    assert most_common_keywords(outputs) == ["queues", "bank", "order"]


@pytest.mark.conformance("guide-83")
@given(st.lists(st.text(max_size=80), max_size=12), st.integers(1, 6))
def test_window_never_exceeds_its_size(outputs, size):
    _, window = feed(*outputs, size=size)
    assert len(window) <= size

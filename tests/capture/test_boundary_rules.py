"""Where one piece of work ends and the next begins."""

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.capture.boundaries import detect_boundary, extract_keywords, most_common_keywords

DATABASE = "journal mode database index query planner statistics trigger"
DESIGN = "button colour contrast margin font heading stylesheet theme"


def feed(*outputs, size=5, threshold=0.15):
    window, found = (), []
    for output in outputs:
        judgement = detect_boundary(extract_keywords(output), window, threshold, size)
        window = judgement.window
        found.append(judgement.boundary)
    return found, window


def test_another_subject_opens_a_segment():
    found, _ = feed(DATABASE, DATABASE + " vacuum", DESIGN)
    assert found == [False, False, True]


def test_a_repeat_of_the_output_before_is_never_a_boundary():
    found, _ = feed(DATABASE, DESIGN, DATABASE, DATABASE, DESIGN, DESIGN)
    assert not found[3]
    assert not found[5]


def test_going_back_to_what_was_done_just_before_is_no_boundary():
    found, _ = feed(DATABASE, DATABASE + " checkpoint", DATABASE + " font", DATABASE)
    assert not any(found)


def test_a_new_segment_starts_with_a_fresh_window():
    _, window = feed(DATABASE, DATABASE, DESIGN)
    assert window == (frozenset(extract_keywords(DESIGN)),)


def test_a_short_output_says_too_little_to_be_a_shift():
    found, window = feed(DATABASE, DATABASE, "ok done")
    assert not found[2]
    assert len(window) == 2


def test_numbers_and_stop_words_are_no_keywords():
    assert extract_keywords("the 42 and of 7 trigger") == ["trigger"]


def test_keywords_are_words_that_a_person_reads():
    assert extract_keywords("The merged queues: merging a queue, then what was merged") == ["merged", "queue"]


def test_words_are_compared_by_their_stems():
    told = detect_boundary(
        ["merged", "queues", "orders", "banks"],
        [frozenset(["merging", "queue", "order", "bank"])] * 2,
        0.5,
        5,
    )
    assert (told.boundary, told.similarity) == (False, 1.0)


def test_what_several_outputs_are_about_is_told_once_in_its_commonest_form():
    outputs = [["queue", "bank"], ["queues", "order"], ["queues"]]
    assert most_common_keywords(outputs) == ["queues", "bank", "order"]


@given(st.lists(st.text(max_size=80), max_size=12), st.integers(1, 6))
def test_the_window_never_outgrows_its_size(outputs, size):
    _, window = feed(*outputs, size=size)
    assert len(window) <= size

"""What of an index and of details fits into a budget."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.recall import INDEX_SHARE, Packed, pack, worthiest

costs = st.lists(st.integers(1, 60), max_size=9)


def test_all_is_shown_where_there_is_room_for_all():
    assert pack([10, 10], [100, 200], [0.9, 0.5], 320) == Packed(2, [0, 1])


def test_one_that_does_not_fit_does_not_end_the_details():
    assert pack([10] * 4, [900, 50, 40], [0.9, 0.5, 0.4], 130).details == [1, 2]


def test_beside_the_best_one_those_with_most_score_together_are_shown():
    # Two of 0.5 are worth more than one of 0.8, which would leave no room for them.
    assert worthiest([50, 100, 50, 50], [0.9, 0.8, 0.5, 0.5], 150) == [0, 2, 3]


def test_the_best_one_is_shown_even_if_others_would_add_up_to_more():
    assert worthiest([100, 50, 50], [0.9, 0.8, 0.8], 100) == [0]


def test_the_index_takes_its_share_and_no_more_where_details_fill_the_rest():
    packed = pack([10] * 100, [50] * 100, [0.5] * 100, 1000)
    assert packed.entries == 1000 * INDEX_SHARE / 10
    assert len(packed.details) == 12


def test_what_the_details_leave_goes_to_the_index():
    packed = pack([10] * 100, [100], [0.5], 1000)
    assert packed == Packed(90, [0])


def test_what_the_index_leaves_goes_to_the_details():
    packed = pack([10], [100] * 20, [0.5] * 20, 1010)
    assert packed == Packed(1, list(range(10)))


def test_the_index_shrinks_for_one_detail_that_fits_beside_its_first_entry():
    packed = pack([50] * 10, [380, 700], [0.9, 0.8], 450)
    assert packed == Packed(1, [0])


def test_the_index_shrinks_for_the_best_detail_even_where_worse_ones_would_fit():
    assert pack([50] * 10, [380, 100], [0.9, 0.8], 450) == Packed(1, [0])


def test_the_index_has_all_of_the_room_where_no_detail_fits():
    assert pack([50] * 10, [900], [0.9], 420) == Packed(8, [])


@pytest.mark.parametrize("room", [-5, 0, 3])
def test_without_room_nothing_is_shown(room):
    assert pack([10, 10], [100], [0.5], room) == Packed(0, [])


@given(costs, costs, st.integers(-10, 400), st.data())
def test_what_is_shown_always_fits(index, details, room, data):
    scores = sorted((data.draw(st.floats(0, 1)) for _ in details), reverse=True)
    packed = pack(index, details, scores, room)
    spent = sum(index[: packed.entries]) + sum(details[number] for number in packed.details)
    assert spent <= max(room, 0)
    assert packed.details == sorted(set(packed.details))


@given(costs, st.integers(0, 300), st.data())
def test_no_other_set_with_the_best_one_has_a_higher_score(details, room, data):
    scores = sorted((data.draw(st.integers(0, 100)) for _ in details), reverse=True)
    chosen = worthiest(details, scores, room)
    fitting = [number for number, cost in enumerate(details) if cost <= room]
    sets = [
        one
        for size in range(len(fitting) + 1)
        for one in combinations(fitting, size)
        if sum(details[number] for number in one) <= room and (not fitting or fitting[0] in one)
    ]
    best = max((sum(scores[number] for number in one) for one in sets), default=0)
    assert sum(scores[number] for number in chosen) == best


def test_many_tokens_are_packed_in_steps_and_still_filled():
    chosen = worthiest([997] * 150, [0.5] * 150, 100_000)
    assert len(chosen) == 100

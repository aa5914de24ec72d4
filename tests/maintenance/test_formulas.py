"""Test the formulas of scales, consolidation and clustering."""

from datetime import timedelta
from itertools import combinations
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.core.text import jaccard
from memoryhub.maintenance.operations.compress import single_linkage
from memoryhub.maintenance.operations.consolidate import ConsolidationRates, consolidated_importance, is_stale
from memoryhub.memories.evidence import Scale, balance_scales, next_scale, scale_for_age

LIMITS = (5, 30, 120)
COUNTS = {Scale.IMMEDIATE: 1, Scale.TASK: 2, Scale.SESSION: 1, Scale.PROJECT: 1}


@pytest.mark.conformance("guide-71", "guide-72", "guide-73", "guide-74")
@pytest.mark.parametrize(
    ("minutes", "scale"),
    [(0, "immediate"), (4.9, "immediate"), (5, "task"), (29, "task"), (30, "session"), (120, "project")],
)
def test_age_decides_the_scale(minutes, scale):
    assert scale_for_age(timedelta(minutes=minutes), LIMITS) == scale


@pytest.mark.conformance("guide-93")
def test_a_promoted_memory_counts_for_the_higher_scale():
    assert scale_for_age(timedelta(minutes=1), LIMITS, "session") == "session"
    assert scale_for_age(timedelta(days=1), LIMITS, "task") == "project"
    assert next_scale(Scale.TASK) == "session"
    assert next_scale(Scale.PROJECT) == "project"


def test_each_scale_gets_its_places_and_free_places_go_to_the_best():
    scales = [Scale.PROJECT] * 4 + [Scale.TASK] * 3 + [Scale.IMMEDIATE]
    chosen = balance_scales(list(range(8)), lambda one: scales[one], COUNTS, 5)
    assert chosen == [
        0,
        1,
        4,
        5,
        7,
    ]  # one project, two task, one immediate; no session, so the best that is left


@pytest.mark.conformance("guide-94")
def test_use_boosts_by_the_logarithm_of_the_accesses():
    assert consolidated_importance(
        0.5, "change", days=10, accesses=4, rates=ConsolidationRates()
    ) == pytest.approx(0.5 + 0.03 * log(5))


@pytest.mark.conformance("guide-95")
def test_disuse_decays_by_the_day_and_decisions_at_half_the_rate():
    assert consolidated_importance(
        0.5, "change", days=5, accesses=0, rates=ConsolidationRates()
    ) == pytest.approx(0.4)
    assert consolidated_importance(
        0.5, "decision", days=5, accesses=0, rates=ConsolidationRates()
    ) == pytest.approx(0.45)


def test_running_it_again_at_once_changes_nothing():
    once = consolidated_importance(0.5, "change", days=5, accesses=0, rates=ConsolidationRates())
    assert consolidated_importance(once, "change", days=0, accesses=0, rates=ConsolidationRates()) == once


@pytest.mark.conformance("guide-97")
def test_only_faded_and_unused_memories_are_stale():
    assert is_stale(0.04, 90, 0.05, 90)
    assert not is_stale(0.05, 900, 0.05, 90)
    assert not is_stale(0.01, 89, 0.05, 90)


@given(st.floats(0, 1), st.sampled_from(["change", "decision"]), st.floats(0, 1e4), st.integers(0, 10**6))
def test_importance_stays_between_0_and_1(importance, kind, days, accesses):
    assert 0 <= consolidated_importance(importance, kind, days, accesses, ConsolidationRates()) <= 1


def compared_pair_by_pair(texts, similarity, least):
    groups = [{n} for n in range(len(texts))]
    for one, other in combinations(range(len(texts)), 2):
        if jaccard(texts[one], texts[other]) >= similarity:
            a = next(g for g in groups if one in g)
            b = next(g for g in groups if other in g)
            if a is not b:
                groups.remove(b)
                a |= b
    return sorted(sorted(g) for g in groups if len(g) >= least)


@pytest.mark.conformance("guide-98")
@given(
    st.lists(st.sets(st.sampled_from("abcdefghij"), min_size=1), max_size=14),
    st.sampled_from([0.3, 0.5, 0.8]),
)
def test_clusters_are_those_of_comparing_every_pair(texts, similarity):
    assert single_linkage(texts, similarity, 2) == compared_pair_by_pair(texts, similarity, 2)


@pytest.mark.conformance("guide-99")
def test_a_chain_of_links_is_one_cluster():
    chain = [set("abcd"), set("bcde"), set("cdef")]
    assert single_linkage(chain, 0.6, 3) == [[0, 1, 2]]

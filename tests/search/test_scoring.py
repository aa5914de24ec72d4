"""Scores: bounds, monotony and a match that uses the whole range."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memoryhub.backends.fts_query import parse_query
from memoryhub.core import text
from memoryhub.search import scoring, text_matching
from memoryhub.search.scoring import Components, Weights, composite_score, idf, recency, term_weights
from memoryhub.search.text_matching import QueryMatcher

SHARE = st.floats(0, 1)
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "cache",
    "caches",
    "metadata",
    "data",
    "foo.bar",
    "検索",
    "C++",
]
PHRASE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
FIELDS = st.dictionaries(
    st.sampled_from(sorted(scoring.FIELD_CREDIT)), PHRASE | st.text(max_size=60), max_size=5
)
FREQUENCIES = st.dictionaries(
    st.sampled_from(["alpha", "beta", "gamma", "cach", "data"]), st.integers(0, 5000)
)


def match_of(typed, fields, frequencies=None, total=1000):
    query = parse_query(typed)
    return QueryMatcher(query, term_weights(query, frequencies or {}, total)).match(fields).match


@given(PHRASE | st.text(max_size=80), FIELDS, FREQUENCIES, st.integers(0, 10_000))
@example("...", {"title": "..."}, {}, 0)
@example(".", {"content": "x"}, {}, 0)
def test_match_is_between_0_and_1(typed, fields, frequencies, total):
    assert 0.0 <= match_of(typed, fields, frequencies, total) <= 1.0


@given(SHARE, SHARE, SHARE, SHARE)
def test_score_is_between_0_and_1(a, b, c, d):
    assert 0.0 <= composite_score(Components(a, b, c, d), Weights()) <= 1.0 + 1e-12


@given(st.tuples(SHARE, SHARE, SHARE, SHARE), st.integers(0, 3), SHARE)
def test_score_rises_with_each_part(parts, which, better):
    assume(better >= parts[which])
    raised = tuple(better if n == which else part for n, part in enumerate(parts))
    assert composite_score(Components(*raised), Weights()) >= composite_score(Components(*parts), Weights())


@pytest.mark.conformance("guide-38", "store-23", "store-25", "store-27", "store-28")
def test_documented_weights():
    only = [composite_score(Components(*(float(n == m) for m in range(4))), Weights()) for n in range(4)]
    assert only == pytest.approx([0.55, 0.20, 0.15, 0.10])


@given(st.floats(-1000, 36500), st.floats(0.001, 36500))
def test_recency_is_between_0_and_1(age, half_life):
    assert 0.0 <= recency(age, half_life) <= 1.0


@pytest.mark.conformance("guide-40", "store-26")
def test_recency_halves_at_21_days():
    assert [recency(days) for days in (0, 21, 42, 63)] == pytest.approx([1, 0.5, 0.25, 0.125])


def test_future_date_counts_as_now():
    assert recency(-3) == 1.0


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_idf_is_positive_and_falls_with_frequency(frequency, total):
    assert idf(frequency, total) > 0
    assert idf(frequency + 1, max(total, frequency + 1)) < idf(frequency, max(total, frequency + 1))


@pytest.mark.conformance("store-24")
@given(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"]), min_size=1, unique=True),
    FREQUENCIES,
)
def test_match_rises_with_coverage(words, frequencies):
    """Each additional query word in the content raises the match."""
    typed = "alpha beta gamma delta epsilon"
    values = [
        match_of(typed, {"content": "x " + " y ".join(words[:n])}, frequencies) for n in range(len(words) + 1)
    ]
    assert values == sorted(values)
    assert values[0] == 0.0 < values[-1]


@given(PHRASE, st.sampled_from(sorted(scoring.FIELD_CREDIT)))
def test_match_rises_with_field_credit(typed, place):
    written = f"before {typed} after"
    there = match_of(typed, {"title": "other", place: written})
    assert there >= match_of(typed, {"title": "other", "content": written})


def test_only_the_exact_title_matches_1():
    assert match_of("The cache is stale", {"title": "the Cache is  stale.", "content": "x"}) == 1.0
    assert match_of("The cache is stale", {"title": "The cache is stale today", "content": "x"}) < 1.0


def test_no_shared_term_matches_0():
    assert match_of("alpha beta", {"title": "gamma", "content": "delta"}) == 0.0
    assert match_of("alpha", {}) == 0.0
    assert match_of("", {"title": "x"}) == 0.0


def test_query_of_dots_does_not_match_every_title():
    assert match_of(".", {"content": "no dot"}) == 0.0
    assert match_of("..", {"title": "Named", "content": "no dots"}) == 0.0


def test_match_spreads():
    """The values between a full title match and one common word are used."""
    frequencies = {"alpha": 2, "beta": 20, "gamma": 200, "delta": 500, "common": 900}
    typed = "alpha beta gamma delta common"
    values = [
        match_of(typed, fields, frequencies)
        for fields in (
            {"title": typed},
            {"title": f"{typed} and more"},
            {"title": "x", "content": f"y {typed} z"},
            {"title": "x", "content": "alpha beta gamma"},
            {"title": "x", "content": "alpha beta"},
            {"title": "x", "content": "alpha"},
            {"title": "x", "content": "gamma delta"},
            {"title": "x", "content": "common"},
        )
    ]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    assert values[0] == 1.0
    assert values[-1] < 0.01
    assert sum(0.2 < value < 0.8 for value in values) >= 3


def test_rare_word_counts_more_than_a_common_one():
    frequencies = {"rare": 1, "common": 900}
    rare = match_of("rare common", {"content": "rare"}, frequencies)
    assert rare > 10 * match_of("rare common", {"content": "common"}, frequencies)


def test_word_counts_more_than_a_substring():
    assert match_of("data", {"content": "the data"}) > match_of("data", {"content": "the metadata"}) > 0


def test_dotted_name_counts_more_than_its_parts():
    whole = match_of("foo.bar", {"content": "call foo.bar now"})
    assert (
        whole > match_of("foo.bar", {"content": "foo and bar"}) > match_of("foo.bar", {"content": "foo"}) > 0
    )


def test_phrase_counts_more_than_its_words():
    assert match_of("lost update", {"content": "the lost update problem"}) > match_of(
        "lost update", {"content": "the update was lost"}
    )


@given(
    st.lists(
        st.sampled_from(["cache", "cached", "cacher", "catch", "metacache", "CACHE", "Càche"]), max_size=12
    )
)
def test_words_are_counted_by_stem_up_to_the_limit(words):
    written = " ".join(words)
    there = sum(text.stem(word) == "cach" for word in text.words(written))
    found = text_matching._find_words(text.fold(written), "cach", limit=4)
    assert len(found) == min(there, 4)
    assert {text.stem(text.fold(written)[start:end]) for start, end in found} <= {"cach"}


def test_phrase_has_the_weight_of_its_rarest_word():
    query = parse_query('"rare common" common 検索')
    phrase, common, literal = term_weights(query, {"common": 500, "rare": 1}, 1000)
    assert common < literal < phrase

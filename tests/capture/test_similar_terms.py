"""Test the lookup of memories that are similar to a text."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.capture.services import find_similar_terms
from memoryhub.core.text import jaccard, terms
from memoryhub.models import Memory

LEDGER = "the planner chose a stale index for the ledger query"


def highest_similarity(text):
    return max(
        (jaccard(terms(text), one) for one in find_similar_terms(Memory.objects.all(), text)), default=0.0
    )


def test_similar_memory_is_found_among_many(remember_all):
    notes = [f"note number {n} about the weather of the harbour and its ships" for n in range(40)]
    remember_all([*notes, LEDGER])
    assert highest_similarity(LEDGER) == 1.0
    assert highest_similarity(LEDGER + " again, because of statistics") > 0.5


def test_unrelated_text_has_no_neighbours(remember):
    remember(LEDGER)
    assert find_similar_terms(Memory.objects.all(), "lighthouse keepers count gulls") == []


def test_common_words_are_searched_together(remember):
    for tail in ("alpha", "beta", "gamma"):
        remember(f"{LEDGER} {tail}")
    assert highest_similarity(LEDGER) > 0.8


def test_any_text_is_accepted(remember):
    remember(LEDGER)
    for text in (
        "",
        "   ",
        "AND OR NOT",
        '"',
        "C++ *",
        "a b c",
        "数据库索引",
        "x" * 5000,
        "NEAR(a b)",
        "- ' :",
    ):
        find_similar_terms(Memory.objects.all(), text)


def test_lookup_takes_four_queries(remember):
    for n in range(30):
        remember(f"{LEDGER} {n}")
    with CaptureQueriesContext(connection) as caught:
        find_similar_terms(Memory.objects.all(), LEDGER)
    assert len(caught) == 4

"""The memories most like a text, found cheaply and without a trace."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.backends.statements import rare_words
from memoryhub.capture import services
from memoryhub.capture.services import find_similar_terms
from memoryhub.core.text import jaccard, terms
from memoryhub.models import Memory

LEDGER = "the planner chose a stale index for the ledger query"


def likest(text):
    return max(
        (jaccard(terms(text), one) for one in find_similar_terms(Memory.objects.all(), text)), default=0.0
    )


def test_a_memory_that_says_the_same_is_found_among_many(remember):
    for n in range(40):
        remember(f"note number {n} about the weather of the harbour and its ships")
    remember(LEDGER)
    assert likest(LEDGER) == 1.0
    assert likest(LEDGER + " again, because of statistics") > 0.5


def test_a_text_unlike_all_others_has_no_neighbours(remember):
    remember(LEDGER)
    assert find_similar_terms(Memory.objects.all(), "lighthouse keepers count gulls") == []


def test_words_that_are_nothing_but_common_are_looked_for_together(remember, monkeypatch):
    monkeypatch.setattr(services, "MAX_POSTINGS", 2)
    for tail in ("alpha", "beta", "gamma"):
        remember(f"{LEDGER} {tail}")
    assert likest(LEDGER) > 0.8


def test_any_text_is_safe(remember):
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


def test_two_queries_are_enough(remember):
    for n in range(30):
        remember(f"{LEDGER} {n}")
    with CaptureQueriesContext(connection) as caught:
        find_similar_terms(Memory.objects.all(), LEDGER)
    assert len(caught) == 2


def test_rare_words_are_counted_and_common_ones_left_out(remember):
    for n in range(3):
        remember(f"harbour note {n}")
    remember("harbour lighthouse")
    assert rare_words(["harbour", "lighthouse", "gull"], 3) == {"lighthouse": 1}
    assert rare_words([], 3) == {}

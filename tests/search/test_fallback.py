"""Search with fallbacks: by meaning, by words, with corrected spelling, without hidden memories."""

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.search.fallback import (
    FEW_MEMORIES,
    MANY_MEMORIES,
    MIN_SHARE_OF_BEST,
    MIN_SIMILARITY,
    MatchKind,
    correct_spelling,
    min_semantic_similarity,
    search_with_fallback,
)
from memoryhub.search.hybrid import MIN_MATCH
from tests.cases import each


def everything():
    return Memory.objects.all()


def test_known_words_are_not_corrected(remember):
    remember("The authentication of tokens")
    assert correct_spelling(everything(), "authentication tokens") is None
    assert correct_spelling(everything(), "authenticate token") is None
    assert correct_spelling(everything(), "") is None


@each(
    "typed, meant",
    [
        ("authentcation", "authentication"),
        ("atuhentication", "authentication"),
        ("autenthicaton", "authentication"),
        ("Authentcation of tokesn", "authentication of tokens"),
        ("postgressql", "postgresql"),
    ],
)
def test_misspelt_words_are_corrected(remember, typed, meant):
    remember("The authentication of tokens in PostgreSQL")
    corrected = correct_spelling(everything(), typed)
    assert corrected is not None
    assert corrected.typed == meant
    assert 0.75 < corrected.similarity < 1


@each("typed", ["zebra", "xyzzyplugh", "auth", "認証", "12345678", '"', "a" * 3000])
def test_word_without_a_similar_one_is_not_corrected(remember, typed):
    remember("The authentication of tokens")
    corrected = correct_spelling(everything(), typed)
    assert corrected is None


def test_correction_never_uses_words_of_hidden_memories(remember):
    remember("The zirconium vault", sensitivity="secret")
    remember("Nothing of interest")
    visible = Memory.objects.visible_to(Clearance())
    assert correct_spelling(visible, "zirconum") is None
    assert search_with_fallback(visible, "zirconum", limit=10) == []


def test_word_outside_the_filter_is_not_misspelt(remember):
    remember("The resting of servers", category="a")
    remember("The testing of servers", category="b")
    narrowed = Memory.objects.filter(category="a")
    assert correct_spelling(narrowed, "testing") is not None
    assert correct_spelling(narrowed, "testing", everything()) is None


def test_results_are_unique_and_ordered_by_similarity(embedding, remember):
    remember("Backups of the database are made at night")
    remember("The cat sleeps at night")
    remember("A database is backed up with VACUUM INTO")
    found = search_with_fallback(everything(), "database backup", limit=10)
    assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)
    assert len({one.memory.pk for one in found}) == len(found)
    assert "database" in found[0].memory.content.lower()
    assert all(one.how is MatchKind.SEMANTIC for one in found)
    assert all(one.similarity >= MIN_SHARE_OF_BEST * found[0].similarity for one in found)


@each(
    "typed, meant",
    [
        ("login credentials", "JWT"),
        ("authentication decisions", "JWT"),
        ("which theme do they like", "dark"),
        ("when do we release", "Friday"),
        ("espresso", "Coffee"),
        ("databse", "PostgreSQL"),
        ("strickt mode", "TypeScript"),
    ],
)
def test_best_of_few_memories_comes_first(embedding, remember, typed, meant):
    for text in (
        "We use JWT tokens for authentication",
        "We use TypeScript strict mode",
        "The user prefers dark mode in the editor",
        "Deploy to production every Friday afternoon",
        "PostgreSQL is the main database",
        "Coffee machine is on the third floor",
    ):
        remember(text)
    assert meant in search_with_fallback(everything(), typed, limit=10)[0].memory.content


def test_age_importance_and_trust_do_not_exclude_a_match(remember):
    old = remember("The zebra crossing", created_at="1990-01-01T00:00:00Z", importance=0, trust=0)
    [found] = search_with_fallback(everything(), "zebra crossing", limit=10)
    assert found.memory.pk == old.pk


def test_limit_is_respected(remember_all):
    remember_all(f"zebra number {n}" for n in range(30))
    assert len(search_with_fallback(everything(), "zebra", limit=7)) == 7
    assert search_with_fallback(Memory.objects.none(), "zebra", limit=7) == []


def test_minimum_similarity_rises_with_the_number_of_memories():
    floors = [min_semantic_similarity(n) for n in (0, FEW_MEMORIES, 100, MANY_MEMORIES, 10 * MANY_MEMORIES)]
    assert floors == sorted(floors)
    assert floors[0] == MIN_SIMILARITY
    assert floors[-1] == pytest.approx(MIN_MATCH["semantic"])


@each("typed", ["foo.bar", "C++", '"', "AND OR NOT", "*", "漢字", "🦓", "", " ", "x\x00y", "a" * 5000])
def test_any_query_is_answered(embedding, remember, typed):
    remember("foo.bar in C++ with 漢字 and a 🦓")
    assert isinstance(search_with_fallback(everything(), typed, limit=5), list)


@each(
    "typed, meant",
    [
        ("how do users sign in", "JWT"),
        ("login", "JWT"),
        ("payment provider", "Stripe"),
        ("Who handles billing?", "Stripe"),
        ("credit card processing", "Stripe"),
        ("exception monitoring", "Sentry"),
        ("which linter", "ruff"),
    ],
)
def test_paraphrase_finds_a_memory_with_a_related_word(remember, typed, meant):
    remember("We decided on JWT with short-lived access tokens")
    remember("Stripe processes all charges")
    remember("Error tracking uses Sentry")
    remember("The style of the code is enforced with ruff")
    remember("The team uses builder pattern for config structs")
    found = search_with_fallback(everything(), typed, limit=10)
    assert meant in found[0].memory.content


def test_related_word_counts_less_than_the_word_itself(remember):
    remember("Stripe processes all charges")
    remember("The payment provider was chosen in March")
    found = search_with_fallback(everything(), "payment provider", limit=10)
    assert found[0].memory.content.startswith("The payment provider")


def test_query_without_a_known_subject_has_no_related_words(remember):
    remember("Stripe processes all charges")
    assert search_with_fallback(everything(), "holiday calendar", limit=10) == []


def test_related_words_come_from_the_given_memories_only(remember):
    remember("Stripe processes all charges", sensitivity="secret")
    visible = Memory.objects.live().filter(sensitivity="public")
    assert search_with_fallback(visible, "payment provider", limit=10) == []

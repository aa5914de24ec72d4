"""Hybrid search by words and by meaning."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import memories as store
from memoryhub.access.policy import Clearance
from memoryhub.embeddings import EmbeddingError, provider
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.search import hybrid
from memoryhub.search.hybrid import search_memories
from memoryhub.search.visible_rows import load_visible_rows
from tests.cases import each

pytestmark = [pytest.mark.usefixtures("embedding"), pytest.mark.django_db]


def seen(level="public", **more):
    return Memory.objects.visible_to(Clearance.up_to(level, **more)).live()


def contents(typed, memories=None, **options):
    found = search_memories(seen() if memories is None else memories, typed, **options)
    return [hit.memory.content for hit in found.hits]


@pytest.fixture
def talk(remember):
    """A conversation of two people, one memory per turn, so old that recency does not count."""

    def add(*turns, session="talk-1", **more):
        return [
            remember(turn, session_id=session, project="zoo", created_at=f"2021-03-01T10:{n:02}:00Z", **more)
            for n, turn in enumerate(turns)
        ]

    return add


def test_memory_with_other_words_of_the_same_meaning_is_found(remember):
    remember("The automobile was repaired at the workshop", created_at="2021-01-01")
    remember("Tomatoes grow best in full sun", created_at="2021-01-01")
    assert contents("fixing the car in a garage", mode="semantic", min_score=0)[0].startswith(
        "The automobile"
    )
    assert contents("fixing the car in a garage", mode="lexical") == []


def test_answer_is_found_by_the_words_of_the_question_before_it(talk):
    talk("Ada: Where did you spend the carnival holidays?", "Bob: In Rijeka, with my sister.", "Ada: Lovely!")
    talk("Ada: I baked bread.", "Bob: My boat leaks again.", session="talk-2")
    found = contents("Where did Bob spend the carnival holidays?", min_score=0)
    assert found[0] == "Bob: In Rijeka, with my sister."


def test_hidden_neighbour_does_not_raise_the_match(talk, remember):
    [before] = talk("Ada: Is the quokka enclosure finished?")
    talk("Bob: Yes, since Monday.", session="talk-2")
    Memory.objects.filter(session_id="talk-2").update(session_id="talk-1", created_at="2021-03-01T10:01:00Z")
    shown = [one for one in contents("quokka enclosure", min_score=0) if one.startswith("Bob")]
    assert shown
    Memory.objects.filter(pk=before.pk).update(sensitivity="secret")
    assert contents("quokka enclosure", min_score=0) == []


def neighbours_of(memory, level="public"):
    """Return the keys of the neighbours before and after a memory, nearest first."""
    rows = load_visible_rows(seen(level))
    own = int(rows.find(np.array([memory.pk]))[0])
    before, after = [], []
    for pairs in rows.session_pairs(np.array([own]), 2):
        before += rows.pks[pairs.earlier[pairs.later == own]].tolist()
        after += rows.pks[pairs.later[pairs.earlier == own]].tolist()
    return [before, after]


def test_neighbours_are_visible_memories_of_the_same_session_and_project(talk, remember):
    one, two, three, four = talk("one", "two", "three", "four")
    talk("other", session="talk-2")
    Memory.objects.filter(pk=two.pk).update(sensitivity="secret")
    assert neighbours_of(three) == [[one.pk], [four.pk]]
    assert neighbours_of(three, "secret") == [[two.pk, one.pk], [four.pk]]


def test_neighbours_with_equal_time_are_ordered_by_storage(remember):
    made = [
        remember(f"fact {n}", session_id="s", project="zoo", created_at="2021-01-01T00:00:00Z")
        for n in range(5)
    ]
    assert neighbours_of(made[2]) == [[made[1].pk, made[0].pk], [made[3].pk, made[4].pk]]


def test_memory_without_session_has_no_neighbours(remember):
    made = remember("alone", project="zoo")
    remember("alone too", project="zoo")
    assert neighbours_of(made) == [[], []]


def test_nonsense_finds_nothing(corpus):
    for memory in Memory.objects.all():
        assert memory.embedding.model
    for typed in ("xyzzy plugh frobnicate", "zzzzqqq", "鯨鯨鯨", "🦄🦄", "Kohlrabi Quarkauflauf"):
        for min_score in (None, 0.0):
            assert search_memories(seen(), typed, min_score=min_score).total == 0, typed


def test_one_common_word_among_others_finds_little(corpus):
    assert search_memories(seen(), "the release of the kraken from the deep sea").total <= len(corpus) // 50


def test_exact_title_comes_first(corpus):
    for memory in corpus[::29]:
        found = search_memories(seen(), memory.title)
        assert found.mode == "hybrid"
        assert found.hits[0].memory == memory
        assert found.hits[0].components.match == 1.0


@each("mode", ["hybrid", "lexical", "semantic"])
def test_each_mode_is_reported_and_ordered_by_score(corpus, mode):
    found = search_memories(seen(), "payment webhook time zone", mode=mode, min_score=0)
    scores = [hit.score for hit in found.hits]
    assert found.mode == mode
    assert scores
    assert scores == sorted(scores, reverse=True)
    assert bool(found.model) == (mode != "lexical")
    assert found.failure == ""


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_search_without_provider_falls_back_to_words(corpus, configure, mode):
    configure(embeddings="none")
    found = search_memories(seen(), "payment webhook", mode=mode)
    assert found.hits
    assert found.mode == "lexical"
    assert "by words only" in found.failure


def test_search_with_failing_provider_falls_back_to_words(corpus, monkeypatch):
    def fail():
        raise EmbeddingError("the endpoint did not answer in time")

    monkeypatch.setattr(provider, "configured", fail)
    found = search_memories(seen(), "payment webhook")
    assert found.hits
    assert found.mode == "lexical"
    assert found.failure == "searched by words only: the endpoint did not answer in time"


def test_failing_provider_is_logged_once(corpus, monkeypatch, caplog):
    def fail():
        raise EmbeddingError("the endpoint did not answer in time")

    monkeypatch.setattr(provider, "configured", fail)
    monkeypatch.setattr(provider, "_warned", {})
    for _ in range(3):
        search_memories(seen(), "payment webhook")
    [record] = caplog.records
    assert record.getMessage() == "searched by words only: the endpoint did not answer in time"


@each("mode", ["hybrid", "lexical", "semantic"])
@each("level", ["public", "private", "secret"])
def test_no_mode_finds_hidden_memories(four_levels, mode, level):
    levels = {
        "public": {"public"},
        "private": {"public", "private"},
        "secret": {"public", "private", "secret"},
    }
    found = search_memories(seen(level), "zebra stripes", mode=mode, min_score=0)
    assert {hit.memory.sensitivity for hit in found.hits} == levels[level]
    assert found.total == len(levels[level])


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_hidden_memory_does_not_change_scores(remember, mode):
    for n in range(20):
        remember(f"quokka habitat report number {n}", session_id="s", project="zoo")

    def shown():
        found = search_memories(seen(), "quokka habitat swordfish9", mode=mode, min_score=0, limit=50)
        return [(hit.memory.uid, hit.components.match) for hit in found.hits]

    before = shown()
    remember("the password hint is swordfish9", sensitivity="secret", session_id="s", project="zoo")
    assert before == shown()


def test_filter_applies_before_the_limit(remember, remember_all):
    remember_all((f"harbour crane maintenance log {n}" for n in range(120)), project="port")
    wanted = remember("harbour crane maintenance in the museum", project="museum")
    assert contents("harbour crane maintenance", seen().filter(project="museum"), limit=5) == [wanted.content]


def test_no_mode_finds_an_erased_memory(remember, actor):
    made = remember("The automobile was repaired at the workshop")
    assert contents("automobile workshop", mode="semantic", min_score=0)
    store.erase_memories([made.uid], actor)
    for mode in ("hybrid", "lexical", "semantic"):
        assert contents("automobile workshop", mode=mode, min_score=0) == []


def test_number_of_queries_is_constant(actor, configure):
    configure(max_memories=0)

    def queries(first, last):
        # Of several lengths: results that match differently are reordered, which reads their vectors.
        texts = (f"zebra stripes number {n}" + " in the dust" * (n % 8) for n in range(first, last))
        drafts = [MemoryDraft(content=text, session_id="s", project="zoo") for text in texts]
        store.create_memories(drafts, actor)
        search_memories(seen(), "zebra stripes at the waterhole", min_score=0)
        with CaptureQueriesContext(connection) as captured:
            search_memories(seen(), "zebra stripes at the waterhole", min_score=0)
        return len(captured)

    few = queries(0, 80)
    assert queries(80, 900) <= few


def test_newest_and_titles_are_found_for_a_very_common_word(remember, configure):
    configure(search_pool=20)
    for n in range(60):
        remember(f"a note on release matters {n}", title=f"Note {n}", project="zoo")
    titled = remember("all about it", title="Release", project="zoo")
    both = remember("the release of the quokka", title="Some more", project="zoo")
    assert contents("release", limit=1) == [titled.content]
    assert both.content in contents("release quokka", limit=2)


def test_most_valuable_of_many_equal_matches_is_found(actor, configure):
    configure(max_memories=0)
    texts = [f"harbour pilot note {n}" for n in range(300)]
    drafts = [
        MemoryDraft(content=text, importance=1.0 if n == 150 else 0.5, created_at="2021-01-01")
        for n, text in enumerate(texts)
    ]
    store.create_memories(drafts, actor)
    assert contents("harbour", limit=1) == [texts[150]]


def test_large_limit_is_filled(actor, configure):
    configure(max_memories=0)
    store.create_memories([MemoryDraft(content=f"harbour pilot note {n}") for n in range(260)], actor)
    assert len(contents("harbour pilot", limit=200)) == 200


@pytest.mark.parametrize("pinned_first", [False, True])
def test_pages_have_the_same_results_if_only_the_best_are_sorted(remember, monkeypatch, pinned_first):
    for n in range(14):
        remember(f"zebra number {n} " + "plain " * (n % 3), importance=n % 5 / 5, pinned=n in (1, 8, 13))
    options = {"mode": "lexical", "pinned_first": pinned_first, "min_score": 0.0}
    whole = search_memories(seen(), "zebra number", limit=14, **options)
    monkeypatch.setattr(hybrid, "MAX_REORDERED", 1)
    for offset in range(0, 14, 4):
        page = search_memories(seen(), "zebra number", limit=4, offset=offset, **options)
        assert [hit.memory.pk for hit in page.hits] == whole.ids[offset : offset + 4]
        assert (page.total, sorted(page.ids)) == (14, sorted(whole.ids))

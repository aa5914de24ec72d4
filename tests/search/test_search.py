"""Search over a corpus: relevant memories come first, irrelevant ones are not returned."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.core.text import is_short, words
from memoryhub.memories import create_memories
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.search.scoring import Weights
from tests.search.test_fts_query import HOSTILE

NONSENSE = [
    "xyzzy plugh frobnicate",
    "zzzzqqq",
    "qwertyuiopasdf",
    "鯨鯨鯨",
    "🦄🦄",
    "Kohlrabi Quarkauflauf",
    "\u0301",
    "",
    "   ",
    '""',
]
ONE_COMMON_WORD = [
    "details about quantum gravity and string theory",
    "the release of the kraken from the deep sea",
    "my ticket to the opera was rolled out of sight",
    "change my mind about pineapple pizza toppings",
]


@pytest.fixture
def find(actor):
    def run(typed, filters=None, **options):
        return search_memories(MemoryFilter(**(filters or {})).select(actor.clearance), typed, **options)

    return run


def test_exact_title_comes_first(corpus, find):
    for memory in corpus[::9]:
        found = find(memory.title)
        assert found.hits[0].memory == memory
        assert found.hits[0].components.match == 1.0


def test_search_without_snippets_has_the_same_scores(corpus, find):
    asked, now = corpus[17].title, timezone.now()
    whole, bare = find(asked, now=now), find(asked, now=now, snippets=False)
    assert [(hit.memory, hit.score) for hit in bare.hits] == [(hit.memory, hit.score) for hit in whole.hits]
    assert {hit.snippet for hit in bare.hits} == {""}
    assert all(hit.snippet for hit in whole.hits)


def test_exact_title_in_other_case_and_without_its_full_stop_comes_first(corpus, find):
    memory = corpus[17]
    assert find(f"{memory.title.upper()}.").hits[0].memory == memory


def test_exact_title_comes_before_hundreds_of_better_bm25_ranks(db, actor, find, configure):
    configure(max_memories=0, search_pool=50)
    memories.create_memories(
        [MemoryDraft(content=f"release {n}", title=f"Release {n}") for n in range(300)], actor
    )
    wanted = memories.create_memory(
        MemoryDraft(content="notes about release " + "of many things " * 300, title="Release"), actor
    ).memory
    assert find("release").hits[0].memory == wanted


def test_unique_sentence_finds_its_memory_first(corpus, find):
    for n in (3, 77, 150, 301):
        assert find(f"ticket {1000 + n}").hits[0].memory == corpus[n]


def test_question_finds_the_memory_that_answers_it(corpus, find):
    memory = next(m for m in corpus if m.title == "Payment webhook ignores the time zone")
    found = find("why does the payment webhook ignore time zones?")
    assert found.hits[0].memory == memory


def test_nonsense_finds_nothing(corpus, find):
    for typed in NONSENSE:
        assert find(typed).total == find(typed, min_score=0.0).total == 0, typed


def test_one_common_word_among_others_finds_little(corpus, find):
    for typed in ONE_COMMON_WORD:
        assert find(typed).total <= len(corpus) // 50, typed


def test_match_spreads_over_a_corpus(corpus, find):
    values = {
        hit.components.match for hit in find("payment webhook time zone", limit=200, min_score=0.0).hits
    }
    assert min(values) < 0.25
    assert max(values) > 0.8
    assert len(values) >= 5


@pytest.mark.conformance("guide-39", "store-22")
def test_score_is_the_weighted_sum_of_its_parts(corpus, find):
    for hit in find("session cache", limit=50, min_score=0.0).hits:
        parts = hit.components
        total = 0.55 * parts.match + 0.20 * parts.recency + 0.15 * parts.importance + 0.10 * parts.trust
        assert hit.score == pytest.approx(total, abs=1e-4)
        assert 0 <= hit.score <= 1


@pytest.mark.conformance("guide-43", "store-29")
def test_results_are_best_first_and_above_the_floor(corpus, find):
    for floor in (0.0, 0.2, 0.35, 0.5, 0.9, 1.0):
        scores = [hit.score for hit in find("search facet", limit=200, min_score=floor).hits]
        assert scores == sorted(scores, reverse=True)
        assert all(score >= floor for score in scores)


def test_higher_floor_finds_no_more(corpus, find):
    totals = [find("import queue loops", min_score=floor).total for floor in (0.0, 0.3, 0.5, 0.7, 1.0)]
    assert totals == sorted(totals, reverse=True)


def test_limit_and_offset_cut_one_ranking(corpus, find):
    whole = [hit.memory.pk for hit in find("backup rotation", limit=30, min_score=0.0).hits]
    parts = [find("backup rotation", limit=7, offset=n, min_score=0.0) for n in range(0, 30, 7)]
    assert [hit.memory.pk for part in parts for hit in part.hits][:30] == whole
    assert {part.total for part in parts} == {parts[0].total}
    assert parts[0].ids[:30] == whole
    assert find("backup rotation", limit=0).hits == []


@pytest.mark.conformance("guide-121")
def test_newer_memory_comes_before_an_equal_older_one(remember, find):
    old = remember("zebra stripes one", title="One", created_at="2020-01-01")
    new = remember("zebra stripes two", title="Two")
    assert [hit.memory for hit in find("zebra stripes", min_score=0).hits] == [new, old]


@pytest.mark.conformance("guide-42", "store-27", "store-28")
@pytest.mark.parametrize("field", ["importance", "trust"])
def test_importance_and_trust_count(remember, find, field):
    low = remember("zebra one", title="One", **{field: 0.1})
    high = remember("zebra two", title="Two", **{field: 0.9})
    assert [hit.memory for hit in find("zebra", min_score=0).hits] == [high, low]


def test_recency_counts_from_the_last_update(remember, find):
    memory = remember("zebra", created_at="2020-01-01")
    assert find("zebra", min_score=0).hits[0].components.recency < 0.01
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=21))
    assert find("zebra", min_score=0).hits[0].components.recency == pytest.approx(0.5, abs=0.01)
    assert memory.pk == find("zebra", min_score=0).hits[0].memory.pk


def test_results_do_not_swap_their_places_while_a_reader_turns_pages(remember, find):
    now = timezone.now()
    for minute in range(30):
        remember(f"zebra {minute}", created_at=now - timedelta(minutes=minute))
    moments = [now + timedelta(minutes=minute) for minute in range(20)]
    orders = {tuple(hit.memory.pk for hit in find("zebra", limit=30, now=at).hits) for at in moments}
    assert len(orders) <= 2  # a step of the recency may lie within these minutes


def test_weights_change_the_ranking(remember, find):
    important = remember("other words and a zebra", title="x", importance=0.6)
    telling = remember("zebra zebra", title="zebra of all", importance=0.4)
    assert find("zebra", min_score=0).hits[0].memory == telling
    assert find("zebra", min_score=0, weights=Weights(0, 0, 1, 0)).hits[0].memory == important


def test_configured_weights_floor_and_limit_are_used(corpus, find, configure):
    assert len(find("session cache", min_score=0).hits) == 10
    configure(search_limit=3, min_score=0.0, match_weight=0.0, importance_weight=0.7)
    found = find("session cache")
    assert len(found.hits) == 3
    assert found.hits[0].memory.importance == max(hit.memory.importance for hit in found.hits)


@pytest.mark.conformance("guide-64", "store-36")
def test_trashed_expired_and_erased_memories_are_not_found(remember, actor, find):
    trashed, expired, erased, kept = (remember(f"zebra {n}") for n in range(4))
    memories.trash_memories([trashed.uid], actor)
    memories.apply_bulk_action("expire", [expired.uid], actor)
    memories.erase_memories([erased.uid], actor)
    for typed in ("zebra", "ebr"):
        assert [hit.memory for hit in find(typed, min_score=0).hits] == [kept]
    assert [hit.memory for hit in find("zebra", {"trashed": True}, min_score=0).hits] == [trashed]


def test_old_words_of_a_changed_memory_are_not_found(remember, actor, find):
    memory = remember("zebra")
    memories.update_memory(memory.uid, MemoryPatch(content="okapi"), actor)
    assert find("zebra", min_score=0).total == find("ebra", min_score=0).total == 0
    assert find("okapi").total == 1


def test_queryset_is_lazy(corpus, django_assert_num_queries):
    with django_assert_num_queries(0):
        rows = Memory.objects.search("webhook").filter(project="shop").exclude(type="bugfix")
    with django_assert_num_queries(3):
        number = rows.count()
        some = list(rows[:3])
        assert Memory.objects.filter(pk__in=rows.values("pk")).count() == number
    assert 0 < len(some) <= number
    assert all(memory.project == "shop" for memory in some)
    assert list(Memory.objects.search("")) == list(Memory.objects.search("   ")) == []


@pytest.mark.slow
def test_hostile_input_is_answered(four_levels, find):
    for typed in HOSTILE:
        for min_score in (None, 0.0):
            found = find(typed, min_score=min_score)
            assert found.total == len(found.ids), typed
        list(Memory.objects.search(typed))


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.one_of(st.text(max_size=60), st.text(alphabet='zebra"*^():{}+-ANDORNEAR \t\x00.検索é', max_size=30))
)
@example("zebra" * 400)
def test_any_text_is_answered(four_levels, actor, typed):
    found = search_memories(MemoryFilter().select(actor.clearance), typed, min_score=0.0)
    for hit in found.hits:
        assert 0 < hit.components.match <= 1
        assert hit.memory.sensitivity != "cosmic"


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_piece_of_a_memory_finds_it(corpus, actor, configure, data):
    """Substrings with a word of more than three letters."""
    configure(max_memories=0, search_pool=len(corpus))
    memory = data.draw(st.sampled_from(corpus[:40]))
    start = data.draw(st.integers(0, len(memory.content) - 4))
    piece = memory.content[start : start + data.draw(st.integers(4, 40))]
    assume("\n" not in piece and not all(map(is_short, words(piece))))
    found = search_memories(MemoryFilter().select(actor.clearance), f'"{piece}"', min_score=0.0, limit=400)
    assert memory in [hit.memory for hit in found.hits]


def public():
    return Memory.objects.visible_to(Clearance()).live()


@pytest.fixture
def many_old(db, actor):
    """More old memories than are scored, all with the word in their titles."""
    texts = (f"Table number {n}\n\nA note." for n in range(320))
    drafts = [MemoryDraft(content=text, created_at="2019-01-01T00:00:00Z") for text in texts]
    create_memories(drafts, actor)


def test_new_and_important_memory_beats_many_with_a_better_match(many_old, remember):
    long = "Something else entirely is described here at length, word after word after word. " * 20
    best = remember(f"{long} One sentence about a table. {long}", importance=1.0, trust=1.0)
    assert search_memories(public(), "table").hits[0].memory == best


def test_total_of_scored_candidates_is_marked_as_inexact(many_old):
    results = search_memories(public(), "table")
    assert not results.exact
    assert search_memories(public(), "number 17").exact


def test_hit_outside_the_content_is_marked_in_the_snippet(remember):
    remember("body says nothing", title="Quokkaname heading")
    [hit] = search_memories(public(), "quokkaname").hits
    assert hit.snippet == "<mark>Quokkaname</mark> heading"


def test_fragment_across_words_is_found(remember_all):
    others = [f"other database notes {n}" for n in range(30)]
    remember_all(["the renamed database lives elsewhere", *others], created_at="2019-01-01T00:00:00Z")
    assert search_memories(public(), "amed data").hits[0].memory.content.startswith("the renamed")

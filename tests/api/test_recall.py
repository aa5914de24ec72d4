"""``POST /recall``: an index of all matches and whole memories, within a token budget."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories as store
from memoryhub.access.policy import Clearance
from memoryhub.core.text import estimate_tokens
from memoryhub.http.problems import json_response
from memoryhub.memories import serializers
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.recall import RecallRequest, recall_memories
from tests.api.conftest import bad_fields, is_problem
from tests.cases import each

EVERYTHING = {"allow_private": True, "allow_secret": True}


def ask(agent, query="zebra", **more):
    response = agent.post("/recall", {"query": query, **more})
    assert response.status_code == 200, response.content
    found = response.json()
    assert estimate_tokens(response.content.decode()) <= found["tokens_used"]
    assert found["tokens_used"] <= more.get("max_tokens", 1000)
    return found


def ids(rows):
    return [row["id"] for row in rows]


def test_response_has_an_index_and_details(bot, remember):
    memory = remember("The zebra crossing is painted anew.", type="decision", importance=0.7)
    found = ask(bot)
    assert set(found) == {
        *("query", "index", "details", "total_count", "total_is_exact", "has_more", "mode", "tokens_used")
    }
    assert found["index"] == [
        {
            "id": memory.uid,
            "type": "decision",
            "summary": "The zebra crossing is painted anew.",
            "importance": 0.7,
        }
    ]
    [detail] = found["details"]
    assert 0 < detail.pop("score") <= 1
    assert detail == serializers.memory(memory, {})
    assert (found["query"], found["total_count"], found["has_more"]) == ("zebra", 1, False)


def test_a_summary_has_twenty_words_of_the_abstract(bot, remember):
    remember("A zebra.", abstract="zebra " * 30)
    [entry] = ask(bot)["index"]
    assert entry["summary"] == " ".join(["zebra"] * 20) + "…"


def test_query_without_matches_is_repeated(bot, remember):
    remember("A zebra.")
    asked = "giraffe by the tall acacia tree tonight"
    assert ask(bot, asked, max_tokens=200)["query"] == asked


def test_response_without_matches_is_empty(bot, remember):
    remember("A zebra.")
    for query in ("giraffe", "", " ", "\x00", '"'):
        found = ask(bot, query)
        assert (found["index"], found["details"], found["total_count"]) == ([], [], 0)
        assert found["has_more"] is False


def test_all_matches_are_counted_when_the_budget_is_too_small(bot, remember):
    for number in range(60):
        remember(f"zebra number {number} of the herd")
    found = ask(bot, max_tokens=600)
    assert found["total_count"] == 60
    assert 1 <= len(found["index"]) < 60
    assert found["has_more"] is True
    assert len(ask(bot, max_tokens=100_000)["index"]) == 60


def test_long_index_leaves_room_for_details(bot, remember):
    for number in range(60):
        remember(f"zebra number {number} of the herd")
    found = ask(bot, max_tokens=1000)
    assert found["details"]
    assert len(found["index"]) > len(found["details"])


def test_one_huge_memory_does_not_displace_the_others(bot, remember):
    giant = remember("zebra " + "grass " * 15_000, title="zebra", importance=1.0)
    small = remember("a zebra and its foal")
    found = ask(bot, max_tokens=1000)
    assert ids(found["index"]) == [giant.uid, small.uid]
    assert ids(found["details"]) == [small.uid]


def test_memory_with_very_many_files_is_only_in_the_index(bot, remember):
    laden = remember("zebra", files_read=[f"savannah/{number}/herd.py" for number in range(1000)])
    plain = remember("a zebra and its foal")
    found = ask(bot, max_tokens=1000)
    assert set(ids(found["index"])) == {laden.uid, plain.uid}
    assert ids(found["details"]) == [plain.uid]


def test_query_count_does_not_grow_with_matches(bot, remember):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert ask(bot, max_tokens=100_000)["details"]
        return len(captured)

    for number in range(4):
        remember(f"zebra number {number}", tags=["striped"])
    queries()  # the first search of a process opens its index
    few = queries()
    for number in range(4, 40):
        remember(f"zebra number {number}", tags=["striped"])
    assert queries() == few


def test_huge_memory_is_shown_whole_if_the_budget_allows(bot, remember):
    giant = remember("zebra " + "grass " * 15_000)
    [detail] = ask(bot, max_tokens=100_000)["details"]
    assert detail["content"] == giant.content


def test_memory_mcp_ranking_uses_importance_and_use(bot, remember):
    used = remember("zebra by the river", importance=0.5)
    important = remember("zebra by the water", importance=0.9)
    remember("zebra by the lake", importance=0.5, trust=1.0)
    Memory.objects.filter(pk=used.pk).update(accessed_count=10)
    assert ids(ask(bot, max_tokens=5000)["index"])[:2] == [important.uid, used.uid]


def test_letsgo_ranking_uses_trust_and_not_use(bot, remember):
    used = remember("zebra by the river")
    trusted = remember("zebra by the lake", trust=1.0)
    Memory.objects.filter(pk=used.pk).update(accessed_count=10**6)
    assert ids(ask(bot, ranking="letsgo", max_tokens=5000)["index"]) == [trusted.uid, used.uid]


def test_letsgo_ranking_has_scores_and_order_of_a_search(bot, remember):
    for number in range(8):
        remember(f"zebra {'herd ' * number}", importance=number / 10)
    searched = bot.post("/search", {"query": "zebra herd", "limit": 50}).json()
    recalled = ask(bot, "zebra herd", ranking="letsgo", max_tokens=50_000)
    assert recalled["total_count"] == searched["total"]
    assert [(one["id"], one["score"]) for one in recalled["details"]] == [
        (one["memory"]["id"], one["score"]) for one in searched["results"]
    ]


def test_match_is_what_search_finds_above_the_minimum(bot, remember):
    year_ago = timezone.now() - timedelta(days=365)
    words = "zebra " + " ".join(f"word{n}" for n in range(9))
    remember("zebra", created_at=year_ago, importance=0, trust=0)
    assert ask(bot, words)["total_count"] == bot.post("/search", {"query": words}).json()["total"] == 0
    assert ask(bot, words, min_score=0)["total_count"] == 1


def test_filters_are_those_of_search(bot, remember):
    remember("zebra", project="zoo", tags=["striped"])
    wanted = remember("zebra too", project="park", tags=["striped"], category="animals")
    remember("zebra three", project="park")
    assert ids(ask(bot, project="park", tag="striped", category="animals")["index"]) == [wanted.uid]


@each(
    "clearance, flags, levels",
    [
        ("secret", {}, {"public"}),
        ("secret", {"allow_private": True}, {"public", "private"}),
        ("secret", EVERYTHING, {"public", "private", "secret"}),
        ("private", EVERYTHING, {"public", "private"}),
        ("public", EVERYTHING, {"public"}),
    ],
)
def test_hidden_memories_are_in_no_part_of_the_response(agent, four_levels, clearance, flags, levels):
    found = ask(agent(clearance), "zebra stripes", max_tokens=10_000, **flags)
    seen = {four_levels[level].uid for level in levels}
    assert set(ids(found["index"])) == set(ids(found["details"])) == seen
    assert found["total_count"] == len(seen)


def test_only_memories_shown_whole_count_as_accessed(bot, remember):
    for number in range(40):
        remember(f"zebra number {number} of the herd")
    found = ask(bot, max_tokens=1000)
    counted = set(Memory.objects.filter(accessed_count=1).values_list("uid", flat=True))
    assert counted == set(ids(found["details"])) != set()


def test_recall_from_the_trash_counts_no_access(bot, remember, actor):
    memory = remember("zebra")
    store.trash_memories([memory.uid], actor)
    assert ids(ask(bot, trashed=True)["details"]) == [memory.uid]
    memory.refresh_from_db()
    assert memory.accessed_count == 0


def test_long_query_is_truncated_to_the_budget(bot, remember):
    remember("zebra in the long grass")
    found = ask(bot, "zebra " * 2000, max_tokens=200)
    assert found["query"].startswith("zebra zebra")
    assert found["query"].endswith("…")
    assert found["index"]


def test_smallest_budget_shows_the_first_match_briefly(bot, remember):
    memory = remember("Which zebra, of all those that graze beyond the river, is the eldest one of the herd?")
    found = ask(bot, "which zebra is the eldest one beyond the river?", max_tokens=100)
    assert ids(found["index"]) == [memory.uid]
    assert found["index"][0]["summary"].startswith("Which zebra")


def test_a_summary_of_emoji_leaves_room_for_other_entries(bot, remember):
    for number in range(5):
        remember(f"zebra {number} {'🦓' * 300}")
    assert len(ask(bot, max_tokens=700)["index"]) == 5


@each("query", ["日本語" * 300, "🦓" * 900, '"\\' * 500, "\u0007" * 900, "ééé" * 400])
def test_no_query_exceeds_the_smallest_budget(bot, query):
    assert ask(bot, query, max_tokens=100)["tokens_used"] <= 100


@each("tokens", [99, 100_001, 0, -1, "many", 1.5, None])
def test_budget_out_of_range_is_refused(bot, tokens):
    assert bad_fields(bot.post("/recall", {"query": "zebra", "max_tokens": tokens})) == {"max_tokens"}


def test_unknown_ranking_is_refused(bot):
    assert bad_fields(bot.post("/recall", {"query": "zebra", "ranking": "best"})) == {"ranking"}


def test_mode_works_as_in_search(bot, embedding, remember):
    by_word = remember("The automobile was repaired at the workshop")
    asked = "fixing the car in a garage"
    by_meaning = ask(bot, asked, mode="semantic", min_score=0)
    assert (by_meaning["mode"], ids(by_meaning["index"])) == ("semantic", [by_word.uid])
    by_words = ask(bot, asked, mode="lexical", min_score=0)
    assert (by_words["mode"], by_words["total_count"]) == ("lexical", 0)
    assert ask(bot, asked)["mode"] == "hybrid"


def test_unknown_mode_is_refused(bot):
    assert bad_fields(bot.post("/recall", {"query": "zebra", "mode": "best"})) == {"mode"}


def test_query_is_required(bot):
    assert bad_fields(bot.post("/recall", {})) == {"query"}


def test_recall_needs_the_right_to_read(agent):
    is_problem(agent(rights=["write"]).post("/recall", {"query": "zebra"}), 403)


def detail(memory, score):
    return {**serializers.memory(memory, {}), "score": score}


texts = st.one_of(
    st.text(min_size=1, max_size=200).map(lambda text: text.replace("\x00", "·")),
    st.sampled_from(["検索", "🦓🏳️‍🌈", "грива ", '\\"', "\u0001", "a1", "long_word-", " \n"]).flatmap(
        lambda part: st.integers(1, 400).map(lambda times: part * times)
    ),
)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    memories=st.lists(st.tuples(texts, texts), min_size=1, max_size=12),
    query=texts,
    budgets=st.lists(st.integers(100, 3000), min_size=3, max_size=3),
)
def test_no_texts_exceed_the_budget(remember, memories, query, budgets):
    Memory.objects.all().delete()
    for content, title in memories:
        remember(f"zebra {content}", title=title[:500].strip(), abstract=title[:2000].strip())
    live: MemoryQuerySet = Memory.objects.visible_to(Clearance()).live()
    for budget in (100, *budgets, 100_000):
        for asked in (f"zebra {query}", query):
            found = recall_memories(live, RecallRequest(asked, budget), detail)
            written = json_response(found).content.decode()
            assert estimate_tokens(written) <= found["tokens_used"] <= budget

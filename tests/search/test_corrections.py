"""Misspelt queries: results, suggestions, and no words of hidden memories. Unknown words find nothing."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory
from memoryhub.search.fallback import correct_spelling, search_or_correct
from memoryhub.search.hybrid import search_memories
from tests.api.conftest import Agent
from tests.cases import each
from tests.toolsets.conftest import agent, bot, result, run

__all__ = ["agent", "bot"]

TEXTS = [
    "Facets are computed for each column of the table",
    "The authentication of tokens happens in the middleware",
    "We suggest an index for slow queries",
    "Deploy to production every Friday afternoon",
    "The user prefers dark mode in the editor",
]


@pytest.fixture
def notes(embedding, remember):
    return [remember(text) for text in TEXTS]


@each(
    "typed, meant, number",
    [
        ("facest", "facets", 0),
        ("authentification", "authentication", 1),
        ("sugest", "suggest", 2),
        ("prodcution", "production", 3),
        ("Friday prodction", "Friday production", 3),
        ("pefers", "prefers", 4),
    ],
)
@each("mode", ["hybrid", "lexical"])
def test_misspelt_word_finds_the_memory_with_the_word(bot: Agent, notes, typed, meant, number, mode):
    body = bot.get("/search", query=typed, mode=mode).json()
    assert body["suggestions"] == [meant]
    assert body["results"][0]["memory"]["id"] == notes[number].uid


@each("typed", ["facets", "facet", "authentic", "uthenticat", "the deployment", "go", "zzzzqqqq", "", "認証"])
def test_query_without_a_misspelt_word_has_no_suggestion(bot: Agent, notes, typed):
    body = bot.get("/search", query=typed).json()
    assert (body["suggestions"], body["corrected"]) == ([], False)


def test_word_that_a_visible_memory_contains_is_not_misspelt(bot: Agent, notes, remember):
    typo = remember("Somebody wrote facest here", title="Typo")
    body = bot.get("/search", query="facest").json()
    assert [hit["memory"]["id"] for hit in body["results"]] == [typo.uid]
    assert body["suggestions"] == []


def test_offered_correction_does_not_change_the_results(bot: Agent, notes):
    body = bot.get("/search", query="dark mode editr", min_score=0.1).json()
    found = search_memories(Memory.objects.all(), "dark mode editr", min_score=0.1)
    assert body["suggestions"] == ["dark mode editor"]
    assert not body["corrected"]
    assert [hit["memory"]["id"] for hit in body["results"]] == [hit.memory.uid for hit in found.hits]


def test_results_of_the_correction_are_marked_as_corrected(bot: Agent, notes):
    body = bot.get("/search", query="facest", mode="lexical").json()
    corrected = bot.get("/search", query="facets", mode="lexical").json()
    assert body["corrected"]
    assert body["total"] == corrected["total"] == 1
    assert "<mark>Facets</mark>" in body["results"][0]["snippet"]


def test_punctuation_and_other_words_of_a_corrected_query_stay(notes):
    correction = correct_spelling(Memory.objects.all(), 'Where is "the authentification", exactly?')
    assert correction is not None
    assert correction.typed == 'Where is "the authentication", exactly?'


def test_more_frequent_of_equally_similar_words_is_suggested(remember):
    for text in ("a facet", "the facets of tables", "more facets", "a fadest", "other facets"):
        remember(text)
    correction = correct_spelling(Memory.objects.all(), "facest")
    assert correction is not None
    assert correction.typed == "facets"


@pytest.mark.parametrize("level", ["private", "secret"])
def test_words_of_hidden_memories_are_never_suggested(agent, remember, level):
    remember("Nothing of interest")
    low = agent(clearance="public")
    before = low.get("/search", query="zirconum").json()
    remember("The zirconium vault", sensitivity=level)
    remember("Other zirconium", project="elsewhere", sensitivity="secret")
    after = low.get("/search", query="zirconum").json()
    assert before["suggestions"] == after["suggestions"] == []
    assert after["results"] == []


def test_hidden_memory_with_the_typo_does_not_remove_the_suggestion(agent, remember):
    remember("The zirconium vault")
    remember("A note that says zirconum", sensitivity="secret")
    body = agent(clearance="public").get("/search", query="zirconum").json()
    assert body["suggestions"] == ["zirconium"]
    assert len(body["results"]) == 1


def test_words_of_secret_memories_are_not_suggested_because_lists_redact_them(remember):
    remember("The zirconium vault", sensitivity="secret")
    assert search_or_correct(Memory.objects.all(), "zirconum").suggestions == ()


def test_word_outside_the_filter_is_not_misspelt(bot: Agent, remember):
    remember("The resting of servers", category="a")
    remember("The testing of servers", category="b")
    assert bot.get("/search", query="testing", category="a").json()["suggestions"] == []


UNHEARD = ["zzzzqqqq unheard", "zzzzqqqq", "flibbertigibbet", "qwfpgjluy blargh", "wombat", "xy", "q"]
TEXTS_WITHOUT_SPACES = [
    "我们决定使用全文检索引擎来查找记忆",
    "部署脚本在每个星期五下午运行",
    "数据库备份保存在上海机房",
    "がっこうで全文検索のテストをした",
    "データベースのバックアップは毎晩二時に実行する",
    "한국어 데이터베이스 검색을 지원한다",
    "배포는 금요일 오후에 한다",
    "ระบบค้นหาความจำของทีม",
    "สำรองข้อมูลทุกคืนเวลาตีสอง",
]
# Most share a character with a text, but no word; two Thai ones share a pair of letters.
UNHEARD_WITHOUT_SPACES = [
    "龙卷风避难所",
    "机鲸个",
    "五个苹果",
    "量子力学实验",
    "全员恶人",
    "ペンギン",
    "紅茶の淹れ方",
    "毎日牛乳",
    "한강 유람선",
    "우주비행사",
    "ปลาวาฬ",
    "นกเพนกวิน",
    "🐳🐳",
    "zzzz 鲸鱼",
]
HEARD_WITHOUT_SPACES = [
    ("检索引擎", 0),
    ("部署脚本", 1),
    ("备份", 2),
    ("全文検索", 3),
    ("バックアップ", 4),
    ("데이터베이스", 5),
    ("금요일", 6),
    ("ค้นหา", 7),
    ("ทีม", 7),
    ("สำรองข้อมูล", 8),
]


def find_everywhere(bot: Agent, typed: str) -> dict[str, list[str]]:
    """Return the ids that each way to search finds, best first."""
    found = {}
    for mode in ("hybrid", "lexical", "semantic"):
        hits = bot.get("/search", query=typed, mode=mode).json()["results"]
        found[f"search, {mode}"] = [hit["memory"]["id"] for hit in hits]
        recalled = bot.post("/recall", {"query": typed, "mode": mode}).json()
        found[f"recall, {mode}"] = [one["id"] for one in recalled["index"] + recalled["details"]]
    injected = bot.post("/inject", {"prompt": typed, "session_id": f"s {typed}"}).json()["injected"]
    found["inject"] = [one["id"] for one in injected]
    found["letsgo"] = [one["id"] for one in bot.tool("search_memories", query=typed)["results"]]
    recalled = result(run(bot, "memory-mcp", "memory_recall", query=typed))
    found["memory-mcp"] = [one["id"] for one in recalled["index"]]
    found["pigo"] = [one["id"] for one in result(run(bot, "pigo", "memory_recall", query=typed))["results"]]
    found["mira"] = [one["id"] for one in result(run(bot, "mira", "memory", action="recall", query=typed))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", ["few", "many"])
def test_unheard_words_find_nothing_in_any_toolset(request, embedding, bot: Agent, remember, size):
    if size == "many":
        request.getfixturevalue("corpus")
    for text in [*TEXTS, *TEXTS_WITHOUT_SPACES]:
        remember(text)
    for typed in [*UNHEARD, *UNHEARD_WITHOUT_SPACES]:
        found = find_everywhere(bot, typed)
        assert {name: ids for name, ids in found.items() if ids} == {}, typed


@pytest.mark.slow
def test_words_of_scripts_without_spaces_find_their_memory_in_every_toolset(configure, bot: Agent, remember):
    configure(embeddings="wordllama", injection_deadline_ms=60_000)
    uids = [remember(text).uid for text in TEXTS_WITHOUT_SPACES]
    for typed, number in HEARD_WITHOUT_SPACES:
        for name, ids in find_everywhere(bot, typed).items():
            first = ids if name.endswith("semantic") else ids[:1]
            assert uids[number] in first, (typed, name)


def test_function_word_is_no_correction(bot: Agent, remember):
    remember("Never deploy without a review of the last change")
    body = bot.get("/search", query="fever and headache").json()
    assert (body["suggestions"], body["corrected"]) == ([], False)

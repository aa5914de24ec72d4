"""Search in all scripts and for substrings."""

from __future__ import annotations

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.models import Memory
from memoryhub.search.fallback import search_with_fallback
from memoryhub.search.hybrid import search_memories
from tests.cases import each


def found(typed, **options):
    options.setdefault("min_score", 0.0)
    memories = Memory.objects.visible_to(Clearance.up_to("secret", owner="ada")).live()
    return [hit.memory for hit in search_memories(memories, typed, **options).hits]


TEXTS = {
    "chinese": "我们决定使用全文检索引擎来查找记忆",
    "japanese": "がっこうで全文検索のテストをした",
    "katakana": "データベースのガイド",
    "korean": "한국어 데이터베이스 검색을 지원한다",
    "thai": "ระบบค้นหาความจำของทีม",
    "russian": "Файл конфигурации не найден",
    "greek": "Ο Σίσυφος σπρώχνει τον βράχο",
    "german": "Die Vorüberlegungen zur Größenänderung",
    "vietnamese": "Đà Nẵng là một thành phố biển",
    "hebrew": "שלום עולם זיכרון",
    "arabic": "ذاكرة الوكيل محفوظة",
    "hindi": "हिन्दी में खोज करना",
    "fullwidth": "ｆｕｌｌｗｉｄｔｈ　ｔｅｘｔ",
    "rare": "𠮷野家で食べた",
    "emoji": "deployed on friday 🦓🔥 and regretted it",
    "code": "use std::vector<int> in C++ and List<T> in C#",
    "dotted": "settings.DATABASES['default'] is read once",
    "camel": "the getUserPreferences call is slow",
    "joined": "metadata_cache_invalidation happens twice",
    "percent": "load rose to 100% on node_7",
    "backslash": "the path C:\\temp\\new is wrong",
    "quote": 'he said "never again" and left',
    "ümlaut": "ÄÖ",
}


# Each query with the text that it finds.
QUERIES = [
    ("检", "chinese"),
    ("检索", "chinese"),
    ("全文检", "chinese"),
    ("全文检索引擎", "chinese"),
    ("我们决定使用全文检索引擎来查找记忆", "chinese"),
    ("検索", "japanese"),
    ("がっこう", "japanese"),
    ("っこ", "japanese"),
    ("ガイド", "katakana"),
    ("ガ", "katakana"),
    ("ベース", "katakana"),
    ("한국어", "korean"),
    ("한국", "korean"),
    ("검색", "korean"),
    ("데이터베이스", "korean"),
    ("ค้นหา", "thai"),
    ("ความจำ", "thai"),
    ("файл", "russian"),
    ("ФАЙЛ", "russian"),
    ("айл", "russian"),
    ("онфиг", "russian"),
    ("найден", "russian"),
    ("конфигур", "russian"),
    ("Σίσυφος", "greek"),
    ("ΣΊΣΥΦΟΣ", "greek"),
    ("überlegung", "german"),
    ("ÜBERLEGUNG", "german"),
    ("größenänderung", "german"),
    ("grossen", None),
    ("Größe", "german"),
    ("nang", "vietnamese"),
    ("Nẵng", "vietnamese"),
    ("thanh pho", "vietnamese"),
    ("זיכרון", "hebrew"),
    ("ذاكرة", "arabic"),
    ("हिन्दी", "hindi"),
    ("खोज", "hindi"),
    ("ｆｕｌｌｗｉｄｔｈ", "fullwidth"),
    ("𠮷野家", "rare"),
    ("𠮷", "rare"),
    ("🦓", "emoji"),
    ("🦓🔥", "emoji"),
    ("C++", "code"),
    ("c#", "code"),
    ("C#", "code"),
    ("std::vector", "code"),
    ("List<T>", "code"),
    ("::", "code"),
    ("settings.DATABASES", "dotted"),
    ("DATABASES['default']", "dotted"),
    ("tings.DATA", "dotted"),
    ("UserPref", "camel"),
    ("userpref", "camel"),
    ("getuserpreferences", "camel"),
    ("adata", "joined"),
    ("cache_inval", "joined"),
    ("invalidat", "joined"),
    ("100%", "percent"),
    ("%", "percent"),
    ("node_7", "percent"),
    ("C:\\temp", "backslash"),
    ("\\temp\\", "backslash"),
    ("never again", "quote"),
    ('"never again"', "quote"),
    ("äö", "ümlaut"),
    ("Ä", None),
    ("ö", None),
]


@pytest.fixture
def everything(remember):
    return {name: remember(content, title=f"title of {name}x") for name, content in TEXTS.items()}


def test_text_in_any_script_is_found(everything):
    for typed, name in QUERIES:
        hits = found(typed)
        assert everything[name] in hits if name else hits == [], typed


def test_unknown_text_finds_nothing(everything):
    for typed in ("zz", "jq", "xyzzy", "鯨", "🐳", "₿", "~~", "жж"):
        assert found(typed) == [], typed


@pytest.mark.conformance("guide-27", "guide-54")
def test_every_text_of_a_memory_is_searched(remember):
    fields = ("title", "subtitle", "abstract", "overview")
    made = {remember(f"nothing in {field}", **{field: "so quixotic 漢字"}) for field in fields}
    made.add(remember("so quixotic 漢字"))
    for typed in ("quixot", "quixotic", "ixot", "漢字", "字"):
        assert set(found(typed)) == made, typed


def test_short_cjk_word_counts_next_to_other_words(remember):
    remember("SQLite is a database", title="one")
    wanted = remember("記憶の検索を速くした", title="two")
    assert wanted in found("sqlite 検索")


@pytest.mark.parametrize(
    "typed",
    ["什么时候部署", "什么时候可以部署？", "怎么部署", "谁 部署", "為什麼部署", "何时部署呢", "部署要多久"],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_chinese_question_words_do_not_count_next_to_a_subject(remember, typed, mode):
    asked = remember("Notes for the person on duty: alarms, backups, 部署, and the weekly report.")
    remember("什么时候开会由小组决定，谁都可以参加。")
    assert found(typed, mode=mode, min_score=0.35) == [asked]


def test_chinese_question_words_alone_find_their_text(remember):
    meeting = remember("什么时候开会由小组决定。")
    remember("办公室在三楼。")
    assert found("什么时候") == [meeting]
    assert found("什么时候开会由小组决定。")[0] == meeting
    assert found("怎么办") == []


def test_short_name_with_punctuation_is_found_among_many_words_like_it(remember):
    for n in range(30):
        remember(f"compiler c number {n} is about c and c and c")
    wanted = remember("only this one mentions c# " + "filler " * 200)
    assert wanted in found("c#", limit=50)


def test_diacritics_and_case_do_not_matter(remember):
    memory = remember("The Café RÉSUMÉ was naïve")
    for typed in ("cafe", "CAFÉ", "resume", "Résumé", "naive", "NAÏVE"):
        assert found(typed) == [memory], typed


@pytest.mark.conformance("mcp-36")
@each(
    "written, typed",
    [
        ("the index was rebuilt while indexing", "indexes"),
        ("configured the caches", "configuration cache"),
        ("several policies", "policy"),
        ("possibly wrong", "possible"),
        ("methodologies differ", "methodology"),
    ],
)
def test_forms_of_a_word_find_each_other(remember, written, typed):
    memory = remember(written)
    assert found(typed) == [memory]


def test_word_of_hidden_memories_is_found_inside_visible_words(remember, low):
    remember("the data of the board", sensitivity="secret")
    public = remember("all metadata is kept")
    memories = Memory.objects.visible_to(low.clearance).live()
    assert [hit.memory for hit in search_memories(memories, "data", min_score=0.0).hits] == [public]


def test_substring_in_an_old_memory_passes_the_usual_floor(remember):
    memory = remember("the reindexingqueue was drained", created_at="2019-01-01T00:00:00Z", title="Old news")
    assert found("indexingque", min_score=None) == [memory]


@pytest.mark.parametrize(
    ("text", "unrelated", "inflected"),
    [
        ("يتم تشغيل النسخ الاحتياطي كل ليلة", "سيارة حمراء", "تشغيل"),
        ("הגיבוי רץ בכל לילה בשעה שתיים", "מכונית אדומה", "גיבוי"),
        ("Τα αντίγραφα γίνονται κάθε βράδυ", "Καλημέρα", "αντίγραφα"),
        ("परिनियोजन शुक्रवार को नहीं किया जाता", "नमस्ते", "परिनियोजन"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_words_of_a_script_that_the_model_cannot_read_find_only_texts_with_them(
    embedding, remember, text, unrelated, inflected, mode
):
    memory = remember(text)
    remember("The cache is cleared at night")
    memories = Memory.objects.all()
    assert search_memories(memories, unrelated, mode=mode, min_score=0.0).hits == []
    found = search_with_fallback(memories, unrelated, limit=5)
    assert found == []
    if mode == "hybrid":
        assert [hit.memory for hit in search_memories(memories, inflected).hits] == [memory]

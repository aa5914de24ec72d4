"""Exact text first: code, paths, short words, and scripts with marks, emoji and other directions."""

from __future__ import annotations

import re
import unicodedata
from html import unescape

import pytest

from memoryhub.backends.fts_query import parse_query
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.search.text_matching import extract_snippet, highlight_text
from tests.cases import each

CODE = [
    ('foo::bar("x")', ["foo bar x: the foo and the bar of x", "foo::baz is bar x", "bar foo"]),
    ("a.b.c", ["a b c d", "c is a letter, b as well", "abc"]),
    ("--flag-name", ["the flag name is long", "name of the flag", "flag-name"]),
    ("path/to/file.py:42", ["file.py in path to 42", "the path to the file py 42", "42 files"]),
    ("C++", ["C and C and C", "plus and plus"]),
    ("node_7", ["node_8 is a node", "a node with 7 nodes"]),
    ("->", ["a re-used name", "- one - two", "3 > 2"]),
]


def search(typed, **options):
    return search_memories(Memory.objects.all(), typed, min_score=0.0, **options).hits


def marks(typed, text):
    return [
        unescape(one) for one in re.findall(r"<mark>(.*?)</mark>", extract_snippet(parse_query(typed), text))
    ]


@each("code, others", CODE)
@each("mode", ["hybrid", "lexical"])
def test_old_memory_with_the_exact_code_comes_before_new_ones_with_its_words(
    embedding, remember, code, others, mode
):
    exact = remember(f"The log says {code} at night", title="Log", created_at="2020-01-01T00:00:00Z")
    for number, other in enumerate(others):
        remember(other, title=f"Other {number}")
    first, *rest = search(code, mode=mode)
    assert first.memory == exact
    assert all(hit.score < first.score for hit in rest)


@pytest.mark.parametrize("code", [code for code, _ in CODE])
def test_exact_code_is_one_highlight_without_single_characters(code):
    assert marks(code, f"The log says {code} at night: a b c x, 7 and 42.")[0] == code
    assert all(len(one) > 1 for one in marks(code, f"The log says {code} at night: a b c x 7."))


@pytest.mark.parametrize("typed", ["don't use pgbouncer", "why can’t we'll use pgbouncer", "isn't pgbouncer"])
def test_contraction_does_not_count_next_to_other_words(typed):
    words = {word for term in parse_query(typed).terms for word in term.words}
    assert words - {"use"} == {"pgbouncer"}


def test_contraction_alone_finds_its_text(remember):
    expected = remember("The tests don't run on Sundays")
    assert [hit.memory for hit in search("don't", mode="lexical")] == [expected]


def test_exact_code_in_a_question_counts_more_than_its_words(embedding, remember):
    exact = remember("Run it with --flag-name today")
    remember("The flag name is long")
    remember("The name of the flag")
    assert search("where is --flag-name used")[0].memory == exact


def test_single_characters_do_not_count_next_to_other_words():
    assert parse_query("plan b of 7 % the zebra").words == ("plan", "zebra")
    assert parse_query("plan b of 7 % the zebra").literals == ()
    assert marks("plan b", "plan b or a b") == ["plan"]
    assert parse_query("zebra 検").literals == ("検",)
    assert parse_query("zebra 🦓").literals == ("🦓",)


@each("typed", ["C", "c", "R", '"R"', "7"])
def test_query_of_one_character_finds_whole_words(remember, typed):
    bare = typed.strip('"')
    wanted = remember(f"Written in {bare.upper()} by hand", title="Old")
    remember("Rust, Clojure, R2D2, C3PO and 77 others", title="Others")
    assert [hit.memory for hit in search(typed)] == [wanted]
    assert marks(typed, f"Rust Clojure {bare} 77") == [bare]


@each("typed", ["go", "Go", '"go"', "go!", "n.go"])
def test_short_word_does_not_match_inside_a_word(remember, typed):
    mango = remember("The mango, the logo and the ergonomic chair", title="Fruit")
    assert mango not in [hit.memory for hit in search(typed)]
    assert marks(typed, "The mango, the logo and the ergonomic chair") == []


def test_short_word_finds_whole_words_and_a_longer_one_parts_of_words(remember):
    wanted = remember("We write the server in Go", title="Language")
    mango = remember("The mango is ripe", title="Fruit")
    assert [hit.memory for hit in search("go")] == [wanted]
    assert [hit.memory for hit in search("ango")] == [mango]
    assert marks("go", "mango in Go: go!") == ["Go", "go"]


# Real sentences, each with a query and the text that is marked.
SENTENCES = [
    ("我们决定把数据库迁移到新的服务器上。", "数据库", "数据库"),
    ("データベースの移行は来週の月曜日に行います。", "移行", "移行"),
    ("데이터베이스는 다음 주에 옮기기로 결정했습니다.", "데이터", "데이터"),
    ("ทีมตัดสินใจย้ายฐานข้อมูลไปยังเซิร์ฟเวอร์ใหม่", "ข้อมูล", "ข้อมูล"),
    ("ក្រុមសម្រេចចិត្តផ្លាស់ទីមូលដ្ឋានទិន្នន័យ", "ទិន្នន័យ", "ទិន្នន័យ"),
    ("החלטנו להעביר את מסד הנתונים לשרת חדש.", "הנתונים", "הנתונים"),
    ("قررنا نقل قاعدة البيانات إلى خادم جديد.", "البيانات", "البيانات"),
    ("हमने डेटाबेस को नए सर्वर पर ले जाने का निर्णय लिया।", "निर्णय", "निर्णय"),
    ("Chúng tôi quyết định chuyển cơ sở dữ liệu.", "quyet chuyen", "quyết chuyển"),
    ("The de\u0301ploiement was moved to Friday", "déploiement", "déploiement"),
    ("Deployed by 👩🏽‍🚀 on Friday 🇩🇪 and it worked 🎉", "👩🏽‍🚀", "👩🏽‍🚀"),
    ("Deployed by 👩🏽‍🚀 on Friday 🇩🇪 and it worked 🎉", "🎉", "🎉"),
    ("Deployed by 👩🏽‍🚀 on Friday 🇩🇪 and it worked 🎉", "🇩🇪", "🇩🇪"),
]


@each("sentence, typed, marked", SENTENCES)
def test_sentence_in_any_script_is_found_and_highlighted(remember, sentence, typed, marked):
    wanted = remember(sentence, title="One")
    remember("The database was moved to a new server", title="Two")
    first = search(typed)[0]
    assert first.memory == wanted
    found = re.findall(r"<mark>(.*?)</mark>", first.snippet)
    assert " ".join(found) == unicodedata.normalize("NFC", marked)


@pytest.mark.parametrize(
    ("text", "typed", "marked"),
    [
        ("by 👩🏽‍🚀 alone", "👩", ["👩🏽‍🚀"]),
        ("by 👩🏽‍🚀 alone", "🚀", ["👩🏽‍🚀"]),
        ("a 👍🏿!", "👍", ["👍🏿"]),
        ("🇩🇪🇫🇷", "🇪🇫", ["🇩🇪🇫🇷"]),
        ("x̂ and x", "x", ["x̂", "x"]),
        ("कि की", "क", ["कि", "की"]),
        ("ข้อมูล", "ข", ["ข้"]),
    ],
)
def test_highlight_contains_whole_graphemes(text, typed, marked):
    assert marks(typed, text) == marked
    assert unescape(re.sub("</?mark>", "", highlight_text(parse_query(typed), text))) == text


@pytest.mark.parametrize("grapheme", ["👩🏽‍🚀", "🇩🇪", "ข้", "e\u0323\u0302\u0301", "कि"])
@pytest.mark.parametrize("width", range(20, 30))
def test_snippet_is_not_cut_inside_a_grapheme(grapheme, width):
    line = unicodedata.normalize("NFC", grapheme)
    text = f"{grapheme * 40} zebra {grapheme * 40}"
    snippet = extract_snippet(parse_query("zebra"), text, width=width)
    shown = re.sub("</?mark>|zebra|[… ]", "", snippet)
    assert shown.replace(line, "") == ""

"""Snippets: escaped, with marked hits and the original words."""

from __future__ import annotations

import re
import time
import unicodedata
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryhub.backends.fts_query import parse_query
from memoryhub.core.text import collapse_whitespace
from memoryhub.search.text_matching import SNIPPET_WIDTH, extract_snippet, highlight_text
from tests.cost import cost_ratio, ordinary_text, repeat

MARKUP = st.text(alphabet="<>&\"'/=;abz ém日\u0301\n", max_size=200)


def visible_text(html: str) -> str:
    """Return the visible text."""
    return unescape(re.sub(r"</?mark>", "", html))


@given(
    MARKUP | st.text(max_size=300),
    st.text(max_size=30) | st.sampled_from(["a", "<", "&", "mark", "z a", '"b a"']),
)
@example("<script>alert(1)</script>", "script")
@example("a</mark>b", "mark")
@example("&lt;", "lt")
@example("İİİ x İ", "x")
@example("क़" * 20, "क")
@example("x\u0302" * 30 + " end", "end")
def test_snippet_is_escaped_and_balanced_and_part_of_the_text(text, typed):
    for html in (
        extract_snippet(parse_query(typed), text),
        highlight_text(parse_query(typed), text),
        extract_snippet(parse_query(typed), text, width=20),
    ):
        without = re.sub(r"</?mark>", "", html)
        assert "<" not in without
        assert ">" not in without
        assert re.fullmatch(r"(?:[^<]|<mark>[^<]+</mark>)*", html, re.DOTALL)
        seen = visible_text(html).removeprefix("…").removesuffix("…")
        assert seen in unicodedata.normalize("NFC", collapse_whitespace(text))


@given(MARKUP, st.text(max_size=20))
def test_highlighted_text_is_complete(text, typed):
    assert visible_text(highlight_text(parse_query(typed), text)) == unicodedata.normalize(
        "NFC", collapse_whitespace(text)
    )


@given(st.text(max_size=3000), st.text(max_size=20))
def test_snippet_is_not_longer_than_its_width(text, typed):
    assert len(visible_text(extract_snippet(parse_query(typed), text))) <= SNIPPET_WIDTH + 2


@pytest.mark.parametrize(
    ("typed", "text", "marked"),
    [
        ("caches", "The cache was cached; caching caches.", ["cache", "cached", "caching", "caches"]),
        ("Überlegung", "Die Überlegungen, die überlegung", ["überlegung"]),
        ("cafe", "Ein Café und cafe\u0301", ["Café", "café"]),
        ("файл", "Файл найден", ["Файл"]),
        ("検索", "全文検索の検索", ["検索", "検索"]),
        ("C++", "in C++ and c++", ["C++", "c++"]),
        ("foo.bar", "foo.bar and foo and bar", ["foo.bar", "foo", "bar"]),
        ("adata", "metadata is data", ["adata"]),
        ("data", "metadata is data", ["data"]),
        ('"lost update"', "a lost  update was lost", ["lost update", "lost"]),
        ("<b>", "say <b> twice <b>", ["b", "b"]),
        ("🦓", "a 🦓!", ["🦓"]),
        ("nothing", "here", []),
        ("", "here", []),
    ],
)
def test_hits_are_marked(typed, text, marked):
    found = re.findall(r"<mark>(.*?)</mark>", extract_snippet(parse_query(typed), text))
    assert [unescape(one) for one in found] == marked


def test_snippet_shows_the_densest_window():
    text = "zebra " + "filler " * 100 + "zebra meets okapi and zebra " + "filler " * 100
    html = extract_snippet(parse_query("zebra okapi"), text)
    assert html.count("<mark>") == 3
    assert html.startswith("…")
    assert html.endswith("…")


def test_short_text_is_shown_whole():
    assert extract_snippet(parse_query("b"), "a\n\n  b   c") == "a <mark>b</mark> c"


def test_long_text_full_of_hits_is_fast():
    text = "zebra " * 16_000
    began = time.process_time()
    extract_snippet(parse_query("zebra"), text)
    assert time.process_time() - began < 2  # it was half a minute when each hit looked at every other


def test_snippet_is_cut_at_words():
    html = extract_snippet(parse_query("needle"), "straw " * 300 + "needle " + "straw " * 300)
    assert set(visible_text(html).strip("…").split()) == {"straw", "needle"}


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("👩", "👩\u200d"),
        ("🇩", "🇩🇪"),
        ("🇩🇪 x", "x 🇩🇪🇩🇪 "),
        ("e", "e" + "\u0301" * 50),
        ("中", "中"),
        ("the", "the "),
    ],
)
def test_snippet_of_a_hostile_text_takes_linear_time(query: str, part: str) -> None:
    parsed = parse_query(query)
    short, long = (part * (length // len(part)) for length in (1000, 8000))
    assert cost_ratio(lambda text: extract_snippet(parsed, text), long, short, enough=16) <= 16


@pytest.mark.parametrize("typed", ["memory hub", "a", '"a b"', "a*"])
@pytest.mark.parametrize("part", ["a ", "memory ", "&", "<", "é", "İ", "\u0301", "👩\u200d", "x" * 300])
def test_snippet_of_hostile_text_takes_at_most_five_times_as_long(part: str, typed: str) -> None:
    query = parse_query(typed)
    ordinary = ordinary_text(12_000)
    assert (
        cost_ratio(lambda text: extract_snippet(query, text), repeat(part, 12_000), ordinary, enough=5) <= 5
    )


def test_hits_after_the_thousandth_do_not_change_the_snippet() -> None:
    query = parse_query("zebra")
    assert extract_snippet(query, "zebra " * 1000 + "okapi") == extract_snippet(query, "zebra " * 9000)

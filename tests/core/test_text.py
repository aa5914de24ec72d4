"""Words, stems and short forms, and their agreement with SQLite's tokenizer."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryhub.backends.sqlite.schema import INDEXES
from memoryhub.core import text
from tests.cost import cost_ratio, repeat


@pytest.fixture(scope="module")
def tokens_of():
    """Return the tokens of a text according to SQLite."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute(f"CREATE VIRTUAL TABLE t USING fts5(x, {INDEXES['memoryhub_text']})")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab('t', 'instance')")

    def tokens(written: str) -> list[str]:
        connection.execute("DELETE FROM t")
        connection.execute("INSERT INTO t(rowid, x) VALUES (1, ?)", [written])
        return [term for (term,) in connection.execute("SELECT term FROM v ORDER BY offset")]

    yield tokens
    connection.close()


@pytest.mark.parametrize(
    "written",
    [
        "Caresses ponies ties cats feed agreed plastered motoring sing",
        "conflated troubled sized hopping tanned falling hissing fizzed failing filing happy sky",
        "relational conditional rational valency hesitancy digitizer conformably radically vilely",
        "analogously vietnamization predication operator feudalism decisiveness hopefulness callousness",
        "formality sensitivity sensibility triplicate formative formalize electricity electrical hopeful",
        "technology technologies methodologies psychology biology apology possibly incredibly probably",
        "is as us os js ms vs 1s id db go s a",
        "analyse analysed analysing configuration configured configures policies policy policed",
        "Überraschung naïve café Ångström Łódź façade Đà Nẵng smørrebrød",
        "файл Йод ёлка Київ їжак",  # й is no и with a mark
        "ΣΊΣΥΦΟΣ Σίσυφος λόγος",  # a final sigma is a sigma
        "がっこう カタカナ ガイド パン 全文検索",  # が is no か with a mark
        "한국어 검색 데이터베이스",
        "हिन्दी में खोज",
        "שלום עולם كَتَبَ العربية",
        "snake_case kebab-case dotted.name C++ C# 3.11 e-mail don't",
        "µs ſtraße STRASSE Straße",
        "日本語とEnglishの mixed テキスト",
        "a" * 64 + " " + "b" * 65 + "ing",
    ],
)
def test_python_and_index_find_the_same_words(tokens_of, written):
    assert [text.stem(word) for word in text.words(written)] == tokens_of(written)


LETTERS = st.text(
    st.sampled_from("aäàåeéèiïoöôuüßñçłøABCÄÖÜйЙёЁїςσΣάКирилицα日本検索がガ한국어"), min_size=1, max_size=12
)


@given(LETTERS)
@example("Й")
@example("ガ")
def test_folding_agrees_with_the_index_for_letters_of_living_scripts(tokens_of, word):
    assert [text.stem(one) for one in text.words(word)] == tokens_of(word)


@given(st.text())
@example("\u0301")
@example("´")
@example("İ")
@example("ﷺ" * 50)
@example("\ud800")
@example("က" + "ing")
def test_folding_never_empties_a_text(written):
    folded = text.fold(written)
    assert bool(folded) == bool(written)
    text.words(written)
    text.terms(written)


def test_stemming_is_thread_safe():
    words = [
        f"{head}{tail}"
        for head in ("relat", "gener", "technolog")
        for tail in ("ing", "ed", "ies", "y", "ation")
    ]
    right = {word: text.stem.__wrapped__(word) for word in words}
    wrong = []

    def work() -> None:
        for _ in range(300):
            wrong.extend(word for word in words if text.stem.__wrapped__(word) != right[word])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_jaccard_counts_shared_terms():
    assert text.jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert text.jaccard(set(), set()) == 0.0
    assert text.jaccard({"a"}, {"a"}) == 1.0


def test_terms_exclude_stop_words_and_combine_forms():
    assert text.terms("The caches were cached, and the cache is warm") == {"cach", "warm"}


@given(st.text(), st.integers(1, 300))
def test_shortened_text_is_one_line_within_the_limit(written, chars):
    short = text.shorten(written, chars)
    assert len(short) <= chars
    assert "\n" not in short


@given(st.text(min_size=1).filter(str.strip))
def test_title_is_made_from_any_text(written):
    title = text.make_title(written)
    assert title.strip()
    assert len(title) <= 80


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# Heading\n\nbody", "Heading"),
        ("\n\n  - a list item\n- another", "a list item"),
        ("> quoted\ntext", "quoted"),
        ("###", "###"),
        ("one " * 40, ("one " * 19).strip() + "…"),
        ("\n" * 5000 + "far down", "far down"),
    ],
)
def test_title_is_the_first_non_empty_line(content, title):
    assert text.make_title(content) == title


def test_summary_has_twenty_words():
    assert text.make_summary("word " * 30) == " ".join(["word"] * 20) + "…"
    assert text.make_summary("just these") == "just these"


def test_summary_skips_leading_white_space():
    assert text.make_summary("\n" * 9000 + "far down") == "far down"


def test_summary_of_text_without_spaces_is_short():
    assert len(text.make_summary("検索" * 500)) <= 60


@pytest.mark.parametrize(
    ("written", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("検索", 2), ("検索ab", 3)]
)
def test_tokens_are_estimated_by_script(written, tokens):
    assert text.estimate_tokens(written) == tokens


@pytest.mark.parametrize(
    ("content", "title", "expected"),
    [
        ("# Oats\n\nAt six.", "Oats", "At six."),
        ("## `Oats`:\nAt six.", "Oats", "At six."),
        ("Oats.\n\n  At six.", "Oats", "  At six."),
        ("oats\n\nAt six.", "Oats", "At six."),
        ("Oats", "Oats", ""),
        ("Oats\nat six.", "Oats", "Oats\nat six."),
        ("Oats at six.", "Oats", "Oats at six."),
        ("\nOats\n", "", "\nOats\n"),
    ],
)
def test_title_line_is_removed_unless_it_begins_a_paragraph(content, title, expected):
    assert text.without_title_line(content, title) == expected


@pytest.mark.parametrize(
    ("line", "title", "expected"),
    [
        ("Oats: at six", "Oats", "at six"),
        ("Oats and hay", "Oats…", "and hay"),
        ("Hay", "Oats", "Hay"),
        ("Oats; hay", "Session: Oats", "hay"),
        ("Oats; hay", "So far: Oats", "hay"),
    ],
)
def test_title_prefix_is_removed(line, title, expected):
    assert text.without_title_prefix(line, title) == expected


@given(st.text(alphabet="abcdefgh .,;-\n0123ÅéП検索😀", max_size=200), st.integers(0, 40))
def test_cut_text_is_the_longest_beginning_within_the_tokens(typed, tokens):
    cut = text.cut_to_tokens(typed, tokens)
    assert typed.startswith(cut)
    assert text.estimate_tokens(cut) <= tokens
    assert cut == typed or text.estimate_tokens(typed[: len(cut) + 1]) > tokens


@pytest.mark.parametrize("part", ["< ", "<private ", "<private  x", "</", "<private>", "<"])
def test_private_blocks_are_found_in_linear_time(part):
    hostile = part[:-1] + repeat(part[-1], 20_000) if part.endswith(" ") else repeat(part, 20_000)
    assert cost_ratio(text.strip_private, hostile, repeat("a < b <private>c</private> ", 20_000), 10) < 40

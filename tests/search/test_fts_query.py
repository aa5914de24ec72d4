"""Parsing of queries: no input raises, and no input is an operator of the index."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.backends import fts_query as queries
from memoryhub.backends import statements
from memoryhub.backends.sqlite.schema import INDEXES

HOSTILE = [
    "",
    " ",
    "\t\n",
    "\x00",
    "a\x00b",
    '"',
    '""',
    '" "',
    '"unclosed',
    "'; DROP TABLE memoryhub_memory; --",
    "AND",
    "OR NOT AND",
    "NEAR(a b, 3)",
    "title:secret",
    "{title content}: x",
    "-word",
    "+word",
    "^word",
    "*",
    "word*",
    "**",
    "(",
    ")",
    "((((",
    "a AND (b OR",
    "C++",
    "C#",
    "foo.bar",
    "foo.bar()",
    "a->b",
    "->",
    "?!",
    "...",
    "…",
    "%",
    "_",
    "100%_",
    "\\",
    "\\'",
    "🦓",
    "🦓🦓🦓",
    "👩‍👩‍👧",
    "\u0301",
    '"\u0301"',
    "´",
    "¨ x",
    "e\u0301",
    "\ud800",
    "\udfff\ud800",
    "\u202e\u200b\ufeff",
    "ﷺ",
    "İ",
    "ß",
    "検",
    "検索",
    "全文検索エンジン",
    "한국어",
    "ไทย",
    "𠮷野家",
    "検索 AND *",
    "a" * 5000,
    "word " * 1000,
    ".".join(["part"] * 500),
    '"' + "phrase " * 250 + '"',
    '"a" ' * 300,
    "the of and",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "../../etc/passwd",
]


@pytest.fixture(scope="module")
def ask():
    """Run an expression against an index with one row."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    for table, options in INDEXES.items():
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(x, {options})")
        connection.execute(f"INSERT INTO {table} VALUES ('a title with word and foo.bar, C++ and 全文検索')")
    yield lambda table, expression: connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ?", [expression]
    ).fetchall()
    connection.close()


def expressions_of(typed: str) -> dict[str, str]:
    query = queries.parse_query(typed)
    texts = query.spellings([*query.literals, *query.words, *queries.cjk_trigrams(query.text)])
    return {
        "memoryhub_text": statements.word_expression(query),
        "memoryhub_trigram": statements.trigram_expression(texts),
    }


@pytest.mark.sqlite
def test_hostile_input_becomes_a_valid_expression(ask):
    for typed in HOSTILE:
        for table, expression in expressions_of(typed).items():
            if expression:
                ask(table, expression)


@pytest.mark.sqlite
@settings(max_examples=400)
@given(st.one_of(st.text(), st.text(alphabet='"*^():{}+-ANDORNEAR \t\x00ab.検索', max_size=40)))
@example("´")
def test_any_text_becomes_a_valid_expression(ask, typed):
    for table, expression in expressions_of(typed).items():
        if expression:
            ask(table, expression)


@given(st.text())
def test_every_term_has_words_or_a_literal(typed):
    for term in queries.parse_query(typed).terms:
        assert term.literal or term.words
        assert len(term.stems) == len(term.words)


@given(st.text(max_size=5000))
def test_long_query_is_bounded(typed):
    query = queries.parse_query(typed * 3 + '"a b c d e f g h" ' * 200)
    assert len(query.terms) <= queries.MAX_TERMS
    assert len(query.words) <= queries.MAX_WORDS


def test_stop_words_are_ignored_next_to_other_words():
    assert queries.parse_query("what is the cache").words == ("cache",)


def test_query_of_stop_words_keeps_them():
    assert queries.parse_query("to be or not to be").words == ("to", "be", "or", "not")


def test_dotted_name_has_words_and_a_literal():
    [term] = queries.parse_query("Foo.bar()").terms
    assert (term.words, term.literal) == (("foo", "bar"), "foo.bar")


def test_full_stop_does_not_make_a_literal():
    assert queries.parse_query("Where is the cache? In memory.").literals == ()


def test_quotes_make_a_phrase():
    [term] = queries.parse_query('"lost  Update"').terms
    assert (term.words, term.literal) == (("lost", "update"), "lost update")


def test_script_without_spaces_becomes_pairs():
    assert queries.parse_query("全文検索").literals == ("全文", "文検", "検索")


def test_mixed_scripts_are_split():
    query = queries.parse_query("SQLite全文検索FTS5")
    assert query.words == ("sqlite", "fts5")
    assert query.literals == ("全文", "文検", "検索")


def test_word_with_diacritics_is_also_searched_as_typed():
    query = queries.parse_query("Überleg")
    assert query.spellings(query.words) == ["uberleg", "überleg"]


@pytest.mark.sqlite
def test_quotes_in_a_word_are_escaped(ask):
    assert statements.match_any(['a" OR "word']) == '"a"" OR ""word"'
    assert ask("memoryhub_text", statements.match_any(['nothing" OR "word'])) == []


@pytest.mark.parametrize("possessive", ["Kafka's retention", "KAFKA’S retention", "(kafka's) retention"])
def test_name_in_the_possessive_is_a_word(possessive):
    terms = queries.parse_query(possessive).terms
    assert [term.words for term in terms] == [("kafka",), ("retention",)]
    assert not any(term.literal for term in terms)


@pytest.mark.parametrize("code", ["row['s']", "O'Brien", "x's"])
def test_other_text_with_an_apostrophe_is_one_literal(code):
    [term] = queries.parse_query(code).terms
    assert term.literal

"""Expressions for the text indexes, in the language of the configured database."""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.backends.dialect import sql
from memoryhub.backends.fts_query import MAX_TERMS, MAX_TRIGRAMS, TRIGRAM_LENGTH, Query
from memoryhub.core.text import words

match_any, in_titles = sql.match_any, sql.in_titles


def word_expression(query: Query) -> str:
    """Return an expression for the word index: any word of the query."""
    return match_any(query.words)


def title_like_expression(text: str) -> str:
    """Return an expression for the word index: titles with words that start with all of these words."""
    return sql.title_beginnings(dict.fromkeys(words(text)[:MAX_TERMS]))


def trigram_expression(texts: Iterable[str]) -> str:
    """Return an expression for the trigram index: any of the texts that are long enough.

    The index stores no positions, which makes it six times smaller. So it matches all trigrams of a text in
    any order, and the scoring checks that the text is really there.
    """
    return sql.trigram_groups(_trigrams(text) for text in texts if len(text) >= TRIGRAM_LENGTH)


def _trigrams(text: str) -> Iterable[str]:
    last = min(len(text), MAX_TRIGRAMS) - TRIGRAM_LENGTH + 1
    return dict.fromkeys(text[at : at + TRIGRAM_LENGTH] for at in range(last))


def any_trigram(trigrams: Iterable[str]) -> str:
    """Return an expression for the trigram index: any of these trigrams."""
    return sql.trigram_groups([one] for one in trigrams)

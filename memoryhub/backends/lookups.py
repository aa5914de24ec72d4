"""Lookups: full-text ``MATCH`` with its expressions, values in a JSON document, the time of expiry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Subquery
from django.db.models.expressions import Expression
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from memoryhub.backends.dialect import sql
from memoryhub.backends.fts_query import MAX_TERMS, MAX_TRIGRAMS, TRIGRAM_LENGTH, Query
from memoryhub.core.dates import expiry_time
from memoryhub.core.text import words

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class MatchField(_TextField):
    """The hidden FTS5 column with the name of its table: ``filter(terms__match='"word"')``."""


@MatchField.register_lookup
class Match(models.Lookup):
    """``column MATCH 'expression'``; the expression comes from :mod:`memoryhub.backends.fts_query`."""

    lookup_name = "match"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return sql.MATCH(index=left, expression=right), (*left_params, *right_params)


class CurrentMoment(Expression):
    """The expiry time when the statement runs, so that a queryset can be used again later."""

    output_field = models.DateTimeField()

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        return "%s", (connection.ops.adapt_datetimefield_value(expiry_time(timezone.now())),)


class DocumentContains(Func):
    """``DocumentContains("detail", uids)``: the JSON document contains one of these texts, at any depth.

    ``uids`` is a queryset of one column, evaluated once for all rows.
    """

    output_field = BooleanField()

    def __init__(self, column: str, texts: QuerySet[Any], **extra: Any) -> None:
        super().__init__(F(column), Subquery(texts), **extra)

    def as_sql(  # type: ignore[override]  # a template cannot place two sources
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper
    ) -> tuple[str, tuple[str | int, ...]]:
        document, texts = self.get_source_expressions()
        column, first = compiler.compile(document)
        among, rest = compiler.compile(texts)
        return sql.DOCUMENT_HAS_ATOM(column=column, texts=among), (*first, *rest)


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

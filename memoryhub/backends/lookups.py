"""Lookups and expressions: full-text ``MATCH``, values in a JSON document, ages in days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Subquery
from django.db.models.expressions import Expression
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from memoryhub.backends.dialect import sql
from memoryhub.core.clock import expiry_time

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

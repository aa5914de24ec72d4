"""Custom lookups and expressions: ``MATCH`` on the full-text table, and membership of a JSON list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Subquery
from django.db.models.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class MatchField(_TextField):
    """The hidden column of an FTS5 table that carries the table's name: ``filter(terms__match='"word"')``."""


@MatchField.register_lookup
class Match(models.Lookup):
    """``column MATCH 'expression'``; the expression comes from :mod:`memoryhub.backends.fts_query`."""

    lookup_name = "match"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} MATCH {right}", (*left_params, *right_params)


class DocumentContains(Func):
    """``Names("detail", uids)``: the document holds one of these texts as a value, at any depth.

    ``uids`` is a queryset of one column, evaluated once for all rows; each document is read through.
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
        return f"EXISTS (SELECT 1 FROM json_tree({column}) WHERE atom IN {among})", (*first, *rest)

"""Whether a JSON column names any of several texts: in SQL, as part of an ordinary filter."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Subquery
from django.db.models.sql.compiler import SQLCompiler


class Names(Func):
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

"""``MATCH`` as an ORM lookup, so that a full-text search is an ordinary lazy queryset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class MatchField(_TextField):
    """The hidden column of an FTS5 table that carries the table's name: ``filter(terms__match='"word"')``."""


@MatchField.register_lookup
class Match(models.Lookup):
    """``column MATCH 'expression'``; the expression comes from :mod:`memoryhub.search.query`."""

    lookup_name = "match"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"{left} MATCH {right}", (*left_params, *right_params)

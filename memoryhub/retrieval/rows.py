"""A memory as search looks at it: what it is scored by, without the rest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings

from memoryhub.retrieval import scoring

TEXTS = ("title", "subtitle", "abstract", "overview", "content")


class Row(NamedTuple):
    """The columns of a candidate."""

    pk: int
    updated_at: datetime
    importance: float
    trust: float
    title: str
    subtitle: str
    abstract: str
    overview: str
    content: str

    @property
    def texts(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in TEXTS}


@dataclass(frozen=True)
class Scored:
    """A candidate: its score, what that is made of, and what of the query it holds."""

    pk: int
    score: float
    parts: scoring.Components
    held: scoring.Weighed


def score(row: Row, match: float, held: scoring.Weighed, weights: scoring.Weights, now: datetime) -> Scored:
    """The composite score of a row that matches so well."""
    age = (now - row.updated_at).total_seconds() / 86_400
    parts = scoring.Components(
        match=round(match, 4),
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=row.importance,
        trust=row.trust,
    )
    return Scored(row.pk, round(scoring.composite(parts, weights), 4), parts, held)

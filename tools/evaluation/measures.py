"""Measures of retrieval: ranking, floor and latency. Pure.

A question has a set of relevant ids. Its answer has all ids in order, without a floor, and the few that a
reader sees with the floor. All measures are means over questions, from 0 to 1 or in milliseconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

ADVERSARIAL = "adversarial"  # LoCoMo's questions with a false premise: reported separately, in no total
SHOWN = 10  # results that a reader sees
RANKED = 100  # results in which the first relevant one is searched


@dataclass(frozen=True)
class Question:
    """A question. Without ``relevant`` ids, the store contains no answer to it."""

    category: str
    relevant: frozenset[Hashable] = frozenset()


@dataclass(frozen=True)
class Answer:
    """An answer. ``ranked``: all results, best first. ``shown``: those above the floor."""

    ranked: Sequence[Hashable]
    shown: Sequence[Hashable]
    seconds: float


@dataclass(frozen=True)
class Figures:
    """Means over ``questions``. None if no question counts.

    ``kept``: share of answerable questions with a relevant result among the shown ones. ``empty``: share of
    unanswerable questions without a shown result.
    """

    questions: int
    answerable: int
    unanswerable: int
    recall_1: float | None
    recall_5: float | None
    recall_10: float | None
    mrr: float | None
    ndcg_10: float | None
    kept: float | None
    empty: float | None
    p50_ms: float | None
    p95_ms: float | None


def recall_at(k: int, ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """Return the share of the relevant ids that is among the first ``k``; 0 if none is relevant."""
    return len(set(ranked[:k]) & set(relevant)) / len(relevant) if relevant else 0.0


def reciprocal_rank(
    ranked: Sequence[Hashable], relevant: Collection[Hashable], within: int = RANKED
) -> float:
    """Return 1 / rank of the first relevant result; 0 if none is among the first ``within``."""
    ranks = (rank for rank, uid in enumerate(ranked[:within], 1) if uid in relevant)
    return 1 / next(ranks, math.inf)


def ndcg_at(k: int, ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """Return the discounted gain of the first ``k`` results, as a share of that of the best order."""
    gain = sum(1 / math.log2(rank + 1) for rank, uid in enumerate(ranked[:k], 1) if uid in relevant)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), k) + 1))
    return gain / best if best else 0.0


def percentile(values: Collection[float], share: float) -> float | None:
    """Return the smallest value that is at least as large as this share of the values (nearest rank)."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def figures(answers: Iterable[tuple[Question, Answer]]) -> Figures:
    """Return the figures of these questions.

    The relevant ids of an adversarial question mislead. It counts as answerable and as unanswerable.
    """
    pairs = list(answers)
    answerable = [(answer, question.relevant) for question, answer in pairs if question.relevant]
    unanswerable = [
        answer for question, answer in pairs if not question.relevant or question.category == ADVERSARIAL
    ]
    times = [answer.seconds * 1000 for _, answer in pairs]
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    return Figures(
        questions=len(pairs),
        answerable=len(answerable),
        unanswerable=len(unanswerable),
        recall_1=_mean([recall_at(1, answer.ranked, relevant) for answer, relevant in answerable]),
        recall_5=_mean([recall_at(5, answer.ranked, relevant) for answer, relevant in answerable]),
        recall_10=_mean([recall_at(10, answer.ranked, relevant) for answer, relevant in answerable]),
        mrr=_mean([reciprocal_rank(answer.ranked, relevant) for answer, relevant in answerable]),
        ndcg_10=_mean([ndcg_at(10, answer.ranked, relevant) for answer, relevant in answerable]),
        kept=_mean([float(not relevant.isdisjoint(answer.shown[:SHOWN])) for answer, relevant in answerable]),
        empty=_mean([float(not answer.shown) for answer in unanswerable]),
        p50_ms=None if p50 is None else round(p50, 3),
        p95_ms=None if p95 is None else round(p95, 3),
    )


def by_category(answers: Iterable[tuple[Question, Answer]]) -> Mapping[str, Figures]:
    """Return the figures of all questions but the adversarial ones, then of each category."""
    pairs = list(answers)
    parts: dict[str, list[tuple[Question, Answer]]] = defaultdict(list)
    for question, answer in pairs:
        parts[question.category].append((question, answer))
    names = sorted(parts, key=lambda name: (name == ADVERSARIAL, name))
    whole = figures(pair for pair in pairs if pair[0].category != ADVERSARIAL)
    return {"all": whole, **{name: figures(parts[name]) for name in names}}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None

"""Format the figures of a run as JSON and as aligned tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from memoryhub.core.text import format_count
from memoryhub.management import shown
from tools.evaluation.measures import ADVERSARIAL, Answer, Figures, Question, by_category, figures
from tools.evaluation.runner import Measured

_COLUMNS = (
    *(("R@1", "recall_1"), ("R@5", "recall_5"), ("R@10", "recall_10"), ("MRR", "mrr")),
    *(
        ("nDCG@10", "ndcg_10"),
        ("kept", "kept"),
        ("empty", "empty"),
        ("p50 ms", "p50_ms"),
        ("p95 ms", "p95_ms"),
    ),
)
_WIDTH = 9
_LABEL = 28
LEGEND = (
    "R@k: share of the relevant memories among the first k. MRR: over the first 100. kept: answerable",
    "questions with something relevant among the first ten at the floor. empty: unanswerable questions that",
    "show nothing. Adversarial questions are in no total; FTS5 has no floor.",
)

Pairs = list[tuple[Question, Answer]]
Rows = dict[str, dict[str, Figures]]  # category -> system -> figures


def groups(measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Group the sets by family and unit. With several groups, add one of all sets."""
    families: dict[str, list[Measured]] = defaultdict(list)
    for one in measured:
        families[one.given.group].append(one)
    return {**families, "all sets": list(measured)} if len(families) > 1 else families


def rows(measured: Sequence[Measured]) -> Rows:
    """Return the figures by category and system."""
    table: Rows = defaultdict(dict)
    for system in measured[0].systems:
        pairs: Pairs = [pair for one in measured for pair in one.systems[system]]
        for category, values in by_category(pairs).items():
            table[category][system] = values
    return table


def as_json(measured: Sequence[Measured]) -> dict[str, Any]:
    return {
        "floor": measured[0].floor,
        "modes": measured[0].modes,
        "sets": [_describe_set(one) for one in measured],
        "groups": [_describe_group(name, members) for name, members in groups(measured).items()],
    }


def _describe_set(one: Measured) -> dict[str, Any]:
    given = one.given
    return {
        "name": given.name,
        "unit": given.unit,
        "group": given.group,
        "memories": len(given.memories),
        "questions": len(given.queries),
        "stored_seconds": one.stored_seconds,
        "systems": {name: asdict(figures(_in_total(pairs))) for name, pairs in one.systems.items()},
    }


def _in_total(pairs: Pairs) -> Pairs:
    return [pair for pair in pairs if pair[0].category != ADVERSARIAL]


def _describe_group(name: str, members: Sequence[Measured]) -> dict[str, Any]:
    return {
        "name": name,
        "sets": [one.given.name for one in members],
        "categories": {
            category: {system: asdict(values) for system, values in systems.items()}
            for category, systems in rows(members).items()
        },
    }


def lines(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of the tables of all groups."""
    for name, members in groups(measured).items():
        memories = sum(len(one.given.memories) for one in members)
        counted = f"{format_count(len(members), 'set')}, {format_count(memories, 'memory')}"
        yield f"{shown(name)}: {counted}, floor {members[0].floor:g}"
        yield f"{'':{_LABEL}}" + "".join(f"{title:>{_WIDTH}}" for title, _ in _COLUMNS)
        for category, systems in rows(members).items():
            [count] = {values.questions for values in systems.values()}
            yield f"{shown(category, 40)} ({count:,})"
            for system, values in systems.items():
                yield f"  {system:{_LABEL - 2}}" + "".join(_cell(values, field) for _, field in _COLUMNS)
        yield ""
    yield from LEGEND
    for system, mode in measured[0].modes.items():
        if mode not in ("", system):
            yield f"Asked for {system}, the search answered as {mode}."


def _cell(values: Figures, field: str) -> str:
    value = getattr(values, field)
    if value is None:
        return f"{'–':>{_WIDTH}}"
    return f"{value:>{_WIDTH}.1f}" if field.endswith("_ms") else f"{100 * value:>{_WIDTH}.1f}"

"""Run labelled prompts in a process of their own, and print their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memoryhub.management import shown
from tools.evaluation.prompt_measures import Outcome, figures_by_kind, judge
from tools.evaluation.prompt_sets import PromptSet
from tools.evaluation.runner import run_isolated

_LABEL, _WIDTH = 24, 10
_COLUMNS = ("precision", "recall", "exact")
_LEGEND = (
    "precision: share of what came that is wanted. recall: share of what is wanted that came. exact: prompts",
    "for which everything wanted came and nothing unwanted. Memories that may come count in none of them.",
)

Outcomes = Mapping[str, Sequence[Outcome]]  # by path: injection, recall


def measure_prompts(
    folder: Path, given: PromptSet, flags: Sequence[str], report: Callable[[str], None]
) -> Outcomes:
    """Run the prompts through injection and recall. ``flags``: of ``prompt_run``."""
    arguments = [str(folder.absolute()), *flags]
    # Equal runs give equal figures, also on a busy machine, where an injection can miss its deadline.
    environ = {"MEMORYHUB_INJECTION_DEADLINE_MS": "60000", "PYTHONHASHSEED": "0"}
    came = run_isolated("prompt_run", arguments, report, "came", environ)["came"]
    return {
        path: [judge(prompt, answers[prompt.id]) for prompt in given.prompts]
        for path, answers in came.items()
    }


def prompt_lines(given: PromptSet, outcomes: Outcomes, half: str) -> Iterator[str]:
    """Yield a table with a row for each kind and for all."""
    yield f"{half}: {len(given.prompts)} prompts, {len(given.memories)} memories"
    yield f"{'':{_LABEL}}" + "".join(f"{path:>{_WIDTH * len(_COLUMNS)}}" for path in outcomes)
    yield f"{'':{_LABEL}}" + "".join(f"{name:>{_WIDTH}}" for _ in outcomes for name in _COLUMNS)
    tables = [figures_by_kind(members) for members in outcomes.values()]
    for kind in tables[0]:
        label = f"{shown(kind, _LABEL - 8)} ({tables[0][kind].prompts})"
        cells = "".join(_cell(getattr(table[kind], name)) for table in tables for name in _COLUMNS)
        yield f"{label:{_LABEL}}{cells}"
    yield from ("", *_LEGEND)


def failure_lines(outcomes: Outcomes) -> Iterator[str]:
    """Yield the prompts that did not pass, with the missing and the unwanted memories."""
    for path, members in outcomes.items():
        for outcome in members:
            if outcome.is_exact:
                continue
            yield f"{path}, {outcome.prompt.id}: {shown(outcome.prompt.prompt, 100)}"
            if outcome.missing:
                yield f"  missing:  {' '.join(outcome.missing)}"
            if outcome.unwanted:
                yield f"  unwanted: {' '.join(outcome.unwanted)}"


def prompts_as_json(outcomes: Outcomes) -> dict[str, Any]:
    """Return the figures of each path and kind."""
    return {
        path: {kind: asdict(figures) for kind, figures in figures_by_kind(members).items()}
        for path, members in outcomes.items()
    }


def _cell(value: float | None) -> str:
    return f"{'–':>{_WIDTH}}" if value is None else f"{100 * value:>{_WIDTH}.1f}"

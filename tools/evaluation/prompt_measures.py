"""Precision, recall and exact passes of answers to labelled prompts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tools.evaluation.prompt_sets import LabelledPrompt


@dataclass(frozen=True)
class Outcome:
    """One prompt: the memories that came and were wanted, came and were unwanted, and did not come."""

    prompt: LabelledPrompt
    right: list[str]
    unwanted: list[str]
    missing: list[str]

    @property
    def is_exact(self) -> bool:
        return not self.unwanted and not self.missing


@dataclass(frozen=True)
class PromptFigures:
    """Figures of several prompts, 0..1. Precision is None if nothing came, recall if nothing was wanted.

    Precision and recall count memories over all prompts. Memories that may come, but need not, count in
    neither.
    """

    prompts: int
    precision: float | None
    recall: float | None
    exact: float


def judge(prompt: LabelledPrompt, came: Collection[str]) -> Outcome:
    """Compare the memories that came with the labels of the prompt."""
    return Outcome(
        prompt,
        right=[name for name in prompt.must if name in came],
        unwanted=[name for name in dict.fromkeys(came) if prompt.is_unwanted(name)],
        missing=[name for name in prompt.must if name not in came],
    )


def prompt_figures(outcomes: Collection[Outcome]) -> PromptFigures:
    right, unwanted, missing = (
        sum(len(getattr(outcome, name)) for outcome in outcomes) for name in ("right", "unwanted", "missing")
    )
    exact = sum(outcome.is_exact for outcome in outcomes)
    return PromptFigures(
        len(outcomes), _share(right, unwanted), _share(right, missing), round(exact / len(outcomes), 4)
    )


def figures_by_kind(outcomes: Iterable[Outcome]) -> Mapping[str, PromptFigures]:
    """Return the figures of each kind, in the order of the file, and of ``all``."""
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        kinds[outcome.prompt.kind].append(outcome)
    everything = [outcome for kind in kinds.values() for outcome in kind]
    return {kind: prompt_figures(members) for kind, members in {**kinds, "all": everything}.items()}


def _share(right: int, wrong: int) -> float | None:
    return round(right / (right + wrong), 4) if right + wrong else None

"""Precision, recall and exact passes of prompts, compared with values computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tools.evaluation.prompt_measures import Outcome, PromptFigures, figures_by_kind, judge, prompt_figures
from tools.evaluation.prompt_sets import LabelledPrompt


def labelled(must: str, must_not: str | list[str] = "*", may: str = "", kind: str = "k") -> LabelledPrompt:
    row: dict[str, Any] = {"id": "1", "kind": kind, "prompt": "p", "must": list(must), "may": list(may)}
    return LabelledPrompt.model_validate({**row, "must_not": must_not})


def outcome(right: str, unwanted: str, missing: str, kind: str = "k") -> Outcome:
    return Outcome(labelled(right + missing, kind=kind), list(right), list(unwanted), list(missing))


@pytest.mark.parametrize(
    ("prompt", "came", "right", "unwanted", "missing"),
    [
        (labelled("ab"), "ba", "ab", "", ""),
        (labelled("ab"), "", "", "", "ab"),
        (labelled("ab"), "axy", "a", "xy", "b"),
        (labelled("a", may="x"), "axy", "a", "y", ""),
        (labelled("a", ["x"]), "axy", "a", "x", ""),
        (labelled("a", []), "axy", "a", "", ""),
        (labelled("a"), "axx", "a", "x", ""),
        (labelled(""), "", "", "", ""),
        (labelled(""), "x", "", "x", ""),
    ],
)
def test_memories_are_judged_by_the_labels(prompt, came, right, unwanted, missing):
    judged = judge(prompt, list(came))
    assert (judged.right, judged.unwanted, judged.missing) == (list(right), list(unwanted), list(missing))
    assert judged.is_exact == (not unwanted and not missing)


def test_precision_and_recall_count_memories_over_all_prompts():
    found = prompt_figures([outcome("ab", "", ""), outcome("c", "x", "de"), outcome("", "", "")])
    assert found == PromptFigures(prompts=3, precision=0.75, recall=0.6, exact=0.6667)


@pytest.mark.parametrize(
    ("one", "precision", "recall", "exact"),
    [
        (outcome("", "", ""), None, None, 1.0),
        (outcome("", "x", ""), 0.0, None, 0.0),
        (outcome("", "", "a"), None, 0.0, 0.0),
    ],
)
def test_precision_needs_something_that_came_and_recall_something_wanted(one, precision, recall, exact):
    assert prompt_figures([one]) == PromptFigures(1, precision, recall, exact)


def test_figures_are_given_by_kind_in_order_and_for_all():
    table = figures_by_kind([outcome("a", "", "", "z"), outcome("", "x", "", "b"), outcome("c", "", "", "z")])
    assert {kind: (one.prompts, one.precision) for kind, one in table.items()} == {
        "z": (2, 1.0),
        "b": (1, 0.0),
        "all": (3, 0.6667),
    }
    assert list(table) == ["z", "b", "all"]

"""``tools.cluster`` reports each kind of fault: what was lost, done twice, or left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tools.cluster import journeys, mixed
from tools.cluster.mixed import AGED_MEMORIES, AGED_PROJECTS, Outcome


def stored(**changes: Any) -> dict[str, Any]:
    """Return what a store contains after :func:`answers`, with these changes."""
    memories = [["a", "text a", "new title", True], ["b", "text b", "", False]]
    journal = [["insert", "a", 1], ["insert", "b", 1], ["update", "a", 2], ["delete", "b", 1]]
    return {"memories": memories, "journal": journal, "intact": True, **changes}


def answers() -> Outcome:
    return Outcome(
        stored={"a": "text a", "b": "text b"},
        updates=Counter(a=2),
        titles={"a": "new title"},
        deleted={"b"},
    )


def test_a_store_with_every_acknowledged_write_has_no_fault() -> None:
    assert mixed.find_faults(answers(), stored()) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"memories": [["b", "text b", "", False]]}, "a was stored and is lost"),
        ({"memories": [["a", "other", "new title", True], ["b", "text b", "", False]]}, "a was stored and"),
        ({"memories": [*stored()["memories"], ["c", "text a", "", True]]}, "stored 2 times: text a"),
        (
            {"memories": [["a", "text a", "old", True], ["b", "text b", "", False]]},
            "a has lost its last title",
        ),
        ({"memories": [["a", "text a", "new title", True], ["b", "text b", "", True]]}, "b was deleted"),
        ({"journal": [["insert", "a", 2], ["insert", "b", 1], ["update", "a", 2]]}, "a was stored 2 times"),
        ({"journal": [["insert", "a", 1], ["insert", "b", 1], ["update", "a", 1]]}, "a was updated 1 times"),
        ({"intact": False}, "the journal is not intact"),
    ],
)
def test_a_fault_is_reported(changes: dict[str, Any], fault: str) -> None:
    [found] = mixed.find_faults(answers(), stored(**changes))
    assert fault in found


def test_a_write_without_an_answer_may_be_done_or_not() -> None:
    cut_off = answers()
    cut_off.unknown.add("a")
    once = [["insert", "a", 1], ["insert", "b", 1], ["update", "a", 3]]
    assert mixed.find_faults(cut_off, stored(journal=once)) == []


def runs(times: int = 1, status: str = "done", left_out: int = 0) -> dict[str, Any]:
    uids = range(AGED_PROJECTS * AGED_MEMORIES - left_out)
    return {
        "runs": [["consolidate", status, "", AGED_MEMORIES]],
        "consolidated": [[str(uid), times] for uid in uids],
    }


def test_runs_that_changed_each_memory_once_have_no_fault() -> None:
    assert mixed.find_faults_of_runs(runs()) == []


@pytest.mark.parametrize("found", [runs(times=2), runs(status="running"), runs(left_out=1)])
def test_a_run_that_was_done_twice_stuck_or_left_something_out_is_reported(found: dict[str, Any]) -> None:
    assert len(mixed.find_faults_of_runs(found)) == 1


def test_a_test_that_fails_twice_counts_once_and_a_skipped_one_did_not_run(tmp_path: Path) -> None:
    case = '<testcase classname="journeys" name="{}">{}</testcase>'
    cases = [("walk", ""), ("hide", "<failure/>"), ("hide", "<error/>"), ("node", "<skipped/>")]
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuite>{''.join(case.format(*one) for one in cases)}</testsuite>")
    assert journeys.count_tests(report) == (2, 1)

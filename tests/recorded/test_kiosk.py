"""Test capture on a recorded session of 200 events with answers of the user, reports and much noise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.recorded.conftest import Expected, Replayed, unmatched

EXPECTED = (
    Expected(
        "decision",
        "Only the cheaper one applies",
        ("How do the evening tariff and the child price combine?", "allows one discount", "Not chosen: Both"),
    ),
    Expected(
        "feature",
        "Evening tariff from 19:00, a quarter off",
        ("a child in the evening pays the cheaper",),
        ("kiosk/tariffs.py",),
    ),
    Expected(
        "bugfix",
        "Round the child price up to ten cents",
        ("no coin below ten cents", "Problem: AssertionError: assert 205 == 210"),
        ("kiosk/tariffs.py", "tests/test_kiosk.py"),
    ),
    Expected("refactor", "Refactored the receipt layout", ("header, lines and footer",)),
    Expected(
        "discovery",
        "Cut the name and never the price",
        ("because the inspector reads the price only",),
        ("kiosk/printer.py",),
    ),
    Expected(
        "bugfix",
        "Fixed: AssertionError: assert 45 == 32",
        ("test_long_name_is_shortened", "passes again"),
        ("kiosk/printer.py", "tests/test_kiosk.py"),
    ),
    Expected(
        "bugfix",
        "machine 7 refused the tariff file",
        ("its clock is two hours behind", "set NTP_SERVER to 10.4.0.9"),
    ),
    Expected("change", "Changed the tariff period of all machines", ("to calendar months",)),
    Expected(
        "decision",
        "90 seconds",
        ("After how many seconds without a touch", "people with a walking aid", "Not chosen: 60 seconds"),
    ),
    Expected(
        "decision",
        "The machines take no bank notes",
        ("jammed every third day", "Cards and coins stay"),
        ("docs/decisions/0001-no-notes.md",),
    ),
)


@pytest.fixture(scope="module")
def played(replay: Callable[[str], Replayed]) -> Replayed:
    return replay("kiosk")


def test_captured_memories_match_the_expected_ones(played):
    assert len(played.events) >= 200
    assert unmatched(played.kept, EXPECTED) == ([], [])
    assert len(played.kept) == len(EXPECTED)


def test_summary_lists_decisions_and_solved_problems(played):
    [summary] = played.summaries
    assert "- The machines take no bank notes" in summary.content
    assert "- Round the child price up to ten cents" in summary.content


def test_noise_is_not_captured(played):
    text = "\n".join(one.content for one in (*played.kept, *played.summaries, *played.checkpoints))
    for noise in ("packages", "container", "listening", "paper 80%", "proceed", "wip"):
        assert noise not in text

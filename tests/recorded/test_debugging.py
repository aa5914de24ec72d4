"""Test capture on a recorded debugging session of 200 events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.recorded.conftest import Expected, Replayed, unmatched

EXPECTED = (
    Expected(
        "discovery",
        "Reference rates are published on working days",
        ("no rates for Saturdays, Sundays", "Asked: On which days"),
    ),
    Expected(
        "change",
        "Stop warning about missing weekend rates",
        ("because the markets are closed",),
        ("orders/rates.py",),
    ),
    Expected(
        "discovery",
        "The late exports of nordic are made by hand",
        ("on a Mac", "nightly exports come from a Linux server and are in NFC"),
    ),
    Expected(
        "bugfix",
        "Normalise order numbers to NFC",
        (
            "Root cause of the duplicate orders",
            "NFC and not NFKC",
            "Problem: AssertionError",
            "test_two_spellings_of_a_number_are_one_order",
        ),
        ("orders/parse.py", "tests/test_parse.py"),
    ),
    Expected(
        "decision",
        "Keep the oldest row of duplicate orders",
        ("Invoices carry `orders.id`", "We decided against deleting the duplicates"),
        ("docs/decisions/0003-merging-duplicates.md",),
    ),
    Expected(
        "feature",
        "Add a command that merges duplicate orders",
        ("--apply does it in one transaction", "the latest amount wins"),
        (
            "docs/decisions/0003-merging-duplicates.md",
            "orders/cli.py",
            "orders/merge.py",
            "tests/test_merge.py",
        ),
    ),
    Expected(
        "bugfix",
        "Shops with equal revenue come in alphabetical order",
        ("the order of a set", "PYTHONHASHSEED=4", "['harbour', 'attic', 'nordic'] =="),
        ("orders/report.py",),
    ),
    Expected(
        "bugfix",
        "Treat a trailing minus as a refund",
        ("The till of attic", "BadAmount"),
        ("orders/money.py", "tests/test_money.py"),
    ),
    Expected(
        "discovery",
        "Use port 465 with implicit TLS",
        ("hangs until it times out", "Asked: Which port and encryption"),
    ),
    Expected(
        "bugfix",
        "Implicit TLS on port 465",
        ("SMTPServerDisconnected",),
        ("orders/mail.py", "tests/test_mail.py"),
    ),
    Expected(
        "decision",
        "Numbers that look the same and are not",
        ("Always pass numbers from outside through `order_number()`",),
        ("docs/gotchas.md",),
    ),
)
SECRETS = ("kelp-Forty7-anchor!", "nx_live_8Qd2vT5mZ1rB7yKc4WpL9sHe")


@pytest.fixture(scope="module")
def played(replay: Callable[[str], Replayed]) -> Replayed:
    return replay("debugging")


def test_captured_memories_match_the_expected_ones(played):
    assert unmatched(played.kept, EXPECTED) == ([], [])
    assert len(played.kept) == len(EXPECTED)


def test_summary_describes_the_session(played):
    [summary] = played.summaries
    assert played.session.summary == summary
    assert "Asked for: Nordic's revenue has been too high since Monday" in summary.content
    assert "Problems solved:\n- Normalise order numbers to NFC\n" in summary.content
    assert "Decisions:\n- Keep the oldest row of duplicate orders\n" in summary.content


def test_checkpoints_are_few_and_replaced(played):
    assert 1 <= len(played.checkpoints) <= 4
    assert all(one.deleted_at and one.merged_into == played.session.summary for one in played.checkpoints)


def test_skipped_calls_have_a_reason(played):
    calls = [event for event in played.events if event.event == "tool:post"]
    assert len(calls) == 180
    assert all(event.memory or event.skip_reason for event in calls)
    reasons = Counter(event.skip_reason for event in calls)
    assert reasons["failure noted"] == reasons["repair noted"] == 5
    assert reasons["secret"] == 3
    assert reasons["routine"] >= 130


def test_database_contains_no_secrets(played):
    everything = played.everything()
    assert "SMTP_PASSWORD" not in everything
    assert not [secret for secret in SECRETS if secret in everything]


def test_injected_context_is_not_captured(played):
    everything = played.everything()
    assert "tax office" not in everything
    assert "renamed in autumn" not in everything


def test_instruction_in_an_output_becomes_no_memory(played):
    text = "\n".join(one.content for one in (*played.kept, *played.summaries, *played.checkpoints))
    assert "ignore all previous" not in text
    assert "collector.example" not in text


def test_each_task_begins_a_segment(played):
    """A new subject in a prompt is followed by a boundary within a few calls; few are elsewhere."""
    events = played.events
    turns = (
        "Could it be the time zone",
        "And this warning",
        "Write a script that merges them",
        "CI is red every third run",
        "import of attic stopped",
        "the report hasn't arrived by email",
        "Please document the Å problem",
    )
    for said in turns:
        asked = next(n for n, event in enumerate(events) if said in event.preview)
        assert any(event.boundary for event in events[asked : asked + 8]), said
    assert len(turns) <= len(played.boundaries) <= len(turns) + 6
    assert len(played.boundaries) == sum(event.boundary for event in events)


def test_a_test_run_that_is_repeated_begins_no_segment(played):
    again = [event for event in played.events if event.preview.startswith("pytest -q tests/test_report.py")]
    assert len({event.segment for event in again[-3:]}) == 1


def test_earlier_findings_are_injected(played):
    given = [one for one in played.session.injections.order_by("at") if one.injected]
    nfc = next(one for one in played.kept if one.title == "Normalise order numbers to NFC")
    assert any(nfc.uid in [shown["id"] for shown in one.injected] for one in given)


def test_injections_are_logged_with_the_time_of_their_events(played):
    asked = {event.at for event in played.events if event.event != "session:end"}
    assert {one.at for one in played.session.injections.all()} <= asked
    played.session.refresh_from_db()
    assert played.session.last_at == played.session.ended_at

"""Test capture on a recorded session that builds a feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.recorded.conftest import Expected, Replayed, unmatched

EXPECTED = (
    Expected(
        "discovery",
        "A loan is open as long as its returned is null",
        ("every new path that lends must go through lend()", "ignores the `version` field entirely"),
    ),
    Expected(
        "decision",
        "Reservations are a list of their own",
        (
            "instead of a queue inside each item",
            "names of members must never end up in it",
            "Rejected: a `queue`",
        ),
        ("docs/decisions/0002-reservations-are-a-list-of-their-own.md",),
    ),
    Expected(
        "feature",
        "Migrate files of version 1, with a copy beside",
        ("the next migration would otherwise overwrite the first copy", "a newer version is refused"),
        (
            "src/cli.mjs",
            "src/migrations/0002-reservations.mjs",
            "src/migrations/index.mjs",
            "src/store.mjs",
            "test/store.test.mjs",
        ),
    ),
    Expected(
        "feature",
        "Reserve and cancel",
        ("A member waits at most once for a tool",),
        ("src/cli.mjs", "src/reservations.mjs", "test/reservations.test.mjs"),
    ),
    Expected(
        "discovery",
        "A Date is a number of milliseconds",
        ("an hour short on the day when summer time ends", "Asked: How should whole days be added"),
    ),
    Expected(
        "bugfix",
        "Due dates were a day early in October",
        ("Days are now added in UTC", "Problem: not ok 2 - days are added across the end of summer time"),
        ("src/dates.mjs", "test/dates.test.mjs"),
    ),
    Expected(
        "decision",
        "Lapsed offers are computed, not written",
        ("rather than in a nightly job", "switched off at night"),
        ("docs/decisions/0003-lapsed-offers-are-computed.md",),
    ),
    Expected(
        "feature",
        "A returned tool is offered to the first in the queue",
        ("three days to fetch it",),
        (
            "docs/decisions/0003-lapsed-offers-are-computed.md",
            "src/cli.mjs",
            "src/reservations.mjs",
            "test/cli.test.mjs",
            "test/reservations.test.mjs",
        ),
    ),
    Expected("feature", "shows who waits for what", (), ("src/cli.mjs",)),
    Expected(
        "bugfix",
        "A tool laid by for one member could be lent to another",
        ("lend() looked only at open loans",),
        ("src/loans.mjs", "src/reservations.mjs"),
    ),
    Expected(
        "discovery",
        "Zirkulär mit reservations.mjs",
        ("niemals beim Laden",),
        ("src/loans.mjs",),
    ),
)
NOT_CAPTURED = (
    "wip",
    "Decision 2, where",
    "Seed writes version 2",
    "list tells how many",
    "Subtest",
    "sendmail",
)
SECRET = "vK7q-Zt41mRw9xLs"


@pytest.fixture(scope="module")
def played(replay: Callable[[str], Replayed]) -> Replayed:
    return replay("feature")


def test_captured_memories_match_the_expected_ones(played):
    assert unmatched(played.kept, EXPECTED) == ([], [])
    assert len(played.kept) == len(EXPECTED)


def test_useless_text_is_not_captured(played):
    text = "\n".join(f"{one.title}\n{one.content}" for one in played.kept)
    assert not [words for words in NOT_CAPTURED if words in text]


def test_comment_repeated_by_its_commit_is_captured_once(played):
    assert sum("overwrite" in one.content for one in played.kept) == 1
    assert sum("UTC" in one.content and one.type != "discovery" for one in played.kept) == 1


def test_titles_need_no_context_and_abstracts_are_whole_sentences(played):
    for one in played.kept:
        assert len(one.title.split()) >= 3
        assert not one.title.startswith(("feat", "fix", "docs", "1.", "2.", "3."))
        assert 20 <= len(one.abstract) <= 200
        assert not one.abstract.startswith(("feat", "fix", "Asked"))


def test_decisions_and_fixes_are_more_important_than_features(played):
    weights = {one.title: one.importance for one in played.kept}
    assert weights["Lapsed offers are computed, not written"] > weights["Reserve and cancel"]
    assert weights["Due dates were a day early in October"] > weights["Reserve and cancel"]


def test_summary_describes_the_session(played):
    [summary] = played.summaries
    assert played.session.summary == summary
    assert "Asked for: Unsere Mitglieder wollen Vormerkungen" in summary.content
    assert "Decisions:\n- Reservations are a list of their own\n- Lapsed offers" in summary.content
    assert "- Migrate files of version 1, with a copy beside\n- Reserve and cancel\n" in summary.content
    assert "Lapsed offers are computed, not written" in summary.abstract


def test_checkpoints_are_made_after_a_hundred_calls_and_before_the_context_is_lost(played):
    assert len(played.checkpoints) == 2
    assert all(one.deleted_at and one.merged_into == played.session.summary for one in played.checkpoints)


def test_skipped_calls_have_a_reason(played):
    calls = [event for event in played.events if event.event == "tool:post"]
    assert len(calls) == 174
    assert all(event.memory or event.skip_reason for event in calls)
    reasons = Counter(event.skip_reason for event in calls)
    assert reasons["memory tool"] == 1
    assert reasons["secret"] == 4
    assert reasons["routine"] >= 140


def test_database_contains_no_secrets(played):
    assert SECRET not in played.everything()


def test_answers_of_memory_tools_are_not_captured(played):
    assert "treasurer wants to open it in an editor" not in "\n".join(one.content for one in played.kept)


def test_segments_begin_at_new_requests(played):
    prompts = [n for n, event in enumerate(played.events) if event.event == "prompt:submit"]
    begun = [n for n, event in enumerate(played.events) if event.boundary]
    assert 6 <= len(begun) <= len(prompts) + 2
    assert len(begun) == len(played.boundaries)
    near = [n for n in begun if any(0 < n - asked <= 6 for asked in prompts)]
    assert len(near) >= 0.8 * len(begun)

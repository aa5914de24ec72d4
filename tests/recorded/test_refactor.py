"""Test capture on a recorded refactor with decisions and reverts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoryhub.core.vocabulary import TrashReason
from memoryhub.models import Memory
from tests.recorded.conftest import SESSIONS, Expected, Replayed, files_of, unmatched

_ADR = "docs/adr/"
EXPECTED = (
    Expected(
        "discovery",
        "tools/nightly.py imports parse, proc and write from jimaku.core",
        ("these three names must keep working", "nothing holds the WebVTT and plain text outputs"),
    ),
    Expected(
        "change",
        "Golden files hold every output",
        ("without anybody noticing", "a change on purpose is accepted with `--accept`"),
        ("Makefile", "tests/golden.sh", "tests/golden/cases"),
    ),
    Expected(
        "refactor",
        "Times move to jimaku/timecode.py",
        ("to_text takes the mark instead",),
        ("bench/parse.py", "jimaku/core.py", "jimaku/timecode.py"),
    ),
    Expected("discovery", "浮動小数点は使わない", ("誤差がたまり",), ("jimaku/timecode.py",)),
    Expected(
        "refactor", "Layout of lines moves to jimaku/layout.py", (), ("jimaku/core.py", "jimaku/layout.py")
    ),
    Expected(
        "refactor",
        "Sub becomes Cue(start, end, lines), proc becomes retime",
        (),
        ("jimaku/core.py", "jimaku/cue.py", "jimaku/retime.py", "tests/test_core.py"),
    ),
    Expected(
        "discovery",
        "Entry points are read from the metadata of installed distributions",
        ("has no metadata and is never found", "Asked: What does a package need"),
    ),
    Expected(
        "decision",
        "Formats stand in a table",
        ("Rejected: entry points", "Rejected: a base class `Format`"),
        (f"{_ADR}0002-formats-in-a-table.md",),
    ),
    Expected(
        "refactor",
        "Each format is a module, found in a table",
        ("A fourth format is a module with read and write",),
        (
            f"{_ADR}0002-formats-in-a-table.md",
            "jimaku/__main__.py",
            "jimaku/cli.py",
            "jimaku/formats/__init__.py",
            "jimaku/formats/blocks.py",
            "jimaku/formats/plain.py",
            "jimaku/formats/srt.py",
            "jimaku/formats/vtt.py",
            "tests/test_formats.py",
        ),
    ),
    Expected(
        "decision",
        "The regular expression for times stays",
        ("100 ms instead of 156 ms", "took `1:2:3,4` for a time", "about eight milliseconds"),
        (f"{_ADR}0003-the-regular-expression-stays.md",),
    ),
    Expected(
        "decision",
        "Reverted: cues are read one by one",
        ("raises BadSubtitle only when the cues are used", "Reading must fail at once"),
        ("jimaku/formats/blocks.py", "tests/test_core.py", "tests/test_formats.py"),
    ),
    Expected(
        "decision",
        "jimaku.core stays for one release",
        ("rather than a major release now",),
        (f"{_ADR}0004-core-stays-for-one-release.md",),
    ),
    Expected(
        "refactor",
        "jimaku.core only passes on, and warns",
        ("keeps working until 3.0",),
        (f"{_ADR}0004-core-stays-for-one-release.md", "jimaku/cli.py", "jimaku/core.py"),
    ),
)
SECRET = "q7Vt-2mXw9Lk4Zs"


@pytest.fixture(scope="module")
def played(replay: Callable[[str], Replayed]) -> Replayed:
    return replay("refactor")


def test_captured_memories_match_the_expected_ones(played):
    assert unmatched(played.kept, EXPECTED) == ([], [])
    assert len(played.kept) == len(EXPECTED)


def test_reverted_commit_is_in_the_trash_with_its_replacement(played):
    [gone] = Memory.objects.filter(deleted_at__isnull=False).exclude(type="checkpoint")
    [instead] = [one for one in played.kept if one.title.startswith("Reverted")]
    assert (gone.title, gone.trash_reason) == ("Cues are read one by one", TrashReason.MERGED.value)
    assert gone.merged_into == instead
    assert files_of(instead) == files_of(gone)


def test_failures_during_a_refactor_are_no_bugs(played):
    assert not [one.title for one in played.kept if one.type == "bugfix" or "Problem:" in one.content]


def test_removed_trial_file_is_not_listed(played):
    assert not [one.title for one in played.kept if "bench/scanner.py" in files_of(one)]


def test_summary_lists_decisions_first_without_reverted_work(played):
    [summary] = played.summaries
    assert "Asked for: core.py が大きくなりすぎました" in summary.content
    assert (
        "Decisions:\n- Formats stand in a table\n- The regular expression for times stays\n"
        "- Reverted: cues are read one by one\n- jimaku.core stays for one release\n" in summary.content
    )
    assert "- Cues are read one by one" not in summary.content


def test_checkpoint_is_stored_before_compacting(played):
    events = played.events
    lost = next(n for n, event in enumerate(events) if event.event == "session:checkpoint")
    [made] = [one for one in played.checkpoints if one.created_at == events[lost].at]
    assert "Each format is a module" in made.content
    assert events[lost].memory == made.merged_into == played.session.summary


def test_database_contains_no_secrets(played):
    assert SECRET not in played.everything()


def test_answers_of_memory_tools_are_not_captured(played):
    assert "nothing may be installed on the machines" not in "\n".join(one.content for one in played.kept)


def test_segments_begin_at_new_requests(played):
    prompts = [n for n, event in enumerate(played.events) if event.event == "prompt:submit"]
    begun = [n for n, event in enumerate(played.events) if event.boundary]
    assert 6 <= len(begun) <= len(prompts) + 2
    assert len(begun) == len(played.boundaries)
    near = [n for n in begun if any(0 < n - asked <= 6 for asked in prompts)]
    assert len(near) >= 0.8 * len(begun)


@pytest.mark.parametrize("name", ["debugging", "feature", "refactor"])
def test_a_recorded_session_is_long(name):
    assert (SESSIONS / f"{name}.jsonl").read_text("utf-8").count("\n") >= 200

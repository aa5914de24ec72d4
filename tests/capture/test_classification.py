"""What a text says of itself: its type and its title."""

import pytest

from memoryhub.capture.classification import classify


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fix(api): refuse NUL characters", "bugfix"),
        ("feat: dark mode", "feature"),
        ("We decided to use SQLite instead of PostgreSQL", "decision"),
        ("Rename store.put to store.remember; no behaviour change", "refactor"),
        ("Turns out the index flushes at each savepoint", "discovery"),
        ("Bump the version to 1.2", "change"),
    ],
)
def test_all_six_types_are_told_apart(text, kind):
    assert classify(text).type == kind


def test_a_title_loses_its_commit_prefix_and_ends_without_a_full_stop():
    assert classify("fix(api): refuse NUL characters.").title == "Refuse NUL characters"


@pytest.mark.parametrize(
    ("text", "source", "kind"),
    [
        ("Never on Sundays, always on Mondays, rather than daily.", "answer", "discovery"),
        ("We decided to publish on Mondays only.", "answer", "decision"),
        ("must never be None here, because the writer truncates", "comment", "discovery"),
        ("Wir haben uns für eine Datei entschieden, weil nur eine Person schreibt.", "", "decision"),
        ("依存関係は追加しないことにした。放送局の機械には何も入れられないため。", "", "decision"),
        (
            'Revert "feat: lazy reading"\n\nErrors came too late, because nobody had asked yet.',
            "commit",
            "decision",
        ),
        ('Revert "feat: lazy reading"\n\nThis reverts commit 1234567.', "commit", "change"),
    ],
)
def test_who_says_it_tells_what_it_is(text, source, kind):
    assert classify(text, source).type == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Rename the permission that the new demo plugin created", "refactor"),
        ("Allow functions in write queries", "feature"),
        ("--flatten option for insert", "feature"),
        ("Fix the new index that was added twice", "bugfix"),
    ],
)
def test_the_first_word_of_a_headline_says_what_was_done(text, kind):
    assert classify(text).type == kind

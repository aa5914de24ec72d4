"""Test titles, abstracts and subtitles of captured memories."""

import pytest

from memoryhub.capture.classification import make_abstract, make_subtitle, make_title, reverted_headline

LONG = (
    "A loan is open as long as its `returned` is null; nothing but the check in lend() keeps a tool from "
    "having two open loans, so every new path that lends must go through lend()."
)


@pytest.mark.conformance("guide-86")
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("fix(api): refuse NUL characters.", "Refuse NUL characters"),
        ("Rename db.escape() to db.quote(), closes #217", "Rename db.escape() to db.quote()"),
        ("Named parameters (#678), refs #12, #13", "Named parameters"),
        ("--silent option for inserts - fixes https://example.org/1", "--silent option for inserts"),
        ("Index 12", "Index 12"),
        ("fix: `lend()` checks `returned` first", "lend() checks returned first"),
        ("- **Queries**: name the columns", "Queries: name the columns"),
        (
            "A day has 24 hours in UTC, and in any other zone 23 or 25 when the clocks change, so twice "
            "a year it is not the same.",
            "A day has 24 hours in UTC, and in any other zone 23 or 25 when the clocks change",
        ),
        (
            "# 2. Reservations are a list of their own\nWe keep them apart.",
            "Reservations are a list of their own",
        ),
        ("# ADR 3: the regular expression stays", "The regular expression stays"),
        ("RFC-12 - one queue for all", "One queue for all"),
        (LONG, "A loan is open as long as its returned is null"),
        ("The cache was stale. It is emptied at each login now.", "The cache was stale"),
        ("refactor: jimaku.core only passes on", "jimaku.core only passes on"),
        ("tools/nightly.py imports parse", "tools/nightly.py imports parse"),
        ("readFile is synchronous here", "readFile is synchronous here"),
        ("Note: this is no prefix of a commit", "Note: this is no prefix of a commit"),
        (
            'Revert "perf: cues are read one by one"\n\nErrors came late.',
            "Reverted: cues are read one by one",
        ),
        ("字幕の時間は整数のミリ秒で持つ。小数は使わない。", "字幕の時間は整数のミリ秒で持つ"),
    ],
)
def test_title_is_the_first_sentence_without_number(text, title):
    assert make_title(text) == title


def test_long_title_is_cut_at_a_word():
    title = make_title("word " * 60)
    assert len(title) <= 100
    assert title.endswith("word…")


@pytest.mark.parametrize(
    ("text", "abstract"),
    [
        ("feat: one\n\nIt does this. It does that.", "It does this. It does that."),
        ("feat: one line that says it all", "one line that says it all"),
        ("fix: cents\n\nThey got lost\nin rounding.\n\nProblem: assert 1 == 2", "They got lost in rounding."),
        (f"{LONG}\nThat is more than there is room for.\n\nAsked: how?", LONG),
        ("The cache was stale. It is emptied now.\n\nAsked: why?", "The cache was stale. It is emptied now."),
    ],
)
def test_abstract_has_whole_sentences_below_the_title(text, abstract):
    assert make_abstract(text) == abstract


def test_abstract_is_short():
    assert len(make_abstract("Head\n\n" + "word " * 200)) <= 200


@pytest.mark.conformance("guide-87")
def test_subtitle_names_the_files_or_the_question():
    assert make_subtitle(["src/a.py", "lib/a.py", "b.py", "c.py", "d.py"]) == "in a.py, b.py, c.py and 1 more"
    assert make_subtitle([], "It is so.\n\nAsked: Is it so?") == "Asked: Is it so?"
    assert make_subtitle([], "It is so.") == ""


def test_revert_is_detected_by_its_headline():
    assert reverted_headline('Revert "feat: two"\n\nThis reverts commit abc.') == "feat: two"
    assert reverted_headline("Revert to the old logo") == ""

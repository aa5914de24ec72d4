"""Hashes of lines of code, and the lines that a memory is about."""

from __future__ import annotations

import pytest

from memoryhub.capture.code_lines import (
    MAX_LINES,
    FileView,
    LineHash,
    hash_lines,
    line_hashes,
    lines_of_memory,
)


@pytest.mark.parametrize(
    "line", ["", "    }", "import os", "from a import b", "return None", "else:", "# ----------", "x = 1"]
)
def test_line_that_says_nothing_has_no_hash(line):
    assert not line_hashes(line)


@pytest.mark.parametrize("other", ["  limit  =  'five' ", 'limit = "five",', "limit='five';"])
def test_spaces_quotes_and_a_last_comma_do_not_matter(other):
    assert line_hashes('limit = "five"') == line_hashes(other)


def test_hash_of_a_line_is_read_back():
    [line] = hash_lines("retry_limit = 5  # attempts")
    assert LineHash.decode(line.encode()) == line
    assert len(line.words) == 4


def test_edit_drops_lines_that_a_later_edit_replaced():
    first = FileView("a.py", added="retry_limit = 5", is_written=True).as_digests()
    second = FileView(
        "a.py", added="retry_limit = 7", removed="retry_limit = 5", is_written=True
    ).as_digests()
    found = lines_of_memory("The retry limit is 7", [first, second], ["a.py"])
    assert found == {"a.py": list(line_hashes("retry_limit = 7"))}


def test_memory_is_about_the_lines_that_share_its_rare_words():
    text = "retry_limit = 5\nresult = compute(values)\nname = station.title()"
    view = FileView("a.py", added=text, is_written=True).as_digests()
    assert lines_of_memory("Five: the retry limit", [view], ["a.py"]) == {
        "a.py": list(line_hashes("retry_limit = 5"))
    }


def test_changed_file_without_shared_words_counts_as_a_whole():
    view = FileView("a.py", added="alpha = beta(1)\ngamma = delta(2)", is_written=True).as_digests()
    assert len(lines_of_memory("Entirely different topic", [view], ["a.py"])["a.py"]) == 2


def test_file_that_was_only_read_needs_shared_words():
    view = FileView("a.py", shown="alpha = beta(1)\ngamma = delta(2)").as_digests()
    assert lines_of_memory("Entirely different topic", [view], ["a.py"]) == {}


def test_number_of_lines_is_limited():
    text = "\n".join(
        f"retry_limit_{word} = compute_{word}()" for word in map(chr, range(0x4E00, 0x4E00 + 300))
    )
    view = FileView("a.py", added=text, is_written=True).as_digests()
    assert len(lines_of_memory("retry limit", [view], ["a.py"])["a.py"]) == MAX_LINES

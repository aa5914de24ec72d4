"""Rule files outside of the security package: how regexes are written, and errors name the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memoryhub.core.rule_files import PatternFile, Regex, RuleFileError, Words, load_rule_file
from memoryhub.core.vocabulary import MemoryType
from memoryhub.extraction.rules.extractor import load_signs


class Example(PatternFile):
    regex: Regex
    words: Words = frozenset()


def load(folder: Path, text: str) -> Example:
    file = folder / "rules.toml"
    file.write_text(text, "utf-8")
    return load_rule_file(file, Example)


def test_line_breaks_in_a_regex_are_removed(tmp_path: Path) -> None:
    assert load(tmp_path, "regex = '''\n(?:one\n|two)\n'''").regex.pattern == "(?:one|two)"


def test_list_of_regexes_contains_alternatives(tmp_path: Path) -> None:
    assert load(tmp_path, "regex = ['one', 'two']").regex.fullmatch("two")


def test_regex_ignores_case_unless_it_begins_with_a_mark(tmp_path: Path) -> None:
    assert load(tmp_path, "regex = 'one'").regex.fullmatch("ONE")
    assert not load(tmp_path, "regex = '(?-i)one'").regex.fullmatch("ONE")


def test_fragments_are_inserted_into_regexes_and_later_fragments(tmp_path: Path) -> None:
    text = "regex = '(?&pair)x'\n[fragments]\ndigit = '[0-9]'\npair = '(?&digit)-(?&digit)'"
    assert load(tmp_path, text).regex.fullmatch("1-2x")


def test_words_are_separated_by_white_space(tmp_path: Path) -> None:
    assert load(tmp_path, 'regex = "x"\nwords = """\none two\nthree\n"""').words == {"one", "two", "three"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regex = '('", "rules.toml: regex: Value error, not a regex"),
        ("regex = '(?&hex)'", "unknown fragment 'hex'"),
        ("regex = 'x'\ncolour = 1", "colour: Extra inputs"),
        ("words = 'x'", "regex: Field required"),
        ("regex = 'x'\nfragments = 1", "fragments: Input should be a valid dictionary"),
    ],
)
def test_error_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RuleFileError, match=re.escape(message)):
        load(tmp_path, text)


def test_rules_of_capture_and_extraction_fit_the_vocabulary() -> None:
    from memoryhub.capture.classification import _RULES
    from memoryhub.extraction.comparison import CATEGORIES
    from memoryhub.extraction.entities import RULES

    assert set(_RULES.types) <= set(MemoryType)
    assert {sign.category for sign in load_signs().signs} <= {"", *CATEGORIES}
    assert all(context.regex.groups == 1 for context in RULES.contexts)

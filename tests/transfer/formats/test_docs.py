"""The documentation of the formats matches the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memoryhub.transfer import files, foreign_sqlite
from memoryhub.transfer.formats import FORMATS, OWN_FORMAT, WRITERS, knowledge_graph

PAGE = Path(__file__).parents[3].joinpath("docs", "import-export.md").read_text("utf-8")
FOREIGN = sorted(FORMATS.keys() - {OWN_FORMAT, "markdown"})


def section(name: str) -> str:
    [found] = [part for part in re.split(r"^### ", PAGE, flags=re.M) if f"(`{name}`)" in part.splitlines()[0]]
    return found


@pytest.mark.parametrize("name", FOREIGN)
def test_every_format_has_a_section_with_a_table(name: str) -> None:
    assert "| in the file | in memoryhub |" in section(name)


def test_page_mentions_no_other_formats() -> None:
    assert sorted(re.findall(r"^### .*\(`([a-z0-9-]+)`\)", PAGE, flags=re.M)) == FOREIGN


@pytest.mark.parametrize("name", FOREIGN)
def test_page_states_which_formats_can_be_written(name: str) -> None:
    assert ("both ways" in section(name).splitlines()[0]) == (name in WRITERS)


def test_numbers_match_the_code() -> None:
    assert f"a value may have {foreign_sqlite.MAX_VALUE_BYTES // 1024**2} MiB" in " ".join(PAGE.split())
    assert f"unpack to {files._MAX_RATIO} times their size" in PAGE
    assert f"over {knowledge_graph._MAX_NAME_CHARS} characters" in PAGE
    assert knowledge_graph._MAX_ENTITIES == 10
    assert "first ten" in PAGE

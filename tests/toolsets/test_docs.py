"""docs/tools.md describes every tool, argument and refusal."""

import re
from pathlib import Path

import pytest

from memoryhub.toolsets import TOOLSETS
from tests.toolsets.test_mira import ERRORS

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/tools.md has no section {name}"
    return found[1]


@pytest.mark.parametrize("name", TOOLSETS)
def test_every_tool_and_argument_is_named(name):
    text = section(name)
    for tool in TOOLSETS[name].tools:
        assert f"`{tool.name}`" in text
        arguments = [one for one in tool.input_schema["properties"] if not one.startswith("allow_")]
        assert [one for one in arguments if f"`{one}`" not in text] == []


def test_every_toolset_is_in_the_first_table():
    assert all(f"| `{name}` |" in PAGE for name in TOOLSETS)


@pytest.mark.parametrize("words", sorted({words for _, words, field in ERRORS if field != "limit"}))
def test_every_refusal_of_mira_is_documented(words):
    assert f"| {words} |" in section("mira")

"""The documentation of commands and settings says what there is: no more, no less."""

from __future__ import annotations

import re
from argparse import _HelpAction
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from memoryhub.backends.postgres import server
from memoryhub.ops import checks
from tools.settings_tables import operator_table, tunables_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMANDS = sorted(name for name, app in get_commands().items() if app == "memoryhub")


def section(name: str) -> str:
    """The part of commands.md under a command's heading."""
    text = (DOCS / "commands.md").read_text("utf-8")
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/commands.md has no section {name}"
    return found[1]


def options_of(name: str) -> set[str]:
    """The options that a command adds to those of every command."""
    common = {option for action in _parser(BaseCommand()) for option in action.option_strings}
    own = load_command_class("memoryhub", name)
    return {
        option
        for action in _parser(own)
        if not isinstance(action, _HelpAction)
        for option in action.option_strings
        if option.startswith("--") and option not in common
    }


def _parser(command: BaseCommand) -> list:
    return command.create_parser("manage.py", "x")._actions


def test_there_are_commands():
    assert {"doctor", "import_memories", "restore_backup"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_all_its_options_and_no_others(name):
    options = options_of(name)
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section(name), re.MULTILINE))
    assert documented == options


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed_at_the_top(name):
    assert f"[{name}](#{name})" in (DOCS / "commands.md").read_text("utf-8").split("\n## ")[0]


def test_every_documented_command_exists():
    text = (DOCS / "commands.md").read_text("utf-8")
    assert sorted(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_explains_itself(name):
    command = load_command_class("memoryhub", name)
    assert command.help
    assert all(action.help for action in _parser(command))


@pytest.mark.parametrize("table", [operator_table, tunables_table])
def test_the_tables_of_settings_are_what_the_configuration_says(table):
    documented = (DOCS / "configuration.md").read_text("utf-8")
    for row in table().splitlines():
        assert row in documented, "run python -m tools.settings_tables and put its tables into the page"
    keys = re.findall(r"^\| `(\w+)` \|", documented, re.MULTILINE)
    assert len(keys) == len(operator_table().splitlines() + tunables_table().splitlines()) - 4


def test_every_system_check_is_documented_and_no_other():
    page = (DOCS / "configuration.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `(memoryhub\.[EW]\d+)` \|", page, re.MULTILINE))
    sources = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (checks, server))
    raised = set(re.findall(r'"(memoryhub\.[EW]\d+)"', sources))
    assert documented == raised

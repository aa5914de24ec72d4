"""Commands in the documentation are valid: ``manage.py`` commands with their options, and addresses of curl.

README and the deployment guide are run as a whole, by ``test_readme.py``.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, get_commands, load_command_class
from django.urls import Resolver404, resolve

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md") if page.name != "deployment.md")
_SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"manage\.py ([a-z_]+)([^\n|<>;&]*)")
_HUB = "http://127.0.0.1:8000/api/v1"  # the value of $HUB on these pages
_ADDRESS = re.compile(r"(?<!=)http://127\.0\.0\.1:8000(/[^\s\"']*)")
# They end before Django's own parsers see them.
OWN = {"quickstart", "test"}


def typed() -> list[tuple[str, str, str]]:
    """Page, command and the rest of its line."""
    found = []
    for page in PAGES:
        for block in _SHELL.findall(page.read_text("utf-8")):
            joined = block.replace("\\\n", " ")
            found += [(page.name, name, rest) for name, rest in _COMMAND.findall(joined) if name not in OWN]
    return found


def addresses() -> list[tuple[str, str]]:
    return [
        (page.name, urlsplit(address).path)
        for page in PAGES
        for block in _SHELL.findall(page.read_text("utf-8"))
        for address in _ADDRESS.findall(block.replace("$HUB", _HUB))
    ]


@pytest.mark.parametrize(("page", "name", "rest"), typed())
def test_a_command_of_a_page_is_there_and_takes_its_options(page, name, rest):
    command = load_command_class(get_commands()[name], name)
    try:
        command.create_parser("manage.py", name).parse_args(shlex.split(rest, comments=True))
    except CommandError as error:
        pytest.fail(f"{page}: manage.py {name}{rest}: {error}")


@pytest.mark.parametrize(("page", "path"), addresses())
def test_an_address_of_a_page_is_resolved(page, path):
    try:
        resolve(path)
    except Resolver404:
        pytest.fail(f"{page}: there is nothing at {path}")


def test_there_is_something_to_try():
    assert len(typed()) > 8
    assert len(addresses()) > 12

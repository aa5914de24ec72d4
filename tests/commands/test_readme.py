"""Commands of the README and the documentation work, in their order.

Every block of shell is marked by the comment above it: ``run``; ``run: serves`` for a server, which the
blocks below may ask until the next one is started; or ``not run:`` with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands import hub as hubs
from tests.commands.hub import ROOT, Hub

DOCUMENTS = ("README.md", "docs/dashboard.md", "docs/deployment.md")
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"run|run: serves|not run: .{5,}")
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


class Block(NamedTuple):
    mark: str
    text: str


def blocks(document: str) -> list[Block]:
    """The blocks of shell in a document."""
    found = _BLOCK.finditer((ROOT / document).read_text("utf-8"))
    return [Block(block["mark"] or "", block["text"]) for block in found if block["language"] == "sh"]


class Reader:
    """Somebody who types what a document says, in a copy of the sources, with the server at a free port."""

    def __init__(self, hub: Hub, stack: ExitStack) -> None:
        self.hub, self.stack = hub, stack
        self.port = hubs.free_port()
        self.server = ExitStack()
        stack.callback(lambda: self.server.close())
        self.more = {"TOKEN": "", "PATH": f"{self._python3()}{os.pathsep}{os.defpath}"}

    def _python3(self) -> Path:
        """A folder with a ``python3`` that has the requirements."""
        folder = self.hub.home.parent / "bin"
        folder.mkdir()
        (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (folder / "python3").chmod(0o755)
        return folder

    def type(self, text: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")],
            cwd=self.hub.folder,
            env=self.hub.environment(**self.more),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert '"status":' not in done.stdout, f"a problem was answered:\n{done.stdout}"

    def serve(self, text: str) -> None:
        """Start a server, in the place of the one before."""
        self.server.close()
        words = text.replace("--port 8000", "").split()
        assert words[:2] == ["python3", "manage.py"]
        output = self.hub.folder / "output.txt"
        self.server = ExitStack()
        file = self.server.enter_context(output.open("w"))
        self.server.enter_context(
            self.hub.serving(self.port, *words[2:], "--port", str(self.port), output=file)
        )
        if token := re.search(r"mh_\S{20,}", output.read_text()):
            self.more["TOKEN"] = token.group()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_shell_is_run_or_says_why_not(document):
    found = blocks(document)
    assert found
    assert [block for block in found if not _MARK.fullmatch(block.mark)] == []


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("curl")), reason="needs bash and curl")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_the_readme_work(document, tmp_path):
    with ExitStack() as stack:
        reader = Reader(hubs.copy(tmp_path), stack)
        for block in blocks(document):
            if block.mark == "run":
                reader.type(block.text)
            elif block.mark == "run: serves":
                reader.serve(block.text)


@pytest.mark.parametrize("document", PAGES)
def test_links_of_the_readme_have_targets(document):
    page = ROOT / document
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_listed_in_the_readme():
    readme = (ROOT / "README.md").read_text("utf-8")
    names = {path.name for path in ROOT.glob("docs/*.md")}
    assert sorted(name for name in names if f"](docs/{name})" not in readme) == []


def test_the_licence_is_the_one_that_is_declared():
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("MIT License")
    assert 'license = { text = "MIT" }' in (ROOT / "pyproject.toml").read_text("utf-8")

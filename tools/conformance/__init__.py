"""The table of requirements and their tests, ``docs/conformance.md``.

One TOML file for each document lists its requirements. A test names the requirements that it proves with
``@pytest.mark.conformance("mira-12")``.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
_DATA = sorted(Path(__file__).parent.glob("*.toml"))
_MARKER = "pytest.mark.conformance"
_HEADER = """\
# Conformance

This page lists the requirements of the five documents that memoryhub implements, in our own words, and the
tests that prove each of them. `python -m tools.conformance` writes the page from `tools/conformance/*.toml`
and the markers `@pytest.mark.conformance`. A test fails if a requirement has no test, or if this page is
outdated.
"""


@dataclass(frozen=True)
class Document:
    """A document and its requirements by id."""

    title: str
    requirements: dict[str, str]


def load_documents() -> list[Document]:
    """Return the documents in the order of their numbers."""
    return [Document(**tomllib.loads(path.read_text("utf-8"))) for path in _DATA]


def find_tests() -> dict[str, list[str]]:
    """Return the tests of each requirement as ``tests/…/test_x.py::test_name``, from the markers."""
    found = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if _MARKER in text:
            name = path.relative_to(ROOT).as_posix()
            for test, requirement in _find_markers(ast.parse(text)):
                found[requirement].append(f"{name}::{test}")
    return dict(found)


def _find_markers(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the name of each marked test with each requirement that it proves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == _MARKER:
                    yield from ((node.name, ast.literal_eval(argument)) for argument in mark.args)


def render_page() -> str:
    documents, tests = load_documents(), find_tests()
    count = sum(len(document.requirements) for document in documents)
    parts = [_HEADER, f"{count} requirements in {len(documents)} documents.\n"]
    for document in documents:
        parts.append(f"## {document.title}\n\n| id | requirement | proved by |\n|---|---|---|")
        for requirement, text in document.requirements.items():
            links = ", ".join(_link(test) for test in tests.get(requirement, []))
            parts.append(f"| {requirement} | {text} | {links} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../{path})"

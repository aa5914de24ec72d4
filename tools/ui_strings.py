"""List the strings that people read in the browser: ``python -m tools.ui_strings [--file PART]``.

From templates: text between tags, the attributes in ``ATTRIBUTES`` and what is passed to included templates;
template tags are shown as ``…``. From Python: all text of two or more words, except docstrings.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTERNAL_PACKAGES = ("migrations", "backends", "security")  # without text for people
ATTRIBUTES = ("aria-label", "title", "placeholder", "alt", "data-confirm")
# Comments, variables and tags. A tag that prints something is replaced by a mark.
_COMMENT = re.compile(r"\{#.*?#\}|\{% ?comment.*?endcomment ?%\}", re.DOTALL)
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PASSED = re.compile(r"""\b(?:title|text|action|summary|label)="([^"]+)"|default:["']([^"'|]+)["']""")
_TWO_WORDS = re.compile(r"[^\W\d_]{2,}[,;:.”’]* …?“?[^\W\d_]")
_SILENT = ("script", "style", "svg", "code", "pre")


class _Texts(HTMLParser):
    """Collects (line, text) of one template without its template tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        self.found += [(self.getpos()[0], value) for name, value in attrs if name in ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append((self.getpos()[0], data))


def _replace_tag(match: re.Match[str]) -> str:
    """Return a mark for a template tag that prints, with its line breaks, so that line numbers stay."""
    prints = match[0].startswith("{{") or not re.match(
        r"\{% ?(if|elif|else|end|for|with|load|block|extends|partial|empty|include|assets)", match[0]
    )
    return ("…" if prints else "") + "\n" * match[0].count("\n")


def read_template(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, string) for each text and labelled attribute of a template."""
    parser = _Texts()
    parser.feed(_TAG.sub(_replace_tag, _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)))
    parser.close()
    passed = [
        (text.count("\n", 0, tag.start()) + 1, one[1] or one[2])
        for tag in _TAG.finditer(text)
        for one in _PASSED.finditer(tag[0])
    ]
    for line, found in sorted(parser.found + passed):
        words = " ".join(found.split())
        if re.search(r"[^\W\d_]{2}", words):
            yield line, words


def read_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, string) for each text of a module that is not a docstring."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    found = [
        (node.lineno, _literal(node))
        for node in nodes
        if isinstance(node, ast.expr) and id(node) not in skipped
    ]
    for line, words in sorted(found):
        if _TWO_WORDS.search(words):
            yield line, " ".join(words.split())


def _literal(node: ast.expr) -> str:
    """Return the text of a string or an f-string, with ``…`` for its variables; empty for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return ""


def list_strings() -> Iterator[tuple[str, int, str]]:
    """Yield (file, line, string) of all templates and modules."""
    for path in sorted((ROOT / "templates").rglob("*.html")):
        yield from _add_file(path, read_template)
    for path in sorted((ROOT / "memoryhub").rglob("*.py")):
        if not set(path.parts) & set(INTERNAL_PACKAGES):
            yield from _add_file(path, read_python)


def _add_file(path: Path, read: Callable[[str], Iterator[tuple[int, str]]]) -> Iterator[tuple[str, int, str]]:
    for line, words in read(path.read_text("utf-8")):
        yield str(path.relative_to(ROOT)), line, words


def main() -> None:
    """Print one string on a line, below the name of its file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", default="", help="only files whose path contains this")
    wanted = parser.parse_args().file
    previous = ""
    for file, line, words in list_strings():
        if wanted not in file:
            continue
        if file != previous:
            print(f"\n{file}")
            previous = file
        print(f"{line:5}  {words}")


if __name__ == "__main__":
    main()

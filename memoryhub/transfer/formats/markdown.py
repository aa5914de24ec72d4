"""Markdown files of coding agents (``CLAUDE.md``, ``CLAUDE.local.md``).

Each list item becomes a memory together with its nested lines; so does the other text of each section. The
headings above become the subtitle, the nearest one the category.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, groupby, zip_longest
from pathlib import Path
from textwrap import dedent
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memoryhub.backends.statements import key_list
from memoryhub.core.database import batched
from memoryhub.core.text import normalize_newlines
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.records import (
    Format,
    InvalidItem,
    Item,
    ReadOptions,
    Record,
    UnmappedField,
    UnreadableFile,
    make_record,
    memory_draft,
)

MAX_BYTES = 5 * 1024 * 1024
_PAGE_SIZE = 1000  # memories read at once
_HEAD_BYTES = 64 * 1024
# Claude Code replaces "@path" by the content of that file.
_IMPORT = re.compile(r"(?:^|\s)@[~\w./-]*[\w-]", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_END_OF_COMMENT = "-->"
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_MARKUP = re.compile(r"[*_`#]+")
# Only blocks matter, and some texts take quadratic time to read what is inside them.
_BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")
# Types by words in the nearest heading.
_TYPES = {
    "decision": MemoryType.DECISION,
    "preference": MemoryType.PREFERENCE,
    "style": MemoryType.PREFERENCE,
    "convention": MemoryType.PREFERENCE,
    "gotcha": MemoryType.DISCOVERY,
    "pitfall": MemoryType.DISCOVERY,
    "known issue": MemoryType.DISCOVERY,
    "lesson": MemoryType.DISCOVERY,
}


class MarkdownFormat(Format):
    """Instructions in prose. They do not expire; those of ``CLAUDE.local.md`` are personal."""

    name = "markdown"
    label = "Markdown (CLAUDE.md)"
    extensions = (".md", ".markdown")
    extension = ".md"
    content_type = "text/markdown; charset=utf-8"
    hint = "CLAUDE.md or CLAUDE.local.md at the root of a project, or any notes with headings and lists."
    lossy = "Contains only the texts of memories, under a heading for each category; no dates or numbers."

    def recognises(self, path: Path) -> bool:
        try:
            with open(path, "rb") as file:
                head = file.read(_HEAD_BYTES)
            text = head.decode("utf-8-sig", "strict" if len(head) < _HEAD_BYTES else "ignore")
        except (OSError, UnicodeDecodeError):
            return False
        if "\x00" in text or text.lstrip()[:1] in ("{", "["):
            return False
        return bool(re.search(r"^#{1,6} \S|^[-*+] \S.*\n(?:.*\n)*?[-*+] \S", text, re.MULTILINE))

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        text = _read_text(path)
        ignored, text = _blank_ignored(text)
        is_local = Path(options.name or path.name).name.lower() == "claude.local.md"
        imports = 0
        for item in _read_items(text, Scope.PERSONAL if is_local else Scope.PROJECT):
            if draft := memory_draft(item):
                imports += len(_IMPORT.findall(_CODE.sub("", draft.content)))
            yield item
        ignored["imports of other files (@path): kept as text, not followed; import those files too"] = (
            imports
        )
        yield from (UnmappedField(what, count) for what, count in ignored.items() if count)

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        return _export_lines(selection)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            mebibytes = MAX_BYTES // 1024**2
            raise UnreadableFile(f"{path.name}: is larger than {mebibytes} MiB; split it into several files")
        raw = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path.name}: cannot be read: {error.strerror or error}") from None
    try:
        return normalize_newlines(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path.name}: is not UTF-8 text; save it as UTF-8") from None


def _blank_ignored(text: str) -> tuple[Counter[str], str]:
    """Blank out ignored parts without changing line numbers."""
    found: Counter[str] = Counter()
    for words, pattern in (("front matter", _FRONT_MATTER), ("HTML comments", _COMMENT)):
        # Each search for an end after the last one would read the rest of the file.
        last = text.rfind(_END_OF_COMMENT) + len(_END_OF_COMMENT) if pattern is _COMMENT else len(text)
        blanked, n = pattern.subn(lambda match: "\n" * match[0].count("\n"), text[:last])
        text = blanked + text[last:]
        found[words] += n
    return found, text


def _read_items(text: str, scope: Scope) -> Iterator[Item]:
    lines = text.split("\n")
    headings: list[tuple[int, str]] = []
    prose: list[tuple[int, int]] = []
    known: dict[str, Any] = {}
    tokens = [t for t in _BLOCKS.parse(text, known) if t.level <= 2]
    for token, inline in zip_longest(tokens, tokens[1:]):
        if token.type == "heading_open" and token.level == 0 and inline is not None:
            yield from _read_section(lines, prose, headings, scope)
            prose = []
            level = int(token.tag[1])
            headings = [one for one in headings if one[0] < level] + [(level, _plain_heading(inline.content))]
        elif token.type == "list_item_open" and token.level == 1 and token.map:
            yield from _read_list_item(lines, token, headings, scope)
        elif token.level == 0 and token.map and _is_prose(token):
            prose.append((token.map[0], token.map[1]))
    yield from _read_section(lines, prose, headings, scope)
    if links := len(known.get("references", ())):
        yield UnmappedField("definitions of links ([name]: address)", links)


def _is_prose(token: Token) -> bool:
    leaf = token.nesting == 1 and token.type not in ("heading_open", "bullet_list_open", "ordered_list_open")
    return leaf or token.type in ("fence", "code_block", "html_block")


def _read_list_item(
    lines: list[str], token: Token, headings: list[tuple[int, str]], scope: Scope
) -> Iterator[Item]:
    """Yield a list item without its marker, with its nested lines dedented."""
    start, end = token.map or (0, 0)
    first, *rest = lines[start:end]
    body = re.sub(r"^\s*(?:[-*+]|\d{1,9}[.)])\s?", "", first)
    text = "\n".join([re.sub(r"^\[[ xX]\]\s+", "", body), dedent("\n".join(rest))]).strip()
    if text:
        yield _make_memory(f"line {start + 1}", text, headings, scope)


def _read_section(
    lines: list[str], prose: list[tuple[int, int]], headings: list[tuple[int, str]], scope: Scope
) -> Iterator[Item]:
    """Yield the text of a section outside of its lists."""
    text = "\n\n".join("\n".join(lines[start:end]).strip() for start, end in prose).strip()
    if text:
        title = headings[-1][1] if headings else ""
        yield _make_memory(f"line {prose[0][0] + 1}", text, headings, scope, title)


def _make_memory(
    place: str, content: str, headings: list[tuple[int, str]], scope: Scope, title: str = ""
) -> Record | InvalidItem:
    above = headings[:-1] if title else headings
    path = " › ".join(words for _, words in above if words)
    nearest = headings[-1][1] if headings else ""
    values = {
        "content": content,
        "title": title[:500],
        "subtitle": path[:1000],
        "category": nearest[:100].strip() or "general",
        "type": _heading_type(nearest),
        "scope": scope,
        "ttl_days": None,
    }
    return make_record(place, MemoryDraft, values)


def _heading_type(heading: str) -> MemoryType:
    words = heading.lower()
    return next((kind for word, kind in _TYPES.items() if word in words), MemoryType.CONTEXT)


def _plain_heading(heading: str) -> str:
    return " ".join(_MARKUP.sub("", heading).split())


def _export_lines(selection: ExportSelection) -> Iterator[bytes]:
    """Yield a list item per memory; indentation keeps longer texts and blank lines in one item."""
    yield b"# Memories\n"
    ordered = selection.memories().order_by("project", "category", "pk")
    # In pages, because PostgreSQL sends all rows of a query at once.
    pages = batched(ordered.values_list("pk", flat=True), _PAGE_SIZE)
    rows = chain.from_iterable(ordered.filter(pk__in=key_list(keys)) for keys in pages)
    for (project, category), memories in groupby(rows, lambda row: (row.project, row.category)):
        heading = _plain_heading(f"{project}: {category}" if project else category)
        yield f"\n## {heading}\n\n".encode()
        for memory in memories:
            yield _to_list_item(memory).encode()


def _to_list_item(memory: Memory) -> str:
    first, *rest = memory.content.strip().splitlines()
    return "\n".join([f"- {first}", *(f"  {line}" if line.strip() else "" for line in rest)]) + "\n"

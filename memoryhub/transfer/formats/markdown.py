"""Notes in Markdown: the files of coding agents (CLAUDE.md) and the folders of basic-memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, groupby, islice, zip_longest
from pathlib import Path, PurePosixPath
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memoryhub.backends.statements import key_list
from memoryhub.core.database import batched
from memoryhub.core.front_matter import InvalidFrontMatter, parse_front_matter
from memoryhub.core.text import collapse_whitespace, normalize_newlines
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.files import member_names, open_member, select_members
from memoryhub.transfer.records import (
    Format,
    InvalidItem,
    Item,
    Problem,
    ReadOptions,
    Record,
    UnmappedField,
    UnreadableFile,
    make_record,
    memory_draft,
)
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, load_field_rules

if TYPE_CHECKING:
    from memoryhub.models import Memory


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
_HEADING_TYPES = {
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
    """Instructions in prose. They do not expire; those of ``CLAUDE.local.md`` are personal.

    Each list item becomes a memory together with its nested lines; so does the other text of each section.
    The headings above become the subtitle, the nearest one the category.
    """

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
    path = " › ".join(heading for _, heading in above if heading)
    nearest = headings[-1][1] if headings else ""
    words = nearest.lower()
    values = {
        "content": content,
        "title": title[:500],
        "subtitle": path[:1000],
        "category": nearest[:100].strip() or "general",
        "type": next((kind for word, kind in _HEADING_TYPES.items() if word in words), MemoryType.CONTEXT),
        "scope": scope,
        "ttl_days": None,
    }
    return make_record(place, MemoryDraft, values)


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


_BASIC_MEMORY = load_field_rules("basic-memory")
MAX_NOTE_BYTES = 5 * 1024 * 1024
_NOTE = re.compile(r"\.md$", re.I)
_SAMPLE_NOTES = 20
_NOTE_FIELDS = frozenset(
    "title type permalink tags aliases created created_at date modified updated updated_at".split()
)
_NOTE_TYPES = {"note": MemoryType.GENERAL}
_RELATION = re.compile(
    r"^[ \t]*[-*+] (?P<kind>[^\[\]\n]{1,200}?) \[\[(?P<target>[^\[\]|\n]{1,500})(?:\|[^\]\n]*)?\]\]", re.M
)
_OBSERVATION = re.compile(r"^[ \t]*[-*+] \[[^\[\]\n]+\] .*$", re.M)
_HASHTAG = re.compile(r"(?<!\S)#([\w/-]{1,100})")


@dataclass(frozen=True)
class _Note:
    """A file of the folder or archive. ``changed`` is its modification time."""

    name: str
    raw: bytes | None  # None: too large
    changed: datetime | None = None


class BasicMemory(Format):
    """A folder of notes with front matter, a zip archive of it, or one note.

    The notes are the store; the program's SQLite file is an index of them.
    """

    name = "basic-memory"
    label = "basic-memory (notes)"
    extensions = (".zip", ".md")
    hint = "A zip archive of ~/basic-memory, or of another project; the command takes the folder too."

    def recognises(self, path: Path) -> bool:
        with suppress(UnreadableFile, OSError):
            return any(map(_has_permalink, islice(_notes(path), _SAMPLE_NOTES)))
        return False

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes = ReadNotes()
        relations: list[Item] = []
        for note in _notes(path):
            item, found = _read_note(note, notes, PurePosixPath(options.name or path.name).name)
            yield item
            relations += found
        yield from relations
        yield from notes.items()


def _notes(path: Path) -> Iterator[_Note]:
    """Yield the notes in order, without hidden folders and symbolic links. Raise :class:`UnreadableFile`."""
    if path.is_dir():
        for file in sorted(path.rglob("*.md")):
            name = file.relative_to(path).as_posix()
            if not _is_hidden(name) and file.is_file() and not file.is_symlink():
                yield _read_note_file(file, name)
    elif member_names(path):
        for name in select_members(path, _NOTE):
            if not _is_hidden(name):
                with open_member(path, name) as stream:
                    raw = stream.read(MAX_NOTE_BYTES + 1)
                yield _Note(name, raw if len(raw) <= MAX_NOTE_BYTES else None)
    else:
        yield _read_note_file(path, "")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _read_note_file(path: Path, name: str) -> _Note:
    try:
        about = path.stat()
        changed = datetime.fromtimestamp(about.st_mtime, UTC)
        return _Note(name, path.read_bytes() if about.st_size <= MAX_NOTE_BYTES else None, changed)
    except OSError as error:
        raise UnreadableFile(f"{path.name}: cannot be read: {error.strerror or error}") from None


def _has_permalink(note: _Note) -> bool:
    try:
        values, _ = parse_front_matter((note.raw or b"").decode("utf-8-sig"))
    except (InvalidFrontMatter, UnicodeDecodeError):
        return False
    return "permalink" in values and "title" in values


def _read_note(note: _Note, notes: ReadNotes, file: str) -> tuple[Item, list[Item]]:
    """Return the memory of a note, and its relations as facts."""
    place = note.name or file
    if note.raw is None:
        return InvalidItem(place, [Problem("", f"is larger than {MAX_NOTE_BYTES // 1024**2} MiB")]), []
    try:
        values, body = parse_front_matter(note.raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return InvalidItem(place, [Problem("", "is not UTF-8 text")]), []
    except InvalidFrontMatter as error:
        return InvalidItem(place, [Problem("", str(error))]), []
    fields = FieldReader({**values, "title": values.get("title") or PurePosixPath(place).stem}, notes, place)
    fields.note_unknown(_NOTE_FIELDS)
    uid = foreign_id(BasicMemory.name, fields.text("permalink") or note.name)
    record = _make_note_memory(fields, body, uid, note)
    if isinstance(record, InvalidItem):
        return record, []
    return record, [
        _make_relation(f", relation {number}", fields, uid, match)
        for number, match in enumerate(_RELATION.finditer(body), start=1)
    ]


def _make_relation(part: str, fields: FieldReader, uid: str, match: re.Match[str]) -> Item:
    triple = {
        "subject": collapse_whitespace(fields.text("title"))[:500],
        "predicate": collapse_whitespace(match["kind"].replace("_", " ")),
        "object": collapse_whitespace(match["target"]),
    }
    fact_id = foreign_id(BasicMemory.name, "/".join((uid, triple["predicate"], triple["object"])))
    return fields.fact({}, part=part, uid=fact_id, memory_id=uid, **triple)


def _make_note_memory(fields: FieldReader, body: str, uid: str, note: _Note) -> Item:
    kind, unknown = fields.memory_type("type", _NOTE_TYPES)
    observed = [tag for line in _OBSERVATION.findall(body) for tag in _HASHTAG.findall(line)]
    folder = PurePosixPath(note.name).parent.name
    changed = fields.past_moment("modified", "updated", "updated_at") or note.changed
    return fields.memory(
        _BASIC_MEMORY["note"],
        uid=uid,
        content=body.strip("\n"),
        type=kind,
        tags=list(dict.fromkeys([*fields.words("tags"), *observed, *unknown])),
        category=folder[:100] or "general",
        created_at=fields.past_moment("created", "created_at", "date") or changed,
        updated_at=changed,
    )

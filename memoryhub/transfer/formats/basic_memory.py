"""basic-memory: a folder of Markdown notes with front matter, a zip archive of it, or one note.

The notes are the store; the program's SQLite file is an index of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath

from memoryhub.core.front_matter import InvalidFrontMatter, parse_front_matter
from memoryhub.core.text import collapse_whitespace
from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.files import member_names, open_member, select_members
from memoryhub.transfer.records import Format, InvalidItem, Item, Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, load_field_rules

_FIELDS = load_field_rules("basic-memory")
MAX_NOTE_BYTES = 5 * 1024 * 1024
_NOTE = re.compile(r"\.md$", re.I)
_SAMPLE_NOTES = 20
_KNOWN_FIELDS = frozenset(
    "title type permalink tags aliases created created_at date modified updated updated_at".split()
)
_TYPES = {"note": MemoryType.GENERAL}
_RELATION = re.compile(
    r"^[ \t]*[-*+] (?P<kind>[^\[\]\n]{1,200}?) \[\[(?P<target>[^\[\]|\n]{1,500})(?:\|[^\]\n]*)?\]\]", re.M
)
_HASHTAG = re.compile(r"^[ \t]*[-*+] \[[^\[\]\n]+\] .*$", re.M)
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,100})")


@dataclass(frozen=True)
class _Note:
    """A file of the folder or archive. ``changed`` is its modification time."""

    name: str
    raw: bytes | None  # None: too large
    changed: datetime | None = None


class BasicMemory(Format):
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
                yield _read_file(file, name)
    elif member_names(path):
        for name in select_members(path, _NOTE):
            if not _is_hidden(name):
                with open_member(path, name) as stream:
                    raw = stream.read(MAX_NOTE_BYTES + 1)
                yield _Note(name, raw if len(raw) <= MAX_NOTE_BYTES else None)
    else:
        yield _read_file(path, "")


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _read_file(path: Path, name: str) -> _Note:
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
    fields.note_unknown(_KNOWN_FIELDS)
    uid = foreign_id(BasicMemory.name, fields.text("permalink") or note.name)
    record = _make_record(fields, body, uid, note)
    if isinstance(record, InvalidItem):
        return record, []
    return record, [
        _make_fact(f", relation {number}", fields, uid, match)
        for number, match in enumerate(_RELATION.finditer(body), start=1)
    ]


def _make_fact(part: str, fields: FieldReader, uid: str, match: re.Match[str]) -> Item:
    triple = {
        "subject": collapse_whitespace(fields.text("title"))[:500],
        "predicate": collapse_whitespace(match["kind"].replace("_", " ")),
        "object": collapse_whitespace(match["target"]),
    }
    fact_id = foreign_id(BasicMemory.name, "/".join((uid, triple["predicate"], triple["object"])))
    return fields.fact({}, part=part, uid=fact_id, memory_id=uid, **triple)


def _make_record(fields: FieldReader, body: str, uid: str, note: _Note) -> Item:
    kind, unknown = fields.memory_type("type", _TYPES)
    observed = [tag for line in _HASHTAG.findall(body) for tag in _TAG.findall(line)]
    folder = PurePosixPath(note.name).parent.name
    changed = fields.past_moment("modified", "updated", "updated_at") or note.changed
    return fields.memory(
        _FIELDS["note"],
        uid=uid,
        content=body.strip("\n"),
        type=kind,
        tags=list(dict.fromkeys([*fields.words("tags"), *observed, *unknown])),
        category=folder[:100] or "general",
        created_at=fields.past_moment("created", "created_at", "date") or changed,
        updated_at=changed,
    )

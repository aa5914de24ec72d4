"""The folder of ``memoryhub sync``: a Markdown file with front matter for each memory, and the state file.

The state contains a hash of each memory as it was in the file and in the hub after the last sync. With it, a
sync recognises on which side a memory changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from memoryhub.client.calls import ConfigurationError
from memoryhub.core.files import replace_file
from memoryhub.core.front_matter import (
    InvalidFrontMatter,
    field_line,
    format_front_matter,
    parse_front_matter,
)
from memoryhub.core.text import normalize_newlines
from memoryhub.core.vocabulary import SCOPES, TYPES

STATE_FILE = ".memoryhub-sync.json"
CONFLICT_SUFFIX = ".conflict.md"
LEVELS = ("public", "private", "secret")
MAX_FILE_BYTES = 1024 * 1024
_IGNORED_NAMES = frozenset(("readme.md",))
_WORD = re.compile(r"[a-z0-9]+")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off", "")


@dataclass(frozen=True)
class Document:
    """A memory as a file contains it. Field names are those of the API, except ``level`` in the file."""

    content: str
    id: str = ""
    title: str = ""
    subtitle: str = ""
    type: str = "change"
    category: str = "general"
    tags: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    importance: float = 0.5
    sensitivity: str = "public"
    scope: str = "project"
    pinned: bool = False
    superseded_by: str = ""
    updated: str = field(default="", compare=False)  # for people; it is not compared

    @classmethod
    def from_memory(cls, memory: Mapping[str, Any]) -> Document:
        """Return the document of a memory as the API returns it."""
        values: dict[str, Any] = {name: memory[name] for name in _FIELDS if memory.get(name) is not None}
        values |= {
            name: tuple(sorted(values[name])) for name in _LISTS if name in values
        }  # no order in the hub
        values["content"] = _normalize_body(str(memory["content"]))
        return cls(id=str(memory["id"]), updated=str(memory.get("updated_at") or ""), **values)

    def to_text(self) -> str:
        """Return the text of the file. Fields with their default value are left out."""
        shown: dict[str, Any] = {"id": self.id} if self.id else {}
        for name in _FIELDS:
            value, label = getattr(self, name), _LABELS.get(name, name)
            if name in _ALWAYS or value != _DEFAULTS[name]:
                shown[label] = list(value) if isinstance(value, tuple) else value
        if self.updated:
            shown["updated"] = self.updated
        return format_front_matter(shown, self.content)

    def digest(self) -> str:
        values = {name: value for name, value in asdict(self).items() if name not in ("id", "updated")}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]

    def changes_from(self, other: Document) -> dict[str, Any]:
        """Return the values of the API that turn the other document into this one."""
        names = ("content", *_FIELDS)
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(other, name)}
        if "superseded_by" in changed:
            changed["superseded_by"] = changed["superseded_by"] or None
        return {name: list(one) if isinstance(one, tuple) else one for name, one in changed.items()}


_LISTS = ("tags", "concepts", "aliases")
_FIELDS = tuple(one.name for one in fields(Document) if one.name not in ("content", "id", "updated"))
_DEFAULTS = {one.name: one.default for one in fields(Document)}
_ALWAYS = ("title", "type")
_LABELS = {"sensitivity": "level"}
_NAMES = {label: name for name, label in _LABELS.items()} | {"name": "title"}
_CHOICES = {"type": TYPES, "sensitivity": LEVELS, "scope": SCOPES}


def _normalize_body(content: str) -> str:
    return normalize_newlines(content).strip("\n")


class FileProblem(Exception):
    """A file that cannot be used, with its line. The message never quotes the ``text`` of the file."""

    def __init__(self, path: str, line: int, message: str, text: str = "") -> None:
        self.path, self.line, self.message, self.text = path, line, message, text
        super().__init__(f"{path}:{line}: {message}" if line else f"{path}: {message}")


@dataclass(frozen=True)
class LocalFile:
    """A file of the folder. ``path`` is relative, with slashes."""

    path: str
    text: str
    document: Document


def parse_document(path: str, text: str) -> Document:
    """Return the document of a file. Raise :class:`FileProblem` with the line of the problem."""
    try:
        front_matter, body = parse_front_matter(text)
    except InvalidFrontMatter as error:
        raise FileProblem(path, error.line, error.message, text) from None
    values: dict[str, Any] = {}
    for label, value in front_matter.items():
        name = _NAMES.get(label, label)
        try:
            values[name] = _read_field(name, value)
        except ValueError as error:
            message = f"{label if name in _DEFAULTS else 'a field'} {error}"
            raise FileProblem(path, field_line(text, label), message, text) from None
    content = _normalize_body(body)
    if not content.strip():
        raise FileProblem(path, 1, "there is no text below the front matter", text)
    return Document(content=content, **values)


def _read_field(name: str, value: Any) -> Any:
    if name not in _DEFAULTS or name == "content":
        known = ", ".join(_LABELS.get(one, one) for one in ("id", *_FIELDS, "updated"))
        raise ValueError(f"is unknown; known fields are {known}")
    if name in _LISTS:
        return _read_words(value)
    if not isinstance(value, str):
        raise ValueError("is not a string")
    value = value.strip()
    if name == "importance":
        return _read_importance(value)
    if name == "pinned":
        return _read_switch(value)
    if name in ("id", "superseded_by"):
        return _read_id(value)
    if name in _CHOICES and value and value not in _CHOICES[name]:
        raise ValueError(f"is not one of {', '.join(_CHOICES[name])}")
    return value or _DEFAULTS[name]


def _read_words(value: Any) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("is not a list of words; write one in each line, after a hyphen")
    return tuple(sorted({word.strip() for word in words if word.strip()}))


def _read_switch(value: str) -> bool:
    if value.lower() not in (*_TRUE, *_FALSE):
        raise ValueError("is neither true nor false")
    return value.lower() in _TRUE


def _read_id(value: str) -> str:
    if value in ("", "null", "~"):
        return ""
    if not _ID.fullmatch(value):
        raise ValueError("is not an id")
    return value


def _read_importance(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError("is not a number from 0 to 1")
    return number


@dataclass
class Entry:
    """The state of a memory after the last sync. ``conflict``: a hash of the hub's version."""

    file: str
    hash: str
    conflict: str = ""


def _read_entry(values: dict[str, Any]) -> Entry:
    """Return an entry of a state file. Raise TypeError if it is not valid."""
    if not all(isinstance(value, str) for value in values.values()):
        raise TypeError
    return Entry(**values)


@dataclass
class State:
    """The state file. ``project`` protects a folder from a sync with another project."""

    project: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return one line for each memory, in the order of their ids, so that git can merge it."""
        rows = [
            f"  {json.dumps(uid)}: {_to_json({name: value for name, value in asdict(one).items() if value})}"
            for uid, one in sorted(self.entries.items())
        ]
        listed = "\n" + ",\n".join(rows) + "\n " if rows else ""
        return f'{{\n "version": 1,\n "project": {_to_json(self.project)},\n "memories": {{{listed}}}\n}}\n'


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Folder:
    """The folder of a project."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load_state(self, project: str) -> State:
        """Return the state, empty for a new folder. Raise ConfigurationError if it cannot be used."""
        path = self.path / STATE_FILE
        if not path.exists():
            return State(project)
        try:
            state = json.loads(path.read_text("utf-8"))
            entries = {str(uid): _read_entry(one) for uid, one in state["memories"].items()}
            owner = str(state["project"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigurationError(
                f"{path} cannot be read. Resolve it in git, or delete it: the next sync then compares all"
                " files with the hub again."
            ) from None
        if owner != project:
            raise ConfigurationError(
                f"{self.path} belongs to the project {owner!r}. Use another folder for {project!r}."
            )
        return State(project, entries)

    def save_state(self, state: State) -> None:
        self.write(STATE_FILE, state.to_text())

    def scan(self) -> Iterator[LocalFile | FileProblem]:
        """Yield the Markdown files in order, without conflicts, hidden folders, README.md and links."""
        for path in sorted(self.path.rglob("*.md")):
            name = path.relative_to(self.path).as_posix()
            hidden = any(part.startswith(".") for part in name.split("/"))
            if hidden or name.endswith(CONFLICT_SUFFIX) or path.name.lower() in _IGNORED_NAMES:
                continue
            if path.is_symlink():
                yield FileProblem(name, 0, "is a link; it is not followed")
            elif any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
                yield FileProblem(name, 0, "has a control character or a broken one in its name; rename it")
            elif path.is_file():
                yield self._read(path, name)

    def _read(self, path: Path, name: str) -> LocalFile | FileProblem:
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                return FileProblem(name, 0, f"is larger than {MAX_FILE_BYTES // 1024**2} MiB")
            text = path.read_bytes().decode("utf-8")
            return LocalFile(name, text, parse_document(name, text))
        except FileProblem as problem:
            return problem
        except UnicodeDecodeError:
            return FileProblem(name, 0, "is not UTF-8 text")
        except OSError as error:
            return FileProblem(name, 0, f"cannot be read: {error.strerror}")

    def contains(self, name: str) -> bool:
        """Return whether a name is a regular path in the folder. The state file is not trusted."""
        path = self.path / name
        parents = [self.path / Path(*Path(name).parts[:n]) for n in range(1, len(Path(name).parts) + 1)]
        plain = not Path(name).is_absolute() and ".." not in Path(name).parts and name.endswith(".md")
        return plain and not any(one.is_symlink() for one in parents) and not path.is_dir()

    def free_name(self, document: Document, taken: set[str]) -> str:
        """Return a readable name that no other file has, also where case does not matter."""
        plain = unicodedata.normalize("NFKD", document.title or document.content[:80])
        words = _WORD.findall(plain.encode("ascii", "ignore").decode().lower())
        slug = "-".join(words)[:50].strip("-") or "memory"
        for length in (8, 64):
            name = f"{slug}-{re.sub(r'[^a-z0-9]', '', document.id.lower())[:length]}.md"
            if name not in taken and not (self.path / name).exists():
                return name
        return f"{slug}-{secrets.token_hex(8)}.md"

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def write(self, name: str, text: str, *, private: bool = False) -> None:
        """Write a file atomically; one above public is readable by its owner only."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path, 0o600 if private else 0o666) as file:
            file.write(text.encode())

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


def conflict_name(name: str) -> str:
    """Return the name of the file with the hub's version of a memory in conflict."""
    return name.removesuffix(".md") + CONFLICT_SUFFIX

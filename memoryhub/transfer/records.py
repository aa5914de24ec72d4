"""Import formats and the items that they yield: records, invalid items, unmapped fields, history."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from memoryhub.capture.classification import detect_type
from memoryhub.core.vocabulary import Scope
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.transfer.schema import JournalLine


class UnreadableFile(Exception):
    """The file as a whole cannot be read; the message says how to fix that."""


class DamagedFile(UnreadableFile):
    """The bytes of the file are damaged or were changed, so no later attempt can read it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field (empty: the item itself) and its problem, never its value."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def validation_problems(error: ValidationError) -> list[Problem]:
    """Return pydantic's errors, field by field."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [_to_problem(item["loc"], item["type"], item["msg"]) for item in found]


def _to_problem(location: tuple[int | str, ...], kind: str, message: str) -> Problem:
    field = ".".join(map(str, location))
    if kind == "model_type" and not location:
        message = "is not a JSON object"
    elif kind == "json_invalid":
        message = _describe_json_error(message)
    elif kind == "missing":
        message = "is missing"
    message = re.sub(r"^(Value error, |(Input|String|List) (?=should))", "", message)
    return Problem(field, message)


# The start of the parser's message, and what it means.
_JSON_ERRORS = {
    "EOF": "the line ends too early",
    "trailing characters": "there is more text after the end of the object",
    "trailing comma": "a comma is before a closing bracket",
    "key must be a string": "a field name is missing or is not in double quotes",
    "expected value": "a value is missing or is not in double quotes",
    "expected ident": "a value is missing or is not in double quotes",
    "expected `:`": "a colon is missing",
    "expected `,`": "a comma or a closing bracket is missing",
    "invalid number": "a number is incomplete or has a leading zero",
    "invalid escape": "a backslash is not followed by a valid escape sequence",
    "unexpected end of hex escape": "an escape sequence is incomplete",
    "lone leading surrogate": "an escape sequence is incomplete",
    "invalid unicode": "the text is not UTF-8; save the file as UTF-8",
    "control character": "a control character is not escaped",
    "recursion limit": "lists or objects are nested too deeply",
    "number out of range": "a number is too long",
}


def _describe_json_error(message: str) -> str:
    parsed = re.fullmatch(r"(?:Invalid JSON: )?(.*) at line \d+ column (\d+)", message)
    if not parsed:
        return "is not JSON"
    texts = (text for start, text in _JSON_ERRORS.items() if parsed[1].startswith(start))
    return f"is not JSON at column {parsed[2]}: {next(texts, parsed[1])}"


def describe_invalid_json(text: bytes | str) -> str:
    """Return why a text is not JSON, and where."""
    try:
        from_json(text)
    except ValueError as error:
        return _describe_json_error(str(error))
    return "is not JSON"


NO_HISTORY = ImportedHistory()


@dataclass(frozen=True, slots=True)
class Record:
    """A memory or a fact.

    ``place`` is the position in the file for people: "line 12", "memories row 5". ``source_id`` is its unique
    id in the file (empty: no references). The ``memory_id`` of a fact's draft is the ``source_id`` of an
    earlier record. ``past`` has the values that a draft cannot contain.
    """

    place: str
    draft: MemoryDraft | FactDraft
    source_id: str = ""
    past: ImportedHistory = NO_HISTORY


@dataclass(frozen=True, slots=True)
class InvalidItem:
    """An item that cannot be read."""

    place: str
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class UnmappedField:
    """Unsupported values, which the report counts.

    ``what`` names a kind of value ("column memories.embedding", "relations without a target"), never a value.
    A file has few kinds; ``count`` is the number of values.
    """

    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """History from the hub's own format (:mod:`memoryhub.transfer.schema`)."""

    place: str
    shape: BaseModel


@dataclass(slots=True)
class Conversation:
    """A conversation, from which the import extracts memories.

    ``session_id`` is its id in every import. ``program`` is where it took place. Each message has a role and
    a content.
    """

    place: str
    session_id: str
    program: str
    messages: list[dict[str, Any]]
    started_at: datetime
    last_at: datetime
    scope: Scope = Scope.PROJECT
    project: str = ""


Item = Record | InvalidItem | UnmappedField | HistoryItem | Conversation


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading.

    ``name`` is the original file name. ``project`` is the default project, which the loader sets; formats use
    it only to distinguish projects. ``now`` is the reference time for ages. ``has_owner``: the importing
    person or token owns personal memories.
    """

    name: str = ""
    project: str = ""
    now: datetime | None = None
    has_owner: bool = False


class Format:
    """Base of the import formats. Stateless.

    ``name`` is used in commands and the API (``pigo``), ``label`` is for people. ``extensions`` are listed in
    the order of a file chooser (``.jsonl``). ``hint`` is a sentence on where to find the file.
    """

    name: str
    label: str
    hint: str
    extensions: tuple[str, ...]

    def recognises(self, path: Path) -> bool:
        """Return whether the content (not only the name) matches. Fast; never raises."""
        raise NotImplementedError

    def count(self, path: Path) -> int | None:
        """Estimate the number of items, for a progress bar; None if that is expensive."""
        return None

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        """Yield the items in a stable order with bounded memory.

        Raise :class:`UnreadableFile` if the file, or the rest of it, cannot be read; the message states the
        problem and the fix. A problem with a single item yields an ``InvalidItem``.
        """
        raise NotImplementedError


def make_record(
    place: str,
    shape: type[MemoryDraft] | type[FactDraft],
    values: Mapping[str, Any],
    *,
    source_id: str = "",
    past: ImportedHistory = NO_HISTORY,
) -> Record | InvalidItem:
    """Validate the values; return the record or its problems."""
    try:
        return Record(place, shape.model_validate(dict(values)), source_id, past)
    except ValidationError as error:
        return InvalidItem(place, validation_problems(error))


def set_default_project(item: Item, project: str) -> None:
    """Set the default project; a journal row may have no project."""
    target: Any = None
    if isinstance(item, Record):
        target = item.draft
    elif isinstance(item, Conversation):
        target = item
    elif isinstance(item, HistoryItem) and not isinstance(item.shape, JournalLine):
        target = item.shape
    if target is not None and getattr(target, "project", None) == "":
        target.project = project


def memory_draft(item: Item) -> MemoryDraft | None:
    """Return the draft of a memory; None for an item of another kind."""
    draft = item.draft if isinstance(item, Record) else None
    return draft if isinstance(draft, MemoryDraft) else None


def set_default_ttl(item: Item, days: float) -> None:
    if (draft := memory_draft(item)) and "ttl_days" not in draft.given:
        draft.ttl_days = days


MAPPING_TARGETS = (
    *("title", "subtitle", "abstract", "overview", "category", "type", "tags", "concepts", "aliases"),
    *("importance", "trust", "confidence", "project", "session_id", "key", "files_read", "files_modified"),
)
_LIST_TARGETS = frozenset({"tags", "concepts", "aliases", "files_read", "files_modified"})


def map_fields(item: Item, mapping: Mapping[str, str]) -> None:
    """Set mapped fields that the item does not have. A value that does not fit stays an unknown field."""
    draft = memory_draft(item)
    if draft is None or not draft.model_extra:
        return
    for name, target in mapping.items():
        if name not in draft.model_extra or target in draft.given:
            continue
        value = draft.model_extra[name]
        if target in _LIST_TARGETS and not isinstance(value, list):
            value = [value]
        try:
            patch = MemoryPatch.model_validate({target: value})
        except ValidationError:
            continue
        setattr(draft, target, getattr(patch, target))
        del draft.model_extra[name]


def infer_type(item: Item) -> None:
    """Derive the type from the text of a memory whose item has none."""
    if (draft := memory_draft(item)) and "type" not in draft.given:
        draft.type = detect_type(draft.content)

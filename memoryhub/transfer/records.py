"""What any file consists of: records to store, records that cannot be read, and fields without a place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft, MemoryDraft


class UnreadableFile(Exception):
    """The file as a whole cannot be read; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: a field (empty: the thing itself), and why; never the value."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def validation_problems(error: ValidationError) -> list[Problem]:
    """What pydantic found, field by field."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [_to_problem(item["loc"], item["type"], item["msg"]) for item in found]


def _to_problem(location: tuple[int | str, ...], kind: str, message: str) -> Problem:
    field = ".".join(map(str, location))
    if kind == "model_type" and not location:
        message = "is not a JSON object"
    elif kind == "json_invalid":
        message = "is not JSON: " + message.removeprefix("Invalid JSON: ").replace(
            "at line 1 column", "at column"
        )
    elif kind == "missing":
        message = "is missing"
    message = re.sub(r"^(Value error, |Input )", "", message)
    return Problem(field, message)


NO_HISTORY = ImportedHistory()


@dataclass(frozen=True, slots=True)
class Record:
    """A memory or a fact to store.

    ``place``: where it stands in the file, for people: "line 12", "memories row 5". ``source_id``: its id
    over there, unique in the file (empty: nothing refers to it); the ``memory_id`` of a fact's draft is such
    a ``source_id`` too, of a record that comes before the fact. ``past``: what a draft cannot say.
    """

    place: str
    draft: MemoryDraft | FactDraft
    source_id: str = ""
    past: ImportedHistory = NO_HISTORY


@dataclass(frozen=True, slots=True)
class InvalidItem:
    """One thing that cannot be read; the others still can."""

    place: str
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class UnmappedField:
    """What has no home here: told in the report, never dropped in silence.

    ``what``: short words for a kind of thing ("column memories.embedding", "relations without a target"), of
    which there are few in a file; never a value. ``count``: how many of them.
    """

    what: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """What only the hub's own file brings (:mod:`memoryhub.transfer.schema`): it restores a store."""

    place: str
    shape: BaseModel


Item = Record | InvalidItem | UnmappedField | HistoryItem


@dataclass(frozen=True)
class ReadOptions:
    """How to read. ``name``: what the file was called before it was uploaded. ``project``: of what names none
    (the loader sets it; a format needs it only to tell places apart). ``now``: what "now" is for ages."""

    name: str = ""
    project: str = ""
    now: datetime | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


Draft = TypeVar("Draft", MemoryDraft, FactDraft)


def make_record(
    place: str,
    shape: type[Draft],
    values: Mapping[str, Any],
    *,
    source_id: str = "",
    past: ImportedHistory = NO_HISTORY,
) -> Record | InvalidItem:
    """The record that these values make, or what is wrong with them."""
    try:
        return Record(place, shape.model_validate(dict(values)), source_id, past)
    except ValidationError as error:
        return InvalidItem(place, validation_problems(error))

"""Read the values of other programs, and make records and history of them.

The values may be numbers as texts, timestamps in any common format, lists in JSON, or numbers out of range.
They are converted where possible, and the import report lists the changes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from django.conf import settings
from pydantic import BaseModel, BeforeValidator, RootModel, ValidationError

from memoryhub.capture.events import parse_prompt
from memoryhub.core.text import collapse_whitespace
from memoryhub.core.vocabulary import TYPES, MemoryType
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.security.secrets import may_contain_secrets
from memoryhub.transfer.records import (
    NO_HISTORY,
    HistoryItem,
    InvalidItem,
    Item,
    Problem,
    Record,
    UnmappedField,
    make_record,
    validation_problems,
)
from memoryhub.transfer.schema import (
    EventLine,
    EvidenceLine,
    JournalLine,
    ReplacementLine,
    RevisionLine,
    SessionLine,
)

_MAX_NOTES = 100
_OTHER = "other things"
_NAME = re.compile(r"[A-Za-z][\w .-]{0,29}", re.ASCII)
# Larger numbers are microseconds or milliseconds; as seconds they would be after the year 5000.
_MICROSECONDS, _MILLISECONDS = 1e14, 1e11
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_ONE_MINUTE_DAYS = 1 / 1440
_MAX_DAYS = 36_500.0
MAX_COUNT = 2_000_000_000
ROW_NUMBER = "_row"  # key of the row number among the columns of a table


@lru_cache(maxsize=1000)
def printable_name(word: str) -> str:
    """Return a name from the file for the report, or a placeholder if it may be a text or a credential."""
    plain = _NAME.fullmatch(word)
    return word if plain and not may_contain_secrets(word) else "of another name"


@dataclass
class ReadNotes:
    """Counts of changed or skipped values, reported at the end of a file."""

    counted: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, count: int = 1) -> None:
        """Count a note. The number of notes is limited, because ``what`` may contain names of the file."""
        if count:
            known = what in self.counted or len(self.counted) < _MAX_NOTES
            self.counted[what if known else _OTHER] += count

    def add_unread(self, unread: Iterable[tuple[str, str, int]]) -> None:
        """Count unsupported tables and columns, given as ``(table, column, rows)``."""
        for table, column, count in unread:
            name = printable_name(table)
            self.add(f"column {name}.{printable_name(column)}" if column else f"rows of {name}", count)

    def items(self) -> Iterator[Item]:
        for what, count in self.counted.items():
            yield UnmappedField(what, count)


class FieldRule(NamedTuple):
    """How to compute a field: a method, the names of values, and options (``formats/fields.toml``)."""

    method: str
    names: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    def parse(cls, rule: object) -> object:
        if not isinstance(rule, str):
            return rule
        method, *words = rule.split()
        if method not in _READERS:
            raise ValueError(f"{method} is not one of {', '.join(_READERS)}")
        options = dict(word.split("=", 1) for word in words if "=" in word)
        return cls(method, tuple(word for word in words if "=" not in word), options)

    def read(self, fields: FieldReader) -> Any:
        return _READERS[self.method](fields, *self.names, **self.options)


FieldRules = dict[str, Annotated[FieldRule | int, BeforeValidator(FieldRule.parse)]]


class _FieldFile(RootModel[dict[str, dict[str, FieldRules]]]):
    """The rules by format and kind of record."""


@cache
def load_field_rules(format: str) -> dict[str, FieldRules]:
    """Return the rules of a format by the kind of record."""
    path = Path(__file__).with_name("formats") / "fields.toml"
    return _FieldFile.model_validate(tomllib.loads(path.read_text("utf-8"))).root[format]


class FieldReader:
    """Typed access to the values of a row, collecting problems. Absent and null are the same.

    ``place`` is the position of the row in the file (:class:`Record`).
    """

    def __init__(self, values: Mapping[str, Any], notes: ReadNotes, place: str = "") -> None:
        self.values, self.notes, self.place = values, notes, place
        self.problems: list[Problem] = []

    def inner(self, name: str) -> FieldReader:
        """Return a reader of the object in a field. Its problems are problems of this row."""
        inner = FieldReader(self.mapping(name), self.notes, self.place)
        inner.problems = self.problems
        return inner

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def refuse(self, name: str, message: str) -> None:
        self.problems.append(Problem(name, message))

    def text(self, name: str, default: str = "") -> str:
        """Return a stripped text; numbers are formatted."""
        value = self.get(name)
        if isinstance(value, str):
            return self._refuse_surrogates(name, value).strip() or default
        if isinstance(value, bool | bytes | list | dict):
            self.refuse(name, "is not UTF-8 text" if isinstance(value, bytes) else "is not a string")
            return default
        return default if value is None else str(value)

    def _refuse_surrogates(self, name: str, text: str) -> str:
        """Return the text, or refuse an unpaired surrogate, which cannot be stored."""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.refuse(name, "contains an unpaired surrogate, which is not a character; remove it")
            return ""
        return text

    def share(self, name: str, default: float, scale: float = 1.0) -> float:
        """Return a number from 0 to ``scale`` as a share from 0 to 1, clamped."""
        value = self.get(name)
        if value is None or value == "":
            return default
        number = _parse_number(value)
        if number is None:
            self.refuse(name, "is not a number")
            return default
        if not 0 <= number <= scale:
            self.notes.add(f"{name} outside 0 to {scale:g} (changed to the nearest limit)")
        return min(max(number / scale, 0.0), 1.0)

    def count(self, name: str) -> int:
        """Return a number of at least 0, rounded down."""
        value = self.get(name)
        number = 0.0 if value is None or value == "" else _parse_number(value)
        if number is None:
            self.refuse(name, "is not a number")
        return int(min(max(number or 0, 0), MAX_COUNT))

    def moment(self, *names: str) -> datetime | None:
        """Return the first non-empty timestamp; UTC without a time zone."""
        for name in names:
            value = self.get(name)
            if value is None or value == "":
                continue
            try:
                return _parse_timestamp(value)
            except (ValueError, OverflowError, OSError):
                self.refuse(name, "is not a time between the years 1900 and 9999")
        return None

    def past_moment(self, *names: str) -> datetime | None:
        """Return a timestamp in the past; a later one (a wrong clock) becomes now."""
        found = self.moment(*names)
        now = datetime.now(UTC)
        if found is None or found <= now:
            return found
        self.notes.add(f"{names[0]} in the future (changed to the time of the import)")
        return now

    def words(self, *names: str) -> list[str]:
        """Return the first non-empty list of words, in JSON or separated by commas, without blank items."""
        for name in names:
            value = self.get(name)
            if value is None or value == "":
                continue
            found = self._parse_list(name, value)
            return [word for item in found if (word := str(item).strip())]
        return []

    def _parse_list(self, name: str, value: Any) -> list[Any]:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self.refuse(name, "starts like a JSON list but is not one")
                return []
        if isinstance(value, str):
            return value.split(",")
        if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
            return value
        self.refuse(name, "is not a list of texts")
        return []

    def memory_type(
        self, name: str, known: Mapping[str, MemoryType], default: MemoryType = MemoryType.GENERAL
    ) -> tuple[str, list[str]]:
        """Return the type and tags. A word that is neither a type nor in ``known`` becomes a tag."""
        word = self.text(name).lower() or default.value
        if word in TYPES:
            return word, []
        if word in known:
            return known[word].value, []
        self.notes.add(f"type {printable_name(word)} (stored as {default.value}, with the type as a tag)")
        return default.value, [word[:100]]

    def listed_type(self, types: Collection[str], default: MemoryType) -> str:
        """Return the value of ``type``. A word that is not in ``types`` is noted and becomes the default."""
        kind = self.text("type", default.value)
        if kind in types:
            return kind
        self.notes.add(f"type {printable_name(kind)} (stored as {default.value})")
        return default.value

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object, given directly or as JSON; empty if absent."""
        value = self.get(name)
        if isinstance(value, str) and value.strip():
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self.notes.add(f"{name} that is not JSON")
                return {}
        if value is None or value == "":
            return {}
        if not isinstance(value, dict):
            self.notes.add(f"{name} that is not a JSON object")
            return {}
        return value

    def note_unsupported(self, *names: str, why: str = "") -> None:
        """Note non-empty values that are not supported."""
        for name in names:
            if self.get(name) not in (None, "", 0, "[]", "{}", [], {}):
                self.notes.add(f"{name}{f' ({why})' if why else ''}")

    def note_unknown(self, known: frozenset[str]) -> None:
        """Note fields other than the known ones."""
        for name in sorted(set(self.values) - known):
            self.notes.add(f"field {printable_name(name)}")

    def note_unsupported_metadata(
        self, metadata: Mapping[str, Any], known: frozenset[str] = frozenset()
    ) -> None:
        """Note metadata other than the known keys."""
        for name, value in metadata.items():
            if name not in known and value not in (None, "", [], {}):
                self.notes.add(f"metadata {printable_name(name)}")

    def follow(self, rules: FieldRules) -> dict[str, Any]:
        """Return the fields that have a rule."""
        return {
            name: rule.read(self) if isinstance(rule, FieldRule) else rule for name, rule in rules.items()
        }

    def memory(self, rules: FieldRules, **computed: Any) -> Item:
        """Return a memory with the fields that have a rule or are computed, and its history.

        ``source_id`` is the ``uid`` unless it is given; ``part`` is added to the place.
        """
        return self._make(MemoryDraft, {**self.follow(rules), **computed})

    def fact(self, rules: FieldRules, **computed: Any) -> Item:
        """Return a fact, like :meth:`memory`."""
        return self._make(FactDraft, {**self.follow(rules), **computed})

    def _make(self, shape: type[MemoryDraft] | type[FactDraft], values: dict[str, Any]) -> Item:
        part, source_id = values.pop("part", ""), values.pop("source_id", values.get("uid", ""))
        past = ImportedHistory(**{name: values.pop(name) for name in _HISTORY_FIELDS & values.keys()})
        return self.record(shape, values, source_id=source_id, past=past, part=part)

    def record(
        self,
        shape: type[MemoryDraft] | type[FactDraft],
        draft: Mapping[str, Any],
        *,
        source_id: str = "",
        past: ImportedHistory = NO_HISTORY,
        part: str = "",
    ) -> Record | InvalidItem:
        """Return the validated record, or an invalid item if a value was refused."""
        place = self.place + part
        made = make_record(place, shape, draft, source_id=source_id, past=past)
        if not self.problems:
            return made
        named = {problem.field for problem in self.problems}
        others = made.problems if isinstance(made, InvalidItem) else []
        return InvalidItem(place, [*self.problems, *(one for one in others if one.field not in named)])

    def session(self, session_id: str, *, agent: str, cwd: str = "") -> Item:
        """Return a session, from the columns of claude-mem and its derivatives, Engram or agentmemory."""
        started = self.past_moment("started_at_epoch", "started_at", "startedAt")
        ended = self.past_moment("completed_at_epoch", "completed_at", "ended_at", "endedAt")
        values = {
            "kind": "session",
            "session_id": session_id,
            "project": self.text("project"),
            "agent": agent,
            "cwd": cwd,
            "started_at": started,
            "last_at": max(started, ended) if started and ended else started,
            "ended_at": ended,
            "end_reason": self.text("status") if ended else "",
        }
        return self._history(SessionLine, values)

    def prompt(self, text: str, session_id: str, project: str, number: str = "") -> Item:
        """Return a prompt as an event with the beginning of its text, as the hub stores prompts itself."""
        preview, keywords = parse_prompt(text, settings.MEMORYHUB.event_preview_chars)
        values = {
            "kind": "event",
            "session_id": session_id,
            "project": project,
            "at": self.past_moment("created_at_epoch", "created_at"),
            "event": "prompt:submit",
            "segment": 1,
            "preview": preview,
            "keywords": list(keywords),
            "mark": _digest("user_prompts", session_id, number, text)[:16],
        }
        return self._history(EventLine, values)

    def journal_row(
        self,
        *,
        actor: str,
        memory_id: str,
        project: str,
        sensitivity: str,
        detail: Mapping[str, Any] | None = None,
    ) -> Item:
        """Return a row of another journal. Its hash is computed from its content, to recognise it later."""
        number, operation = self.get(ROW_NUMBER), collapse_whitespace(self.text("operation", "unknown"))
        at = self.past_moment("timestamp")
        values = {
            "kind": "journal",
            "seq": number,
            "hash": _digest(actor, number, memory_id, operation, self.text("timestamp")),
            "at": at,
            "actor": collapse_whitespace(actor)[:_MAX_ACTOR_CHARS],
            "operation": operation[:_MAX_OPERATION_CHARS],
            "object_type": "memory",
            "object_id": memory_id,
            "project": project,
            "sensitivity": sensitivity,
            "detail": dict(detail or {}),
        }
        return self._history(JournalLine, values)

    def _history(self, shape: type[BaseModel], values: Mapping[str, Any]) -> Item:
        if self.problems:
            return InvalidItem(self.place, self.problems)
        return _validate_item(self.place, shape, values)

    def summary_text(self) -> str:
        """Return the request, followed by a paragraph for each non-empty part."""
        request = self.text("request")
        parts = [(label, self.text(name)) for name, label in _SUMMARY_PARTS.items()]
        paragraphs = [f"{label}: {text}" for label, text in parts if text]
        return "\n\n".join([f"Request: {request}", *paragraphs] if request else paragraphs)


_HISTORY_FIELDS = {one.name for one in dataclasses.fields(ImportedHistory)} - {"created_at"}


def _read_text(fields: FieldReader, *names: str, default: str = "", max: str = "") -> str:
    text = next(filter(None, map(fields.text, names)), default)
    return text[: int(max)] if max else text


def _read_share(fields: FieldReader, name: str, default: str = "0.5", scale: str = "1") -> float:
    return fields.share(name, float(default), float(scale))


_READERS: dict[str, Callable[..., Any]] = {
    "text": _read_text,
    "words": lambda fields, *names: fields.words(*names),
    "count": lambda fields, name: fields.count(name),
    "positive": lambda fields, name: fields.count(name) or None,
    "share": _read_share,
    "moment": lambda fields, *names: fields.moment(*names),
    "past": lambda fields, *names: fields.past_moment(*names),
}


def days_between(start: datetime | None, end: datetime | None, now: datetime) -> float:
    """Return the lifetime in days; 0 (unlimited) without an end."""
    if end is None:
        return 0.0
    return min(max((end - (start or now)) / timedelta(days=1), _ONE_MINUTE_DAYS), _MAX_DAYS)


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _parse_timestamp(value: Any) -> datetime:
    """Parse ISO 8601, or seconds, milliseconds or microseconds since 1970.

    Raise ValueError, OverflowError or OSError.
    """
    number = _parse_number(value)
    if number is not None:
        if abs(number) >= _MICROSECONDS:
            number /= 1e6
        elif abs(number) >= _MILLISECONDS:
            number /= 1e3
        found = datetime.fromtimestamp(number, UTC)
    elif isinstance(value, str):
        found = datetime.fromisoformat(value.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    else:
        raise ValueError("not a moment")
    if found < _EARLIEST:
        raise ValueError("too long ago")
    return found


_SHORT_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_MAX_OPERATION_CHARS, _MAX_ACTOR_CHARS = 40, 200


def short_id(source_id: str) -> str:
    """Return a valid id: the given one, or its hash if it is long or contains other characters."""
    return source_id if _SHORT_ID.fullmatch(source_id) else _digest(source_id)[:32] if source_id else ""


def foreign_id(program: str, source_id: str) -> str:
    """Return the id of a memory that another program knows by ``source_id``: the same in every import."""
    return _digest(program, source_id)[:32] if source_id else ""


def make_revision(
    place: str,
    memory_id: str,
    number: int,
    at: datetime | None,
    actor: str,
    level: str,
    before: dict[str, Any],
) -> Item:
    """Make a revision from the values that a change replaced."""
    values = {
        "kind": "revision",
        "memory_id": memory_id,
        "number": number,
        "at": at,
        "actor": collapse_whitespace(actor)[:_MAX_ACTOR_CHARS],
        "reason": "update",
        "sensitivity": level,
        "before": before,
    }
    return _validate_item(place, RevisionLine, values)


def make_evidence(place: str, memory_id: str, session: str, at: datetime | None) -> Item:
    """Make the evidence that a session stored a memory."""
    values = {"kind": "evidence", "memory_id": memory_id, "session_id": session, "at": at}
    return _validate_item(place, EvidenceLine, values)


def make_replacement(place: str, memory_id: str, by: str) -> Item:
    """Make the replacement of a memory by another one of the file. Yield it after both."""
    return _validate_item(place, ReplacementLine, {"kind": "replacement", "memory_id": memory_id, "by": by})


def _validate_item(place: str, shape: type[BaseModel], values: Mapping[str, Any]) -> Item:
    try:
        return HistoryItem(place, shape.model_validate(dict(values)))
    except ValidationError as error:
        return InvalidItem(place, validation_problems(error))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


_SUMMARY_PARTS = {
    "investigated": "Investigated",
    "learned": "Learned",
    "completed": "Completed",
    "next_steps": "Next steps",
    "notes": "Notes",
}


def append_statements(text: str, statements: list[str]) -> str:
    """Append statements to a text, one per line."""
    listed = "\n".join(f"- {statement}" for statement in statements if statement not in text)
    return "\n\n".join(part for part in (text, listed) if part)

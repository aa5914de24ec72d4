"""Schemas of the hub's own lines, by ``kind``."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from memoryhub.access.policy import Sensitivity
from memoryhub.capture.ignored_paths import MAX_PATTERNS_CHARS
from memoryhub.capture.projects import MAX_CAP
from memoryhub.checks import CheckDraft
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft, MemoryDraft, Moment, Name, Share, Text, Word

VERSION = 1
Uid = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,32}$")]
Count = Annotated[int, Field(ge=0, le=2_000_000_000)]
SessionId = Annotated[Word, Field(max_length=200)]
ShortText = Annotated[Text, Field(max_length=50)]


def _check_size(value: Any) -> Any:
    """Refuse a document that is larger than any document that the hub writes."""
    if len(repr(value)) > 200_000:
        raise ValueError("is larger than anything that the hub writes")
    return value


Document = Annotated[dict[str, JsonValue], AfterValidator(_check_size)]
Documents = Annotated[list[JsonValue], AfterValidator(_check_size)]
WordList = Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=1000)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Header(_Line):
    """The first line of an export with history, and with ``lines`` the last one: the number of lines between.

    ``has_end``: such a last line follows. Exports of older releases have none.
    """

    kind: Literal["memoryhub"]
    version: int
    has_end: bool = False
    lines: Count | None = None


class MemoryLine(MemoryDraft):
    """A memory with its writable and read-only values."""

    kind: Literal["memory"] = "memory"
    id: Uid = ""
    content_hash: str = ""
    accessed_count: Count | None = None
    updated_at: Moment | None = None
    last_accessed_at: Moment | None = None
    expires_at: AwareDatetime | None = None
    deleted_at: Moment | None = None
    trash_reason: ShortText = ""
    author: Name = ""
    owner: Annotated[Text, Field(max_length=150)] = ""
    copy_number: Count = 0
    flags: Annotated[list[ShortText], Field(max_length=100)] = Field(default_factory=list)
    reviewed_at: Moment | None = None
    scale: Annotated[Text, Field(max_length=10)] = ""
    consolidated_at: Moment | None = None
    consolidated_accesses: Count = 0
    outdated_at: Moment | None = None
    shown_count: Count = 0
    helped_count: Count = 0


# Set by the store; only imported with history.
READ_ONLY = frozenset(MemoryLine.model_fields) - frozenset(MemoryDraft.model_fields) - {"kind"}


class FactLine(FactDraft):
    kind: Literal["fact"]
    id: Uid = ""
    created_at: Moment | None = None
    updated_at: Moment | None = None
    valid_from: Moment | None = None
    valid_until: AwareDatetime | None = None
    author: Name = ""
    copy_number: Count = 0


class ProjectLine(_Line):
    """The settings of a project."""

    kind: Literal["project"]
    name: Annotated[Word, Field(max_length=200)]
    mode: ProjectMode = ProjectMode.AUTOMATIC
    ignored_paths: Annotated[Text, Field(max_length=MAX_PATTERNS_CHARS)] = ""
    sends_page: bool = True
    off_page_facts: list[Annotated[Word, Field(max_length=64)]] = []
    max_memories: Annotated[int, Field(ge=0, le=MAX_CAP)] | None = None


class SessionLine(_Line):
    """A session. Its summary follows in a ``summary`` line, after the memory that contains it."""

    kind: Literal["session"]
    session_id: SessionId
    project: Name = ""
    agent: Name = ""
    cwd: Annotated[Text, Field(max_length=1000)] = ""
    started_at: Moment
    last_at: Moment
    ended_at: Moment | None = None
    end_reason: ShortText = ""
    segment: Count = 0
    state: Document = Field(default_factory=dict)


class EventLine(_Line):
    kind: Literal["event"]
    session_id: SessionId
    project: Name = ""
    at: Moment
    event: Annotated[Word, Field(max_length=30)]
    tool_name: Name = ""
    sensitivity: Sensitivity = Sensitivity.PUBLIC
    files: WordList = Field(default_factory=list)
    keywords: WordList = Field(default_factory=list)
    segment: Count = 0
    boundary: bool = False
    memorability: Share | None = None
    memorability_parts: Document = Field(default_factory=dict)
    skip_reason: ShortText = ""
    handlers: Documents = Field(default_factory=list)
    memory_id: Uid | None = None
    mark: Annotated[Text, Field(max_length=16)] = ""
    preview: Annotated[str, Field(max_length=20_000)] = ""


class RevisionLine(_Line):
    kind: Literal["revision"]
    memory_id: Uid
    number: Annotated[int, Field(ge=1, le=2_000_000_000)]
    at: Moment
    actor: Name = ""
    reason: Annotated[Text, Field(max_length=20)] = ""
    sensitivity: Sensitivity
    before: dict[str, JsonValue]


class EvidenceLine(_Line):
    kind: Literal["evidence"]
    memory_id: Uid
    session_id: SessionId
    at: Moment


class MergeLine(_Line):
    """``memory_id`` was merged into ``into`` and is in the trash."""

    kind: Literal["merge"]
    memory_id: Uid
    into: Uid


class ReplacementLine(_Line):
    """The memory ``by`` replaces ``memory_id``. A separate line, because ``by`` is usually stored later."""

    kind: Literal["replacement"]
    memory_id: Uid
    by: Uid


class SummaryLine(_Line):
    """``memory_id`` is the summary of a session."""

    kind: Literal["summary"]
    session_id: SessionId
    project: Name = ""
    memory_id: Uid


class SupersededLine(_Line):
    """The fact ``by`` supersedes the fact ``fact_id``."""

    kind: Literal["superseded"]
    fact_id: Uid
    by: Uid


class JournalLine(_Line):
    kind: Literal["journal"]
    seq: Annotated[int, Field(ge=1)] | None
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    at: Moment
    actor: Annotated[Word, Field(max_length=200)]
    operation: Annotated[Word, Field(max_length=40)]
    object_type: Annotated[Word, Field(max_length=20)]
    object_id: Annotated[Text, Field(max_length=300)] = ""
    project: Name = ""
    sensitivity: Sensitivity
    owner: Annotated[Text, Field(max_length=150)] = ""
    detail: Document = Field(default_factory=dict)


class IdentityLine(_Line):
    """A key by which a project is recognised."""

    kind: Literal["identity"]
    project: Annotated[Word, Field(max_length=200)]
    key: Annotated[Word, Field(max_length=400, pattern=r"^(remote|root|name|folder):.")]
    owner: Annotated[Text, Field(max_length=150)] = ""
    created_at: Moment


class CountLine(_Line):
    """The number of events on a day in an observed project."""

    kind: Literal["count"]
    project: Annotated[Word, Field(max_length=200)]
    day: date
    event: Annotated[Word, Field(max_length=30)]
    count: Count


class AbsenceLine(_Line):
    """A period in which a memory was in the trash or expired."""

    kind: Literal["absence"]
    memory_id: Uid
    began_at: Moment
    ended_at: Moment


LineHashes = Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")]], Field(max_length=2000)]


class ReferenceLine(_Line):
    """Hashes of the lines of a file that a memory is about."""

    kind: Literal["reference"]
    memory_id: Uid
    path: Annotated[Word, Field(max_length=1000)]
    lines: LineHashes
    gone: LineHashes = Field(default_factory=list)
    dismissed: dict[Annotated[str, Field(max_length=64)], LineHashes] = Field(default_factory=dict)
    as_of: Moment


class CheckLine(CheckDraft):
    """A memory check, without the result of its last run."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["check"]
    id: Uid
    owner: Annotated[Text, Field(max_length=150)] = ""
    created_at: Moment
    updated_at: Moment


HISTORY_LINES: dict[str, type[BaseModel]] = {
    "project": ProjectLine,
    "identity": IdentityLine,
    "count": CountLine,
    "session": SessionLine,
    "event": EventLine,
    "revision": RevisionLine,
    "evidence": EvidenceLine,
    "absence": AbsenceLine,
    "reference": ReferenceLine,
    "merge": MergeLine,
    "replacement": ReplacementLine,
    "summary": SummaryLine,
    "superseded": SupersededLine,
    "check": CheckLine,
    "journal": JournalLine,
}


# Columns of sessions and events that a line has under the same name.
SESSION_COLUMNS = tuple(name for name in SessionLine.model_fields if name != "kind")
EVENT_COLUMNS = tuple(
    name
    for name in EventLine.model_fields
    if name not in ("kind", "session_id", "project", "at", "memory_id")
)
HISTORY_FIELDS = READ_ONLY - {"content_hash"}
_HISTORY_NAMES = {"uid": "id", "copy": "copy_number"}  # other fields have the same name in a line


def memory_history(line: MemoryLine) -> ImportedHistory | None:
    """Return the history of a line, or None if it has only the values of a draft."""
    if not line.model_fields_set & HISTORY_FIELDS:
        return None
    return to_history(line, "created_at")


def to_history(line: MemoryLine | FactLine, *excluded: str) -> ImportedHistory:
    """Return the fields of the schema; extra fields of a line are unchecked and left out."""
    names = {one.name: _HISTORY_NAMES.get(one.name, one.name) for one in fields(ImportedHistory)}
    known = type(line).model_fields.keys() - set(excluded)
    values: dict[str, Any] = {name: getattr(line, own) for name, own in names.items() if own in known}
    values = {name: value for name, value in values.items() if value is not None}
    if "flags" in values:
        values["flags"] = tuple(values["flags"])
    return ImportedHistory(**values)

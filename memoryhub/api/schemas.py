"""Response schemas that the client uses too, and those of several modules. No Django.

``memories/serializers.py`` makes the responses. Other schemas are in the module of their endpoint.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

Item = TypeVar("Item")


class FieldError(BaseModel):
    field: str
    message: str


class ListOf(BaseModel, Generic[Item]):
    items: list[Item]
    next_cursor: str | None
    total: int


class EntityShape(BaseModel):
    entity: str
    entity_type: str


class _Described(BaseModel):
    id: str
    title: str
    subtitle: str
    abstract: str
    overview: str
    category: str
    type: str
    concepts: list[str]
    tags: list[str]
    aliases: list[str]
    importance: float
    trust: float
    confidence: float
    sensitivity: str
    scope: str
    project: str
    session_id: str
    key: str
    files_read: list[str]
    files_modified: list[str]
    discovery_tokens: int | None
    accessed_count: int
    created_at: datetime
    updated_at: datetime
    last_accessed_at: datetime | None
    expires_at: datetime | None
    deleted_at: datetime | None
    content_hash: str
    entities: list[EntityShape]
    superseded_by: str | None
    pinned: bool
    may_be_outdated: bool


class MemoryShape(_Described):
    content: str


class PreviewShape(_Described):
    preview: str


class HiddenShape(BaseModel):
    """A memory that the token wrote but may not read, without its other values."""

    id: str
    project: str
    scope: str
    content_hash: str


class Stored(BaseModel):
    outcome: Literal["created", "refreshed", "updated", "merged", "skipped"]
    memory: MemoryShape | HiddenShape
    ignored: list[str]
    warnings: list[Literal["over_cap"]] = []


class Changed(BaseModel):
    outcome: Literal["updated", "unchanged", "restored"]
    memory: MemoryShape
    ignored: list[str] = []
    warnings: list[Literal["over_cap"]] = []


class Ended(BaseModel):
    outcome: Literal["trashed", "erased", "deleted"]
    id: str


class BatchError(BaseModel):
    code: str
    detail: str
    errors: list[FieldError]


class BatchResult(BaseModel):
    """Either ``outcome`` and ``id``, or ``error``."""

    outcome: str | None = None
    id: str | None = None
    warnings: list[Literal["over_cap"]] = []
    error: BatchError | None = None


class BatchResults(BaseModel):
    results: list[BatchResult]


class ComponentsShape(BaseModel):
    match: float
    recency: float
    importance: float
    trust: float


class HitShape(BaseModel):
    memory: MemoryShape
    score: float
    components: ComponentsShape
    snippet: str


class DenseSide(BaseModel):
    """``configured``: a provider of vectors is configured. ``used``: this search used vectors. ``detail``:
    the reason if it did not."""

    configured: bool
    used: bool
    model: str
    detail: str


class SearchResults(BaseModel):
    """``total``: number of scored memories; more may match if ``total_is_exact`` is false.

    ``min_score``: weaker matches were left out; null from an earlier version of the hub. ``suggestions``:
    corrected queries if a word is misspelt. ``corrected``: the query found nothing, so the results are those
    of the first suggestion.
    """

    results: list[HitShape]
    total: int
    total_is_exact: bool
    min_score: float | None = None
    mode: Literal["hybrid", "lexical", "semantic"]
    took_ms: float
    suggestions: list[str]
    corrected: bool
    dense: DenseSide


class IndexShape(BaseModel):
    """``summary``: at most 20 words."""

    id: str
    type: str
    summary: str
    importance: float


class DetailShape(MemoryShape):
    score: float


class RecallShape(BaseModel):
    """``has_more``: the index does not contain all matches. ``tokens_used``: tokens of the whole response.

    ``query`` is shortened, with an ellipsis, if it exceeds the budget.
    """

    query: str
    index: list[IndexShape]
    details: list[DetailShape]
    total_count: int
    total_is_exact: bool
    has_more: bool
    mode: Literal["hybrid", "lexical", "semantic"]
    tokens_used: int


class ShownShape(BaseModel):
    """``scale``: immediate, task, session or project; empty when ``memory.temporal`` is off. ``factor``: the
    order follows score times this, because the memory helped, or did not, when it was shown before, or may be
    outdated. Absent if it is 1."""

    id: str
    score: float
    scale: str
    factor: float = 1.0


class WithheldShape(BaseModel):
    """``reason``: below the floor, already shown in this session, may be outdated, over the count, over the
    budget, blocked by the governor, or instruction removed (the rest of the memory is injected).
    ``detail``: kinds of instructions."""

    id: str
    reason: str
    detail: str


class InjectionShape(BaseModel):
    """``skipped``: steps that were not possible, one text each."""

    context: str
    injected: list[ShownShape]
    withheld: list[WithheldShape]
    tokens_used: int
    took_ms: float
    skipped: list[str]


class EntryShape(BaseModel):
    """An entry of a timeline. Further fields depend on ``kind``."""

    at: datetime
    kind: Literal["memory", "event", "boundary", "session_start", "session_end"]
    session_id: str
    project: str


class ProjectShape(BaseModel):
    """``max_memories``: the cap of each owner, 0 for none, null for the configured one. ``note``: the mode in
    words, empty for automatic. ``event_counts``: events counted while observed, by
    kind. ``change``: the id of this change, for its undo."""

    name: str
    mode: Literal["off", "observe", "approve", "automatic"]
    paused_until: datetime | None
    ignored_paths: str
    max_memories: int | None
    note: str
    event_counts: dict[str, int]
    change: str = ""


class PageEntryShape(BaseModel):
    """A line, and the memory, fact or session that it comes from. ``reason``: why it is on the page."""

    kind: Literal["memory", "fact", "session"]
    id: str
    line: str
    reason: str
    sensitivity: str
    pinned: bool


class PageSectionShape(BaseModel):
    key: str
    title: str
    entries: list[PageEntryShape]


class PageShape(BaseModel):
    """``sent``: whether the page opens the sessions of agents. ``section_titles``: of all sections by key.
    ``withheld``: sources of lines that are not on the page, with the reason."""

    project: str
    sent: bool
    tokens: int
    markdown: str
    section_titles: dict[str, str]
    sections: list[PageSectionShape]
    withheld: list[dict[str, str]]


class CorrectedShape(BaseModel):
    """``memory_id``: the changed or new memory; empty if the correction only ended a fact."""

    action: str
    memory_id: str


class IdentityShape(BaseModel):
    """``key``: remote:…, root:… or name:…. ``owner``: whose agents it applies to; empty for everyone's."""

    key: str
    owner: str
    since: datetime


class IdentitiesShape(BaseModel):
    items: list[IdentityShape]


class SessionShape(BaseModel):
    session_id: str
    project: str
    agent: str
    started_at: datetime
    last_at: datetime
    ended_at: datetime | None
    memory_count: int
    event_count: int


class HandlerShape(BaseModel):
    name: str
    priority: int
    status: Literal["ok", "skipped", "failed"]
    detail: str


class EventAnswer(BaseModel):
    event: str
    handlers: list[HandlerShape]
    context: str
    warnings: list[str] = []


class PastSessionShape(BaseModel):
    """``known``: ids of events that were backfilled before."""

    project: str
    state: Literal["new", "live", "paused", "off", "observe"]
    known: list[str]


class BackfillResult(BaseModel):
    outcomes: list[str]
    memories: int


class BackfillUndo(BaseModel):
    """How many of each were removed."""

    memories: int
    events: int
    sessions: int


class FactShape(BaseModel):
    id: str
    subject: str
    predicate: str
    object: str
    confidence: float
    project: str
    session_id: str
    sensitivity: str
    memory_id: str | None


class StoredFact(BaseModel):
    outcome: Literal["created", "updated"]
    id: str
    fact: FactShape
    ignored: list[str]


class Statistics(BaseModel):
    total: int
    by_type: dict[str, int]
    by_category: dict[str, int]
    by_sensitivity: dict[str, int]
    by_project: dict[str, int]
    expiring: int
    expired: int
    trashed: int
    facts: int
    sessions: int
    max_memories: int
    near_cap: dict[str, int]
    database_bytes: int | None  # the sizes are null for tokens that do not see every row
    free_bytes: int | None
    index_bytes: int | None
    embedding_model: str
    embedding_missing: int
    vector_bytes: int | None


class ToolResult(BaseModel):
    """``result``: an object, a text or a list, depending on the tool.

    ``suggestions``: the nearest valid name of each ignored argument that the tool does not have.
    """

    result: Any
    ignored: list[str]
    suggestions: dict[str, str] = {}


def documented(shape: Any, *, status: int = 200, errors: tuple[int, ...] = ()) -> dict[Any, Any]:
    """Return the ``response`` of an operation with a token: its schema, and the possible problems."""
    problems = (400, 401, 403, 413, 415, 422, 429, 503, *errors)
    # No schema for the problems: ninja would create about 400 models. ``Api`` adds it to the document.
    return {status: shape, **dict.fromkeys(sorted(problems))}

"""Parameters of reads, in the query string or in the body of a search."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from pydantic import BaseModel, BeforeValidator, Field

from memoryhub.core.pagination import InvalidCursor
from memoryhub.core.vocabulary import MemoryType
from memoryhub.http.authentication import AccessParams, FactQuery, Limit, Ratio
from memoryhub.memories.filters import AS_OF, MemoryFilter, Order, TextFilter, Timestamp
from memoryhub.search.hybrid import SearchMode


class Asking(AccessParams):  # the name is part of the OpenAPI document
    """The levels to include besides public. The token needs clearance for them."""


class PageParams(BaseModel):
    limit: Limit = 50
    cursor: str | None = Field(None, description="next_cursor of the previous page.")


class OneMemory(AccessParams):
    trashed: bool = Field(False, description="Look for the memory in the trash.")


def parse_offset(cursor: str | None) -> int:
    """Return the position of a cursor in a list without a sort key: the cursor is a number."""
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 6):
        raise InvalidCursor
    return int(cursor)


class MemoryList(MemoryFilter, AccessParams, PageParams):
    order: Order = "-updated_at"


class SearchRequest(MemoryFilter, AccessParams):
    query: str = Field(description="Words, a phrase in quotes, or part of a name. Any text is accepted.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Ratio = Field(default_factory=lambda: settings.MEMORYHUB.min_score)
    mode: SearchMode = "hybrid"
    include_superseded: bool = Field(
        False, description="Also return memories that another memory replaces (`superseded_by`)."
    )
    as_of: Timestamp = AS_OF


class HistoryFilter(AccessParams):
    """Filters by project, session and time."""

    type: Annotated[MemoryType | None, BeforeValidator(lambda value: value or None)] = None
    project: TextFilter = None
    session_id: TextFilter = None
    since: Timestamp = None
    until: Timestamp = None

    def filter(self) -> MemoryFilter:
        return MemoryFilter.model_validate(self.model_dump(exclude={"allow_private", "allow_secret"}))


class TimelineRequest(HistoryFilter, PageParams):
    """A page of a timeline."""


class SessionList(AccessParams, PageParams):
    project: TextFilter = None
    since: Timestamp = Field(None, description="Sessions with activity at or after this time.")
    until: Timestamp = Field(None, description="Sessions with activity before this time.")


class OneSession(AccessParams, PageParams):
    project: TextFilter = Field(None, description="Required if several projects have a session with this id.")


class FactList(FactQuery, PageParams):
    """A page of facts."""


class JournalList(AccessParams, PageParams):
    operation: TextFilter = None
    object_type: TextFilter = None
    object_id: TextFilter = None
    since: Timestamp = None
    until: Timestamp = None

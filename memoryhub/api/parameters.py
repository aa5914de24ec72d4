"""Parameters of reads, in the query string or in the body of a search."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from pydantic import BaseModel, BeforeValidator, Field

from memoryhub.core.pagination import InvalidCursor
from memoryhub.core.vocabulary import MemoryType
from memoryhub.http.authentication import AccessParams, FactQuery, Limit, Ratio
from memoryhub.memories.filters import MemoryFilter, Order, TextFilter, Timestamp
from memoryhub.search.hybrid import SearchMode


class Asking(AccessParams):  # the name is part of the OpenAPI document
    """The levels beside public that a read asks for; it sees them only if its token clears them too."""


class PageParams(BaseModel):
    limit: Limit = 50
    cursor: str | None = Field(None, description="next_cursor of the page before, as it is.")


class OneMemory(AccessParams):
    trashed: bool = Field(False, description="Look in the trash.")


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
    query: str = Field(description="Words, a phrase in quotes, a name, a part of one: any text is safe.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Ratio = Field(default_factory=lambda: settings.MEMORYHUB.min_score)
    mode: SearchMode = "hybrid"


class HistoryFilter(AccessParams):
    """Where and when something happened."""

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
    since: Timestamp = Field(None, description="With something in it since then.")
    until: Timestamp = Field(None, description="With something in it before then.")


class OneSession(AccessParams, PageParams):
    project: TextFilter = Field(None, description="Needed only where projects share a session's id.")


class FactList(FactQuery, PageParams):
    """A page of facts."""


class JournalList(AccessParams, PageParams):
    operation: TextFilter = None
    object_type: TextFilter = None
    object_id: TextFilter = None
    since: Timestamp = None
    until: Timestamp = None

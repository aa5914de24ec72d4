"""What reads may ask for, in the query string or in the body of a search."""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from pydantic import BaseModel, BeforeValidator, Field

from memoryhub.core.vocabulary import MemoryType
from memoryhub.http.authentication import Asking, FactQuery, Limit, Share
from memoryhub.memories.filters import Filter, MemoryFilter, Order, When
from memoryhub.search.hybrid import Mode


class Paged(BaseModel):
    limit: Limit = 50
    cursor: str | None = Field(None, description="next_cursor of the page before, as it is.")


class OneMemory(Asking):
    trashed: bool = Field(False, description="Look in the trash.")


class MemoryList(MemoryFilter, Asking, Paged):
    order: Order = "-updated_at"


class SearchRequest(MemoryFilter, Asking):
    query: str = Field(description="Words, a phrase in quotes, a name, a part of one: any text is safe.")
    limit: Limit = Field(default_factory=lambda: settings.MEMORYHUB.search_limit)
    min_score: Share = Field(default_factory=lambda: settings.MEMORYHUB.min_score)
    mode: Mode = "hybrid"


class Happened(Asking):
    """Where and when something happened."""

    type: Annotated[MemoryType | None, BeforeValidator(lambda value: value or None)] = None
    project: Filter = None
    session_id: Filter = None
    since: When = None
    until: When = None

    def filter(self) -> MemoryFilter:
        return MemoryFilter.model_validate(self.model_dump(exclude={"allow_private", "allow_secret"}))


class TimelineRequest(Happened, Paged):
    """A page of a timeline."""


class SessionList(Asking, Paged):
    project: Filter = None
    since: When = Field(None, description="With something in it since then.")
    until: When = Field(None, description="With something in it before then.")


class OneSession(Asking, Paged):
    project: Filter = Field(None, description="Needed only where projects share a session's id.")


class FactList(FactQuery, Paged):
    """A page of facts."""


class JournalList(Asking, Paged):
    operation: Filter = None
    object_type: Filter = None
    object_id: Filter = None
    since: When = None
    until: When = None

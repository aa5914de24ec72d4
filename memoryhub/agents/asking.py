"""What a read may ask for, whichever door it comes through."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from memoryhub import facts
from memoryhub.agents.auth import Caller
from memoryhub.querysets import FactQuerySet
from memoryhub.retrieval.filters import Filter
from memoryhub.retrieval.paging import MAX_LIMIT
from memoryhub.sensitivity import Clearance

_FACT_TEXTS = ("subject", "predicate", "object", "project", "session_id")
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Asking(BaseModel):
    """The levels beside public that a read asks for; it sees them only if its token clears them too."""

    allow_private: bool = Field(False, description="Ask for private memories as well.")
    allow_secret: bool = Field(False, description="Ask for secret memories as well.")

    def clearance(self, caller: Caller) -> Clearance:
        return caller.actor.clearance.asking(private=self.allow_private, secret=self.allow_secret)


class FactQuery(Asking):
    """Facts that fit every part that is given."""

    subject: Filter = None
    predicate: Filter = None
    object: Filter = None
    min_confidence: Share = 0.0
    project: Filter = None
    session_id: Filter = None

    def facts(self, caller: Caller) -> FactQuerySet:
        """Newest first. Lazy."""
        wanted = {name: getattr(self, name) or "" for name in _FACT_TEXTS}
        return facts.query_facts(self.clearance(caller), min_confidence=self.min_confidence, **wanted)

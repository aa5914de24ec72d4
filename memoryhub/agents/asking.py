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
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Most results.")]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Asking(BaseModel):
    """The levels beside public that a read asks for; it sees them only if its token clears them too."""

    allow_private: bool = Field(False, description="Ask for private memories as well.")
    allow_secret: bool = Field(False, description="Ask for secret memories as well.")

    def clearance(self, caller: Caller) -> Clearance:
        return caller.actor.clearance.asking(private=self.allow_private, secret=self.allow_secret)


class FactQuery(Asking):
    """Facts that hold now and fit every part that is given."""

    subject: Filter = Field(None, description="Facts about exactly this.")
    predicate: Filter = Field(None, description="Facts with exactly this verb.")
    object: Filter = Field(None, description="Facts that point to exactly this.")
    min_confidence: Share = Field(0.0, description="Facts at least so sure, 0 to 1.")
    project: Filter = Field(None, description="Facts of this project.")
    session_id: Filter = Field(None, description="Facts of this session.")

    def facts(self, caller: Caller) -> FactQuerySet:
        """Newest first. Lazy. None that another one superseded."""
        wanted = {name: getattr(self, name) or "" for name in _FACT_TEXTS}
        clearance, least = self.clearance(caller), self.min_confidence
        return facts.query_facts(clearance, min_confidence=least, ended=False, **wanted)

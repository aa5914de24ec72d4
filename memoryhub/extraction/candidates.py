"""Memory candidates: three layers of text and one of six categories. No database access."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.access.policy import Sensitivity
from memoryhub.capture.titles import make_title
from memoryhub.core.text import collapse_whitespace, shorten
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.schemas import MemoryDraft

ABSTRACT_CHARS, OVERVIEW_CHARS, CONTENT_CHARS = 200, 1000, 8000
# pigo's categories and the memory type that each one is stored with.
CATEGORIES: dict[str, MemoryType] = {
    "profile": MemoryType.CONTEXT,
    "preferences": MemoryType.PREFERENCE,
    "entities": MemoryType.FACT,
    "events": MemoryType.CONTEXT,
    "cases": MemoryType.BUGFIX,
    "patterns": MemoryType.DISCOVERY,
}
_IMPORTANCE = {"profile": 0.7, "preferences": 0.7, "patterns": 0.65, "cases": 0.6, "events": 0.6}


@dataclass(frozen=True)
class Candidate:
    """A possible memory.

    ``abstract`` is one line, ``overview`` a paragraph, ``content`` the full text. ``why`` is the reason shown
    to people. ``decision`` marks a decision, which has its own memory type. ``confidence`` (0 to 1) rates the
    assertion.
    """

    category: str
    content: str
    abstract: str = ""
    overview: str = ""
    confidence: float = 0.5
    decision: bool = False
    why: str = ""

    def draft(self, destination: Destination) -> MemoryDraft:
        """Return the draft of the memory."""
        content = _replace_broken_characters(self.content).strip()[:CONTENT_CHARS]
        return MemoryDraft(
            content=content,
            title=make_title(content)[:500],
            abstract=shorten(_replace_broken_characters(self.abstract) or content, ABSTRACT_CHARS),
            overview=shorten(_replace_broken_characters(self.overview), OVERVIEW_CHARS)
            if self.overview
            else "",
            category=self.category,
            type=MemoryType.DECISION if self.decision else CATEGORIES[self.category],
            confidence=round(min(max(self.confidence, 0.0), 1.0), 2),
            importance=_IMPORTANCE.get(self.category, 0.5),
            project=destination.project,
            session_id=destination.session_id,
            scope=Scope(destination.scope),
            sensitivity=Sensitivity(destination.sensitivity),
            tags=["extracted"],
        )

    @property
    def dedup_key(self) -> str:
        """Key that is equal for candidates with the same content."""
        return collapse_whitespace(self.content).casefold().strip(" .!")


@dataclass(frozen=True)
class Destination:
    """Project, session, scope and level that extracted memories are stored with."""

    project: str = ""
    session_id: str = ""
    scope: str = Scope.PROJECT.value
    sensitivity: str = Sensitivity.PUBLIC.value


def _replace_broken_characters(text: str) -> str:
    """Remove NULs and replace unpaired surrogates by U+FFFD."""
    return text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")

"""What an injection is asked for, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from django.conf import settings

from memoryhub.access.policy import Actor, Clearance, Sensitivity
from memoryhub.core.text import strip_private
from memoryhub.injection.project_page import PageEntry
from memoryhub.injection.selection import InspectedCandidate, Selection
from memoryhub.models import Session


@dataclass(frozen=True)
class InjectionRequest:
    """Parameters of an injection, without the private parts of the prompt.

    The project defaults to that of an actor with a single project.
    ``token_budget`` (of the block without the pinned memories), ``max_count`` and ``min_score`` default to
    the configuration. ``max_tokens``: limit of the whole block, if the agent has one. Private and secret
    memories must be requested and allowed. ``fresh_since``: when the agent last lost its context (by
    compaction); memories shown before may be shown again. ``sensitivity``: that of the prompt. ``session``:
    the session, if the caller has it.
    """

    prompt: str
    session_id: str = ""
    project: str = ""
    token_budget: int | None = None
    max_count: int | None = None
    allow_private: bool = False
    allow_secret: bool = False
    fresh_since: datetime | None = None
    sensitivity: str = Sensitivity.PUBLIC.value
    session: Session | None = None
    max_tokens: int | None = None
    min_score: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", strip_private(self.prompt))

    @property
    def budget(self) -> int:
        return settings.MEMORYHUB.token_budget if self.token_budget is None else self.token_budget

    @property
    def count(self) -> int:
        return settings.MEMORYHUB.max_inject_count if self.max_count is None else self.max_count

    @property
    def floor(self) -> float:
        return settings.MEMORYHUB.injection_min_score if self.min_score is None else self.min_score

    def clearance(self, actor: Actor) -> Clearance:
        return actor.clearance.limited_to(private=self.allow_private, secret=self.allow_secret)


@dataclass(frozen=True)
class InjectedItem:
    """A memory in the block. ``scale`` is empty if ``memory.temporal`` is switched off.

    ``factor``: by which its score was multiplied for the order, because it helped or did not before.
    """

    uid: str
    score: float
    scale: str
    factor: float = 1.0


@dataclass(frozen=True)
class WithheldItem:
    """A memory, or part of one, that is not in the block. ``detail`` never contains its text."""

    uid: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class InjectionResult:
    """The block, or an empty ``context``. ``skipped``: failed or disabled steps, one line each.

    ``page``: the lines in it of the project's page.

    ``warnings``: what the caller can fix, one line each. ``shown`` and ``choice`` are for pages that explain
    the selection to the same viewer.
    """

    context: str = ""
    injected: list[InjectedItem] = field(default_factory=list)
    withheld: list[WithheldItem] = field(default_factory=list)
    tokens_used: int = 0
    took_ms: float = 0.0
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shown: list[InspectedCandidate] = field(default_factory=list)
    choice: Selection | None = None
    page: list[PageEntry] = field(default_factory=list)


def with_default_project(request: InjectionRequest, actor: Actor) -> InjectionRequest:
    """Return the request with the only project of the actor, if it names none and there is only one."""
    projects = actor.clearance.projects or ()
    if request.project or len(projects) != 1:
        return request
    return replace(request, project=next(iter(projects)))

"""What happens in an agent's session, and what the chain of hooks says to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.capture.event_preview import ToolCall
from memoryhub.models import Event, Session

SESSION_START = "session:start"
PROMPT_SUBMIT = "prompt:submit"
TOOL_POST = "tool:post"
SESSION_END = "session:end"
CHECKPOINT = (
    "session:checkpoint"  # the agent is about to compact its context; not a name of the wire contract
)
EVENTS = (SESSION_START, PROMPT_SUBMIT, TOOL_POST, SESSION_END)

Status = Literal["ok", "skipped", "failed"]


@dataclass(frozen=True)
class HookEvent:
    """One event as an adapter hands it in.

    ``at``: when it happened; now, when absent. ``mark``: told from a second delivery by this; empty: never.
    ``allow_private``, ``allow_secret``: levels that an injection may show, if the actor may see them.
    ``reads``: whether the actor has the right to read at all. ``greets``: a start is answered with what was
    last done. ``most_tokens``: of the context.
    """

    event: str
    session_id: str
    project: str = ""
    cwd: str = ""
    at: datetime | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    sensitivity: str = Sensitivity.PUBLIC.value
    mark: str = ""
    allow_private: bool = False
    allow_secret: bool = False
    reads: bool = True
    greets: bool = False
    most_tokens: int | None = None


@dataclass(frozen=True)
class HandlerReport:
    """What one handler did; ``detail`` is for a person and tells nothing that is not theirs to know."""

    name: str
    priority: int
    status: Status
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DispatchResult:
    """The answer: the reports in order of priority, the context to inject, and the event that was recorded.

    ``event`` is None for one that came a second time.
    """

    handlers: list[HandlerReport]
    context: str
    event: Event | None


@dataclass
class HookContext:
    """An event on its way through the chain; handlers fill ``event``, which is saved at the end."""

    happening: HookEvent
    actor: Actor
    session: Session
    at: datetime
    event: Event
    call: ToolCall | None = None
    context: str = ""
    repeated: bool = False
    marks: tuple[str, ...] = ()  # its own, where neither id nor moment gives one, and that of just before


HandlerResult = tuple[Status, str]
Handler = Callable[[HookContext], HandlerResult]


@dataclass(frozen=True)
class Hook:
    """A handler's place in the chain.

    ``capability``: switched off, the handler is skipped. ``repeats``: it answers an event that was recorded
    before once more.
    """

    event: str
    priority: int
    name: str
    capability: str
    handler: Handler
    repeats: bool = False

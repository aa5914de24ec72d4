"""Hook events and the types that the hook pipeline passes around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.capture.code_lines import FileView
from memoryhub.capture.event_preview import ToolCall
from memoryhub.core.private_text import strip_private
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.hooks import CHECKPOINT, EVENTS, PROMPT_SUBMIT, SESSION_END, SESSION_START, TOOL_POST, Status
from memoryhub.models import Event, Project, Session

__all__ = [
    "CHECKPOINT",
    "EVENTS",
    "PROMPT_SUBMIT",
    "SESSION_END",
    "SESSION_START",
    "TOOL_POST",
    "DispatchResult",
    "HandlerReport",
    "HookContext",
    "HookEvent",
]


@dataclass(frozen=True)
class HookEvent:
    """One event of an agent session, as an adapter passes it in, without the private parts of its data.

    ``at``: when it happened; None means now.
    ``delivery_id``: by which a repeated delivery is recognised and ignored; empty if the agent sends no id.
    ``allow_private``, ``allow_secret``: levels that an injection may contain if the actor may see them.
    ``may_read``: whether the actor has the permission to read.
    ``injects_at_start``: whether to answer a session start with the context of recent sessions, not only with
    pinned memories.
    ``max_tokens``: upper limit for the injected context, below the configured budget.
    ``is_late``: delivered again or long after it happened; the agent no longer waits for an answer.
    ``is_backfilled``: read from a past transcript; late, and no reason to start maintenance.
    """

    event: str
    session_id: str
    project: str = ""
    cwd: str = ""
    at: datetime | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    sensitivity: str = Sensitivity.PUBLIC.value
    delivery_id: str = ""
    allow_private: bool = False
    allow_secret: bool = False
    may_read: bool = True
    injects_at_start: bool = False
    max_tokens: int | None = None
    is_late: bool = False
    is_backfilled: bool = False

    def __post_init__(self) -> None:
        # Before anything stores, hashes or matches the data.
        object.__setattr__(self, "data", strip_private(self.data))


@dataclass(frozen=True)
class HandlerReport:
    """The outcome of one handler. ``detail`` is shown to everyone who can see the event."""

    name: str
    priority: int
    status: Status
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DispatchResult:
    """Reports in order of priority, the context to inject, and the recorded event.

    ``event`` is None for a repeated delivery. ``warnings``: for the caller alone, they may tell of memories
    that other readers of the event cannot see.
    """

    handlers: list[HandlerReport]
    context: str
    event: Event | None
    warnings: list[str] = field(default_factory=list)


@dataclass
class HookContext:
    """An event on its way through the pipeline. Handlers fill in ``event``, which is saved at the end.

    ``delivery_marks``: marks derived from the content, for events without an id or a time: the mark of the
    current time window and that of the window before it.
    ``steps``: results of the steps that change the session's state, or their exceptions, by capability.
    ``ignored``: the event is only about ignored files and is not stored.
    ``file_view``: what the call says about the lines of its file.
    """

    hook_event: HookEvent
    actor: Actor
    project: Project
    session: Session
    at: datetime
    event: Event
    call: ToolCall | None = None
    injected: str = ""
    warnings: list[str] = field(default_factory=list)
    repeated: bool = False
    delivery_marks: tuple[str, ...] = ()
    steps: dict[str, Any] = field(default_factory=dict)
    ignored: bool = False
    file_view: FileView | None = None

    @property
    def needs_approval(self) -> bool:
        """Whether captured memories wait for a person."""
        return self.project.mode == ProjectMode.APPROVE

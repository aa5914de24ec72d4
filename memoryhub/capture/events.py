"""Hook events and the parts of them that may be stored: redacted previews and keywords. Pure.

Credentials are removed before anything else reads the text. Only the name of a file of credentials is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.capture.code_lines import FileView
from memoryhub.capture.observation import (
    MAX_OUTPUT,
    TOOLS,
    Observation,
    clean_text,
    is_status_check,
    project_folder,
)
from memoryhub.core.text import (
    MAX_KEYWORDS,
    estimate_tokens,
    extract_keywords,
    folder_name,
    shorten,
    strip_private,
    unique_keywords,
)
from memoryhub.core.vocabulary import ProjectMode
from memoryhub.hooks import Status
from memoryhub.models import Event, Project, Session
from memoryhub.search.prompts import strip_injected_context
from memoryhub.security.secrets import is_secret_file, names_secret_file, redact


@dataclass(frozen=True)
class ToolCall:
    """One tool call: the observation, and the parts that may be stored with an event.

    ``secret``: the call touched a file of credentials. ``by_memory_tool``: its content is stored already.
    ``shows_status``: it shows a status or a plan, not the subject of the work.
    ``tokens``: approximate cost of the call in the agent's context. ``clean_text``: its text if that contains
    no secret, so that parts of it need no other check.
    """

    observation: Observation
    secret: bool
    by_memory_tool: bool
    shows_status: bool
    files: tuple[str, ...]
    keywords: tuple[str, ...]
    preview: str
    output_digest: str
    tokens: int
    clean_text: str


def reduce_call(seen: Observation, preview_chars: int) -> ToolCall:
    """Return a tool call with the parts of it that may be stored."""
    tool = seen.tool
    touched = (*seen.files_modified, *seen.files_read)
    secret = any(map(is_secret_file, touched)) or names_secret_file(seen.command)
    text = strip_injected_context(seen.text)
    shown = "" if secret else redact(text)
    return ToolCall(
        observation=seen,
        secret=secret,
        by_memory_tool=tool.rsplit("__", 1)[-1].lower() in TOOLS.memory_tools,  # mcp__server__tool
        shows_status=is_status_check(seen.command) or tool.lower() in TOOLS.planning_tools,
        # A session summary treats all files of a writing tool's event as changed.
        files=seen.files_modified if seen.kind == "write" else touched,
        keywords=() if secret else _keywords(touched, shown),
        preview=_preview(seen, secret, preview_chars),
        output_digest=hashlib.sha256(seen.output.encode()).hexdigest()[:16] if seen.output else "",
        tokens=estimate_tokens(seen.text),
        clean_text=shown if shown == text else "",
    )


def _keywords(files: tuple[str, ...], shown: str) -> tuple[str, ...]:
    """Return keywords of the file names, which connect calls of one piece of work, then of the text."""
    names = extract_keywords(" ".join(path.rpartition(".")[0] or path for path in files))
    return tuple(unique_keywords([*names, *extract_keywords(shown)]))[:MAX_KEYWORDS]


def parse_prompt(prompt: str, preview_chars: int) -> tuple[str, tuple[str, ...]]:
    """Return the preview and the keywords of a prompt."""
    shown = redact(strip_injected_context(clean_text(prompt[:MAX_OUTPUT])))
    return shorten(shown, preview_chars), tuple(extract_keywords(shown))


def _preview(seen: Observation, secret: bool, chars: int) -> str:
    files = ", ".join((*seen.files_modified, *seen.files_read))
    if secret:
        return shorten(files or "a file of credentials", chars)
    request = seen.command or seen.question or files
    result = seen.output or seen.added
    text = redact(strip_injected_context("\n".join(part for part in (request, result) if part)))
    return shorten(text, chars)


@dataclass(frozen=True)
class HookEvent:
    """One event of an agent session, as an adapter passes it in, without the private parts of its data.

    ``at``: when it happened; None means now.
    ``delivery_id``: identifies a repeated delivery, which is ignored; empty if the agent sends no id.
    ``allow_private``, ``allow_secret``: levels that an injection may contain if the actor may see them.
    ``may_read``: whether the actor has the permission to read.
    ``injects_at_start``: whether to answer a session start with the context of recent sessions, not only with
    pinned memories.
    ``max_tokens``: upper limit for the injected context, below the configured budget.
    ``is_late``: delivered again or long after it happened; the agent no longer waits for an answer.
    ``is_backfilled``: read from a past transcript; late, and no reason to start maintenance.
    ``repository``: what the client reports of the repository of ``cwd``, of any type.
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
    repository: object = None

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


@dataclass(frozen=True)
class DispatchResult:
    """Reports in order of priority, the context to inject, and the recorded event.

    ``event`` is None if it was not recorded. ``warnings``: only for the caller, because they may reveal
    memories that other readers of the event cannot see.
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
    ``imported_at``: the time of a backfill; None for a live event.
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
    imported_at: datetime | None = None

    @property
    def cwd(self) -> str:
        """The working folder of the event."""
        return self.hook_event.cwd or self.session.cwd

    @property
    def root(self) -> str:
        """The folder that paths are relative to."""
        return project_folder(self.cwd, self.session.top)

    @property
    def root_name(self) -> str:
        """The project if that folder is known to be the top of its repository, else empty."""
        if self.root == self.session.top:
            return self.session.top_name
        return self.session.project if folder_name(self.root) == self.session.project else ""

    @property
    def needs_approval(self) -> bool:
        """Whether captured memories wait for a person."""
        return self.project.mode == ProjectMode.APPROVE

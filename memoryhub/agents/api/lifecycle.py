"""``/events`` and ``/hooks/claude-code``: what happens in agents' sessions."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Body, Query, Router
from pydantic import BaseModel, Field

from memoryhub import hooks
from memoryhub.agents import claude_code
from memoryhub.agents.api.schemas import documented
from memoryhub.agents.api.wire import answer
from memoryhub.agents.asking import Asking
from memoryhub.agents.auth import WRITE, ApiRequest
from memoryhub.agents.problems import field_error, invalid
from memoryhub.drafts import Moment, Name, Text, Word
from memoryhub.sensitivity import Sensitivity
from memoryhub.vocabulary import Right

router = Router(tags=["lifecycle"])
_ONCE = "Delivered twice, an event with this is taken once."


class EventBody(Asking):
    """What happened. ``allow_private`` and ``allow_secret`` are what an injection may show."""

    event: Literal["session:start", "tool:post", "prompt:submit", "session:end"]
    session_id: Annotated[Word, Field(max_length=200)]
    project: Name = ""
    cwd: Annotated[Text, Field(max_length=4000)] = Field("", description="The agent's working folder.")
    at: Moment | None = Field(None, description=f"When it happened; now when absent. {_ONCE}")
    sensitivity: Sensitivity = Field(Sensitivity.PUBLIC, description="Of the event and what becomes of it.")
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="tool:post: tool_name, tool_input, tool_response, tool_use_id (optional). "
        f"{_ONCE} prompt:submit: prompt. session:end: reason (optional).",
    )


class HandlerShape(BaseModel):
    name: str
    priority: int
    status: Literal["ok", "skipped", "failed"]
    detail: str


class EventAnswer(BaseModel):
    event: str
    handlers: list[HandlerShape]
    context: str


class ClaudeCodeOptions(Asking):
    """In the address of the hook, for its body is Claude Code's own."""

    project: Name = Field("", description="In the place of the name of the working folder.")
    at: Moment | None = Field(None, description=f"When it happened; now when absent. {_ONCE}")


@router.post("/events", auth=WRITE, response=documented(EventAnswer), summary="Report what happened")
def post_event(request: ApiRequest, body: EventBody) -> HttpResponse:
    """Runs the chain of hooks; ``context`` is the memory-context block for a prompt, or empty."""
    _check(body)
    happening = hooks.Happening(
        event=body.event,
        session_id=body.session_id,
        project=body.project,
        cwd=body.cwd,
        at=body.at,
        data=body.data,
        sensitivity=body.sensitivity.value,
        mark=_mark(body, request.body),
        allow_private=body.allow_private,
        allow_secret=body.allow_secret,
        reads=Right.READ.value in request.auth.rights,
    )
    done = hooks.dispatch(happening, request.auth.actor)
    handlers = [report.as_dict() for report in done.handlers]
    return answer({"event": body.event, "handlers": handlers, "context": done.context})


@router.post(
    "/hooks/claude-code",
    auth=WRITE,
    response=documented(dict[str, Any]),
    summary="Take a hook of Claude Code",
)
def post_claude_code_hook(
    request: ApiRequest, options: Query[ClaudeCodeOptions], hook: Body[dict[str, Any]]
) -> HttpResponse:
    """The hook's JSON as it is; answers what Claude Code reads. Never an error of the server."""
    said = claude_code.answer_hook(
        hook,
        request.auth,
        options.project,
        at=options.at,
        private=options.allow_private,
        secret=options.allow_secret,
    )
    return answer(said)


def _check(body: EventBody) -> None:
    """What each event cannot do without."""
    wanted = {hooks.TOOL_POST: "tool_name", hooks.PROMPT_SUBMIT: "prompt"}.get(body.event)
    if wanted is None:
        return
    value = body.data.get(wanted)
    if not isinstance(value, str) or (wanted == "tool_name" and not value.strip()):
        raise invalid([field_error(f"data.{wanted}", f"{body.event} needs it, as a text")])


def _mark(body: EventBody, raw: bytes) -> str:
    """What tells a second delivery: the call's own id, or the same bytes about the same moment."""
    used = body.data.get("tool_use_id")
    if isinstance(used, str) and used:
        return claude_code.mark_of(body.event, used)
    return hashlib.sha256(raw).hexdigest()[:16] if body.at else ""

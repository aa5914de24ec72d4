"""``/events`` and ``/hooks/claude-code``: lifecycle events of agent sessions."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Body, Query, Router
from pydantic import BaseModel, Field

from memoryhub import capture
from memoryhub.access.policy import Sensitivity
from memoryhub.api.schemas import documented
from memoryhub.core.transactions import lock_timeout
from memoryhub.core.vocabulary import Right
from memoryhub.http.authentication import WRITE, AccessParams, ApiRequest, Caller
from memoryhub.http.json import json_response
from memoryhub.http.problems import field_error, invalid_fields
from memoryhub.memories import StoreError
from memoryhub.memories.schemas import Moment, Name, Text, Word

logger = logging.getLogger(__name__)
MAX_CONTEXT_CHARS = 10_000  # that Claude Code takes of an additionalContext
MAX_CONTEXT_TOKENS = 2400  # of Latin script these are 9600 characters
WRITE_WAIT_SECONDS = 1.0  # seconds that a hook waits for other writers, all its writes together
PROMPT_WAIT_SECONDS = (
    0.4  # the same where a person waits for the answer: the injection's deadline, and a little
)
_TOOL_FAILURE = "PostToolUseFailure"  # in the place of PostToolUse, where the tool failed
_EVENT_OF_HOOK = {
    "SessionStart": capture.SESSION_START,
    "UserPromptSubmit": capture.PROMPT_SUBMIT,
    "PostToolUse": capture.TOOL_POST,
    _TOOL_FAILURE: capture.TOOL_POST,
    "PreCompact": capture.CHECKPOINT,
    "SessionEnd": capture.SESSION_END,
}
_CONTEXT_HOOKS = frozenset({"SessionStart", "UserPromptSubmit"})
_DATA_FIELDS = ("prompt", "tool_name", "tool_input", "tool_response", "source", "reason", "trigger")


def handle_hook(
    hook: Mapping[str, Any],
    caller: Caller,
    project: str = "",
    *,
    at: datetime | None = None,
    private: bool = False,
    secret: bool = False,
) -> dict[str, Any]:
    """Take one hook; ``{}`` where there is nothing to say, also when something went wrong here.

    ``at``: when it happened, for hooks that come later or are played again; Claude Code tells no time.
    What the caller did wrong (a project out of reach, no session_id) is a problem as everywhere.
    """
    name = hook.get("hook_event_name")
    event = _EVENT_OF_HOOK.get(name) if isinstance(name, str) else None
    if event is None:
        return {}
    happening = capture.HookEvent(
        event=event,
        session_id=_session_id(hook),
        project=project or _hook_project(hook, caller),
        cwd=_text_field(hook, "cwd"),
        at=at,
        data=_event_data(hook),
        mark=_hook_delivery_id(event, hook, at),
        allow_private=private,
        allow_secret=secret,
        reads=Right.READ.value in caller.rights,
        greets=True,
        most_tokens=MAX_CONTEXT_TOKENS,
    )
    try:
        with lock_timeout(PROMPT_WAIT_SECONDS if name == "UserPromptSubmit" else WRITE_WAIT_SECONDS):
            context = capture.dispatch(happening, caller.actor).context
    except StoreError:
        raise
    except Exception:
        logger.exception("a hook of Claude Code was not taken: %s", event)
        return {}
    if not context or name not in _CONTEXT_HOOKS or len(context) > MAX_CONTEXT_CHARS:
        return {}
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def _event_data(hook: Mapping[str, Any]) -> dict[str, Any]:
    """What an event brings; a failure in the shape of a response.

    What a person interrupted did not happen either, but there is nothing wrong with it.
    """
    data = {name: hook[name] for name in _DATA_FIELDS if name in hook}
    if hook.get("hook_event_name") == _TOOL_FAILURE:
        told = None if hook.get("is_interrupt") else hook.get("error")
        data["tool_response"] = {"is_error": True, "error": told}
    return data


def _hook_delivery_id(event: str, hook: Mapping[str, Any], at: datetime | None) -> str:
    """What tells a second delivery: the call's own id, or else the moment, if one is told."""
    used = hook.get("tool_use_id")
    if isinstance(used, str) and used:
        return delivery_id(event, used)
    return delivery_id(event, at.isoformat()) if at else ""


def delivery_id(event: str, used: str) -> str:
    """A short mark of a tool call's id."""
    return hashlib.sha256(f"{event}\n{used}".encode("utf-8", "replace")).hexdigest()[:16]


def project_from_folder(cwd: str) -> str:
    """The name of the working folder, on any system; empty for the root."""
    parts = [part for part in re.split(r"[/\\]+", cwd.strip()) if part]
    return parts[-1][:200] if parts and not re.fullmatch(r"[A-Za-z]:", parts[-1]) else ""


def _hook_project(hook: Mapping[str, Any], caller: Caller) -> str:
    """A token confined to one project writes there, whatever the folder is called."""
    confined = caller.actor.clearance.projects
    return "" if confined and len(confined) == 1 else project_from_folder(_text_field(hook, "cwd"))


def _session_id(hook: Mapping[str, Any]) -> str:
    found = hook.get("session_id")
    if not isinstance(found, str) or not found.strip() or len(found) > 200:
        raise invalid_fields([field_error("session_id", "must be a text of 1 to 200 characters")])
    return found


def _text_field(hook: Mapping[str, Any], name: str) -> str:
    found = hook.get(name)
    return found if isinstance(found, str) else ""


router = Router(tags=["lifecycle"])
_DELIVERED_ONCE = "Delivered twice, an event with this is taken once."


class EventBody(AccessParams):
    """What happened. ``allow_private`` and ``allow_secret`` are what an injection may show."""

    event: Literal["session:start", "tool:post", "prompt:submit", "session:end"]
    session_id: Annotated[Word, Field(max_length=200)]
    project: Name = ""
    cwd: Annotated[Text, Field(max_length=4000)] = Field("", description="The agent's working folder.")
    at: Moment | None = Field(None, description=f"When it happened; now when absent. {_DELIVERED_ONCE}")
    sensitivity: Sensitivity = Field(Sensitivity.PUBLIC, description="Of the event and what becomes of it.")
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="tool:post: tool_name, tool_input, tool_response, tool_use_id (optional). "
        f"{_DELIVERED_ONCE} prompt:submit: prompt. session:end: reason (optional).",
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


class ClaudeCodeOptions(AccessParams):
    """In the address of the hook, for its body is Claude Code's own."""

    project: Name = Field("", description="In the place of the name of the working folder.")
    at: Moment | None = Field(None, description=f"When it happened; now when absent. {_DELIVERED_ONCE}")


@router.post("/events", auth=WRITE, response=documented(EventAnswer), summary="Report what happened")
def post_event(request: ApiRequest, body: EventBody) -> HttpResponse:
    """Runs the chain of hooks; ``context`` is the memory-context block for a prompt, or empty."""
    _check_data(body)
    happening = capture.HookEvent(
        event=body.event,
        session_id=body.session_id,
        project=body.project,
        cwd=body.cwd,
        at=body.at,
        data=body.data,
        sensitivity=body.sensitivity.value,
        mark=_event_delivery_id(body, request.body),
        allow_private=body.allow_private,
        allow_secret=body.allow_secret,
        reads=Right.READ.value in request.auth.rights,
    )
    done = capture.dispatch(happening, request.auth.actor)
    handlers = [report.as_dict() for report in done.handlers]
    return json_response({"event": body.event, "handlers": handlers, "context": done.context})


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
    said = handle_hook(
        hook,
        request.auth,
        options.project,
        at=options.at,
        private=options.allow_private,
        secret=options.allow_secret,
    )
    return json_response(said)


def _check_data(body: EventBody) -> None:
    """What each event cannot do without."""
    wanted = {capture.TOOL_POST: "tool_name", capture.PROMPT_SUBMIT: "prompt"}.get(body.event)
    if wanted is None:
        return
    value = body.data.get(wanted)
    if not isinstance(value, str) or (wanted == "tool_name" and not value.strip()):
        raise invalid_fields([field_error(f"data.{wanted}", f"{body.event} needs it, as a text")])


def _event_delivery_id(body: EventBody, raw: bytes) -> str:
    """What tells a second delivery: the call's own id, or the same bytes about the same moment."""
    used = body.data.get("tool_use_id")
    if isinstance(used, str) and used:
        return delivery_id(body.event, used)
    return hashlib.sha256(raw).hexdigest()[:16] if body.at else ""

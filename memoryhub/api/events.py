"""``/events``, ``/hooks/claude-code`` and ``/backfills``: what agents did."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.db import OperationalError
from django.http import HttpResponse
from django.utils import timezone
from ninja import Body, Path, Query, Router
from pydantic import (
    BaseModel,
    Field,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from memoryhub import capture, memories
from memoryhub.access.policy import Sensitivity
from memoryhub.api.schemas import BackfillResult, BackfillUndo, EventAnswer, PastSessionShape, documented
from memoryhub.capture import HookEvent, backfill, projects, summaries
from memoryhub.capture.observation import clean_text
from memoryhub.core.agent_hooks import (
    AGENTS,
    MAX_CONTEXT_CHARS,
    MAX_CONTEXT_TOKENS,
    from_claude_code,
    to_claude_code,
)
from memoryhub.core.database import is_damage_recorded, lock_timeout
from memoryhub.core.text import shorten, strip_private
from memoryhub.core.vocabulary import Right
from memoryhub.hooks import TOOL_CONTEXT
from memoryhub.http.authentication import WRITE, AccessParams, ApiRequest, Caller
from memoryhub.http.problems import DAMAGED_HOOK, field_error, invalid_fields, json_response
from memoryhub.memories import StoreError
from memoryhub.memories.rows import resolve_project
from memoryhub.memories.schemas import Moment, Name, Text, Word
from memoryhub.models import Event

logger = logging.getLogger(__name__)
WRITE_WAIT_SECONDS = 1.0  # total time that the writes of a hook wait for a busy database
PROMPT_WAIT_SECONDS = 0.4  # the same while a person waits: a little more than the injection deadline
_TOOL_FAILURE = "PostToolUseFailure"  # sent instead of PostToolUse when the tool failed
_EVENT_OF_HOOK = {
    "SessionStart": capture.SESSION_START,
    "UserPromptSubmit": capture.PROMPT_SUBMIT,
    "PreToolUse": TOOL_CONTEXT,
    "PostToolUse": capture.TOOL_POST,
    _TOOL_FAILURE: capture.TOOL_POST,
    "PreCompact": capture.CHECKPOINT,
    "SessionEnd": capture.SESSION_END,
}
_CONTEXT_HOOKS = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", _TOOL_FAILURE})
_MESSAGE_HOOKS = _CONTEXT_HOOKS | {"SessionEnd"}
_COMMAND = re.compile(r"/memoryhub:(?P<name>pause|resume|useful)\b[ \t]*+(?P<words>[^\n]{0,100})\Z")
_REMEMBER = re.compile(r"\s*/memoryhub:remember\b")
_RATING = re.compile(r"(?P<no>no|not)?\s*(?P<number>[1-9]\d?)?", re.IGNORECASE)
REPOSITORY = (
    "The repository of the working directory, if no project is given: name (of its folder), remote (URL), "
    "root (id of its first commit) and subfolder (path of the working directory in it), each optional. "
    "Unusable values are ignored."
)
_DATA_FIELDS = ("prompt", "tool_name", "tool_input", "tool_response", "source", "reason", "trigger")


def handle_hook(
    hook: Mapping[str, Any], caller: Caller, options: ClaudeCodeOptions, *, injects: bool = True
) -> dict[str, Any]:
    """Process one hook of Claude Code; return ``{}`` if there is nothing to add or the hub failed.

    Claude Code shows its user a warning while the store is damaged, or if pinned memories exceed their
    budget; at the first start of a week, how often memories were used; and at the end, those of the session.
    The prompts ``/memoryhub:pause``, ``:resume`` and ``:useful`` are carried out and not sent to the model;
    with ``:remember``, the model gets the name of the project.

    A ``late`` hook is recorded, but no one reads the answer. ``injects``: whether the answer can add text for
    the model. Errors of the caller (a project outside its clearance, no session_id) are problems as
    everywhere.
    """
    name = hook.get("hook_event_name")
    event = _EVENT_OF_HOOK.get(name) if isinstance(name, str) else None
    if name is None or event is None:
        return {}
    hook_event = _to_event(event, hook, caller, options, injects=injects)
    context, notes = "", []
    try:
        with lock_timeout(PROMPT_WAIT_SECONDS if name == "UserPromptSubmit" else WRITE_WAIT_SECONDS):
            project = options.project or hook_project(hook, caller, record=True)
            hook_event = replace(hook_event, project=project)
            if answer := _run_command(hook_event, caller):
                return {"decision": "block", "reason": answer}
            at = options.at or timezone.now()
            is_week_new = name == "SessionStart" and summaries.is_week_new(caller.actor, at)
            result = capture.dispatch(hook_event, caller.actor)
            context, notes = result.context, list(result.warnings)
            context = "\n\n".join(filter(None, (context, _name_project(hook_event, caller))))
            if result.event and not options.late:
                notes += _use_notes(result.event, caller, is_week_new)
    except StoreError:
        raise
    except Exception as error:
        if options.event_id and isinstance(error, OperationalError) and not is_damage_recorded():
            raise  # busy or full: the sender keeps the event and delivers it again
        logger.exception("hook of Claude Code failed: %s", event)
    return _claude_answer(name, context, notes)


def _to_event(
    event: str, hook: Mapping[str, Any], caller: Caller, options: ClaudeCodeOptions, *, injects: bool
) -> capture.HookEvent:
    """Return the event of a hook. Claude Code sends no time: the options of a late or replayed hook do."""
    return capture.HookEvent(
        event=event,
        session_id=_session_id(hook),
        project=options.project,
        cwd=projects.text_field(hook, "cwd"),
        repository=hook.get("repository"),
        at=options.at,
        data=_event_data(hook),
        delivery_id=_hook_delivery_id(event, hook, options.event_id, options.at),
        allow_private=options.allow_private,
        allow_secret=options.allow_secret,
        may_read=injects and Right.READ.value in caller.rights,
        injects_at_start=True,
        max_tokens=MAX_CONTEXT_TOKENS,
        is_late=options.late,
    )


def _claude_answer(name: str, context: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return the part of an answer that Claude Code reads at this hook."""
    if name not in _MESSAGE_HOOKS:
        return {}
    message = {"systemMessage": f"memoryhub: {'; '.join(notes)}"} if notes else {}
    if name not in _CONTEXT_HOOKS:
        return message
    message = DAMAGED_HOOK if is_damage_recorded() else message
    if not context or len(context) > MAX_CONTEXT_CHARS:
        return message
    return {**message, "hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def _run_command(hook_event: capture.HookEvent, caller: Caller) -> str:
    """Pause or resume memory, or rate what was shown, if the prompt asks for it. Return the answer."""
    found = _COMMAND.match(str(hook_event.data.get("prompt") or "").strip())
    # A late command would pause the wrong hours. Without an answer, Claude Code shows the person what to do.
    if not found or hook_event.is_late or hook_event.event != capture.PROMPT_SUBMIT:
        return ""
    try:
        name = resolve_project(hook_event.project, caller.actor)
        if found["name"] == "useful":
            return _rate_shown(found["words"], hook_event.session_id, name, caller)
        hours = 0.0 if found["name"] == "resume" else _parse_hours(found["words"] or "1")
        changed = projects.configure_project(name, caller.actor, pause_hours=hours)
    except StoreError as refusal:
        return f"memoryhub: nothing changed: {refusal.message}"
    note = projects.mode_note(changed.project, zone=summaries.time_zone(caller.actor)) or "automatic"
    resumed = "" if hours else "resumed; "
    return f"memoryhub: {resumed}{note} in the project {name}"


def _parse_hours(text: str) -> float:
    if not re.fullmatch(r"\d{1,3}(?:\.\d{1,3})?", text.strip()):
        raise StoreError(f"hours must be 0 to {projects.MAX_PAUSE_HOURS}, for example /memoryhub:pause 2")
    return float(text)


def _name_project(hook_event: capture.HookEvent, caller: Caller) -> str:
    """Return which project the model is to store a memory in, if the prompt asks it to remember something."""
    if not _REMEMBER.match(str(hook_event.data.get("prompt") or "")):
        return ""
    name = json.dumps(resolve_project(hook_event.project, caller.actor), ensure_ascii=False)
    return f"memoryhub: the project of this session is {name}."


def _rate_shown(words: str, session_id: str, project: str, caller: Caller) -> str:
    """Rate the memories that the session was shown last: all, or that with a number, as useful or not."""
    asked = _RATING.fullmatch(words)
    if not asked:
        raise StoreError("after /memoryhub:useful write nothing, a number, or no, for example: no 2")
    number = int(asked["number"] or 0)
    shown = summaries.last_shown(session_id, project, caller.actor)
    chosen = shown[number - 1 : number] if number else shown
    if not chosen:
        raise StoreError("no memory with this number was shown" if shown else "no memory was shown here yet")
    kind = "not_useful" if asked["no"] else "useful"
    rated = memories.apply_bulk_action(kind, [memory.uid for memory in chosen], caller.actor)
    if rated.refused:
        raise StoreError(rated.refused[0][1])
    titles = "; ".join(shorten(memory.title or memory.uid, 60) for memory in chosen)
    return f"memoryhub: rated {'not ' if asked['no'] else ''}useful: {titles}"


def _use_notes(event: Event, caller: Caller, is_week_new: bool) -> list[str]:
    """Return what memory did in the week, at its first session, or in the session, at its end."""
    if event.event == capture.SESSION_START:
        line = summaries.weekly_line(caller.actor, event.at) if is_week_new else ""
        return [line] if line else []
    if event.event != capture.SESSION_END:
        return []
    found = summaries.count_session_use(event.session.session_id, event.session.project, caller.actor)
    return [f"{found} in this session"] if found.shown or found.kept else []


def hook_project(hook: Mapping[str, Any], caller: Caller, *, record: bool = False) -> str:
    """Return the project of a hook: that of its repository or session, or of its working folder."""
    session_id, cwd = (projects.text_field(hook, name) for name in ("session_id", "cwd"))
    return working_project(session_id, cwd, hook.get("repository"), caller, record=record)


def _event_data(hook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an event. A failed tool call looks like a response with ``is_error``.

    An interrupted call has no error text: nothing is wrong with it.
    """
    data = {name: hook[name] for name in _DATA_FIELDS if name in hook}
    if hook.get("hook_event_name") == _TOOL_FAILURE:
        error = None if hook.get("is_interrupt") else hook.get("error")
        data["tool_response"] = {"is_error": True, "error": error}
    return data


def _hook_delivery_id(event: str, hook: Mapping[str, Any], event_id: str, at: datetime | None) -> str:
    """Return what identifies a repeated delivery: the id of the tool call, of the event, or its time."""
    call_id = hook.get("tool_use_id")
    found = (call_id if isinstance(call_id, str) else "") or event_id or (at.isoformat() if at else "")
    return delivery_id(event, found) if found else ""


def delivery_id(event: str, call_id: str) -> str:
    """Return a short hash of a tool call's id."""
    return hashlib.sha256(f"{event}\n{call_id}".encode("utf-8", "replace")).hexdigest()[:16]


def working_project(
    session_id: str, cwd: str, repository: object, caller: Caller, *, record: bool = False
) -> str:
    """Return the project of an agent at work. A token that is confined to one project always works there.

    ``record``: remember the project of an unknown repository.
    """
    actor = caller.actor
    if actor.clearance.projects and len(actor.clearance.projects) == 1:
        return ""
    parsed = projects.Repository.parse(repository)
    return projects.working_project(session_id, clean_text(cwd), parsed, actor, record=record)


def _session_id(hook: Mapping[str, Any]) -> str:
    session_id = hook.get("session_id")
    if not isinstance(session_id, str) or not session_id.strip() or len(session_id) > 200:
        raise invalid_fields([field_error("session_id", "must be a string of 1 to 200 characters")])
    return session_id


router = Router(tags=["Hooks and past sessions"], auth=WRITE)
_DELIVERED_ONCE = "A repeated delivery with the same value is ignored."


class EventBody(AccessParams):
    """A session event. ``allow_private`` and ``allow_secret`` apply to the injected context."""

    event: Literal["session:start", "tool:post", "prompt:submit", "session:end"]
    session_id: Annotated[Word, Field(max_length=200)]
    project: Name = ""
    cwd: Annotated[Text, Field(max_length=4000)] = Field("", description="Working directory of the agent.")
    repository: dict[str, Any] | None = Field(None, description=REPOSITORY)
    at: Moment | None = Field(None, description=f"Time of the event; default: now. {_DELIVERED_ONCE}")
    sensitivity: Sensitivity = Field(
        Sensitivity.PUBLIC, description="Level of the event and of its memories."
    )
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="tool:post: tool_name, tool_input, tool_response or error, tool_use_id (optional). "
        f"{_DELIVERED_ONCE} prompt:submit: prompt. session:end: reason (optional).",
    )


class ClaudeCodeOptions(AccessParams):
    """Query parameters of a hook; its body comes from the agent."""

    project: Name = Field("", description="Project of the event; default: that of the repository.")
    late: bool = Field(False, description="The agent no longer waits: record the event, inject nothing.")
    at: Moment | None = Field(None, description=f"Time of the event; default: now. {_DELIVERED_ONCE}")
    event_id: str = Field(
        "", pattern=r"^[A-Za-z0-9_-]{0,64}$", description=f"Id that the sender chose. {_DELIVERED_ONCE}"
    )

    @field_validator("at", mode="before")
    @classmethod
    def _bring_late_event_to_now(cls, given: Any, info: ValidationInfo) -> Any:
        """Return now for a late event of a clock that is ahead: its sender would discard a refused event."""
        if not info.data.get("late"):
            return given
        at = TypeAdapter(datetime).validate_python(given)
        return min(at if at.tzinfo else at.replace(tzinfo=UTC), timezone.now())


class AgentHookOptions(ClaudeCodeOptions):
    event: str = Field(
        "",
        pattern=r"^[A-Za-z.]{0,64}$",
        description="The agent's name of the event. Needed if the hook does not contain it.",
    )


@router.post("/events", response=documented(EventAnswer), summary="Report a session event")
def post_event(request: ApiRequest, body: EventBody) -> HttpResponse:
    """Runs the handlers of the event. ``context`` is the context block for a prompt, or that of the pinned
    memories at the start of a session, or empty. ``warnings`` says if these exceed their budget."""
    check_data(body)
    project = body.project
    if body.repository and not project:
        place = body.session_id, body.cwd, body.repository
        project = working_project(*place, request.auth, record=True)
    hook_event = capture.HookEvent(
        event=body.event,
        session_id=body.session_id,
        project=project,
        cwd=body.cwd,
        repository=body.repository,
        at=body.at,
        data=body.data,
        sensitivity=body.sensitivity.value,
        delivery_id=_event_delivery_id(body),
        allow_private=body.allow_private,
        allow_secret=body.allow_secret,
        may_read=Right.READ.value in request.auth.rights,
    )
    result = capture.dispatch(hook_event, request.auth.actor)
    handlers = [asdict(report) for report in result.handlers]
    answer = {"event": body.event, "handlers": handlers, "context": result.context}
    return json_response({**answer, **({"warnings": result.warnings} if result.warnings else {})})


@router.post("/hooks/claude-code", response=documented(dict[str, Any]), summary="Receive a Claude Code hook")
def post_claude_code_hook(
    request: ApiRequest, options: Query[ClaudeCodeOptions], hook: Body[dict[str, Any]]
) -> HttpResponse:
    """Accepts the JSON of the hook and returns the output that Claude Code expects. Never returns 500."""
    return json_response(handle_hook(hook, request.auth, options))


@router.post("/hooks/{agent}", response=documented(dict[str, Any]), summary="Receive a hook of another agent")
def post_agent_hook(
    request: ApiRequest,
    agent: Literal[tuple(AGENTS)],  # type: ignore[valid-type]
    options: Query[AgentHookOptions],
    hook: Body[dict[str, Any]],
) -> HttpResponse:
    """Accepts the JSON of a hook of another agent, such as Codex CLI or OpenCode, and returns the output that
    the agent expects. Events that the hub has no use for are ignored. Never returns 500."""
    hooks = AGENTS[agent]
    event = options.event or str(hook.get("hook_event_name"))
    translated = to_claude_code(hooks, hook, options.event)
    answer = handle_hook(translated, request.auth, options, injects=event not in hooks.silent)
    return json_response(from_claude_code(hooks, answer, event))


def check_data(body: EventBody) -> None:
    """Raise 422 if an event lacks its required data."""
    params = {capture.TOOL_POST: "tool_name", capture.PROMPT_SUBMIT: "prompt"}.get(body.event)
    if params is None:
        return
    value = body.data.get(params)
    if not isinstance(value, str) or (params == "tool_name" and not value.strip()):
        error = field_error(f"data.{params}", f"{body.event} requires this field, as a string")
        raise invalid_fields([error])


def _event_delivery_id(body: EventBody) -> str:
    """Return what identifies a repeated delivery: the id of the tool call, else the event and its time."""
    call_id = body.data.get("tool_use_id")
    if isinstance(call_id, str) and call_id:
        return delivery_id(body.event, call_id)
    if body.at is None:
        return ""
    fields = body.model_dump(mode="json", exclude={"data", "repository"})
    public = {**fields, "data": strip_private(body.data)}
    return hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()[:16]


MAX_EVENTS = 100  # in one request
MAX_IDS = 5000
EventId = Annotated[str, Field(min_length=1, max_length=200)]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$", description="An id that the client chose.")]


class PastEvent(EventBody):
    """An event of a past session. Without a project, the working directory names it."""

    at: Moment = Field(description="When it happened.")
    id: EventId = Field(description="Identifies a repeated delivery, for example the id in the transcript.")
    session_id: Annotated[Word, Field(max_length=200)]


class PastEvents(BaseModel):
    events: Annotated[list[PastEvent], Field(min_length=1, max_length=MAX_EVENTS)]


class EventName(BaseModel):
    event: Literal["session:start", "tool:post", "prompt:submit", "session:end"]
    id: EventId


class SessionQuestion(BaseModel):
    """A past session, and the ids of its events."""

    session_id: Annotated[Word, Field(max_length=200)]
    project: Name = ""
    cwd: Annotated[Text, Field(max_length=4000)] = ""
    repository: dict[str, Any] | None = Field(None, description=REPOSITORY)
    events: Annotated[list[EventName], Field(max_length=MAX_IDS)] = []


@router.post("/backfills/check", response=documented(PastSessionShape), summary="Check a past session")
def check_past_session(request: ApiRequest, question: SessionQuestion) -> HttpResponse:
    """Returns its project, whether it can be backfilled, and which events are stored. Changes nothing.

    ``state``: ``new``; ``live`` if an agent reported it when it happened; otherwise why nothing is stored."""
    place = question.session_id, question.cwd, question.repository
    found = backfill.check_session(
        question.session_id,
        question.project or working_project(*place, request.auth),
        [(one.event, one.id) for one in question.events],
        request.auth.actor,
    )
    return json_response({"project": found.project, "state": found.state, "known": sorted(found.known)})


@router.post(
    "/backfills/{run}/events",
    response=documented(BackfillResult, errors=(409,)),
    summary="Store events of past sessions",
)
def store_past_events(request: ApiRequest, run: Path[RunId], body: PastEvents) -> HttpResponse:
    """Runs the capture rules for each event, in order, and injects nothing.

    An outcome each: ``stored`` (a memory was made of it), ``recorded``, ``known`` (delivered before),
    ``live``, ``ignored`` (only ignored files), or the mode that leaves it out. ``memories``: the new ones.
    """
    hook_events = []
    for one in body.events:
        check_data(one)
        hook_events.append(_to_hook_event(one, request))
    outcomes, memories = backfill.store_events(run, hook_events, request.auth.actor)
    return json_response({"outcomes": outcomes, "memories": memories})


def _to_hook_event(one: PastEvent, request: ApiRequest) -> HookEvent:
    place = one.session_id, one.cwd, one.repository
    return HookEvent(
        event=one.event,
        session_id=one.session_id,
        project=one.project or working_project(*place, request.auth, record=True),
        cwd=one.cwd,
        repository=one.repository,
        at=one.at,
        data=one.data,
        sensitivity=Sensitivity(one.sensitivity).value,
        delivery_id=one.id,
    )


@router.delete(
    "/backfills/{run}",
    response=documented(BackfillUndo, errors=(404,)),
    summary="Undo a backfill",
)
def undo_backfill(request: ApiRequest, run: Path[RunId]) -> HttpResponse:
    """Moves the memories of a run to the trash and deletes its events and sessions.

    Memories that are pinned, or that someone else changed, stay."""
    counts = backfill.undo_backfill(run, request.auth.actor)
    return json_response({name: counts[name] for name in BackfillUndo.model_fields})

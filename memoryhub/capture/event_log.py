"""Prepare and record hook events: the first and the last step of the pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from memoryhub import hooks
from memoryhub.access.policy import LEVELS, Actor, Sensitivity, stricter_level
from memoryhub.backends import bulk, statements
from memoryhub.backends.dialect import sql
from memoryhub.capture.code_lines import view_file
from memoryhub.capture.events import HandlerReport, HookContext, HookEvent, parse_prompt, reduce_call
from memoryhub.capture.ignored_paths import IgnoredPaths
from memoryhub.capture.observation import clean_text, file_names, observe, working_subfolder
from memoryhub.capture.segments import CALLS_AFTER_PROMPT, locked_state
from memoryhub.core.database import adapt_moment, write_transaction
from memoryhub.injection.queries import digest_call
from memoryhub.memories.errors import StoreError
from memoryhub.memories.rows import resolve_project
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.models import Event, Project, Session
from memoryhub.security.secrets import redact

REDELIVERY_SECONDS = 5  # identical events within this time are one event
# Identical tool calls and session ends are legitimate: their content does not identify them.
_IDENTIFIED_BY_CONTENT = (hooks.SESSION_START, hooks.PROMPT_SUBMIT)
CLOCK_SKEW = timedelta(minutes=5)  # how far the clock of another machine may be ahead
# The last columns of ``statements.SESSION_OF_EVENT``, attributes of the session.
_FLAGS = ("is_repeated", "has_mark", "has_file_links", "has_code_references", "has_injections")
_KNOWN_EVENTS = (*hooks.EVENTS, hooks.CHECKPOINT, hooks.TOOL_CONTEXT)


@dataclass(frozen=True)
class ReceivedEvent:
    """A valid event before it is recorded: time, marks, session (without a key if new) and project."""

    at: datetime
    mark: str
    marks: tuple[str, ...]
    session: Session
    project: Project


def receive_event(hook_event: HookEvent, now: datetime) -> ReceivedEvent:
    """Find the session and the project of a valid event, without a write."""
    at = _event_time(hook_event.at, now, hook_event.is_late)
    marks: tuple[str, ...] = ()
    if not hook_event.delivery_id and hook_event.at is None and hook_event.event in _IDENTIFIED_BY_CONTENT:
        marks = _delivery_marks(hook_event, now)
    mark = marks[0] if marks else hook_event.delivery_id
    return ReceivedEvent(at, mark, marks, *_find_session(hook_event, at, mark, marks))


def prepare_event(hook_event: HookEvent, received: ReceivedEvent, actor: Actor) -> HookContext:
    """Get or create the session of an event and parse its data."""
    at, mark, marks = received.at, received.mark, received.marks
    session = _get_or_create_session(hook_event, received, actor)
    event = Event(
        session=session,
        at=at,
        event=hook_event.event,
        segment=max(session.segment, 1),
        sensitivity=hook_event.sensitivity,
        mark="" if marks and session.has_mark else mark,
    )
    context = HookContext(hook_event, actor, received.project, session, at, event, delivery_marks=marks)
    context.imported_at = timezone.now() if hook_event.is_backfilled else None
    context.repeated = session.is_repeated if marks else session.has_mark
    if hook_event.event in (hooks.TOOL_POST, hooks.TOOL_CONTEXT):
        _read_tool_call(context)
    elif hook_event.event == hooks.PROMPT_SUBMIT:
        chars = settings.MEMORYHUB.event_preview_chars
        event.preview, keywords = parse_prompt(str(hook_event.data.get("prompt") or ""), chars)
        event.keywords = list(keywords)
    return context


def save_event(context: HookContext, reports: Sequence[HandlerReport]) -> Event | None:
    """Save the event and update its session; return None for a repeated delivery."""
    event, hook_event = context.event, context.hook_event
    event.handlers = [asdict(report) for report in reports]
    end_reason = ""
    if hook_event.event == hooks.SESSION_END:
        end_reason = redact(clean_text(str(hook_event.data.get("reason") or "")))[:50]
    if context.repeated:
        return None
    if context.needs_approval and hook_event.event == hooks.TOOL_POST:
        event.preview, event.keywords = "", []  # they may repeat a text that waits for approval
    elif context.call and not context.call.secret and (context.session.has_injections or context.injected):
        seen = context.call.observation
        written = redact("\n".join((seen.command, seen.question, seen.added)))
        event.digests = digest_call(written, seen.command, failed=seen.failed)
    with write_transaction():
        # Another process may have recorded the same delivery in the meantime.
        params = [context.session.pk, *_repeat_params(context.delivery_marks, context.at)]
        if not bulk.insert_unless(event, statements.IS_LATEST_EVENT % "%s", params):
            return None
        _update_session(context, end_reason)
    return event


def _repeat_params(marks: Sequence[str], at: datetime) -> list[str]:
    """Return the parameters of :data:`statements.IS_LATEST_EVENT`."""
    return [json.dumps(marks), str(adapt_moment(at - timedelta(seconds=REDELIVERY_SECONDS)))]


def _delivery_marks(hook_event: HookEvent, now: datetime) -> tuple[str, str]:
    """Return digests of the content with the current time window and with the window before it."""
    content = json.dumps([hook_event.event, hook_event.data], sort_keys=True, default=str)
    window = int(now.timestamp() // REDELIVERY_SECONDS)
    current, previous = (
        hashlib.sha256(f"{n}\n{content}".encode("utf-8", "replace")) for n in (window, window - 1)
    )
    return current.hexdigest()[:16], previous.hexdigest()[:16]


def _update_session(context: HookContext, end_reason: str) -> None:
    """Extend, end or reopen the session; a prompt also changes its state, without reading it."""
    session, event = context.session, context.hook_event.event
    ended, at = session.ended_at, adapt_moment(context.at)
    changes: dict[str, list[Any]] = {}
    if context.at > session.last_at:
        changes[f"last_at = {sql.GREATEST}(last_at, %s)"] = [at]
    if context.at < session.started_at:
        changes[f"started_at = {sql.LEAST}(started_at, %s)"] = [at]
    if event == hooks.SESSION_END:
        changes[f"ended_at = {sql.GREATEST}(coalesce(ended_at, %s), %s), end_reason = %s"] = [
            at,
            at,
            end_reason,
        ]
    elif ended and context.at > ended:
        changes["ended_at = NULL, end_reason = ''"] = []
    if event == hooks.PROMPT_SUBMIT and not session.is_new:
        changes[f"state = {sql.STATE_AFTER_PROMPT}, segment = {sql.GREATEST}(segment, 1)"] = [
            CALLS_AFTER_PROMPT
        ]
    if changes:
        statements.update_session(session.pk, changes)


def validate_event(hook_event: HookEvent, actor: Actor) -> HookEvent:
    """Return the event with cleaned names and its project. StoreError names an invalid field."""
    if hook_event.event not in _KNOWN_EVENTS:
        raise StoreError(f"must be one of: {', '.join(hooks.EVENTS)}", "event")
    if hook_event.sensitivity not in LEVELS:
        raise StoreError(f"must be one of: {', '.join(LEVELS)}", "sensitivity")
    session_id = clean_text(hook_event.session_id).strip()
    if not 0 < len(session_id) <= 200:
        raise StoreError("must have 1 to 200 characters", "session_id")
    project = clean_text(hook_event.project).strip()
    if len(project) > 200:
        raise StoreError("must have at most 200 characters", "project")
    cleaned = replace(hook_event, session_id=session_id, project=project)
    with journal_refusals(cleaned, actor, "event"):
        refuse_secrets(cleaned, ("session_id", "project"))
    cwd = redact(clean_text(hook_event.cwd))[:1000]
    return replace(cleaned, cwd=cwd, project=resolve_project(project, actor))


def _event_time(at: datetime | None, now: datetime, is_late: bool) -> datetime:
    """Return when the event happened; times slightly in the future count as now.

    A late event is never refused for its time, because its sender would discard it.
    """
    if at is None:
        return now
    if at > now + CLOCK_SKEW and not is_late:
        raise StoreError("is in the future; send the time at which it happened, or omit it for now", "at")
    return min(at, now)


def _find_session(
    hook_event: HookEvent, at: datetime, mark: str, marks: Sequence[str]
) -> tuple[Session, Project]:
    """Return the session, compared with the marks of an event, and the settings of its project.

    One statement. A session that is not stored yet has no key.
    """
    files, name = json.dumps(file_names(hook_event.data.get("tool_input"))), hook_event.project
    params = [*_repeat_params(marks, at), mark, files, files, hook_event.session_id, name, name]
    row = statements.read_session_of_event(statements.column_names(Session, "s."), params)
    *cells, key, mode, paused_until, ignored = row[: -len(_FLAGS)]
    paused_until = paused_until and paused_until.replace(tzinfo=UTC)
    project = Project(key, name, mode, paused_until, ignored) if key else Project(name=name)
    found = statements.to_object(Session, cells) if cells[0] else None
    session = found or Session(session_id=hook_event.session_id, project=name)
    vars(session).update(zip(_FLAGS, row[-len(_FLAGS) :], strict=True))
    return session, project


def _get_or_create_session(hook_event: HookEvent, received: ReceivedEvent, actor: Actor) -> Session:
    session, at = received.session, received.at
    if session.pk is None:
        session.agent, session.cwd = actor.name, hook_event.cwd
        session.state = _place(hook_event)
        session.started_at = session.last_at = at
        if hook_event.event == hooks.PROMPT_SUBMIT:
            session.state |= {"asked": CALLS_AFTER_PROMPT, "prompted": True}
            session.segment = 1
        with write_transaction():
            session.is_new = bulk.insert_unless(session, "FALSE", [])
        if not session.is_new:  # another process has inserted it
            session, _ = _find_session(hook_event, at, received.mark, received.marks)
    if hook_event.cwd and not session.cwd:
        session.cwd = hook_event.cwd
        with locked_state(session) as state:
            Session.objects.filter(pk=session.pk).update(cwd=session.cwd)
            state.subfolder = _place(hook_event).get("subfolder")
        session.state["subfolder"] = state.subfolder
    return session


def _place(hook_event: HookEvent) -> dict[str, str]:
    """Return the state of a new session: its folder in the repository, if the client reports it."""
    subfolder = working_subfolder(hook_event.repository, hook_event.cwd)
    return {} if subfolder is None else {"subfolder": subfolder}


def ignored_paths(project: Project, *folders: str) -> IgnoredPaths:
    return IgnoredPaths(project.ignored_paths, project.name, folders)


def _read_tool_call(context: HookContext) -> None:
    data, event = context.hook_event.data, context.event
    tool = redact(clean_text(str(data.get("tool_name") or "")))[:200]
    chars = settings.MEMORYHUB.event_preview_chars
    cwd = context.cwd
    ignored = ignored_paths(context.project, cwd, context.session.cwd, context.session.top)
    response = data.get("tool_response")
    if response is None and data.get("error"):
        response = {"error": data["error"]}
    observed = observe(tool, data.get("tool_input"), response, cwd, context.root)
    seen = ignored.filter(observed, data.get("tool_input"))
    if seen is None:
        context.ignored = True
        return
    context.call = call = reduce_call(seen, chars)
    event.tool_name, event.preview = tool, call.preview
    event.files, event.keywords = list(call.files), list(call.keywords)
    if context.hook_event.event == hooks.TOOL_POST and not call.secret and seen == observed:
        context.file_view = view_file(seen, data.get("tool_input"), response)
        event.lines = context.file_view.as_digests(call.clean_text) if context.file_view else None
    if call.secret:
        event.sensitivity = stricter_level(event.sensitivity, Sensitivity.PRIVATE.value)

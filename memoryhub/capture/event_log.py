"""The first and the last step of the chain: find the session, and record the event."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings

from memoryhub.access.policy import LEVELS, Actor, Sensitivity, stricter_level
from memoryhub.capture import events as names
from memoryhub.capture.event_preview import parse_prompt, parse_tool_call
from memoryhub.capture.events import HandlerReport, HookContext, HookEvent
from memoryhub.capture.observation import clean_text
from memoryhub.capture.session_state import locked_state
from memoryhub.core.transactions import write_transaction
from memoryhub.memories.errors import StoreError
from memoryhub.memories.rows import resolve_project
from memoryhub.memories.secret_check import journal_refusals, refuse_secrets
from memoryhub.models import Event, Session
from memoryhub.security.secrets import redact

REDELIVERY_SECONDS = 5  # seconds within which the very same event is a second delivery
# The same tool call may well be made twice (each has an id of its own), and an end may be told again.
_IDENTIFIED_BY_CONTENT = (names.SESSION_START, names.PROMPT_SUBMIT)
CLOCK_SKEW = timedelta(minutes=5)  # another machine's clock may go ahead by this much
_KNOWN_EVENTS = (*names.EVENTS, names.CHECKPOINT)


def prepare_event(happening: HookEvent, actor: Actor, now: datetime) -> HookContext:
    """Check an event, find or make its session, and read what it brings. StoreError names a bad field."""
    happening = _validate(happening, actor)
    at = _event_time(happening.at, now)
    session = _get_or_create_session(happening, actor, at)
    event = Event(
        session=session,
        at=at,
        event=happening.event,
        segment=max(session.segment, 1),
        sensitivity=happening.sensitivity,
        mark=happening.mark,
    )
    passage = HookContext(happening, actor, session, at, event)
    if not event.mark and happening.at is None and happening.event in _IDENTIFIED_BY_CONTENT:
        passage.marks = _delivery_marks(happening, now)
    passage.repeated = _is_repeated(passage)
    if happening.event == names.TOOL_POST:
        _read_tool_call(passage)
    elif happening.event == names.PROMPT_SUBMIT:
        chars = settings.MEMORYHUB.event_preview_chars
        event.preview, keywords = parse_prompt(str(happening.data.get("prompt") or ""), chars)
        event.keywords = list(keywords)
    return passage


def save_event(passage: HookContext, reports: Sequence[HandlerReport]) -> Event | None:
    """Save the event; None for one that came before."""
    event, happening = passage.event, passage.happening
    event.handlers = [report.as_dict() for report in reports]
    reason = _end_reason(happening)
    with locked_state(passage.session) as state:
        if passage.repeated or _is_repeated(passage):
            return None
        if passage.marks and not _has_mark(event, passage.marks[0]):
            event.mark = passage.marks[0]
        if happening.event == names.PROMPT_SUBMIT:
            state.hear()
        event.save(force_insert=True)
        _update_session(passage, reason)
    return event


def _is_repeated(passage: HookContext) -> bool:
    """Whether the event was recorded before; one without an id or a moment: as the last of its session."""
    event = passage.event
    if passage.marks:
        last = Event.objects.filter(session=event.session).order_by("-at", "-pk").first()
        lately = passage.at - timedelta(seconds=REDELIVERY_SECONDS)
        return last is not None and last.mark in passage.marks and last.at > lately
    return bool(event.mark) and _has_mark(event, event.mark)


def _has_mark(event: Event, mark: str) -> bool:
    return Event.objects.filter(session=event.session, mark=mark).exists()


def _delivery_marks(happening: HookEvent, now: datetime) -> tuple[str, str]:
    """What tells a second delivery of an event that has no moment and no id of its own.

    That it says the very same within the same few seconds, or within those just before.
    """
    said = json.dumps([happening.event, happening.data], sort_keys=True, default=str)
    span = int(now.timestamp() // REDELIVERY_SECONDS)
    one, before = (hashlib.sha256(f"{n}\n{said}".encode("utf-8", "replace")) for n in (span, span - 1))
    return one.hexdigest()[:16], before.hexdigest()[:16]


def _end_reason(happening: HookEvent) -> str:
    if happening.event != names.SESSION_END:
        return ""
    return redact(clean_text(str(happening.data.get("reason") or "")))[:50]


def _update_session(passage: HookContext, reason: str) -> None:
    """What an event changes in its session's row."""
    row = Session.objects.filter(pk=passage.session.pk)
    ended, at = passage.session.ended_at, passage.at
    if at > passage.session.last_at:
        row.update(last_at=at)
    if at < passage.session.started_at:
        row.update(started_at=at)
    if passage.happening.event == names.SESSION_END:
        row.update(ended_at=max(at, ended) if ended else at, end_reason=reason)
    elif ended and at > ended:
        row.update(ended_at=None, end_reason="")


def _validate(happening: HookEvent, actor: Actor) -> HookEvent:
    if happening.event not in _KNOWN_EVENTS:
        raise StoreError(f"must be one of: {', '.join(names.EVENTS)}", "event")
    if happening.sensitivity not in LEVELS:
        raise StoreError(f"must be one of: {', '.join(LEVELS)}", "sensitivity")
    session_id = clean_text(happening.session_id).strip()
    if not 0 < len(session_id) <= 200:
        raise StoreError("must have 1 to 200 characters", "session_id")
    project = clean_text(happening.project).strip()
    if len(project) > 200:
        raise StoreError("must have at most 200 characters", "project")
    place = replace(happening, session_id=session_id, project=project)
    with journal_refusals(place, actor, "event"):
        refuse_secrets(place, ("session_id", "project"))
    cwd = redact(clean_text(happening.cwd))[:1000]
    return replace(place, cwd=cwd)


def _event_time(at: datetime | None, now: datetime) -> datetime:
    """When it happened. A clock that goes a little ahead is taken for now."""
    if at is None:
        return now
    if at > now + CLOCK_SKEW:
        raise StoreError("lies in the future; send the moment it happened, or nothing for now", "at")
    return min(at, now)


def _get_or_create_session(happening: HookEvent, actor: Actor, at: datetime) -> Session:
    place = {"session_id": happening.session_id, "project": resolve_project(happening.project, actor)}
    session = Session.objects.filter(**place).first()
    if session is None:
        first = {"agent": actor.name, "cwd": happening.cwd, "started_at": at, "last_at": at}
        with write_transaction():
            session, _ = Session.objects.get_or_create(**place, defaults=first)
    if happening.cwd and not session.cwd:
        with write_transaction():
            Session.objects.filter(pk=session.pk).update(cwd=happening.cwd)
    return session


def _read_tool_call(passage: HookContext) -> None:
    data, event = passage.happening.data, passage.event
    tool = redact(clean_text(str(data.get("tool_name") or "")))[:200]
    chars = settings.MEMORYHUB.event_preview_chars
    cwd = passage.happening.cwd or passage.session.cwd
    call = parse_tool_call(tool, data.get("tool_input"), data.get("tool_response"), cwd, chars)
    passage.call = call
    event.tool_name, event.preview = tool, call.preview
    event.files, event.keywords = list(call.files), list(call.keywords)
    if call.secret:
        event.sensitivity = stricter_level(event.sensitivity, Sensitivity.PRIVATE.value)

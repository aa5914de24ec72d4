"""The chain: which handlers run at which event, in which order, each on its own."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import DatabaseError
from django.utils import timezone

from memoryhub import capabilities
from memoryhub.hooks import handlers, recording, upkeep
from memoryhub.hooks.happening import (
    CHECKPOINT,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    TOOL_POST,
    Dispatched,
    HandlerReport,
    Happening,
    Hook,
    Passage,
)
from memoryhub.sensitivity import Actor
from memoryhub.store.errors import StoreError
from memoryhub.transactions import is_busy

logger = logging.getLogger(__name__)

# LetsGo's memory guide, "Hook Execution Chain"; lower priorities come first.
HOOKS: tuple[Hook, ...] = (
    Hook(PROMPT_SUBMIT, 50, "inject", capabilities.STORE, handlers.inject_memories, repeats=True),
    Hook(TOOL_POST, 100, "boundaries", capabilities.BOUNDARIES, handlers.draw_boundaries),
    Hook(TOOL_POST, 150, "capture", capabilities.STORE, handlers.capture_call),
    Hook(SESSION_START, 50, "capture", capabilities.STORE, handlers.begin_session),
    Hook(SESSION_END, 100, "capture", capabilities.STORE, handlers.sum_up),
    Hook(SESSION_END, 200, "consolidation", capabilities.CONSOLIDATION, upkeep.consolidate),
    Hook(SESSION_END, 300, "compression", capabilities.COMPRESSION, upkeep.compress),
    Hook(CHECKPOINT, 100, "capture", capabilities.STORE, handlers.make_checkpoint),
)


def dispatch(happening: Happening, actor: Actor, now: datetime | None = None) -> Dispatched:
    """Run an event through the chain and record it. A handler that fails does not stop the others.

    StoreError where the event itself cannot be used (it names the field), DatabaseError where nothing can be
    read or recorded. An event that came before changes nothing.
    """
    passage = recording.begin(happening, actor, now or timezone.now())
    hooks = sorted((hook for hook in HOOKS if hook.event == happening.event), key=lambda hook: hook.priority)
    reports = [_run(hook, passage) for hook in hooks]
    try:
        event = recording.record(passage, reports)
    except DatabaseError:
        if not passage.context:
            raise
        logger.exception("%s could not be recorded; its context is given all the same", happening.event)
        event = None
    return Dispatched(reports, passage.context, event)


def _run(hook: Hook, passage: Passage) -> HandlerReport:
    if passage.repeated and not hook.repeats:
        return HandlerReport(hook.name, hook.priority, "skipped", "this event was recorded before")
    if not capabilities.is_on(hook.capability):
        return HandlerReport(hook.name, hook.priority, "skipped", capabilities.switched_off(hook.capability))
    try:
        status, detail = hook.handler(passage)
    except Exception as error:
        logger.exception("hook %s at %s failed", hook.name, hook.event)
        return HandlerReport(hook.name, hook.priority, "failed", _reason(error))
    return HandlerReport(hook.name, hook.priority, status, detail)


def _reason(error: Exception) -> str:
    """Why a handler failed, in words that tell nothing of what it worked on."""
    if isinstance(error, StoreError):
        return f"refused: {error.code} {error.field}".strip()
    if is_busy(error):
        return "the database is busy"
    if isinstance(error, DatabaseError):
        return "the database cannot serve this; see /readyz"
    return "an unexpected error; the log has the details"

"""The lifecycle's chain of hooks: what happens in a session goes in, memories and context come out."""

from memoryhub.capture.events import (
    CHECKPOINT,
    EVENTS,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    TOOL_POST,
    DispatchResult,
    HandlerReport,
    Hook,
    HookEvent,
)
from memoryhub.capture.pipeline import HOOKS, dispatch

__all__ = [
    "CHECKPOINT",
    "EVENTS",
    "HOOKS",
    "PROMPT_SUBMIT",
    "SESSION_END",
    "SESSION_START",
    "TOOL_POST",
    "DispatchResult",
    "HandlerReport",
    "Hook",
    "HookEvent",
    "dispatch",
]

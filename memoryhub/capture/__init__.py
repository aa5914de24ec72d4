"""Capture: hook events of agent sessions become memories, and prompts get context injected."""

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

"""The lifecycle's chain of hooks: what happens in a session goes in, memories and context come out."""

from memoryhub.hooks.chain import HOOKS, dispatch
from memoryhub.hooks.happening import (
    CHECKPOINT,
    EVENTS,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    TOOL_POST,
    Dispatched,
    HandlerReport,
    Happening,
    Hook,
)

__all__ = [
    "CHECKPOINT",
    "EVENTS",
    "HOOKS",
    "PROMPT_SUBMIT",
    "SESSION_END",
    "SESSION_START",
    "TOOL_POST",
    "Dispatched",
    "HandlerReport",
    "Happening",
    "Hook",
    "dispatch",
]

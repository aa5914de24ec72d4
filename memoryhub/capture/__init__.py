"""Capture: hook events of agent sessions become memories, and prompts get context injected."""

from memoryhub.capture.events import DispatchResult, HandlerReport, HookContext, HookEvent
from memoryhub.capture.pipeline import HOOKS, dispatch
from memoryhub.hooks import CHECKPOINT, EVENTS, PROMPT_SUBMIT, SESSION_END, SESSION_START, TOOL_POST, Hook

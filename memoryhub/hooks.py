"""The registry of hook handlers: what runs for which event of an agent session, in order of priority.

The hub registers its own handlers (``memoryhub.capture.pipeline``). Another Django app joins the chain in its
``AppConfig.ready()``; docs/python.md shows how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

SESSION_START = "session:start"
PROMPT_SUBMIT = "prompt:submit"
TOOL_POST = "tool:post"
SESSION_END = "session:end"
# Internal names, which the API does not accept. CHECKPOINT: the agent is about to compact its context.
# TOOL_CONTEXT: it is about to run a tool or has run one, and gets memories for it.
CHECKPOINT = "session:checkpoint"
TOOL_CONTEXT = "tool:context"
EVENTS = (SESSION_START, PROMPT_SUBMIT, TOOL_POST, SESSION_END)

Status = Literal["ok", "skipped", "failed"]
HandlerResult = tuple[Status, str]
# Takes a memoryhub.capture.events.HookContext. No result means ("ok", "").
Handler = Callable[[Any], HandlerResult | None]


@dataclass(frozen=True)
class Hook:
    """A handler and its place in the chain.

    ``capability``: the handler is skipped while this capability is off; empty if it cannot be switched off.
    ``repeats``: the handler also runs for a repeated delivery.
    """

    event: str
    priority: int
    name: str
    capability: str
    handler: Handler
    repeats: bool = False


# The handlers of each event in the order in which they run.
chains: dict[str, tuple[Hook, ...]] = dict.fromkeys((*EVENTS, CHECKPOINT, TOOL_CONTEXT), ())


def register(
    event: str,
    priority: int,
    handler: Handler,
    *,
    name: str = "",
    capability: str = "",
    repeats: bool = False,
) -> Hook:
    """Add a handler to the chain of an event. Lower priorities run first, equal ones in this order.

    ``name``: shown in reports; default: the name of the function. A handler that is registered again for the
    same event under the same name replaces the earlier one.
    """
    if event not in chains:
        raise ValueError(f"unknown event {event!r}; use one of {', '.join(EVENTS)}")
    hook = Hook(
        event, priority, name or getattr(handler, "__name__", "handler"), capability, handler, repeats
    )
    unregister(event, hook.name)
    chains[event] = tuple(sorted((*chains[event], hook), key=lambda one: one.priority))
    return hook


def unregister(event: str, name: str) -> None:
    """Remove a handler from the chain of an event, if it is there."""
    chains[event] = tuple(hook for hook in chains[event] if hook.name != name)

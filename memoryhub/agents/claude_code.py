"""Claude Code's hooks: their JSON as it comes, and the answer that it reads. Never slow, never an error."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memoryhub import hooks
from memoryhub.agents.auth import Caller
from memoryhub.agents.problems import field_error, invalid
from memoryhub.store import StoreError
from memoryhub.transactions import hurried
from memoryhub.vocabulary import Right

logger = logging.getLogger(__name__)
MOST_CHARS = 10_000  # that Claude Code takes of an additionalContext
MOST_TOKENS = 2400  # of Latin script these are 9600 characters
HURRY = 1.0  # seconds that a hook waits for other writers, all its writes together
AT_A_PROMPT = 0.4  # the same where a person waits for the answer: the injection's deadline, and a little
_FAILURE = "PostToolUseFailure"  # in the place of PostToolUse, where the tool failed
_EVENTS = {
    "SessionStart": hooks.SESSION_START,
    "UserPromptSubmit": hooks.PROMPT_SUBMIT,
    "PostToolUse": hooks.TOOL_POST,
    _FAILURE: hooks.TOOL_POST,
    "PreCompact": hooks.CHECKPOINT,
    "SessionEnd": hooks.SESSION_END,
}
_CONTEXTUAL = frozenset({"SessionStart", "UserPromptSubmit"})
_DATA = ("prompt", "tool_name", "tool_input", "tool_response", "source", "reason", "trigger")


def answer_hook(
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
    event = _EVENTS.get(name) if isinstance(name, str) else None
    if event is None:
        return {}
    happening = hooks.Happening(
        event=event,
        session_id=_session_id(hook),
        project=project or _project(hook, caller),
        cwd=_text(hook, "cwd"),
        at=at,
        data=_data(hook),
        mark=_mark(event, hook, at),
        allow_private=private,
        allow_secret=secret,
        reads=Right.READ.value in caller.rights,
        greets=True,
        most_tokens=MOST_TOKENS,
    )
    try:
        with hurried(AT_A_PROMPT if name == "UserPromptSubmit" else HURRY):
            context = hooks.dispatch(happening, caller.actor).context
    except StoreError:
        raise
    except Exception:
        logger.exception("a hook of Claude Code was not taken: %s", event)
        return {}
    if not context or name not in _CONTEXTUAL or len(context) > MOST_CHARS:
        return {}
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def _data(hook: Mapping[str, Any]) -> dict[str, Any]:
    """What an event brings; a failure in the shape of a response.

    What a person interrupted did not happen either, but there is nothing wrong with it.
    """
    data = {name: hook[name] for name in _DATA if name in hook}
    if hook.get("hook_event_name") == _FAILURE:
        told = None if hook.get("is_interrupt") else hook.get("error")
        data["tool_response"] = {"is_error": True, "error": told}
    return data


def _mark(event: str, hook: Mapping[str, Any], at: datetime | None) -> str:
    """What tells a second delivery: the call's own id, or else the moment, if one is told."""
    used = hook.get("tool_use_id")
    if isinstance(used, str) and used:
        return mark_of(event, used)
    return mark_of(event, at.isoformat()) if at else ""


def mark_of(event: str, used: str) -> str:
    """A short mark of a tool call's id."""
    return hashlib.sha256(f"{event}\n{used}".encode("utf-8", "replace")).hexdigest()[:16]


def project_of(cwd: str) -> str:
    """The name of the working folder, on any system; empty for the root."""
    parts = [part for part in re.split(r"[/\\]+", cwd.strip()) if part]
    return parts[-1][:200] if parts and not re.fullmatch(r"[A-Za-z]:", parts[-1]) else ""


def _project(hook: Mapping[str, Any], caller: Caller) -> str:
    """A token confined to one project writes there, whatever the folder is called."""
    confined = caller.actor.clearance.projects
    return "" if confined and len(confined) == 1 else project_of(_text(hook, "cwd"))


def _session_id(hook: Mapping[str, Any]) -> str:
    found = hook.get("session_id")
    if not isinstance(found, str) or not found.strip() or len(found) > 200:
        raise invalid([field_error("session_id", "must be a text of 1 to 200 characters")])
    return found


def _text(hook: Mapping[str, Any], name: str) -> str:
    found = hook.get(name)
    return found if isinstance(found, str) else ""

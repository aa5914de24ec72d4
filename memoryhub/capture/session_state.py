"""The state that a session keeps between two events: the boundary window and the work since the last commit.

It is stored as JSON in the session's row. Reading and writing happen under the write lock, so that concurrent
events of one session do not overwrite each other's changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from memoryhub.backends import statements
from memoryhub.capture.distillation import OpenWork
from memoryhub.core.database import write_transaction
from memoryhub.models import Session

CALLS_AFTER_PROMPT = 3  # tool calls that are judged with the threshold for a new request


@dataclass
class SessionState:
    """The field names are the keys of the stored JSON.

    ``window``: keywords of the last outputs of the segment; ``window_at``: time (ISO) of the latest of them;
    ``output``: its digest. ``doubt``: outputs unlike the window, which may begin a segment.
    ``asked``: remaining calls of :data:`CALLS_AFTER_PROMPT`; ``prompted``: whether the session sends prompts.
    ``calls``: tool calls so far; ``summed_up``: the number of calls at the last checkpoint; ``recapped_at``:
    the time (ISO) that the last checkpoint covers; ``fresh_since``: when the agent last lost its context;
    ``tokens``: approximate cost of the work since the last captured memory.
    """

    segment: int = 1
    window: list[list[str]] = field(default_factory=list)
    doubt: list[list[str]] = field(default_factory=list)
    asked: int = 0
    prompted: bool = False
    window_at: str = ""
    output: str = ""
    work: OpenWork = field(default_factory=OpenWork)
    tokens: int = 0
    calls: int = 0
    summed_up: int = 0
    recapped_at: str = ""
    fresh_since: str = ""

    @classmethod
    def from_row(cls, state: dict[str, Any], segment: int) -> SessionState:
        """Read the columns of a session; keys that this version does not know are ignored."""
        known = {name: state[name] for name in cls.__dataclass_fields__ if name in state}
        known |= {"segment": max(segment, 1), "work": OpenWork.from_state(state.get("work") or {})}
        return cls(**known)

    def as_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "segment"}
        return {**state, "work": self.work.as_state()}


@contextmanager
def locked_state(session: Session) -> Iterator[SessionState]:
    """Yield the session's state under the write lock and save what the block changes."""
    with write_transaction():
        stored = statements.read_session_state(session.pk)
        if stored is None:
            raise Session.DoesNotExist
        row, segment = stored
        state = SessionState.from_row(row, segment)
        before = json.dumps(row)  # serialised now, because the block changes lists in place
        yield state
        after = state.as_state()
        if json.dumps(after) != before or state.segment != segment:
            changes: dict[str, list[Any]] = {
                "state = %s": [json.dumps(after)],
                "segment = %s": [state.segment],
            }
            statements.update_session(session.pk, changes)

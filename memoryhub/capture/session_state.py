"""What a session has open between two events: the window of boundaries, the work since the last capture.

Kept as JSON in the session's row, read and written under the write lock, so that two events of one session at
once do not lose each other's part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from memoryhub.capture.distillation import OpenWork
from memoryhub.core.transactions import write_transaction
from memoryhub.models import Session

CALLS_AFTER_PROMPT = 3  # tool calls after a prompt that show what it was about


@dataclass
class SessionState:
    """``window_at``: the moment (ISO) of the latest output in the window; ``output``: that output's digest.

    ``doubt``: outputs unlike the window that may begin a segment; ``asked``: calls left to be taken for the
    first after a prompt; ``prompted``: whether the session tells of prompts at all.
    ``calls``: tool calls so far; ``summed_up``: those when the last checkpoint was due; ``recapped_at``: the
    moment (ISO) up to which a checkpoint told; ``fresh_since``: that when the agent last lost its context;
    ``tokens``: about what was spent since the last capture.
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
    def of(cls, state: dict[str, Any], segment: int) -> SessionState:
        """From a session's row; a state that another version wrote is read as far as it fits."""
        known = {name: state[name] for name in cls.__dataclass_fields__ if name in state}
        known |= {"segment": max(segment, 1), "work": OpenWork.from_state(state.get("work") or {})}
        return cls(**known)

    def as_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "segment"}
        return {**state, "work": self.work.as_state()}

    def hear(self) -> None:
        """A person said something: what comes next may be something else."""
        self.asked, self.prompted = CALLS_AFTER_PROMPT, True


@contextmanager
def locked_state(session: Session) -> Iterator[SessionState]:
    """The working state under the write lock; what the block changes is saved with it."""
    with write_transaction():
        state, segment = Session.objects.values_list("state", "segment").get(pk=session.pk)
        found = SessionState.of(state, segment)
        before = json.dumps(state)  # a text: nothing that is changed in place goes unseen
        yield found
        after = found.as_state()
        if json.dumps(after) != before or found.segment != segment:
            Session.objects.filter(pk=session.pk).update(state=after, segment=found.segment)

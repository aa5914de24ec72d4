"""Fixtures that send hook events of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.models import Event, Memory, Session
from tests.api.conftest import Agent, agent, bot

__all__ = ["agent", "bot"]

DATABASE = "The planner chose the wrong index for the journal query and scanned every partition of the ledger"
DESIGN = "Buttons lost their contrast because the dark stylesheet overrides the heading colour and margin"
FIX = (
    "fix(importer): read each file once\n\nThe cache key ignored the encoding, because it was built from the"
    " path alone, so old rows came back after a restart of the worker."
)


@pytest.fixture(autouse=True)
def no_injection_deadline(configure: Callable[..., None]) -> None:
    """Disable the injection deadline, which a busy machine may miss."""
    configure(injection_deadline_ms=60_000, tool_deadline_ms=60_000)


class AgentSession:
    """One session of one agent."""

    def __init__(self, agent: Agent, session_id: str = "s1", project: str = "shop") -> None:
        self.agent, self.session_id, self.project = agent, session_id, project

    def send(self, event: str, data: dict[str, Any] | None = None, **more: Any) -> Any:
        body = {"event": event, "session_id": self.session_id, "project": self.project, "data": data or {}}
        return self.agent.post("/events", {**body, **more})

    def ok(self, event: str, data: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        response = self.send(event, data, **more)
        assert response.status_code == 200, response.content
        return dict(response.json())

    def tool(self, name: str, given: Any = None, response: Any = None, **more: Any) -> Event:
        """Send a tool call and return its event."""
        data = {"tool_name": name, "tool_input": given, "tool_response": response}
        self.ok("tool:post", {**data, **more.pop("extra", {})}, **more)
        return Event.objects.filter(session=self.row).latest("pk")

    def commit(self, message: str, **more: Any) -> Event:
        return self.tool("Bash", {"command": f'git commit -m "{message}"'}, {"stdout": "1 file"}, **more)

    def end(self, **more: Any) -> dict[str, Any]:
        return self.ok("session:end", {"reason": "exit"}, **more)

    @property
    def row(self) -> Session:
        return Session.objects.get(session_id=self.session_id, project=self.project)

    def memories(self, *types: str) -> list[Memory]:
        rows = Memory.objects.live().filter(session_id=self.session_id, project=self.project)
        return list((rows.filter(type__in=types) if types else rows).order_by("pk"))


@pytest.fixture
def agent_session(bot: Agent) -> AgentSession:
    return AgentSession(bot)


@pytest.fixture
def open_session(agent: Callable[..., Agent]) -> Callable[..., AgentSession]:
    """``open_session("s1", "p", clearance="private")``: a session with its own token."""

    def make(
        session_id: str = "s1", project: str = "shop", clearance: str = "secret", **options: Any
    ) -> AgentSession:
        return AgentSession(agent(clearance, **options), session_id, project)

    return make

"""Plays a transcript: each hook at its own time, what the hub has already left out, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from memoryhub.management.replaying.doors import Door, Refused
from memoryhub.management.replaying.transcript import Recorded, Transcript

PATH = "/hooks/claude-code"
_ALL = {"allow_private": "true", "allow_secret": "true"}
_EVENTS = {
    "SessionStart": "session:start",
    "UserPromptSubmit": "prompt:submit",
    "PostToolUse": "tool:post",
    "PostToolUseFailure": "tool:post",
    "PreCompact": "session:checkpoint",
    "SessionEnd": "session:end",
}
Outcome = Literal["kept", "skipped", "taken", "known", "failed"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """What became of one hook.

    "kept": a memory came of it; "skipped": none, ``why`` says the reason; "taken": recorded without being
    judged; "known": it was there before, and was not sent; "failed": the hub refused it.
    """

    recorded: Recorded
    at: datetime
    outcome: Outcome
    why: str = ""
    context: int = 0


@dataclass
class Player:
    """``speed``: 0 as fast as it goes, 1 in real time, 60 sixty times as fast.

    The last hook's time is the moment at which it is played, those before keep their recorded distance.
    A session that is in the store keeps the times it has there: what is known of it is not sent again.
    """

    door: Door
    transcript: Transcript
    project: str = ""
    speed: float = 0
    looks: bool = True
    _began: dict[str, datetime] = field(default_factory=dict)
    _known: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)

    def play(self, now: datetime | None = None) -> Iterator[Played]:
        """Send the hooks one after the other. Refused only where no hook would be taken."""
        start, clock = now or datetime.now(UTC), time.monotonic()
        for recorded in self.transcript.hooks:
            if recorded.session_id not in self._began:
                self._look_up(recorded.session_id, start)
            at = self._began[recorded.session_id] + timedelta(seconds=recorded.offset)
            if self.speed:
                time.sleep(max(0.0, recorded.offset / self.speed - (time.monotonic() - clock)))
            yield self._send(recorded, at)

    @property
    def sessions(self) -> list[str]:
        """The sessions played so far."""
        return list(self._began)

    def memories(self) -> list[Row]:
        """The memories of the transcript's sessions, in the order in which they were made."""
        found: list[Row] = []
        for session_id in self._began:
            found += self._all("/memories", {"session_id": session_id})
        return sorted(found, key=lambda one: str(one["created_at"]))

    def _look_up(self, session_id: str, start: datetime) -> None:
        """When the session began: as the store has it, or so that the transcript ends as it is played."""
        took = self.transcript.seconds / self.speed if self.speed else 0
        began = start - timedelta(seconds=self.transcript.seconds - took)
        path = f"/sessions/{quote(session_id, safe='')}"
        known: set[tuple[str, str, str]] = set()
        try:
            began = datetime.fromisoformat(self._ask(path, {"limit": 1})["session"]["started_at"])
        except Refused as refused:
            if refused.final:
                raise
        else:
            entries = self._all(path, {}, "timeline")
            known = {_key(one["at"], one.get("event", ""), one.get("tool_name", "")) for one in entries}
        self._began[session_id] = began.replace(microsecond=began.microsecond // 1000 * 1000)
        self._known[session_id] = known

    def _send(self, recorded: Recorded, at: datetime) -> Played:
        event = _EVENTS.get(recorded.name, "")
        if _key(at.isoformat(), event, recorded.tool) in self._known[recorded.session_id]:
            return Played(recorded, at, "known", "in the store already")
        query = {"at": at.isoformat(), **({"project": self.project} if self.project else {})}
        try:
            said = self.door.ask("POST", PATH, query, recorded.hook)
        except Refused as refused:
            if refused.final:
                raise
            return Played(recorded, at, "failed", str(refused))
        context = len((said.get("hookSpecificOutput") or {}).get("additionalContext") or "")
        if not event:
            return Played(recorded, at, "taken", "the hub has nothing to do at this hook")
        outcome, why = self._outcome(recorded, at) if self.looks else ("taken", "")
        return Played(recorded, at, outcome, why, context)

    def _outcome(self, recorded: Recorded, at: datetime) -> tuple[Outcome, str]:
        """What the session's timeline says of a hook."""
        path = f"/sessions/{quote(recorded.session_id, safe='')}"
        newest = self._ask(path, {"limit": 6})["timeline"]["items"]
        for entry in newest:
            if entry["kind"] != "memory" and datetime.fromisoformat(entry["at"]) == at and entry.get("event"):
                if entry.get("memory_id"):
                    return "kept", str(entry["memory_id"])
                return ("skipped", entry["skip_reason"]) if entry.get("skip_reason") else ("taken", "")
        return "failed", "the hub took it and did not record it; its log says why"

    def _all(self, path: str, query: Row, inside: str = "") -> list[Row]:
        """All pages of a list."""
        found: list[Row] = []
        cursor = None
        while True:
            page = self._ask(path, {**query, "limit": 200, **({"cursor": cursor} if cursor else {})})
            page = page[inside] if inside else page
            found += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return found

    def _ask(self, path: str, query: Row) -> Any:
        within = {"project": self.project} if self.project else {}
        return self.door.ask("GET", path, {**query, **within, **_ALL})


def _key(at: str, event: str, tool: str) -> tuple[str, str, str]:
    return datetime.fromisoformat(at).astimezone(UTC).isoformat(timespec="milliseconds"), event, tool

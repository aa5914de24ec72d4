"""Replay a recorded Claude Code session through the hook endpoint."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from django.conf import settings
from django.test import Client
from django.utils import timezone

from memoryhub.access.policy import Actor, Sensitivity, system_actor
from memoryhub.accounts import tokens

AGENT = "claude-code"
DEMO_SESSION = "fixtures/sessions/debugging.jsonl"
ENDED_AGO = timedelta(minutes=35)  # the session of the demo
MAX_OFFSET = 366 * 86_400  # a session longer than a year is a mistake
LINE = '{"offset": seconds, "hook": {"hook_event_name": …, "session_id": …, …}}'


class InvalidTranscript(Exception):
    """No line of the file is a hook. The message names the first error."""


class InvalidLine(ValueError):
    """An error in one line of the transcript."""


@dataclass(frozen=True)
class RecordedHook:
    """A hook. ``number``: its line, from 1. ``offset``: seconds since the session began."""

    number: int
    offset: float
    hook: dict[str, Any]

    @property
    def session_id(self) -> str:
        return str(self.hook["session_id"])

    @property
    def name(self) -> str:
        return str(self.hook["hook_event_name"])

    @property
    def tool(self) -> str:
        return str(self.hook.get("tool_name") or "")


@dataclass(frozen=True)
class Transcript:
    """The hooks in the order of the file, and the number and error of each invalid line."""

    hooks: list[RecordedHook]
    broken: list[tuple[int, str]]

    @property
    def seconds(self) -> float:
        return max(hook.offset for hook in self.hooks)


def read_transcript(path: Path) -> Transcript:
    """Read a transcript. Raise InvalidTranscript if no line is a hook."""
    hooks: list[RecordedHook] = []
    broken: list[tuple[int, str]] = []
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        if not raw.strip():
            continue
        try:
            hooks.append(_parse_line(number, raw))
        except InvalidLine as error:
            broken.append((number, str(error)))
    if not hooks:
        where = f"line {broken[0][0]}: {broken[0][1]}" if broken else "it is empty"
        raise InvalidTranscript(f"{path} is not a recorded session; {where}. A line looks like {LINE}")
    return Transcript(hooks, broken)


def _parse_line(number: int, raw: bytes) -> RecordedHook:
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidLine("not JSON") from None
    if not isinstance(row, dict):
        raise InvalidLine("not an object")
    offset, hook = row.get("offset"), row.get("hook")
    if not isinstance(offset, int | float) or isinstance(offset, bool) or not math.isfinite(offset):
        raise InvalidLine("offset must be a number of seconds")
    if not 0 <= offset <= MAX_OFFSET:
        raise InvalidLine("offset must be 0 or more seconds, and at most a year")
    if not isinstance(hook, dict):
        raise InvalidLine("hook must be an object")
    for name in ("hook_event_name", "session_id"):
        if not isinstance(hook.get(name), str) or not hook[name].strip():
            raise InvalidLine(f"hook.{name} must be a string")
    return RecordedHook(number, float(offset), hook)


class RequestRefused(Exception):
    """The hub's answer was not 2xx. ``final``: the token has no access, so every other request fails."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.final = status in (401, 403)


class HubClient:
    """Sends requests to ``/api/v1`` of the hub in this process. ``target``: the store, as shown to people."""

    def __init__(self, token: str) -> None:
        self.target = f"the store {settings.DATABASES['default']['NAME']}"
        named = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host != "*"]
        self._client = Client(SERVER_NAME=named[0] if named else "localhost")
        self._token = token

    def ask(self, method: str, path: str, query: dict[str, Any], body: Any = None) -> Any:
        """Return the JSON of the answer. Raise RequestRefused if it is not 2xx."""
        answer = self._client.generic(
            method,
            f"/api/v1{path}?{urlencode(query)}",
            json.dumps(body) if body is not None else "",
            "application/json",
            secure=True,
            headers={"Authorization": f"Bearer {self._token}"},
        )
        return _parse_answer(answer.status_code, answer.content)


@contextmanager
def connect_in_process(actor: Actor, name: str) -> Iterator[HubClient]:
    """Yield a client of the hub in this process. Its token is revoked at the end."""
    day = timezone.now() + timedelta(days=1)
    level = Sensitivity.SECRET.value
    token, raw = tokens.issue_token(name, name, level, ("read", "write"), actor=actor, expires_at=day)
    try:
        yield HubClient(raw)
    finally:
        tokens.revoke_token(token.uid, actor)


def _parse_answer(status: int, content: bytes) -> Any:
    if 200 <= status < 300:
        return json.loads(content)
    try:
        problem = json.loads(content)
    except ValueError:  # a page, such as that of a refused host name
        problem = {}
    errors = [f"{one.get('field')}: {one.get('message')}" for one in problem.get("errors") or []]
    text = "; ".join(errors) or str(problem.get("detail") or problem.get("title") or f"status {status}")
    raise RequestRefused(status, text)


PATH = "/hooks/claude-code"
_ALL_LEVELS = {"allow_private": "true", "allow_secret": "true"}
_EVENTS = {
    "SessionStart": "session:start",
    "UserPromptSubmit": "prompt:submit",
    "PostToolUse": "tool:post",
    "PostToolUseFailure": "tool:post",
    "PreCompact": "session:checkpoint",
    "SessionEnd": "session:end",
}
Outcome = Literal["kept", "skipped", "accepted", "known", "failed"]
Row = dict[str, Any]


@dataclass(frozen=True)
class PlayedHook:
    """A hook and its outcome. ``context``: the number of characters that the hub injected.

    "kept": it became a memory. "skipped": it did not, for the reason ``why``. "accepted": it became neither.
    "known": the store already contains it, so it was not sent. "failed": the hub refused it.
    """

    recorded: RecordedHook
    at: datetime
    outcome: Outcome
    why: str = ""
    context: int = 0


@dataclass
class Player:
    """Sends the hooks of a transcript to a hub.

    The last hook gets the current time, and the earlier ones keep their distance to it. A session that the
    store already contains keeps its times, so that its events are recognised and not sent again.
    ``speed``: 0: as fast as possible; 1: in real time; 60: sixty times as fast.
    ``outcomes``: ask the hub what each hook became.
    """

    hub: HubClient
    transcript: Transcript
    project: str = ""
    speed: float = 0
    outcomes: bool = True
    _began: dict[str, datetime] = field(default_factory=dict)
    _known: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)

    def play(self, now: datetime | None = None) -> Iterator[PlayedHook]:
        """Send the hooks in order. Raise RequestRefused if the hub would refuse all of them."""
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
        return list(self._began)

    def memories(self) -> list[Row]:
        """Return the memories of the played sessions, oldest first."""
        memories: list[Row] = []
        for session_id in self._began:
            memories += self._fetch_all("/memories", {"session_id": session_id})
        return sorted(memories, key=lambda one: str(one["created_at"]))

    def _look_up(self, session_id: str, start: datetime) -> None:
        """Set the start of a session: the stored one, or such that the last hook is played at its time."""
        took = self.transcript.seconds / self.speed if self.speed else 0
        began = start - timedelta(seconds=self.transcript.seconds - took)
        path = f"/sessions/{quote(session_id, safe='')}"
        known: set[tuple[str, str, str]] = set()
        try:
            began = datetime.fromisoformat(self._get(path, {"limit": 1})["session"]["started_at"])
        except RequestRefused as refused:
            if refused.final:
                raise
        else:
            entries = self._fetch_all(path, {}, "timeline")
            known = {_key(one["at"], one.get("event", ""), one.get("tool_name", "")) for one in entries}
        self._began[session_id] = began.replace(microsecond=began.microsecond // 1000 * 1000)
        self._known[session_id] = known

    def _send(self, recorded: RecordedHook, at: datetime) -> PlayedHook:
        event = _EVENTS.get(recorded.name, "")
        if _key(at.isoformat(), event, recorded.tool) in self._known[recorded.session_id]:
            return PlayedHook(recorded, at, "known", "in the store already")
        query = {"at": at.isoformat(), **({"project": self.project} if self.project else {})}
        try:
            answer = self.hub.ask("POST", PATH, query, recorded.hook)
        except RequestRefused as refused:
            if refused.final:
                raise
            return PlayedHook(recorded, at, "failed", str(refused))
        context = len((answer.get("hookSpecificOutput") or {}).get("additionalContext") or "")
        if not event:
            return PlayedHook(recorded, at, "accepted", "the hub ignores this hook")
        outcome, why = self._find_outcome(recorded, at) if self.outcomes else ("accepted", "")
        return PlayedHook(recorded, at, outcome, why, context)

    def _find_outcome(self, recorded: RecordedHook, at: datetime) -> tuple[Outcome, str]:
        """Return the outcome of a hook from the timeline of its session."""
        path = f"/sessions/{quote(recorded.session_id, safe='')}"
        newest = self._get(path, {"limit": 6})["timeline"]["items"]
        for entry in newest:
            if entry["kind"] != "memory" and datetime.fromisoformat(entry["at"]) == at and entry.get("event"):
                if entry.get("memory_id"):
                    return "kept", str(entry["memory_id"])
                return ("skipped", entry["skip_reason"]) if entry.get("skip_reason") else ("accepted", "")
        return "failed", "the hub accepted it but did not record it; its log says why"

    def _fetch_all(self, path: str, query: Row, part: str = "") -> list[Row]:
        """Return the items of all pages. ``part``: the key of the list in the answer."""
        items: list[Row] = []
        cursor = None
        while True:
            page = self._get(path, {**query, "limit": 200, **({"cursor": cursor} if cursor else {})})
            page = page[part] if part else page
            items += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return items

    def _get(self, path: str, query: Row) -> Any:
        project = {"project": self.project} if self.project else {}
        return self.hub.ask("GET", path, {**query, **project, **_ALL_LEVELS})


def _key(at: str, event: str, tool: str) -> tuple[str, str, str]:
    return datetime.fromisoformat(at).astimezone(UTC).isoformat(timespec="milliseconds"), event, tool


def play_session(now: datetime | None = None) -> None:
    """Replay the recorded session of the demo. It ends :data:`ENDED_AGO` before ``now``."""
    transcript = read_transcript(settings.BASE_DIR / DEMO_SESSION)
    with _without_deadlines(), connect_in_process(system_actor("quickstart"), AGENT) as hub:
        for _ in Player(hub, transcript, outcomes=False).play((now or timezone.now()) - ENDED_AGO):
            pass


@contextmanager
def _without_deadlines() -> Iterator[None]:
    """Lift the deadlines of injections, so that a busy machine does not change the demo."""
    served = settings.MEMORYHUB
    settings.MEMORYHUB = served.model_copy(
        update={"injection_deadline_ms": 60_000, "tool_deadline_ms": 60_000}
    )
    try:
        yield
    finally:
        settings.MEMORYHUB = served

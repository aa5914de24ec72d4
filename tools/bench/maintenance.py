"""How long stores take while maintenance runs, and while a run is undone."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tools.bench.clients import Answer, Client
from tools.bench.figures import percentile

PAUSE = 0.02  # seconds between two stores of one agent
SECONDS_WITHOUT_RUN = 5.0
MAINTENANCE = "/api/v1/maintenance"
_ALL_LEVELS = "?limit=1&allow_private=true&allow_secret=true"
_EVERYTHING = (
    "UPDATE memoryhub_memory SET imported_at = NULL, consolidated_at = NULL, importance = 0.9,"
    " last_accessed_at = NULL, updated_at = datetime('now', '-40 days')"
)
_EVENTS = "UPDATE memoryhub_event SET at = datetime('now', '-400 days')"
# Statements that give each operation work: they make memories old, unimportant, expired or trashed.
PREPARATIONS: dict[str, tuple[str, ...]] = {
    "consolidate": (_EVERYTHING,),
    "summarize_old": (_EVERYTHING,),
    "compress": (_EVERYTHING,),
    "evict": (
        "UPDATE memoryhub_memory SET importance = 0.01, imported_at = NULL, last_accessed_at = NULL,"
        " updated_at = datetime('now', '-200 days') WHERE id % 20 = 0",
    ),
    "purge_expired": (
        "UPDATE memoryhub_memory SET expires_at = datetime('now', '-2 days') WHERE id % 50 = 1",
    ),
    "empty_trash": (
        "UPDATE memoryhub_memory SET deleted_at = datetime('now', '-2 days'), trash_reason = 'forgotten'"
        " WHERE id % 50 = 2",
    ),
    "prune_events": (_EVENTS, _EVENTS.replace("event ", "injection ")),
    "reindex": (),
    "embed": ("DELETE FROM memoryhub_embedding",),
}


def report(port: int, headers: Mapping[str, str], database: Path, seconds: float) -> Iterator[str]:
    """Return a line for each operation and its undo; a run is stopped after so many seconds."""
    until = time.monotonic() + SECONDS_WITHOUT_RUN
    alone = _store(Client(port, headers), lambda: time.monotonic() < until)
    yield _line("without a run", SECONDS_WITHOUT_RUN, alone)
    for operation, statements in PREPARATIONS.items():
        with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        run = _Run(port, headers, MAINTENANCE, {"operation": operation}, seconds)
        yield _line(f"during {operation} ({run.status})", run.seconds, run.stores)
        if run.details["undoable"]:
            undo = _Run(port, headers, f"{MAINTENANCE}/{run.details['id']}/undo", None, seconds)
            yield _line(f"during the undo of {operation} ({undo.status})", undo.seconds, undo.stores)


def _line(name: str, seconds: float, stores: list[Answer]) -> str:
    times = [1000 * answer.seconds for answer in stores]
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}
    figures = ", ".join(f"{share} {percentile(times, number):.1f}" for share, number in shares.items())
    return f"A store {name}, {seconds:.1f} s: {figures} ms."


class _Run:
    """A run of maintenance, next to an agent that stores again and again until the run has ended."""

    def __init__(
        self, port: int, headers: Mapping[str, str], path: str, body: dict[str, Any] | None, seconds: float
    ) -> None:
        self._client, self._limit = Client(port, headers), seconds
        began = time.monotonic()
        self.details = self._call("POST", path, body)
        self.status = self.details["status"]
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        self.stores = _store(Client(port, headers), watcher.is_alive)
        self.seconds = time.monotonic() - began

    def _watch(self) -> None:
        stop_at, path = time.monotonic() + self._limit, f"{MAINTENANCE}/{self.details['id']}"
        is_stopped = False
        while self.details["status"] in ("queued", "running"):
            if time.monotonic() > stop_at and not is_stopped:
                self._call("POST", f"{path}/stop")
                is_stopped = True
            time.sleep(0.2)
            self.details = self._call("GET", path + _ALL_LEVELS)
        self.status = "stopped" if is_stopped else self.details["status"]

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return json.loads(self._client.send(method, path, body)[1])


def _store(client: Client, goes_on: Callable[[], bool]) -> list[Answer]:
    """Store one memory after the other."""
    answers: list[Answer] = []
    while goes_on() or not answers:
        body = {"content": f"Note {len(answers)} of {time.time_ns()}", "project": "maintenance"}
        answers.append(client.send("POST", "/api/v1/memories", body)[0])
        time.sleep(PAUSE)
    return answers

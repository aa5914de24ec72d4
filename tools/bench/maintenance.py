"""What agents' writes wait for while maintenance is at work: beside each operation, and beside its undo."""

from __future__ import annotations

import http.client
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tools.bench.clients import Measured

GAP = 0.02  # seconds between two stores of the one writing agent
_ALL = "?limit=1&allow_private=true&allow_secret=true"
ALONE = 5.0  # seconds that it is measured without a run
_EVERYTHING = (
    "UPDATE memoryhub_memory SET imported_at = NULL, consolidated_at = NULL, importance = 0.9,"
    " last_accessed_at = NULL, updated_at = datetime('now', '-40 days')"
)
_EVENTS = "UPDATE memoryhub_event SET at = datetime('now', '-400 days')"
# What makes each operation find work: of a hundred memories so many are old, faded, past their time, trashed.
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
    "embed": ("DELETE FROM memoryhub_embedding",),  # asked for before the server begins it by itself
}


class Beside(NamedTuple):
    """What was measured beside one run: ``ended`` is its status, or "stopped" after the time it was given."""

    name: str
    ended: str
    seconds: float
    stores: Measured


def alone(port: int, token: str) -> Measured:
    """How long stores take without any run."""
    until = time.monotonic() + ALONE
    return _writing(port, token, "alone", lambda: time.monotonic() < until)


def beside_each(port: int, token: str, database: Path, most: float) -> Iterator[Beside]:
    """Every operation in turn, each for at most so many seconds, and its undo where there is one."""
    for name, statements in PREPARATIONS.items():
        with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        asked = {"operation": name}
        run, found = _beside(port, token, name, "/api/v1/maintenance", asked, most)
        yield found
        if _call(port, token, "GET", f"/api/v1/maintenance/{run}{_ALL}")["undoable"]:
            yield _beside(port, token, f"undo of {name}", f"/api/v1/maintenance/{run}/undo", None, most)[1]


def _beside(
    port: int, token: str, name: str, path: str, asked: dict[str, Any] | None, most: float
) -> tuple[str, Beside]:
    """Start something, and store again and again until it has ended, or was stopped after its time."""
    began = time.perf_counter()
    run = _call(port, token, "POST", path, asked)["id"]
    ended: list[str] = []

    def watch() -> None:
        while (status := _call(port, token, "GET", f"/api/v1/maintenance/{run}{_ALL}")["status"]) in (
            "queued",
            "running",
        ):
            if time.perf_counter() - began > most:
                _call(port, token, "POST", f"/api/v1/maintenance/{run}/stop")
                status = "stopped"
                while _call(port, token, "GET", f"/api/v1/maintenance/{run}{_ALL}")["status"] == "running":
                    time.sleep(0.2)
                break
            time.sleep(0.5)
        ended.append(status)

    threading.Thread(target=watch, daemon=True).start()
    stores = _writing(port, token, name, lambda: not ended)
    return run, Beside(name, ended[0], time.perf_counter() - began, stores)


def _writing(port: int, token: str, word: str, go_on: Callable[[], bool]) -> Measured:
    """One agent that stores again and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    seconds: list[float] = []
    statuses: dict[int, int] = {}
    began = time.perf_counter()
    while go_on():
        body = {"content": f"A note {word} {len(seconds)} of {began}", "project": "upkeep"}
        start = time.perf_counter()
        connection.request("POST", "/api/v1/memories", json.dumps(body), _headers(token))
        response = connection.getresponse()
        response.read()
        seconds.append(time.perf_counter() - start)
        statuses[response.status] = statuses.get(response.status, 0) + 1
        time.sleep(GAP)
    connection.close()
    return Measured(seconds, statuses, time.perf_counter() - began)


def _call(port: int, token: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body), _headers(token))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

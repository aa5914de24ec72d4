"""What agents' writes wait for while a maintenance run is at work on all memories."""

from __future__ import annotations

import http.client
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.clients import Measured

GAP = 0.02  # seconds between two stores of the one writing agent
ALONE = 5.0  # seconds that it is measured without a run
MOST = 240.0  # seconds after which a run is not waited for any longer


def age(database: Path) -> None:
    """As if all memories had been stored forty days ago and not been used since."""
    with sqlite3.connect(database, timeout=20) as connection:
        connection.execute(
            "UPDATE memoryhub_memory SET imported_at = NULL, consolidated_at = NULL, importance = 0.9,"
            " updated_at = datetime('now', '-40 days')"
        )
    connection.close()


def waits(port: int, token: str, operation: str) -> tuple[Measured, Measured, float]:
    """How long stores take alone, and while the operation runs; and how many seconds that took."""
    until = time.monotonic() + ALONE
    alone = _writing(port, token, "alone", lambda: time.monotonic() < until)
    began = time.perf_counter()
    run = _call(port, token, "POST", "/api/v1/maintenance", {"operation": operation})["id"]

    def is_running() -> bool:
        status = _call(port, token, "GET", f"/api/v1/maintenance/{run}?limit=1")["status"]
        return status in ("queued", "running") and time.perf_counter() - began < MOST

    done = threading.Event()

    def watch() -> None:
        while is_running():
            time.sleep(0.5)
        done.set()

    threading.Thread(target=watch, daemon=True).start()
    beside = _writing(port, token, "beside", lambda: not done.is_set())
    return alone, beside, time.perf_counter() - began


def _writing(port: int, token: str, word: str, go_on: Callable[[], bool]) -> Measured:
    """One agent that stores again and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    seconds, statuses, began = [], {}, time.perf_counter()
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

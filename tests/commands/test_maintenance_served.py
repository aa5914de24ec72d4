"""The server's own worker, in a real server: it works beside the requests, and ends and begins with it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.commands import hub as hubs
from tests.commands.hub import Hub

pytestmark = pytest.mark.slow
MANY = 3000
# A run of many short steps with pauses takes minutes, so that it is not done before its server ends.
SLOW_RUNS = """
import os, runpy, time
os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
import django
django.setup()
from memoryhub.maintenance.operations.base import Pace
Pace.page = lambda pace, rows, weigh: rows[:1]
Pace.after = lambda pace, step: time.sleep(0.1)
runpy.run_path("manage.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """A real store with memories that have not been read for a while."""
    hub = hubs.copy(tmp_path_factory.mktemp("maintenance"))
    assert hub.run("migrate", "--verbosity", "0").returncode == 0
    (hub.folder / "slow_runs.py").write_text(SLOW_RUNS)
    lines = hub.folder / "memories.jsonl"
    lines.write_text("".join(json.dumps({"content": f"memory {n}"}) + "\n" for n in range(MANY)))
    assert hub.run("import_memories", str(lines)).returncode == 0
    return hub


@pytest.fixture(scope="module")
def token(hub: Hub) -> str:
    return hub.run("create_token", "keeper", "--rights", "read,maintain").stdout.strip()


@pytest.fixture
def aged(hub: Hub) -> None:
    """As if nothing had been done with them for ten days."""
    store(
        hub,
        "UPDATE memoryhub_memory SET importance = 0.5, consolidated_at = NULL, imported_at = NULL,"
        " updated_at = datetime('now', '-10 days')",
    )


def store(hub: Hub, statement: str) -> list[Any]:
    with closing(sqlite3.connect(hub.home / ".letsgo/memory.db", timeout=20)) as file, file:
        return file.execute(statement).fetchall()


def call(port: int, token: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def until(look: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def serve(hub: Hub, port: int, **more: str) -> Any:
    return hub.serving(port, "serve", "--port", str(port), "--workers", "2", **more)


def stop(process: Any) -> None:
    """Stop it like a service manager does."""
    os.kill(process.pid, signal.SIGTERM)
    hubs.wait_until_it_ended(process)


def test_a_run_executes_during_requests_and_an_idle_server_stops_at_once(hub, token, aged):
    port = hubs.free_port()
    with serve(hub, port) as process:
        run = call(port, token, "/maintenance", {"operation": "consolidate"})
        assert run["status"] == "queued"
        until(lambda: call(port, token, f"/maintenance/{run['id']}")["status"] == "done")
        body = call(port, token, f"/maintenance/{run['id']}")
        assert body["result"]["counts"] == {"decay": MANY}
        stop(process)


def test_a_server_that_ends_leaves_its_run_to_the_next(hub, token, aged):
    port = hubs.free_port()
    with serve(hub, port, program="slow_runs.py") as process:
        uid = call(port, token, "/maintenance", {"operation": "consolidate"})["id"]
        until(lambda: call(port, token, f"/maintenance/{uid}?limit=1")["done"] > 0)
        stop(process)
    [(status, done)] = store(hub, f"SELECT status, done FROM memoryhub_maintenancerun WHERE uid = '{uid}'")
    assert (status, 0 < done < MANY) == ("queued", True)
    port = hubs.free_port()
    with serve(hub, port):
        until(lambda: call(port, token, f"/maintenance/{uid}?limit=1")["status"] == "done")
        body = call(port, token, f"/maintenance/{uid}")
        assert body["result"]["counts"] == {"decay": MANY}, "nothing twice, nothing left out"


def test_run_of_a_server_that_was_killed_continues_at_the_next_start(hub, token, aged):
    port = hubs.free_port()
    with serve(hub, port, program="slow_runs.py") as process:
        uid = call(port, token, "/maintenance", {"operation": "consolidate"})["id"]
        until(lambda: call(port, token, f"/maintenance/{uid}?limit=1")["done"] > 0)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    [(status, done)] = store(hub, f"SELECT status, done FROM memoryhub_maintenancerun WHERE uid = '{uid}'")
    assert (status, 0 < done < MANY) == ("running", True)
    port = hubs.free_port()
    with serve(hub, port):
        until(lambda: call(port, token, f"/maintenance/{uid}?limit=1")["status"] == "done")
        assert call(port, token, f"/maintenance/{uid}")["result"]["counts"] == {"decay": MANY}


def test_the_command_executes_runs_if_the_worker_is_switched_off(hub, token, aged):
    port = hubs.free_port()
    with serve(hub, port, MEMORYHUB_MAINTENANCE_WORKER="false"):
        run = call(port, token, "/maintenance", {"operation": "consolidate", "dry_run": True})
        assert "manage.py maintain --waiting" in run["detail"]
        time.sleep(2)
        assert call(port, token, f"/maintenance/{run['id']}")["status"] == "queued"
        ran = hub.run("maintain", "--waiting")
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == "" or f"{MANY:,}" in ran.stdout
        assert call(port, token, f"/maintenance/{run['id']}")["status"] == "done"

"""CPU time and SQL statements of requests in this process: ``python -m tools.bench.in_process < JOB``.

The job is JSON: ``headers`` of all requests, and ``requests`` by name of the workload. If it ``inspects``,
memories are inspected for injected instructions first. The last :data:`COUNTED` requests of each workload are
not timed; their statements are captured. Prints JSON: by name, ``cpu`` in milliseconds and ``statements`` of
each request.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TRANSACTION_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
WARM_UP = 3  # requests of each workload that are not measured
INSPECTED_TURNS = 400  # of 50 memories each
COUNTED = 3  # requests of each workload whose statements are counted


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
    os.environ["MEMORYHUB_ALLOWED_HOSTS"] = "testserver"
    import django

    django.setup()
    from django.test import Client

    from memoryhub.ops import worker

    worker.load()  # as a process of the server does before its first request
    job = json.load(sys.stdin)
    if job["inspects"]:
        inspect_memories()
    client = Client(headers=job["headers"], raise_request_exception=False)
    found = {name: measure(client, requests) for name, requests in job["requests"].items()}
    json.dump(found, sys.stdout)


def inspect_memories() -> None:
    """Inspect memories for injected instructions, as the server does in its idle time.

    At most :data:`INSPECTED_TURNS` times :data:`~memoryhub.ops.worker.BATCH_SIZE` of those that were not
    inspected before. Each takes some milliseconds, so a store of a million would take hours.
    """
    from memoryhub.ops.worker import FlaggingWorker

    inspector = FlaggingWorker(rest_factor=0)
    for _ in range(INSPECTED_TURNS):
        if not inspector.run_once():
            break


def measure(client: Any, requests: list[Any]) -> dict[str, list[float]]:
    """Return the CPU time of each request after the warm-up, and the statements of the last ones."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    cpu: list[float] = []
    statements: list[float] = []
    for number, (method, path, body) in enumerate(requests):
        if number >= len(requests) - COUNTED:
            with CaptureQueriesContext(connection) as captured:
                send(client, method, path, body)
            texts = [query["sql"] for query in captured.captured_queries]
            statements.append(sum(not text.startswith(TRANSACTION_CONTROL) for text in texts))
            continue
        began = time.process_time()
        send(client, method, path, body)
        if number >= WARM_UP:
            cpu.append(1000 * (time.process_time() - began))
    return {"cpu": cpu, "statements": statements}


@contextmanager
def empty_store() -> Iterator[None]:
    """Set up Django with a new store, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as home:
        os.environ["LETSGO_HOME"] = home
        os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield


def send(client: Any, method: str, path: str, body: Any) -> None:
    text = "" if body is None else json.dumps(body)
    response = client.generic(method, path, text, "application/json")
    if response.status_code >= 300:
        sys.exit(f"{method} {path} answered {response.status_code}: {response.content[:300]!r}")
    b"".join(response) if response.streaming else response.content


if __name__ == "__main__":
    main()

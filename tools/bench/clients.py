"""Clients of a running hub: processes of their own, each with one kept-alive connection."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Request = tuple[str, str, dict[str, Any] | None]  # method, path, body


@dataclass(frozen=True)
class Measured:
    """What a crowd of clients saw: seconds of each request, how often each status came, seconds in all."""

    seconds: list[float]
    statuses: dict[int, int]
    elapsed: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.elapsed

    def percentile(self, share: float) -> float:
        """Milliseconds within which this share of the requests was answered."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def crowd(port: int, token: str, requests: Sequence[Request], clients: int) -> Measured:
    """Share the requests out among so many clients that start together."""
    context = multiprocessing.get_context("spawn")
    ready, start, answers = context.Semaphore(0), context.Event(), context.Queue()
    shares = [list(requests[n::clients]) for n in range(clients)]
    workers = [
        context.Process(target=_work, args=(port, token, share, ready, start, answers)) for share in shares
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    began = time.perf_counter()
    start.set()
    results = [answers.get() for _ in workers]
    elapsed = time.perf_counter() - began
    for worker in workers:
        worker.join()
    seconds = [taken for share in results for taken, _ in share]
    statuses: dict[int, int] = {}
    for _, status in (one for share in results for one in share):
        statuses[status] = statuses.get(status, 0) + 1
    return Measured(seconds, statuses, elapsed)


def _work(port: int, token: str, requests: list[Request], ready: Any, start: Any, answers: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    bodies = [(method, path, None if body is None else json.dumps(body)) for method, path, body in requests]
    connection.connect()
    ready.release()
    start.wait()
    seen = []
    for method, path, body in bodies:
        began = time.perf_counter()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        seen.append((time.perf_counter() - began, response.status))
    answers.put(seen)

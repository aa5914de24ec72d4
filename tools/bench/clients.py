"""HTTP clients: processes with one kept-alive connection each."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Request = tuple[str, str, dict[str, Any] | None]  # method, path, body
TIMEOUT = 300


class Answer(NamedTuple):
    """Seconds until the headers of a response arrived, seconds until all of it arrived, and its status."""

    first_byte: float
    seconds: float
    status: int


@dataclass(frozen=True)
class Measured:
    """The answers that all clients got, and the seconds from the first request to the last answer."""

    answers: list[Answer]
    elapsed: float

    @property
    def rate(self) -> float:
        """Return the number of requests per second."""
        return len(self.answers) / self.elapsed

    @property
    def failed(self) -> int:
        return sum(not 200 <= answer.status < 300 for answer in self.answers)

    def milliseconds(self, *, first_byte: bool = False) -> list[float]:
        """Return the time of each request, up to the first byte or to the last."""
        return [1000 * (answer.first_byte if first_byte else answer.seconds) for answer in self.answers]


class Client:
    """One connection."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self._headers = {"Content-Type": "application/json", **headers}
        self._connection.connect()

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[Answer, bytes]:
        """Send a request; status 0 means that the connection failed."""
        self._close_if_ended()
        text = None if body is None else json.dumps(body)
        began = time.perf_counter()
        try:
            self._connection.request(method, path, text, self._headers)
            response = self._connection.getresponse()
            first_byte = time.perf_counter() - began
            content, status = response.read(), response.status
        except (OSError, http.client.HTTPException):
            self.close()  # the next request opens it again
            first_byte, content, status = time.perf_counter() - began, b"", 0
        return Answer(first_byte, time.perf_counter() - began, status), content

    def _close_if_ended(self) -> None:
        """Close the connection if the server has ended it, as the hub does after 30 idle seconds.

        Before a request, the socket is only readable if the connection has ended.
        """
        sock = self._connection.sock
        if sock is not None:
            waiting = select.poll()
            waiting.register(sock, select.POLLIN)
            if waiting.poll(0):
                self.close()  # the request opens it again

    @staticmethod
    def decode(content: bytes) -> Any:
        """Return the JSON of an answer, or {} for another one."""
        try:
            return json.loads(content)
        except ValueError:
            return {}

    def close(self) -> None:
        self._connection.close()


def crowd(port: int, headers: Mapping[str, str], requests: Sequence[Request], clients: int) -> Measured:
    """Share the requests among clients that start together."""
    context = multiprocessing.get_context("fork")
    ready, start, answers = context.Semaphore(0), context.Event(), context.Queue()
    shares = [list(requests[number::clients]) for number in range(clients)]
    workers = [
        context.Process(target=_send_all, args=(port, headers, share, ready, start, answers))
        for share in shares
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
    return Measured([answer for share in results for answer in share], elapsed)


def _send_all(
    port: int, headers: Mapping[str, str], requests: list[Request], ready: Any, start: Any, answers: Any
) -> None:
    client = Client(port, headers)
    ready.release()
    start.wait()
    answers.put([client.send(*request)[0] for request in requests])
    client.close()

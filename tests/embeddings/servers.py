"""An embeddings endpoint on loopback with scripted misbehaviour."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from tools.bench.hub import free_port

DIMENSIONS = 24


def vector(text: str) -> list[float]:
    """Return a bag-of-words vector: each word adds its own numbers."""
    found = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()) or ["?"]:
        digest = hashlib.blake2b(word.encode(), digest_size=DIMENSIONS).digest()
        found = [one + byte / 128 - 1 for one, byte in zip(found, digest, strict=True)]
    return found


def good(texts: list[str]) -> dict[str, Any]:
    return {"object": "list", "data": [{"index": at, "embedding": vector(t)} for at, t in enumerate(texts)]}


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        behave = self.server.script.pop(0) if self.server.script else self.server.usual
        behave(self, body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say_json(self, shape: Any) -> None:
        self.say(200, json.dumps(shape).encode())


Behaviour = Callable[[Handler, dict[str, Any]], None]
Served = TypeVar("Served", bound="Endpoint")


class Endpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.script: list[Behaviour] = []
        self.usual: Behaviour = fine
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up, which some tests do."""


@contextmanager
def serving() -> Iterator[Endpoint]:
    with run(Endpoint()) as server:
        yield server


@contextmanager
def run(endpoint: Served) -> Iterator[Served]:
    """Serve until the block ends."""
    with endpoint as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def unused_url() -> str:
    return f"http://127.0.0.1:{free_port()}/v1"


# Behaviours


def fine(handler: Handler, body: dict[str, Any]) -> None:
    handler.say_json(good(body["input"]))


def status(code: int, text: str = "no", **headers: str) -> Behaviour:
    return lambda handler, body: handler.say(code, text.encode(), **headers)


def raw(body: bytes) -> Behaviour:
    return lambda handler, _: handler.say(200, body)


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Behaviour:
    """Return a valid answer with changed data."""
    return lambda handler, body: handler.say_json({"data": change(good(body["input"])["data"])})


def silent(handler: Handler, body: dict[str, Any]) -> None:
    handler.server.stopping.wait(30)


def trickling(handler: Handler, body: dict[str, Any]) -> None:
    """Send a byte at a time, each within a per-read timeout."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 250\r\n\r\n" + b" " * 250
    for at in range(len(whole)):
        handler.wfile.write(whole[at : at + 1])
        handler.wfile.flush()
        if handler.server.stopping.wait(0.02):
            return


def endless(handler: Handler, body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.stopping.is_set():
        handler.wfile.write(b" " * 65_536)


def hanging_up(handler: Handler, body: dict[str, Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def no_http(handler: Handler, body: dict[str, Any]) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


def picky(most_chars: int, most_texts: int = 10_000) -> Behaviour:
    """Refuse longer texts or larger batches."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        texts = body["input"]
        fits = len(texts) <= most_texts and all(len(text) <= most_chars for text in texts)
        (fine if fits else status(400, "maximum context length exceeded"))(handler, body)

    return behave

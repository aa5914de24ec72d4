"""Request smuggling and slow clients, with raw sockets against ``manage.py serve``."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from contextlib import ExitStack

import pytest

from tests.mcp.conftest import Served, served

__all__ = ["served"]

BODY = '{"query": "zebra"}'
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"

# Header lines and the body of requests whose end is ambiguous or wrong.
REFUSED: dict[str, tuple[list[str], str]] = {
    "two lengths": ([LENGTH, "Content-Length: 9"], BODY),
    "a list of lengths": ([f"{LENGTH}, {len(BODY)}"], BODY),
    "a length with a plus": ([f"Content-Length: +{len(BODY)}"], BODY),
    "a negative length": (["Content-Length: -1"], BODY),
    "a hexadecimal length": (["Content-Length: 0xd"], BODY),
    "a huge length": (["Content-Length: 99999999999999999999999"], BODY),
    "an unknown coding": (["Transfer-Encoding: xchunked"], CHUNKS),
    "an unknown coding and a length": (["Transfer-Encoding: xchunked", LENGTH], BODY),
    "a coding that ends otherwise": (["Transfer-Encoding: chunked, identity"], CHUNKS),
    "no coding and a length": (["Transfer-Encoding: identity", LENGTH], BODY),
    "two codings": ([CHUNKED, "Transfer-Encoding: identity"], CHUNKS),
    "a space before the colon": (["Transfer-Encoding : chunked", LENGTH], BODY),
    "a folded coding": (["Transfer-Encoding:\r\n chunked", LENGTH], BODY),
    "a folded header": (["X-A: b\r\n Content-Length: 5", LENGTH], BODY),
    "a bare carriage return": (["X-A: b\rContent-Length: 3", LENGTH], BODY),
    "a null byte": (["X-A: b\0c", LENGTH], BODY),
    "a size with a prefix": ([CHUNKED], f"0x{CHUNKS}"),
    "a size with a plus": ([CHUNKED], f"+{CHUNKS}"),
    "a size that overflows": ([CHUNKED], "FFFFFFFFFFFFFFFFF1\r\nx"),
    "chunks that end with a line feed": ([CHUNKED], CHUNKS.replace("\r\n", "\n")),
    "a chunk without its end": ([CHUNKED], f"{len(BODY):x}\r\n{BODY}0\r\n\r\n"),
    "a line feed in a chunk extension": ([CHUNKED], f"{len(BODY):x};a\nb\r\n{BODY}\r\n0\r\n\r\n"),
    "a length in a trailer": ([CHUNKED], f"{len(BODY):x}\r\n{BODY}\r\n0\r\nContent-Length: 5\r\n\r\n"),
}
# Requests that HTTP lets a server answer, but never together with what follows on the connection.
ANSWERED_ONCE: dict[str, tuple[list[str], str]] = {
    "a length before chunks": ([f"Content-Length: {len(CHUNKS) + 5}", CHUNKED], CHUNKS),
    "chunks before a length": ([CHUNKED, LENGTH], CHUNKS),
    "a short length before chunks": (["Content-Length: 4", CHUNKED], CHUNKS),
}


def request(served: Served, lines: list[str], body: str, path: str = "/api/v1/search") -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {served.token}",
        "Content-Type: application/json",
        *lines,
    ]
    return ("\r\n".join([*head, "", ""]) + body).encode()


def smuggled(served: Served, name: str) -> bytes:
    """Return a request that stores a memory, if the server takes it for one."""
    body = json.dumps({"content": f"smuggled with {name}"})
    return request(served, [f"Content-Length: {len(body)}"], body, "/api/v1/memories")


def is_stored(served: Served, name: str) -> bool:
    headers = {"Authorization": f"Bearer {served.token}"}
    asked = urllib.request.Request(f"{served.base}/api/v1/memories?limit=200", headers=headers)
    with urllib.request.urlopen(asked, timeout=60) as response:
        found = json.load(response)["items"]
    return f"smuggled with {name}" in {one["preview"] for one in found}


def send(served: Served, data: bytes) -> list[str]:
    """Send bytes and return the status lines of the responses, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        client.sendall(data)
        return status_lines(client)


def status_lines(client: socket.socket) -> list[str]:
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionResetError:  # closed with bytes that it had not read
        pass
    return re.findall(r"HTTP/1\.1 \d{3} [A-Za-z ]+", found.decode("latin-1"))


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_request_is_refused_and_the_connection_closed(served: Served, name: str) -> None:
    lines, body = REFUSED[name]
    assert send(served, request(served, lines, body) + smuggled(served, name)) in (
        ["HTTP/1.1 400 Bad Request"],
        [],  # reset before the answer could be read
    )
    assert not is_stored(served, name)


@pytest.mark.parametrize("name", ANSWERED_ONCE)
def test_connection_is_closed_after_a_length_with_chunks(served: Served, name: str) -> None:
    lines, body = ANSWERED_ONCE[name]
    assert send(served, request(served, lines, body) + smuggled(served, name)) in (["HTTP/1.1 200 OK"], [])
    assert not is_stored(served, name)


def test_requests_with_clear_ends_may_follow_each_other(served: Served) -> None:
    """The second request of the other tests would be executed if the first one ended before it."""
    data = request(served, [LENGTH], BODY) + request(served, [CHUNKED], CHUNKS)
    last = smuggled(served, "nothing").replace(b"\r\nHost", b"\r\nConnection: close\r\nHost", 1)
    expected = ["HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 201 Created"]
    assert send(served, data + last) == expected
    assert is_stored(served, "nothing")


def test_upgrade_to_http_2_is_ignored(served: Served) -> None:
    upgrade = [
        "Connection: Upgrade, HTTP2-Settings, close",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
    ]
    assert send(served, request(served, [*upgrade, LENGTH], BODY)) == ["HTTP/1.1 200 OK"]
    assert send(served, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == []


@pytest.mark.parametrize(
    "head",
    [
        "POST http://evil.example/api/v1/search HTTP/1.1\r\nHost: evil.example",
        "POST /api/v1/search HTTP/1.1\r\nHost: evil.example",
        "POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nHost: evil.example",
        "POST /api/v1/search HTTP/1.1",
    ],
)
def test_foreign_or_doubtful_host_is_refused(served: Served, head: str) -> None:
    _, rest = request(served, ["Connection: close", LENGTH], BODY).decode().split("Host: localhost", 1)
    assert send(served, (head + rest).encode()) == ["HTTP/1.1 400 Bad Request"]


def test_slow_clients_neither_block_others_nor_stay(served: Served) -> None:
    """More of them than the server has threads: heads byte by byte, bodies that stall, answers not read."""
    head = request(served, [LENGTH], "")
    with ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))

        dripping, stalled, silent = ([connect() for _ in range(20)] for _ in range(3))
        for client in dripping:
            client.sendall(b"POST /api/v1/search HTTP/1.1\r\nHost: local")
        for client in stalled:
            client.sendall(head + b"{")
        assert not is_stored(served, "patience")  # others are served meanwhile
        assert {tuple(status_lines(client)) for client in stalled} == {("HTTP/1.1 408 Request Timeout",)}
        for _ in range(120):  # each byte comes in time, the head never does
            if _drip(dripping) == 0:
                break
            time.sleep(1)
        else:
            pytest.fail("the server waits for heads that never end")
        assert [status_lines(client) for client in silent] == [[]] * len(silent)
        assert not is_stored(served, "patience")


def _drip(clients: list[socket.socket]) -> int:
    """Send one byte to each connection and return how many of them the server has left open."""
    left = 0
    for client in clients:
        try:
            client.sendall(b"h")
            left += 1
        except OSError:
            continue
    return left

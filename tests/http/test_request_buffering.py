"""Clients that send or read slowly do not block others, tested through granian."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from memoryhub.http.rsgi import BUFFER_BYTES
from tests.commands import hub as hubs
from tests.http.buffered_app import PIECE

CHUNKED = "Transfer-Encoding: chunked"


@contextmanager
def served(seconds: float) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a server; yield its port and process. ``seconds``: how long it waits for a client."""
    port = hubs.free_port()
    options = [
        "--interface",
        "rsgi",
        "--no-ws",
        "--http",
        "1",
        "--backpressure",
        "512",
        "--log-level",
        "critical",
    ]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "granian",
            *options,
            "--port",
            str(port),
            "tests.http.buffered_app:application",
        ],
        cwd=hubs.ROOT,
        env={**os.environ, "SECONDS": str(seconds)},
        start_new_session=True,
    )
    try:
        for _ in range(1800):  # a busy machine takes its time
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the worker too
        process.wait()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server that waits for clients longer than a busy machine delays them."""
    with served(120) as (port, _):
        yield port


@pytest.fixture(scope="module")
def impatient() -> Iterator[int]:
    """Of a server that waits for clients for a second."""
    with served(1) as (port, _):
        yield port


def ask(port, path, body=None, method=None, **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read()


def state(port):
    return json.loads(ask(port, "/state")[1])


def wait_until(port, name, value):
    """Wait until the server reports this value."""
    for _ in range(600):
        if (now := state(port))[name] >= value:
            return now
        time.sleep(0.1)
    pytest.fail(f"{name} never became {value}: {now}")


@contextmanager
def speaking(port, head, body=b""):
    """Open a connection and send this, without closing it."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        client.sendall("\r\n".join([head, "Host: localhost", "", ""]).encode() + body)
        yield client


def all_of(client):
    content = b""
    while found := client.recv(65536):
        content += found
    return content


@pytest.mark.parametrize(
    "size", [0, 1, 1000, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, 20 * BUFFER_BYTES]
)
def test_body_arrives_whole(port, size):
    sent = (b"0123456789" * (size // 10 + 1))[:size]
    assert ask(port, "/echo", sent)[1] == sent


@pytest.mark.parametrize("size", [0, 1, 1000, 3 * BUFFER_BYTES])
def test_chunked_body_arrives_whole(port, size):
    sent = (b"0123456789" * (size // 10 + 1))[:size]
    assert ask(port, "/echo", iter([sent[:500], sent[500:]]))[1] == sent


@pytest.mark.parametrize("size", [10, BUFFER_BYTES + 10])
def test_body_can_be_read_by_line(port, size):
    sent = b"one\ntwo\n" + b"x" * size
    assert ask(port, "/lines", sent)[1] == sent.upper()


def test_expect_100_continue_is_answered(port):
    head = "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 3"
    with speaking(port, head) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"hay")
        assert all_of(client).endswith(b"\r\n\r\nhay")


@pytest.mark.parametrize(
    ("length", "body"),
    [("Content-Length: 100", b"{"), (f"Content-Length: {9 * BUFFER_BYTES}", b"{"), (CHUNKED, b"1\r\n{\r\n")],
    ids=["short", "long", "chunked"],
)
def test_stalled_body_is_408_and_closes_the_connection(impatient, length, body):
    with speaking(impatient, f"POST /echo HTTP/1.1\r\n{length}", body) as client:
        answer = all_of(client)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b'"code": "too_slow"' in answer


def test_stalled_rest_of_a_long_body_is_cancelled(impatient):
    with speaking(
        impatient, f"POST /echo HTTP/1.1\r\nContent-Length: {9 * BUFFER_BYTES}", bytes(2 * BUFFER_BYTES)
    ) as client:
        assert all_of(client).startswith(b"HTTP/1.1 500 "), "what this application does with an error"
    assert ask(impatient, "/echo", b"hay")[1] == b"hay"


@pytest.mark.parametrize(
    ("length", "body"),
    [("Content-Length: 9", b"{"), (CHUNKED, b"1\r\n{\r\n5\r\n{")],
    ids=["length", "chunked"],
)
def test_incomplete_body_does_not_reach_the_application(port, length, body):
    with speaking(port, f"POST /echo HTTP/1.1\r\n{length}", body) as client:
        client.shutdown(socket.SHUT_WR)
        answer = all_of(client)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'"code": "unreadable_body"' in answer


def test_stalled_clients_occupy_no_thread(port):
    before = state(port)["threads"]
    with ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(speaking(port, "POST /echo HTTP/1.1\r\nContent-Length: 9", b"{"))
        assert state(port)["threads"] <= before + 2, "the two that work may not have been needed before"
        assert ask(port, "/echo", b"hay")[1] == b"hay"


@pytest.mark.parametrize("size", [BUFFER_BYTES, 20 * BUFFER_BYTES])
def test_client_that_sends_an_unread_body_whole_gets_the_response(port, size):
    with speaking(port, f"POST /unread HTTP/1.1\r\nContent-Length: {size}", bytes(size)) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"HTTP/1.1 200 " in all_of(client), "the connection stays usable"


def test_client_that_never_ends_an_unread_body_is_disconnected(impatient):
    head = f"POST /unread HTTP/1.1\r\nContent-Length: {9 * BUFFER_BYTES}"
    with speaking(impatient, head, bytes(2 * BUFFER_BYTES)) as client:
        assert all_of(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 300])
def test_streaming_response_arrives_whole_and_is_closed(port, number):
    before = state(port)
    assert ask(port, f"/pieces?{number}")[1] == PIECE * number
    after = wait_until(port, "left", before["left"] + 1)
    assert after["closed"] == before["closed"] + 1


@pytest.mark.parametrize("number", [4, 40])
def test_failed_streaming_response_does_not_look_complete(port, number):
    before = state(port)
    with pytest.raises(http.client.IncompleteRead):
        ask(port, f"/failing?{number}")
    assert wait_until(port, "left", before["left"] + 1)["closed"] == before["closed"] + 1
    assert ask(port, "/echo", b"hay")[1] == b"hay"


def test_head_generates_nothing_of_a_streaming_response(port):
    before = state(port)
    answer, content = ask(port, "/pieces?300", method="HEAD")
    assert (answer.status, content) == (200, b"")
    after = wait_until(port, "closed", before["closed"] + 1)
    assert (after["made"], after["closed"]) == (before["made"], before["closed"] + 1)


def test_streaming_response_that_fails_at_once_is_500(port):
    before = state(port)
    assert ask(port, "/failing?1")[0].status == 500
    assert wait_until(port, "left", before["left"] + 1)["closed"] == before["closed"] + 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends such connections")
def test_client_that_stops_reading_is_disconnected(impatient):
    before = state(impatient)
    with speaking(impatient, "GET /pieces?100000 HTTP/1.1") as client:
        assert client.recv(12) == b"HTTP/1.1 200"
        after = wait_until(impatient, "left", before["left"] + 1)
    assert after["closed"] == before["closed"] + 1
    assert after["made"] - before["made"] < 64 * 1024 * 1024, "what the system keeps for a connection"


def test_client_that_leaves_ends_the_response(port):
    before = state(port)
    with speaking(port, "GET /pieces?100000 HTTP/1.1") as client:
        assert client.recv(12) == b"HTTP/1.1 200"
    assert wait_until(port, "left", before["left"] + 1)["closed"] == before["closed"] + 1


def test_more_stalled_readers_than_threads_block_no_one(port):
    before = state(port)
    with ExitStack() as stack:
        for _ in range(6):
            client = stack.enter_context(speaking(port, "GET /pieces?100000 HTTP/1.1"))
            assert client.recv(12) == b"HTTP/1.1 200"
        assert ask(port, "/echo", b"hay")[1] == b"hay"
    wait_until(port, "left", before["left"] + 6)  # the next tests count too


def test_application_error_is_500_and_the_next_request_works(port):
    assert ask(port, "/broken")[0].status == 500
    assert ask(port, "/echo", b"hay")[1] == b"hay"


def test_header_may_be_repeated(port):
    answer, _ = ask(port, "/unread")
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]


def test_environ_follows_wsgi(port):
    head = [
        "GET /words/caf%C3%A9/a%20b?q=%C3%A9 HTTP/1.1",
        "Connection: close",
        "Cookie: a=1",
        "Cookie: b=2",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-For: 192.0.2.2",
        "X_Forwarded_For: 192.0.2.3",
        "Content-Type: text/plain",
    ]
    with speaking(port, "\r\n".join(head)) as client:
        found = json.loads(all_of(client).partition(b"\r\n\r\n")[2])
    assert found["PATH_INFO"].encode("latin-1").decode() == "/words/café/a b"
    assert found["QUERY_STRING"] == "q=%C3%A9"
    assert found["HTTP_COOKIE"] == "a=1;b=2"
    assert found["HTTP_X_FORWARDED_FOR"] == "192.0.2.1,192.0.2.2"
    assert found["CONTENT_TYPE"] == "text/plain"
    assert found["REMOTE_ADDR"] == found["SERVER_NAME"] == "127.0.0.1"
    assert found["SERVER_PORT"] == str(port)
    assert found["SERVER_PROTOCOL"] == "HTTP/1.1"
    assert (found["REQUEST_METHOD"], found["wsgi.url_scheme"]) == ("GET", "http")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_request_without_host_does_not_get_the_server_name(port, version):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        client.sendall(f"GET /words HTTP/{version}\r\nConnection: close\r\n\r\n".encode())
        found = json.loads(all_of(client).partition(b"\r\n\r\n")[2])
    assert found["HTTP_HOST"] == "", "which Django refuses; without it the server's name would count"
    assert found["SERVER_PROTOCOL"] == f"HTTP/{version}"


@pytest.mark.parametrize("value", [b"\xff, 192.0.2.1", "café, 192.0.2.1".encode()])
def test_unreadable_header_is_not_treated_as_missing(port, value):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        head = b"GET /words HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: "
        client.sendall(head + value + b"\r\n\r\n")
        found = json.loads(all_of(client).partition(b"\r\n\r\n")[2])
    assert found["HTTP_X_FORWARDED_FOR"] == "?"
    assert found["HTTP_HOST"] == "localhost"


def test_shutdown_waits_for_running_requests():
    with served(120) as (port, process), speaking(port, "GET /patiently HTTP/1.1") as client:
        wait_until(port, "working", 1)
        process.send_signal(signal.SIGTERM)
        assert all_of(client).endswith(b"done")
        assert process.wait(120) == 0

"""The production server."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from memoryhub import settings
from memoryhub.core.network import is_loopback
from memoryhub.http.rsgi import BUFFER_BYTES
from memoryhub.ops import serving
from tests.commands import hub as hubs
from tests.commands.hub import Hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """A real store, migrated and empty."""
    hub = hubs.copy(tmp_path_factory.mktemp("serve"))
    done = hub.run("migrate", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    return hub


def status(port: int, host: str = "localhost", path: str = "/api/v1/stats") -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_it_serves_with_secrets_from_files(hub, tmp_path):
    key = tmp_path / "key"
    key.write_text("a-secret-key-that-is-long-enough-for-anyone-to-be-happy-with-it\n")
    names = {"MEMORYHUB_ALLOWED_HOSTS": "hub.example.org,localhost,127.0.0.1"}
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), MEMORYHUB_SECRET_KEY_FILE=str(key), **names):
        assert status(port, "hub.example.org") == 401


def test_a_host_that_is_not_allowed_is_refused(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port)):
        assert status(port, "evil.example") == 400
        assert status(port, "evil.example", "/login") == 400, "a page, and no error of its own"
        assert status(port, "localhost") == 401


def test_several_workers_serve_one_store_and_end_with_their_parent(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", "2", "--threads", "2") as process:
        assert status(port) == 401
        os.kill(process.pid, signal.SIGTERM)  # as systemd does it
        process.communicate(timeout=120)
    assert process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)


def test_a_worker_that_was_killed_is_replaced(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", "1") as process:
        [worker] = _children(process.pid)
        os.kill(worker, signal.SIGKILL)
        hubs.wait_until_it_answers(process, port)
        assert _children(process.pid) not in ([], [worker])
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_workers_end_when_the_main_process_is_killed(hub, workers):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", workers) as process:
        children = _children(process.pid)
        assert len(children) == int(workers)
        try:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=120)
            _wait_until(lambda: not any(map(_lives, children)))
            _wait_until(lambda: not _listens(port))
        finally:
            for child in filter(_lives, children):
                os.kill(child, signal.SIGKILL)


def test_a_killed_server_starts_again_on_the_same_port(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", "2") as killed:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(timeout=120)
        with hub.starting("serve", "--port", str(port), "--workers", "1") as started:
            _wait_until(lambda: started.poll() is not None or bool(_children(started.pid)))
            hubs.wait_until_it_answers(started, port)
            assert status(port) == 401


WITHOUT_WATCH = """
import os, runpy
os.environ["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
import django
django.setup()
from memoryhub.ops import worker
worker.SECONDS_BETWEEN_CHECKS = 3600
runpy.run_path("manage.py", run_name="__main__")
"""
SLOW_WORKERS = """
import multiprocessing.process, runpy, time
run = multiprocessing.process.BaseProcess.run
def run_late(self):
    time.sleep(5)
    run(self)
multiprocessing.process.BaseProcess.run = run_late
runpy.run_path("manage.py", run_name="__main__")
"""

# The thread that gets the exit code of a worker is slow to pass it on.
SLOW_WATCHERS = """
import os, runpy, threading, time
wait = os.waitpid
def wait_and_rest(*arguments):
    found = wait(*arguments)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(2)
    return found
os.waitpid = wait_and_rest
runpy.run_path("manage.py", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends a signal when the parent ends")
def test_the_kernel_ends_workers_of_a_killed_main_process(hub):
    port = hubs.free_port()
    (hub.folder / "without_watch.py").write_text(WITHOUT_WATCH)
    arguments = ("serve", "--port", str(port), "--workers", "2")
    with hub.serving(port, *arguments, program="without_watch.py") as process:
        children = _children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=120)
        _wait_until(lambda: not any(map(_lives, children)))


def test_a_worker_that_loads_ends_when_the_main_process_is_killed(hub):
    port = hubs.free_port()
    with hub.starting("serve", "--port", str(port), "--workers", "1") as process:
        _wait_until(lambda: process.poll() is not None or bool(_children(process.pid)))
        children = _children(process.pid)
        assert children
        try:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=120)
            _wait_until(lambda: not any(map(_lives, children)))
        finally:
            for child in filter(_lives, children):
                os.kill(child, signal.SIGKILL)


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120  # a busy machine takes its time
    while not condition():
        assert time.monotonic() < deadline, "still not so after two minutes"
        time.sleep(0.1)


def _lives(process: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True)
    return found.stdout.strip()[:1] not in ("", "Z")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children(process: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    return [int(one) for one in found.stdout.split()]


@pytest.mark.parametrize(
    ("to_all", "times"), [(True, 4), (False, 1)], ids=["the terminal's", "the main process alone"]
)
def test_ctrl_c_ends_it_every_time(hub, to_all, times):
    """A worker that hears both the terminal and its parent used to hang every other time."""
    for _ in range(times):
        port = hubs.free_port()
        with hub.serving(port, "serve", "--port", str(port)) as process:
            (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
            hubs.wait_until_it_ended(process)


def test_worker_that_has_ended_is_not_reported_as_refusing_to(hub):
    (hub.folder / "slow_watchers.py").write_text(SLOW_WATCHERS)
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), program="slow_watchers.py") as process:
        os.kill(process.pid, signal.SIGTERM)
        hubs.wait_until_it_ended(process)


def test_worker_that_has_not_begun_ends_with_the_server(hub):
    (hub.folder / "slow_workers.py").write_text(SLOW_WORKERS)
    arguments = ("serve", "--port", str(hubs.free_port()), "--workers", "2")
    with hub.starting(*arguments, program="slow_workers.py") as process:
        _wait_until(lambda: process.poll() is not None or len(_children(process.pid)) == 2)
        os.kill(process.pid, signal.SIGTERM)
        hubs.wait_until_it_ended(process)


def test_clients_that_stop_sending_do_not_block_others(hub):
    port = hubs.free_port()
    head = b"POST /api/v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with hub.serving(port, "serve", "--port", str(port), "--workers", "1"), ExitStack() as stack:
        for _ in range(80):  # more than threads that work, or than granian has of its own accord
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(head)
        assert status(port) == 401


def test_an_endless_form_of_a_visitor_does_not_block_others(hub):
    """Its cookie is what makes the check of forms read on, for the token."""
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", "1"), ExitStack() as stack:
        cookie = _head(port, "/login/").getheader("Set-Cookie", "").partition(";")[0]
        lines = [
            "POST /login/ HTTP/1.1",
            "Host: localhost",
            f"Cookie: {cookie}",
            "Content-Type: multipart/form-data; boundary=b",
            "Content-Length: 90000000",
        ]
        begun = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n' + bytes(BUFFER_BYTES)
        for _ in range(2 * serving.THREADS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall("\r\n".join([*lines, "\r\n"]).encode() + begun)
            client.settimeout(120)
            assert client.recv(12) == b"HTTP/1.1 413"
        assert status(port) == 401


def test_a_relative_home_means_the_folder_it_was_started_in(hub):
    """The workers must read the store that the command looked at."""
    home = hub.home / "mine"
    hub.run("migrate", "--verbosity", "0", LETSGO_HOME="../home/mine")
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), LETSGO_HOME="../home/mine"):
        assert status(port) == 401
        assert (home / "memory.db").exists()


def test_a_store_that_is_not_migrated_is_not_served(hub, tmp_path):
    done = hub.run("serve", "--port", str(hubs.free_port()), LETSGO_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "is not up to date; run: manage.py migrate" in done.stderr


def test_a_command_on_a_store_that_is_not_migrated_says_to_migrate(hub, tmp_path):
    done = hub.run("purge_expired", LETSGO_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "It is not up to date. Run this first: manage.py migrate" in done.stderr


def test_an_open_address_without_allowed_hosts_is_warned_about(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--host", "0.0.0.0") as process:
        _, errors = hubs.press_ctrl_c(process)
    assert "MEMORYHUB_ALLOWED_HOSTS" in errors


@pytest.mark.parametrize("option", ["workers", "threads"])
def test_there_is_at_least_one_of_each(option):
    with pytest.raises(CommandError, match=f"--{option} must be at least 1, not 0"):
        call_command("serve", **{option: 0})


def test_a_taken_port_is_not_shared():
    """Not even one that was opened to be shared, as granian's is."""
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        with pytest.raises(serving.CannotServe, match="is taken"):
            serving.require_free("127.0.0.1", busy.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("203.0.113.7", 8000, "is not an address of this machine"),
        ("not a host", 8000, "--host not a host"),
        ("127.0.0.1", 70_000, "between 1 and 65535"),
        ("127.0.0.1", -1, "between 1 and 65535"),
    ],
)
def test_an_address_that_cannot_be_is_explained(host, port, words):
    with pytest.raises(serving.CannotServe, match=words):
        serving.require_free(host, port)


def limit(monkeypatch, kind: int, soft: int, hard: int) -> None:
    monkeypatch.setattr(
        resource, "getrlimit", lambda asked: (soft, hard) if asked == kind else (resource.RLIM_INFINITY,) * 2
    )


def test_the_limit_of_open_files_is_raised(monkeypatch):
    raised = []
    limit(monkeypatch, resource.RLIMIT_NOFILE, 64, 4096)
    monkeypatch.setattr(resource, "setrlimit", lambda *limits: raised.append(limits))
    assert serving.require_limits() == serving.MAX_CONNECTIONS
    assert raised == [(resource.RLIMIT_NOFILE, (serving.MAX_CONNECTIONS + serving.RESERVED_FILES, 4096))]


def test_few_open_files_mean_fewer_connections(monkeypatch):
    limit(monkeypatch, resource.RLIMIT_NOFILE, 64, 200)
    monkeypatch.setattr(resource, "setrlimit", lambda *limits: None)
    assert serving.require_limits() == 200 - serving.RESERVED_FILES


def test_too_few_open_files_are_refused(monkeypatch):
    limit(monkeypatch, resource.RLIMIT_NOFILE, 32, 32)
    monkeypatch.setattr(resource, "setrlimit", lambda *limits: None)
    with pytest.raises(CommandError, match=r"may open only 32 files here, .* ulimit -n 608"):
        call_command("serve")


def test_too_little_address_space_is_refused(monkeypatch):
    limit(monkeypatch, resource.RLIMIT_AS, 500_000_000, 500_000_000)
    with pytest.raises(CommandError, match="limited to 500 MB here, and a worker needs 1,074 MB"):
        call_command("serve")


@pytest.mark.parametrize(
    ("space", "mapped"), [(resource.RLIM_INFINITY, 2**28), (8 * 2**30, 2**28), (2**31, 2**26), (2**29, 0)]
)
def test_limited_address_space_means_a_smaller_map_of_the_store(monkeypatch, space, mapped):
    limit(monkeypatch, resource.RLIMIT_AS, space, space)
    assert settings._mapped_bytes() == mapped


def test_only_loopback_addresses_are_loopback():
    assert [
        h for h in ("127.0.0.1", "127.1.2.3", "localhost", "::1", "0.0.0.0", "10.0.0.1") if is_loopback(h)
    ] == [
        "127.0.0.1",
        "127.1.2.3",
        "localhost",
        "::1",
    ]


@pytest.mark.parametrize("provider", ["wordllama", "openai", "none"])
def test_loading_leaves_nothing_that_a_fork_would_break(hub, provider):
    """Threads do not survive a fork, and SQLite forbids to use a connection in two processes."""
    code = """
import json, os, threading
import django; django.setup()
from django.db import connection
from memoryhub.ops import worker
worker.load()
tasks = len(os.listdir("/proc/self/task"))
print(json.dumps([threading.active_count(), tasks, connection.connection is None]))
"""
    done = hub.run_code(code, MEMORYHUB_EMBEDDINGS=provider, MEMORYHUB_EMBEDDINGS_URL="http://127.0.0.1:9/v1")
    assert json.loads(done.stdout) == [1, 1, True], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems spawn workers")
def test_workers_share_the_memory_of_the_loaded_application(hub):
    port = hubs.free_port()
    with hub.serving(port, "serve", "--port", str(port), "--workers", "2") as process:
        rollup = Path(f"/proc/{_children(process.pid)[0]}/smaps_rollup").read_text()
        size = {name: int(kib) for name, kib in re.findall(r"^(\w+): +(\d+) kB", rollup, re.M)}
    assert size["Shared_Dirty"] > size["Private_Dirty"]


def test_behind_a_proxy_it_speaks_https_only(hub):
    port = hubs.free_port()
    proxied = {"MEMORYHUB_HTTPS": "1", "MEMORYHUB_BEHIND_PROXY": "1"}
    with hub.serving(port, "serve", "--port", str(port), **proxied):
        assert _head(port, "/login/").getheader("Location") == "https://localhost/login/"
        page = _head(port, "/login/", {"X-Forwarded-Proto": "https"})
        assert page.status == 200
        assert "max-age=31536000" in page.getheader("Strict-Transport-Security", "")
        assert "Secure" in page.getheader("Set-Cookie", "")
        assert _head(port, "/healthz").status == 200, "a monitor beside the hub comes without TLS"


def _head(port: int, path: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path, headers={"Host": "localhost", **(headers or {})})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_every_worker_answers_metrics_for_all(hub):
    port, token = hubs.free_port(), "a-token-for-prometheus"
    names = {"MEMORYHUB_METRICS_TOKEN": token, "MEMORYHUB_LOG_FORMAT": "json"}

    def scrape() -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return str(answer.read().decode())

    refused = 'memoryhub_requests_total{method="GET",route="api/v1/stats",status="401"}'
    with hub.serving(port, "serve", "--port", str(port), "--workers", "2", **names):
        before = _count_of(scrape(), refused)
        for _ in range(10):
            assert status(port) == 401
        for _ in range(4):
            text = scrape()
            assert _count_of(text, refused) == before + 10
            assert _count_of(text, "memoryhub_workers") == 2


def test_each_line_of_the_json_log_is_an_object(hub, tmp_path):
    port = hubs.free_port()
    names = {"MEMORYHUB_LOG_FORMAT": "json"}
    arguments = ("serve", "--host", "0.0.0.0", "--port", str(port), "--workers", "1")
    path = tmp_path / "log"
    with path.open("w") as log, hub.serving(port, *arguments, output=log, **names) as process:
        [worker] = _children(process.pid)
        os.kill(worker, signal.SIGKILL)
        hubs.wait_until_it_answers(process, port)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(timeout=120)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"INFO", "ERROR"} <= {line["level"] for line in lines}, "the start, and the killed worker"
    assert {"_granian", "memoryhub.request"} <= {line["logger"] for line in lines}
    assert any("set MEMORYHUB_ALLOWED_HOSTS" in line["message"] for line in lines), "a warning of the command"


def _count_of(text: str, name: str) -> float:
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(values[0]) if values else 0

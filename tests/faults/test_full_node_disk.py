"""The disk of one node is full, PostgreSQL's is not: writes succeed, and the node reports its disk."""

from __future__ import annotations

import http.client
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.disk import mounted
from tests.faults.cluster import METRICS_TOKEN, SECONDS, until
from tools.bench.clients import Client
from tools.bench.hub import ROOT, manage, sign_in
from tools.cluster import mixed, postgres
from tools.cluster.nodes import Node

pytestmark = pytest.mark.slow
NOTE = b'{"content": "a note of an uploaded file"}\n'


class Machines:
    """Two nodes. All local files of ``small`` are on a disk of 16 MB; its log, too."""

    def __init__(self, database: postgres.Postgres, disk: Path, folder: Path) -> None:
        url, self.disk, self.filler = database.create_database("hub"), disk, disk / "filler"
        (disk / "temporary").mkdir()
        variables = {"MEMORYHUB_METRICS_TOKEN": METRICS_TOKEN}
        self.small = Node("small", disk / "home", url, TMPDIR=str(disk / "temporary"), **variables)
        self.large = Node("large", folder / "large", url, **variables)
        manage(self.large.environment, "migrate", "--verbosity", "0")
        token = manage(self.large.environment, "create_token", "faults", "--rights", "read,write,maintain")
        self.headers = {"Authorization": f"Bearer {token}"}
        for node in (self.small, self.large):
            node.start()
        for node in (self.small, self.large):
            node.wait_until_ready()

    def stop(self) -> None:
        self.small.stop()
        self.large.stop()

    def fill(self) -> None:
        with self.filler.open("ab") as file, suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(4096))

    def ask(self, node: Node, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
        """Send a request to a node; return the status and the text of the answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=SECONDS)) as connection:
            connection.request(method, path, body or None, self.headers | headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def store(self, node: Node, text: str) -> int:
        with closing(Client(node.port, self.headers)) as client:
            return client.send("POST", mixed.MEMORIES, {"content": text})[0].status

    def warnings(self, node: Node) -> list[str]:
        status, content = self.ask(node, "GET", "/readyz")
        assert status == 200, content
        return [one["field"] for one in json.loads(content).get("warnings", ())]

    def examine(self, node: Node) -> dict[str, str]:
        """Run ``doctor`` on a node and return the status of each check."""
        command = [sys.executable, ROOT / "manage.py", "doctor", "--json"]
        done = subprocess.run(command, env=node.environment, cwd=ROOT, capture_output=True, text=True)
        return {one["name"]: one["status"] for one in json.loads(done.stdout)["checks"]}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("machines")
    with postgres.started() as database, mounted(folder / "small", 16) as disk:
        made = Machines(database, disk, folder)
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def full(machines: Machines) -> Iterator[Machines]:
    """The machines, while the disk of the small one is full."""
    machines.fill()
    yield machines
    machines.filler.unlink()


def test_memory_is_stored_and_each_node_shows_it(full: Machines) -> None:
    text = f"stored without a disk {uuid4()}"
    assert full.store(full.small, text) == 201
    for node in (full.small, full.large):
        assert text in full.ask(node, "GET", "/api/v1/search?query=stored+without+disk")[1]


def test_only_the_node_with_the_full_disk_reports_it(full: Machines) -> None:
    full.store(full.small, f"not in the mirror {uuid4()}")
    assert full.warnings(full.small) == ["disk"]
    assert full.warnings(full.large) == []
    found = full.examine(full.small)
    assert (found["disk space"], found["mirror"], found["writing"]) == ("fail", "warn", "ok")
    assert full.examine(full.large)["disk space"] != "fail"


def test_upload_is_refused_with_the_reason(full: Machines) -> None:
    status, content = full.ask(full.small, "POST", "/api/v1/import?name=notes.jsonl", NOTE * 1000)
    assert (status, json.loads(content)["code"]) == (503, "disk_full")


def test_form_with_a_large_file_is_refused_with_a_page_that_says_why(full: Machines) -> None:
    body = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="notes.jsonl"\r\n\r\n'
    body += random.randbytes(4_000_000) + b"\r\n--edge--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=edge"}
    headers["Cookie"] = f"{sign_in(full.large.environment)}; csrftoken={'a' * 32}"
    status, content = full.ask(full.small, "POST", "/transfer/import/", body, **headers)
    assert status == 503
    assert "The disk is full" in content


def test_upload_to_another_node_is_imported(full: Machines) -> None:
    note = json.dumps({"content": f"uploaded to the other node {uuid4()}"}).encode()
    status, content = full.ask(full.large, "POST", "/api/v1/import?name=notes.jsonl", note)
    assert status == 202, content
    path = f"/api/v1/import/{json.loads(content)['id']}"
    ended = ("done", "failed")
    until(lambda: json.loads(full.ask(full.large, "GET", path)[1])["status"] in ended)
    assert json.loads(full.ask(full.large, "GET", path)[1])["counts"] == {"memories created": 1}


def test_export_is_complete(full: Machines) -> None:
    for node in (full.small, full.large):
        full.store(node, f"exported {uuid4()}")
    exports = [full.ask(node, "GET", "/api/v1/export") for node in (full.small, full.large)]
    assert exports[0] == exports[1]
    assert exports[0][0] == 200


def test_workers_survive_metrics_of_new_routes(full: Machines) -> None:
    paths = ("facts", "sessions", "journal", "stats", "timeline", "duplicates", "maintenance", "tools")
    for path in paths:
        assert full.ask(full.small, "GET", f"/api/v1/{path}")[0] == 200, path
    status, content = full.ask(full.small, "GET", "/metrics", Authorization=f"Bearer {METRICS_TOKEN}")
    assert status == 200
    assert 'route="api/v1/facts"' in content


def test_mirror_is_complete_when_there_is_space_again(machines: Machines) -> None:
    machines.fill()
    assert machines.store(machines.small, f"while it was full {uuid4()}") == 201
    machines.filler.unlink()
    assert machines.store(machines.small, f"when there was space {uuid4()}") == 201
    assert machines.warnings(machines.small) == []
    manage(machines.small.environment, "verify_journal")  # ends the test if the mirror differs

"""Reads go to a streaming replica, and a caller always sees what it has written."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.faults.cluster import until
from tools.bench.hub import manage
from tools.cluster import postgres
from tools.cluster.nodes import node_environment

pytestmark = pytest.mark.slow


# Defines ``count(read)``, which returns what a read returns and how many statements each server answered.
HELPERS = """
import collections, json, os, time
import django
django.setup()
from django.conf import settings
settings.ALLOWED_HOSTS = ["testserver"]
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryDraft
def client(name):
    return Client(headers={"Authorization": "Bearer " + os.environ["TOKEN_" + name.upper()]})
def store(name, content):
    answer = client(name).post("/api/v1/memories", {"content": content}, content_type="application/json")
    assert answer.status_code == 201, answer.content
    return answer.json()["memory"]["id"]
def count(read):
    counts = collections.Counter()
    def note(execute, sql, params, many, context):
        counts[context["connection"].alias] += 1
        return execute(sql, params, many, context)
    with connection.execute_wrapper(note):
        return read(), counts
def until(happened):
    deadline = time.monotonic() + 120
    while not (found := happened()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found
def statements(path, name="reader", at="replica"):
    answer, counts = count(lambda: client(name).get(path))
    assert answer.status_code == 200, answer.content
    return counts[at]
"""


class Hub:
    """A store on a primary with a replica."""

    def __init__(self, home: Path, primary: postgres.Postgres, folder: Path) -> None:
        home.mkdir()
        self.primary = primary
        url = primary.create_database("hub")
        self.environment = node_environment(home, url, "web")
        manage(self.environment, "migrate", "--verbosity", "0")
        for name in ("reader", "writer"):
            token = manage(self.environment, "create_token", name, "--rights", "read,write")
            self.environment[f"TOKEN_{name.upper()}"] = token
        self.replica = primary.add_standby(folder)
        self.environment["DATABASE_REPLICA_URL"] = self.replica.url("hub")

    def run(self, code: str, **variables: str) -> Any:
        """Run code with the helpers above; return the JSON of the last line that it prints."""
        done = subprocess.run(
            [sys.executable, "-c", HELPERS + code],
            env=self.environment | variables,
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with postgres.started() as primary:
        folder = primary.folder.with_name(f"{primary.folder.name}-replica")
        made = Hub(tmp_path_factory.mktemp("replica") / "home", primary, folder)
        yield made
        made.replica.stop()
        shutil.rmtree(folder)


@pytest.fixture
def paused(hub: Hub) -> Iterator[None]:
    hub.replica.query("hub", "SELECT pg_wal_replay_pause()")  # it still answers
    yield
    hub.replica.query("hub", "SELECT pg_wal_replay_resume()")


def test_lists_searches_and_tools_are_read_from_the_replica(hub: Hub) -> None:
    found = hub.run("""
key = store("writer", "the falcon nests on the tower")
paths = ["/api/v1/memories", f"/api/v1/memories/{key}", "/api/v1/search?query=falcon", "/api/v1/stats"]
print(json.dumps([until(lambda path=path: statements(path)) for path in paths]))
""")
    assert min(found) > 0
    assert hub.run("""
def recall():
    return client("reader").post(
        "/api/v1/tools/memory-mcp/memory_recall", {"query": "falcon"}, content_type="application/json"
    )
def from_replica():
    answer, counts = count(recall)
    assert "falcon nests" in answer.content.decode()
    return counts["replica"]
print(json.dumps(until(from_replica)))
""")


def test_pages_are_read_from_the_replica(hub: Hub) -> None:
    assert hub.run("""
ada = User.objects.create_user("ada", password="x")
ada.is_superuser = True
ada.save()
web = Client()
web.force_login(ada)
def from_replica():
    answer, counts = count(lambda: web.get("/memories/"))
    assert answer.status_code == 200, answer.content
    return counts["replica"]
print(json.dumps(until(from_replica)))
""")


def test_journal_and_tokens_are_read_from_the_primary(hub: Hub) -> None:
    found = hub.run("""
until(lambda: statements("/api/v1/memories"))
answer, counts = count(lambda: client("reader").get("/api/v1/journal"))
assert answer.status_code == 200
memories = count(lambda: client("reader").get("/api/v1/memories"))[1]
print(json.dumps([counts["replica"], memories["default"]]))
""")
    assert found[0] == 0
    assert found[1] > 0, "the token"


def test_caller_sees_its_own_write_at_once(hub: Hub, paused: None) -> None:
    assert hub.run("""
key = store("writer", "written while the replica is behind")
print(json.dumps([
    client("writer").get(f"/api/v1/memories/{key}").status_code,
    "while the replica" in client("writer").get("/api/v1/search?query=behind").content.decode(),
]))
""") == [200, True]


def test_others_wait_at_most_two_seconds_for_a_replica_that_is_behind(hub: Hub, paused: None) -> None:
    assert hub.run("""
statements("/api/v1/memories")
key = store("writer", "seen by others later")
print(json.dumps(until(lambda: client("reader").get(f"/api/v1/memories/{key}").status_code == 200)))
""")


def test_read_that_writes_continues_on_the_primary(hub: Hub) -> None:
    found = hub.run("""
from memoryhub.models import JournalEntry
owner = Actor("user:owner", Clearance.up_to("secret", owner="owner"))
draft = MemoryDraft(content="the code of the vault", sensitivity="secret")
made = memories.create_memory(draft, owner).memory
reveals = lambda: JournalEntry.objects.filter(operation="reveal").count()
before = reveals()
print(json.dumps([str(made.uid), before]))
""")
    token = manage(hub.environment, "create_token", "vault", "--rights", "read", "--clearance", "secret")
    answers = hub.run(
        """
from memoryhub.models import JournalEntry
path = f"/api/v1/memories/{os.environ['KEY']}?allow_secret=true"
until(lambda: statements(path, "vault"))
print(json.dumps(JournalEntry.objects.filter(operation="reveal").count()))
""",
        KEY=found[0],
        TOKEN_VAULT=token,
    )
    assert answers > found[1]


def findings(hub: Hub, **variables: str) -> str:
    return manage(hub.environment | variables, "doctor", "--quick")


def test_replica_that_is_no_replica_is_not_read(hub: Hub) -> None:
    until(lambda: "the replica has 0 journal rows to replay" in findings(hub))
    primary = hub.environment["DATABASE_URL"]
    assert "the server in DATABASE_REPLICA_URL is no replica" in findings(hub, DATABASE_REPLICA_URL=primary)
    assert (
        hub.run(
            """print(json.dumps(statements("/api/v1/memories")))""",
            DATABASE_REPLICA_URL=hub.environment["DATABASE_URL"],
        )
        == 0
    )


def test_lists_are_read_while_both_servers_are_standbys(hub: Hub) -> None:
    count = """print(json.dumps(until(lambda: statements("/api/v1/memories"))))"""
    assert hub.run(count, DATABASE_URL=hub.environment["DATABASE_REPLICA_URL"])


def test_reads_wait_one_second_for_a_replica_that_is_silent(hub: Hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgres://postgres@127.0.0.1:{silent.getsockname()[1]}/hub"
        found = hub.run(
            """
timeout = settings.DATABASES["replica"]["OPTIONS"]["pool"]["timeout"]
print(json.dumps([statements("/api/v1/memories"), timeout]))
""",
            DATABASE_REPLICA_URL=url,
        )
    assert found == [0, 1]


def test_reads_go_to_the_primary_while_the_replica_is_down(hub: Hub) -> None:
    until_read = """print(json.dumps(until(lambda: statements("/api/v1/memories"))))"""
    assert hub.run(until_read)
    hub.replica.kill()
    try:
        assert hub.run("""print(json.dumps(statements("/api/v1/memories")))""") == 0
    finally:
        hub.replica.start()
    assert hub.run(until_read)

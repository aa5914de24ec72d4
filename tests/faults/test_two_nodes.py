"""What one node erases, redacts or writes, seen from another node: pages, searches, exports and files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.faults.cluster import Cluster, until
from tools.bench.clients import Client
from tools.bench.hub import manage, sign_in
from tools.cluster import mixed, postgres
from tools.cluster.nodes import Node, node_environment

pytestmark = pytest.mark.slow
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"[:36].ljust(36, "0")  # looks like one of GitHub
MARK = "xylophonequark"
# With a word that the memory contains, too: pages repeat the words of a search.
PAGES = """
/ /memories/ /memories/?q=lighthouse /trash/ /timeline/ /sessions/ /sessions/s1/ /facts/ /facts/graph/
/facts/?subject=lighthouse /things/ /journal/ /duplicates/ /injections/ /review/ /palette/?q=lighthouse
/agents/ /glance/ /project-page/quays/ /preview/?prompt=lighthouse
/transfer/export/?whole=on /transfer/export/?format=markdown
/api/v1/memories /api/v1/search?query=lighthouse /api/v1/facts /api/v1/journal /api/v1/timeline
/api/v1/sessions /api/v1/recall?query=lighthouse /api/v1/export?whole=true
""".split()


class Pair(Cluster):
    """Two nodes that store secrets, and compute vectors."""

    def __init__(self, folder: Path, database: postgres.Postgres) -> None:
        super().__init__(folder, database, MEMORYHUB_BLOCK_SECRETS="false", MEMORYHUB_EMBEDDINGS="wordllama")
        self.cookie = sign_in(self.nodes[0].environment)

    def open(self, node: Node, path: str) -> tuple[int, str]:
        """Open a page or an address of the API with all rights; return the status and the text."""
        headers = self.headers if path.startswith("/api/") else {"Cookie": self.cookie}
        client = Client(node.port, headers)
        answer, content = client.send("GET", path)
        client.close()
        return answer.status, content.decode()

    def containing(self, node: Node, text: str, uid: str) -> list[str]:
        """Return the pages and addresses of a node that show a text."""
        found = []
        for path in [*PAGES, f"/memories/{uid}/", f"/memories/{uid}/history/", f"/api/v1/memories/{uid}"]:
            status, content = self.open(node, path)
            assert status < 500, (path, status)
            if text in content:
                found.append(path)
        return found

    def files_containing(self, text: str) -> list[str]:
        """Return the files of both nodes that contain a text."""
        paths = [path for node in self.nodes for path in node.log.parent.rglob("*") if path.is_file()]
        return [str(path) for path in paths if text.encode() in path.read_bytes()]

    def tables_containing(self, text: str) -> list[str]:
        """Return the tables with a row that contains a text, also as a part of a JSON document or vector."""
        with psycopg.connect(self.url) as connection:
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            query = "SELECT EXISTS (SELECT 1 FROM {table} AS row WHERE strpos(row::text, %s) > 0)"
            return [
                name
                for (name,) in names
                if connection.execute(sql.SQL(query).format(table=sql.Identifier(name)), [text]).fetchone()
                == (True,)
            ]

    def store_everywhere(self, text: str) -> str:
        """Store a memory with a text in each of its parts, its history and a fact; return its id."""
        first = self.nodes[0]
        body: dict[str, Any] = {"content": f"lighthouse of {text}", "session_id": "s1", "project": "quays"}
        body |= {"title": f"lighthouse {text}", "tags": [text], "aliases": [f"beacon {text}"]}
        body |= {"files_read": [f"{text}.py"], "entities": [{"entity": text, "entity_type": "person"}]}
        status, content = self.ask(first, "POST", mixed.MEMORIES, body)
        assert status == 201, content
        uid = str(json.loads(content)["memory"]["id"])
        changed = {"content": f"lighthouse of {text}, painted"}
        assert self.ask(first, "PATCH", f"{mixed.MEMORIES}/{uid}", changed)[0] == 200
        fact = {"subject": "lighthouse", "predicate": "named", "object": text, "memory_id": uid}
        assert self.ask(first, "POST", "/api/v1/facts", fact)[0] in (200, 201)
        return uid


CLUSTER = Pair


def test_memory_erased_on_one_node_is_nowhere_on_the_other(cluster: Pair) -> None:
    first, second = cluster.nodes
    uid = cluster.store_everywhere(MARK)
    assert {"/memories/?q=lighthouse", f"/memories/{uid}/"} <= set(cluster.containing(second, MARK, uid))
    assert cluster.ask(first, "DELETE", f"{mixed.MEMORIES}/{uid}?hard=true")[0] == 200
    assert cluster.containing(second, MARK, uid) == []
    assert cluster.containing(first, MARK, uid) == []
    assert cluster.tables_containing(MARK) == []
    assert cluster.files_containing(MARK) == []
    vectors = "SELECT count(*) FROM {} WHERE memory_id NOT IN (SELECT id FROM memoryhub_memory)"
    for table in ("memoryhub_embedding", "memoryhub_vector_index"):
        assert cluster.execute(vectors.format(table)) == [(0,)]


def test_secret_redacted_on_one_node_is_nowhere_on_the_other(cluster: Pair) -> None:
    first, second = cluster.nodes
    uid = cluster.store_everywhere(TOKEN)
    assert {"/memories/?q=lighthouse", f"/memories/{uid}/"} <= set(cluster.containing(second, TOKEN, uid))
    manage(first.environment, "scan_secrets", "--redact")
    assert cluster.containing(second, TOKEN, uid) == []
    assert cluster.containing(first, TOKEN, uid) == []
    assert cluster.tables_containing(TOKEN.lower()) == []
    assert cluster.tables_containing(TOKEN) == []
    assert cluster.files_containing(TOKEN) == []
    assert "[secret removed]" in cluster.open(second, f"/memories/{uid}/")[1]


def test_pages_of_erased_rows_are_vacuumed_after_the_request(cluster: Pair) -> None:
    uid = cluster.store_everywhere(f"vacuumed {uuid4()}")
    before = cluster.execute(
        "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'memoryhub_memory'"
    )
    assert cluster.ask(cluster.nodes[0], "DELETE", f"{mixed.MEMORIES}/{uid}?hard=true")[0] == 200
    until(lambda: cluster.execute("SELECT count(*) FROM memoryhub_erasing") == [(0,)])
    after = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'memoryhub_memory'"
    until(lambda: cluster.execute(after) > before)


def test_export_of_one_node_while_another_writes_can_be_restored(cluster: Pair, tmp_path: Path) -> None:
    first, second = cluster.nodes
    ending = threading.Event()
    reported: list[int] = []

    def report_events() -> None:
        while not ending.is_set():
            session = f"session {uuid4()}"
            data = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "done"}
            for event in ({"event": "session:start"}, {"event": "tool:post", "data": data}):
                body = {"session_id": session, "project": "quays", **event}
                reported.append(cluster.ask(first, "POST", "/api/v1/events", body)[0])
            cluster.ask(first, "POST", mixed.MEMORIES, {"content": f"{session} ended", "session_id": session})

    writer = threading.Thread(target=report_events)
    writer.start()
    try:
        until(lambda: len(reported) > 20)
        files = []
        for number in range(2):
            status, content = cluster.open(second, "/transfer/export/?whole=on")
            assert status == 200
            files.append(tmp_path / f"export-{number}.jsonl")
            files[-1].write_text(content)
    finally:
        ending.set()
        writer.join()
    assert set(reported) == {200}
    for file in files:
        home = tmp_path / f"home of {file.stem}"
        home.mkdir()
        restored = node_environment(home, "", "restored")
        manage(restored, "migrate", "--verbosity", "0")
        manage(restored, "import_memories", str(file), "--strict")
        manage(restored, "verify_journal")
        assert len(mixed.read_store(restored)["memories"]) == file.read_text().count('{"kind":"memory"')

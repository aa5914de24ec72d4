"""Reads of secrets by agents are journaled, one row per response; other reads write nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.maintenance import executor
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.cases import each

READS = [
    *("/memories", "/search?query=giraffe", "/memories/{uid}", "/memories/{uid}/history"),
    *("/timeline", "/sessions/s-1", "/memories/prompt"),
]
# Toolset, tool, arguments: every tool that returns text of a memory.
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("letsgo", "search_memories", {"query": "giraffe"}),
    ("letsgo", "list_memories", {}),
    ("letsgo", "get_memory", {"id": "{uid}"}),
    ("letsgo", "search_by_file", {"path": "zoo.md"}),
    ("letsgo", "search_by_concept", {"concept": "gotcha"}),
    ("letsgo", "get_timeline", {}),
    ("memory-mcp", "memory_recall", {"query": "giraffe"}),
    ("mira", "memory", {"action": "recall", "query": "giraffe"}),
    ("pigo", "memory_recall", {"query": "giraffe"}),
]
WORDS = "the giraffe eats leaves"


@pytest.fixture
def giraffe(remember: Any) -> Any:
    """``giraffe("secret")``: a memory of this level that every read in this module finds."""

    def make(level: str) -> Memory:
        place = {"project": "zoo", "session_id": "s-1", "files_read": ["zoo.md"], "concepts": ["gotcha"]}
        memory: Memory = remember(WORDS, sensitivity="secret", **place)
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        return memory

    return make


def reveals() -> list[JournalEntry]:
    return list(JournalEntry.objects.filter(operation="reveal"))


def read(agent: Any, path: str, memory: Memory) -> Any:
    address, _, query = path.format(uid=memory.uid).partition("?")
    asked = dict([query.split("=")]) if query else {}
    return agent.get(address, allow_private="true", allow_secret="true", **asked)


@each("path", READS)
def test_reading_a_secret_is_journaled_with_the_reader(agent, giraffe, path):
    memory = giraffe("secret")
    assert read(agent("secret", "reader"), path, memory).status_code == 200
    [row] = reveals()
    assert (row.object_id, row.sensitivity, row.project) == (memory.uid, "secret", "zoo")
    assert row.actor == "token:reader"


@each("path", READS)
@each("level", ["public", "private", "cosmic"])
def test_other_reads_are_not_journaled(agent, giraffe, path, level):
    read(agent("secret", "reader"), path, giraffe(level))
    assert reveals() == []


def use(agent: Any, tool: tuple[str, str, dict[str, Any]], memory: Memory, **more: Any) -> str:
    toolset, name, given = tool
    filled = {key: value.format(uid=memory.uid) for key, value in given.items()}
    answer = agent.post(f"/tools/{toolset}/{name}", {**filled, "allow_private": True, **more})
    return str(answer.content.decode())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool[0]} {tool[1]}")
def test_tool_that_returns_a_secret_leaves_one_row(agent, giraffe, tool):
    memory = giraffe("secret")
    assert "giraffe" in use(agent("secret", "reader"), tool, memory, allow_secret=True)
    [row] = reveals()
    assert (row.object_id, row.sensitivity, row.project) == (memory.uid, "secret", "zoo")
    assert row.actor == "token:reader"
    assert row.detail["page"].startswith(tool[0])


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool[0]} {tool[1]}")
def test_tool_without_a_secret_leaves_none(agent, giraffe, tool):
    secret = giraffe("secret")
    use(agent("secret", "reader"), tool, secret)
    Memory.objects.filter(pk=secret.pk).update(sensitivity="private")
    use(agent("secret", "reader"), tool, secret, allow_secret=True)
    assert reveals() == []


def test_recall_journals_exactly_the_secrets_in_its_response(agent, remember, remember_all):
    secrets = remember_all((f"giraffe {n}" for n in range(30)), sensitivity="secret")
    remember("giraffe in the open")
    asked = {"query": "giraffe", "max_tokens": 700, "allow_private": True, "allow_secret": True}
    answer = agent("secret", "reader").post("/recall", asked).json()
    returned = {one["id"] for one in [*answer["index"], *answer["details"]]}
    [row] = reveals()
    assert set(row.detail["ids"]) == returned & {one.uid for one in secrets}
    assert 1 < row.detail["count"] < len(secrets)


def test_related_secrets_are_journaled(agent, remember):
    first, second = (
        remember(
            f"the giraffe eats leaves {n}", sensitivity="secret", files_read=["zoo.md"], concepts=["gotcha"]
        )
        for n in ("early", "late")
    )
    read(agent("secret", "reader"), f"/memories/{first.uid}/related", first)
    assert [row.object_id for row in reveals()] == [second.uid]


def test_update_without_a_change_counts_as_a_read(agent, giraffe):
    memory = giraffe("secret")
    answer = agent("secret", "reader").patch(f"/memories/{memory.uid}", {"category": memory.category})
    assert (answer.json()["outcome"], WORDS in answer.content.decode()) == ("unchanged", True)
    assert [row.object_id for row in reveals()] == [memory.uid]


def test_refresh_counts_as_a_read_and_create_does_not(agent):
    writer = agent("secret", "writer")
    for known in (False, True):
        writer.post("/memories", {"content": WORDS, "sensitivity": "secret"})
        assert bool(reveals()) is known


def test_titles_of_a_run_are_journaled(agent, giraffe):
    memory, boss = giraffe("secret"), agent("secret", "boss")
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=10))
    uid = boss.post("/maintenance", {"operation": "consolidate", "dry_run": True}).json()["id"]
    executor.execute(MaintenanceRun.objects.get(uid=uid))
    answer = boss.get(f"/maintenance/{uid}", allow_private="true", allow_secret="true")
    assert answer.json()["result"]["items"][0]["title"]
    assert [row.object_id for row in reveals()] == [memory.uid]


def test_one_response_leaves_one_row_with_all_ids(agent, remember):
    secrets = [remember(f"giraffe {n}", sensitivity="secret", project="zoo") for n in range(3)]
    read(agent("secret", "reader"), "/memories", secrets[0])
    [row] = reveals()
    assert row.detail["count"] == 3
    assert set(row.detail["ids"]) == {one.uid for one in secrets}
    assert row.sensitivity == "secret"
    assert "reveal" not in agent("private", "other").get("/journal", allow_private="true").content.decode()

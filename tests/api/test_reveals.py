"""An agent's read of a secret is in the journal: one row names who and which; other reads write nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.maintenance import runs
from memoryhub.models import JournalEntry, MaintenanceRun, Memory

READS = [
    *("/memories", "/search?query=giraffe", "/memories/{uid}", "/memories/{uid}/history"),
    *("/timeline", "/sessions/s-1", "/memories/prompt"),
]
# Toolset, tool, what it takes: every tool that answers with the words of a memory.
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
    """``giraffe("secret")`` is such a memory, which every read of this module finds."""

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


@pytest.mark.parametrize("path", READS)
def test_reading_a_secret_leaves_a_row_that_names_the_reader(agent, giraffe, path):
    memory = giraffe("secret")
    assert read(agent("secret", "reader"), path, memory).status_code == 200
    [row] = reveals()
    assert (row.object_id, row.sensitivity, row.project) == (memory.uid, "secret", "zoo")
    assert row.actor == "token:reader"


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("level", ["public", "private", "cosmic"])
def test_reading_what_is_no_secret_leaves_none(agent, giraffe, path, level):
    read(agent("secret", "reader"), path, giraffe(level))
    assert reveals() == []


def use(agent: Any, tool: tuple[str, str, dict[str, Any]], memory: Memory, **more: Any) -> str:
    toolset, name, given = tool
    filled = {key: value.format(uid=memory.uid) for key, value in given.items()}
    answer = agent.post(f"/tools/{toolset}/{name}", {**filled, "allow_private": True, **more})
    return str(answer.content.decode())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool[0]} {tool[1]}")
def test_a_tool_that_tells_a_secret_leaves_one_row(agent, giraffe, tool):
    memory = giraffe("secret")
    assert "giraffe" in use(agent("secret", "reader"), tool, memory, allow_secret=True)
    [row] = reveals()
    assert (row.object_id, row.sensitivity, row.project) == (memory.uid, "secret", "zoo")
    assert row.actor == "token:reader"
    assert row.detail["page"].startswith(tool[0])


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool[0]} {tool[1]}")
def test_a_tool_that_tells_none_leaves_none(agent, giraffe, tool):
    secret = giraffe("secret")
    use(agent("secret", "reader"), tool, secret)
    Memory.objects.filter(pk=secret.pk).update(sensitivity="private")
    use(agent("secret", "reader"), tool, secret, allow_secret=True)
    assert reveals() == []


def test_recall_names_every_secret_that_its_answer_tells_and_no_other(agent, remember):
    secrets = [remember(f"giraffe {n}", sensitivity="secret") for n in range(30)]
    remember("giraffe in the open")
    asked = {"query": "giraffe", "max_tokens": 700, "allow_private": True, "allow_secret": True}
    answer = agent("secret", "reader").post("/recall", asked).json()
    told = {one["id"] for one in [*answer["index"], *answer["details"]]}
    [row] = reveals()
    assert set(row.detail["ids"]) == told & {one.uid for one in secrets}
    assert 1 < row.detail["count"] < len(secrets)


def test_alike_ones_are_named_too(agent, remember):
    first, second = (
        remember(
            f"the giraffe eats leaves {n}", sensitivity="secret", files_read=["zoo.md"], concepts=["gotcha"]
        )
        for n in ("early", "late")
    )
    read(agent("secret", "reader"), f"/memories/{first.uid}/related", first)
    assert [row.object_id for row in reveals()] == [second.uid]


def test_a_change_that_changes_nothing_reads_all_the_same(agent, giraffe):
    memory = giraffe("secret")
    answer = agent("secret", "reader").patch(f"/memories/{memory.uid}", {"category": memory.category})
    assert (answer.json()["outcome"], WORDS in answer.content.decode()) == ("unchanged", True)
    assert [row.object_id for row in reveals()] == [memory.uid]


def test_what_is_stored_anew_is_no_read_and_the_same_again_is(agent):
    writer = agent("secret", "writer")
    for known in (False, True):
        writer.post("/memories", {"content": WORDS, "sensitivity": "secret"})
        assert bool(reveals()) is known


def test_the_titles_of_a_run_are_told_and_noted(agent, giraffe):
    memory, boss = giraffe("secret"), agent("secret", "boss")
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=10))
    uid = boss.post("/maintenance", {"operation": "consolidate", "dry_run": True}).json()["id"]
    runs.execute(MaintenanceRun.objects.get(uid=uid))
    answer = boss.get(f"/maintenance/{uid}", allow_private="true", allow_secret="true")
    assert answer.json()["result"]["items"][0]["title"]
    assert [row.object_id for row in reveals()] == [memory.uid]


def test_many_in_one_answer_are_one_row_with_their_ids(agent, remember):
    secrets = [remember(f"giraffe {n}", sensitivity="secret", project="zoo") for n in range(3)]
    read(agent("secret", "reader"), "/memories", secrets[0])
    [row] = reveals()
    assert row.detail["count"] == 3
    assert set(row.detail["ids"]) == {one.uid for one in secrets}
    assert row.sensitivity == "secret"
    assert "reveal" not in agent("private", "other").get("/journal", allow_private="true").content.decode()

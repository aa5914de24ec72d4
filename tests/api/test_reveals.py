"""An agent's read of a secret is in the journal: one row names who and which; other reads write nothing."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models import JournalEntry, Memory

READS = ["/memories", "/search?query=giraffe", "/memories/{uid}", "/memories/{uid}/history"]


def reveals() -> list[JournalEntry]:
    return list(JournalEntry.objects.filter(operation="reveal"))


def read(agent: Any, path: str, memory: Memory) -> Any:
    address, _, query = path.format(uid=memory.uid).partition("?")
    asked = dict([query.split("=")]) if query else {}
    return agent.get(address, allow_private="true", allow_secret="true", **asked)


@pytest.mark.parametrize("path", READS)
def test_reading_a_secret_leaves_a_row_that_names_the_reader(agent, remember, path):
    memory = remember("the giraffe eats leaves", sensitivity="secret", project="zoo")
    assert read(agent("secret", "reader"), path, memory).status_code == 200
    [row] = reveals()
    assert (row.object_id, row.sensitivity, row.project) == (memory.uid, "secret", "zoo")
    assert row.actor == "token:reader"


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("level", ["public", "private", "cosmic"])
def test_reading_what_is_no_secret_leaves_none(agent, remember, path, level):
    memory = remember("the giraffe eats leaves", project="zoo")
    Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
    read(agent("secret", "reader"), path, memory)
    assert reveals() == []


def test_many_in_one_answer_are_one_row_with_their_ids(agent, remember):
    secrets = [remember(f"giraffe {n}", sensitivity="secret", project="zoo") for n in range(3)]
    read(agent("secret", "reader"), "/memories", secrets[0])
    [row] = reveals()
    assert row.detail["count"] == 3
    assert set(row.detail["ids"]) == {one.uid for one in secrets}
    assert row.sensitivity == "secret"
    assert "reveal" not in agent("private", "other").get("/journal", allow_private="true").content.decode()

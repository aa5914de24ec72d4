"""A connection to PostgreSQL ends during a commit: the answer says so, and a repeated write is done once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.faults.cluster import SECONDS, Cluster
from tools.bench.hub import manage
from tools.cluster import mixed
from tools.cluster.proxies import Cut

pytestmark = pytest.mark.slow


class Write(NamedTuple):
    """A request. ``text``: a part of its transaction. ``effects``: the query that counts its effects."""

    method: str
    path: str
    body: dict[str, Any] | None
    text: str
    effects: str


def _store_other(cluster: Cluster) -> str:
    """Store a memory on the other node and return its id."""
    body = {"content": f"Another memory {uuid4()}"}
    status, content = cluster.ask(cluster.nodes[0], "POST", mixed.MEMORIES, body)
    assert status == 201
    return str(json.loads(content)["memory"]["id"])


def _count_rows(operation: str, uid: str) -> str:
    return (
        f"SELECT count(*) FROM memoryhub_journalentry WHERE operation = '{operation}' AND object_id = '{uid}'"
    )


def store(cluster: Cluster, text: str) -> Write:
    effects = f"SELECT count(*) FROM memoryhub_memory WHERE content = '{text}'"
    return Write("POST", mixed.MEMORIES, {"content": text}, text, effects)


def store_batch(cluster: Cluster, text: str) -> Write:
    drafts = [{"content": f"{text} {number}"} for number in range(3)]
    effects = f"SELECT count(*) / 3.0 FROM memoryhub_memory WHERE content LIKE '{text}%'"
    return Write("POST", f"{mixed.MEMORIES}/batch", {"memories": drafts}, text, effects)


def update(cluster: Cluster, text: str) -> Write:
    uid = _store_other(cluster)
    return Write("PATCH", f"{mixed.MEMORIES}/{uid}", {"title": text}, text, _count_rows("update", uid))


def delete(cluster: Cluster, text: str) -> Write:
    uid = _store_other(cluster)
    return Write("DELETE", f"{mixed.MEMORIES}/{uid}", None, uid, _count_rows("delete", uid))


def assert_fact(cluster: Cluster, text: str) -> Write:
    fact = {"subject": "hub", "predicate": "runs_on", "object": text}
    effects = f"SELECT count(*) FROM memoryhub_fact WHERE object = '{text}'"
    return Write("POST", "/api/v1/facts", fact, text, effects)


def report_event(cluster: Cluster, text: str) -> Write:
    data = {"tool_name": "Bash", "tool_input": {"command": f"echo {text}"}, "tool_use_id": str(uuid4())}
    event = {"event": "tool:post", "session_id": "reported", "project": "faults", "data": data}
    effects = f"SELECT count(*) FROM memoryhub_event WHERE preview LIKE '%{text}%'"
    return Write("POST", "/api/v1/events", event, text, effects)


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("make", [store, store_batch, update, delete, assert_fact, report_event])
def test_repeated_write_has_one_effect(
    cluster: Cluster, make: Callable[[Cluster, str], Write], is_committed: bool
) -> None:
    node = cluster.nodes[1]
    write = make(cluster, f"text {uuid4()}")
    cut = cluster.network.cut = Cut(write.text, is_committed)
    status, content = cluster.ask(node, write.method, write.path, write.body)
    assert cut.reached.wait(SECONDS)
    assert (status, json.loads(content)["code"]) == (503, "outcome_unknown")
    assert cluster.execute(write.effects) == [(int(is_committed),)]
    status, content = cluster.ask(node, write.method, write.path, write.body)
    done_before = 404 if make is delete else 200  # a memory in the trash is not found
    assert status in ((done_before,) if is_committed else (200, 201)), content
    assert cluster.execute(write.effects) == [(1,)]


def test_journal_and_its_mirror_are_intact_after_lost_commits(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    for is_committed in (False, True):
        write = store(cluster, f"text {uuid4()}")
        cluster.network.cut = Cut(write.text, is_committed)
        assert cluster.ask(node, write.method, write.path, write.body)[0] == 503
    assert cluster.ask(node, "POST", mixed.MEMORIES, {"content": f"text {uuid4()}"})[0] == 201
    assert cluster.read()["intact"]
    manage(node.environment, "verify_journal")  # ends the test if the mirror differs

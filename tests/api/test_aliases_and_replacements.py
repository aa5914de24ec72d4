"""``aliases`` and ``superseded_by`` over HTTP, in every answer with memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.core.vocabulary import TrashReason
from memoryhub.models import Memory
from tests.api.conftest import Agent, bad_fields, stored

Finder = Callable[[Agent, str], Any]


def test_aliases_are_stored_changed_and_removed(bot: Agent) -> None:
    made = stored(bot, aliases=[" kube ", "K8s", "k8s"])
    assert made["aliases"] == ["K8s", "kube"]
    changed = bot.patch(f"/memories/{made['id']}", {"aliases": ["k8s"]}).json()["memory"]
    assert changed["aliases"] == ["k8s"]
    assert bot.get("/memories").json()["items"][0]["aliases"] == ["k8s"]
    [revision] = bot.get(f"/memories/{made['id']}/history").json()["revisions"]
    assert revision["before"] == {"aliases": ["K8s", "kube"]}
    assert bot.patch(f"/memories/{made['id']}", {"aliases": []}).json()["memory"]["aliases"] == []


def test_many_memories_with_replacements_are_stored_at_once(bot: Agent) -> None:
    new = stored(bot)
    drafts = [{"content": f"number {n}", "superseded_by": uid} for n, uid in enumerate((new["id"], "none"))]
    created, refused = bot.post("/memories/batch", {"memories": drafts}).json()["results"]
    assert bot.get(f"/memories/{created['id']}").json()["superseded_by"] == new["id"]
    assert refused["error"]["errors"][0]["field"] == "superseded_by"


def test_a_hidden_replacement_is_refused_like_an_unknown_one(agent: Callable[..., Agent]) -> None:
    low = agent("public", "low", owner="low")
    hidden = stored(agent(), sensitivity="secret")["id"]
    own = stored(low, content="own words")["id"]
    answers = []
    for uid in (hidden, "0" * len(hidden)):
        for answer in (
            low.patch(f"/memories/{own}", {"superseded_by": uid}),
            low.post("/memories", {"content": "words", "superseded_by": uid}),
        ):
            assert bad_fields(answer) == {"superseded_by"}
            answers.append({**answer.json(), "request_id": ""})
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert Memory.objects.count() == 2


def test_itself_and_cycles_are_refused(bot: Agent) -> None:
    one, two = (stored(bot, content=f"number {n}")["id"] for n in range(2))
    assert bad_fields(bot.patch(f"/memories/{one}", {"superseded_by": one})) == {"superseded_by"}
    assert bot.patch(f"/memories/{one}", {"superseded_by": two}).json()["memory"]["superseded_by"] == two
    assert bad_fields(bot.patch(f"/memories/{two}", {"superseded_by": one})) == {"superseded_by"}
    assert bot.patch(f"/memories/{one}", {"superseded_by": None}).json()["memory"]["superseded_by"] is None


def _tool(name: str, *path: Any, **arguments: Any) -> Finder:
    def call(agent: Agent, uid: str) -> Any:
        named = {key: uid if value is ID else value for key, value in arguments.items()}
        found = agent.post(f"/tools/{name}", named).json()["result"]
        for step in path:
            found = found[step]
        return found

    return call


ID = object()
QUERY = "zebra stripes"
READS: dict[str, Finder] = {
    "get": lambda agent, uid: agent.get(f"/memories/{uid}").json(),
    "list": lambda agent, uid: agent.get("/memories", session_id="s").json()["items"][0],
    "search": lambda agent, uid: agent.get("/search", query=QUERY, include_superseded=True).json()["results"][
        0
    ]["memory"],
    "timeline": lambda agent, uid: agent.get("/timeline", session_id="s").json()["items"][0]["memory"],
    "patch": lambda agent, uid: agent.patch(f"/memories/{uid}", {"trust": 0.5}).json()["memory"],
    "store again": lambda agent, uid: agent.post("/memories", {"content": QUERY}).json()["memory"],
    "restore": lambda agent, uid: agent.post(f"/memories/{uid}/restore").json()["memory"],
    "letsgo get": _tool("letsgo/get_memory", "memory", id=ID),
    "letsgo list": _tool("letsgo/list_memories", "memories", 0, session_id="s"),
    "letsgo file": _tool("letsgo/search_by_file", "results", 0, path="a.py"),
}
# Reads that return the replacement itself if the caller may see it.
FINDS: dict[str, Finder] = {
    "search": lambda agent, uid: agent.get("/search", query=QUERY).json()["results"][0]["memory"],
    "recall": lambda agent, uid: agent.post("/recall", {"query": QUERY}).json()["details"][0],
    "letsgo search": _tool("letsgo/search_memories", "results", 0, query=QUERY),
    "memory-mcp recall": _tool("memory-mcp/memory_recall", "details", 0, query=QUERY),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_answer_shows_the_replacement_only_to_those_who_see_it(
    agent: Callable[..., Agent], read: Finder
) -> None:
    bot, low = agent(), agent("public", "low")
    fields = {"content": QUERY, "session_id": "s", "files_read": ["a.py"], "aliases": ["zebra"]}
    old = stored(bot, **fields)["id"]
    new = stored(bot, content="of another animal", sensitivity="private")["id"]
    bot.patch(f"/memories/{old}", {"superseded_by": new})
    found = read(low, old)
    assert found["id"] == old
    assert found["aliases"] == ["zebra"]
    assert found.get("superseded_by") is None
    Memory.objects.filter(uid=new).update(sensitivity="public")
    assert read(low, old)["superseded_by"] == new


@pytest.mark.parametrize("read", FINDS.values(), ids=FINDS)
def test_search_returns_the_replacement_to_those_who_see_it(
    agent: Callable[..., Agent], read: Finder
) -> None:
    bot, low = agent(), agent("public", "low")
    old = stored(bot, content=QUERY)["id"]
    new = stored(bot, content="of another animal", sensitivity="private")["id"]
    bot.patch(f"/memories/{old}", {"superseded_by": new})
    found = read(low, old)
    assert (found["id"], found.get("superseded_by")) == (old, None)
    Memory.objects.filter(uid=new).update(sensitivity="public")
    assert read(low, old)["id"] == new


def test_a_read_that_does_not_ask_for_the_level_shows_no_replacement(bot: Agent) -> None:
    old, new = stored(bot, content="old"), stored(bot, content="new", sensitivity="private")
    bot.patch(f"/memories/{old['id']}", {"superseded_by": new["id"]})
    assert bot.get(f"/memories/{old['id']}").json()["superseded_by"] is None
    assert bot.get(f"/memories/{old['id']}", allow_private=True).json()["superseded_by"] == new["id"]
    bot.patch(f"/memories/{old['id']}", {"superseded_by": None})
    for asked, uid in (({}, None), ({"allow_private": True}, new["id"])):
        revisions = bot.get(f"/memories/{old['id']}/history", **asked).json()["revisions"]
        assert [row["before"] for row in revisions] == [{"superseded_by": uid}, {"superseded_by": None}]


# Reads that find memories for a text, or for a memory next to it. Each returns the ids of its results.
SEARCHES: dict[str, Callable[[Agent, str], list[str]]] = {
    "search": lambda agent, _: [
        one["memory"]["id"] for one in agent.get("/search", query=QUERY).json()["results"]
    ],
    "recall": lambda agent, _: [
        one["id"] for one in agent.post("/recall", {"query": QUERY}).json()["details"]
    ],
    "inject": lambda agent, _: [
        one["id"] for one in agent.post("/inject", {"prompt": QUERY, "session_id": ""}).json()["injected"]
    ],
    "related": lambda agent, near: [
        one["memory"]["id"] for one in agent.get(f"/memories/{near}/related").json()["items"]
    ],
    "letsgo": lambda agent, _: [one["id"] for one in agent.tool("search_memories", query=QUERY)["results"]],
    "memory-mcp": lambda agent, _: [
        one["id"] for one in _tool("memory-mcp/memory_recall", "details", query=QUERY)(agent, "")
    ],
    "mira": lambda agent, _: [
        one["id"] for one in _tool("mira/memory", action="recall", query=QUERY)(agent, "")
    ],
    "pigo": lambda agent, _: [
        one["id"] for one in _tool("pigo/memory_recall", "results", query=QUERY)(agent, "")
    ],
}
ENDS: dict[str, dict[str, Any]] = {
    "trashed": {"deleted_at": "2026-01-01T00:00:00Z"},
    "expired": {"expires_at": "2026-01-01T00:00:00Z"},
    "hidden": {"sensitivity": "secret"},
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_replaced_memory_returns_when_no_visible_live_memory_replaces_it(
    agent: Callable[..., Agent], search: Callable[[Agent, str], list[str]]
) -> None:
    bot, low = agent(), agent("public", "low")
    near, old, new, summary = (
        stored(bot, content=text, files_modified=["zebra.py"])["id"]
        for text in ("Notes on a file", f"{QUERY} in black", f"{QUERY} in brown", "A summary of animals")
    )
    bot.patch(f"/memories/{old}", {"superseded_by": new})
    assert old not in search(low, near)
    for end in ENDS.values():
        row = Memory.objects.filter(uid=new)
        before = row.values(*end).get()
        row.update(**end)
        assert old in search(low, near), end
        row.update(**before)
    made = Memory.objects.get(uid=summary)
    memories.trash_memories([new], system_actor("tests"), TrashReason.COMPRESSED, into=made)
    assert old not in search(low, near)

"""LetsGo's tools over HTTP: arguments, defaults, nulls and results of the wire contract."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import Fact, Memory
from tests.api.conftest import bad_fields, is_problem
from tests.cases import each
from tests.toolsets.conftest import result, run

NAMES = [
    *("store_memory", "search_memories", "list_memories", "get_memory", "update_memory", "delete_memory"),
    *("search_by_file", "search_by_concept", "get_timeline", "store_fact", "query_facts", "delete_fact"),
    *("purge_expired", "summarize_old", "memory"),
]
REQUIRED = {
    "store_memory": ["content"],
    "search_memories": ["query"],
    "get_memory": ["id"],
    "update_memory": ["id"],
    "delete_memory": ["id"],
    "search_by_file": ["path"],
    "search_by_concept": ["concept"],
    "store_fact": ["subject", "predicate", "object"],
    "delete_fact": ["id"],
    "memory": ["operation"],
}
READS = [
    *(
        "search_memories",
        "list_memories",
        "get_memory",
        "search_by_file",
        "search_by_concept",
        "get_timeline",
    ),
    "query_facts",
]


@pytest.mark.conformance("guide-37", "store-12")
def test_the_toolsets_are_listed(bot):
    body = bot.get("/tools").json()
    [letsgo] = [item for item in body["items"] if item["name"] == "letsgo"]
    assert letsgo["tools"] == NAMES


def test_each_tool_is_described_with_its_schema(bot):
    body = bot.get("/tools/letsgo").json()
    assert [tool["name"] for tool in body["items"]] == NAMES
    for tool in body["items"]:
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"].get("required", []) == REQUIRED.get(tool["name"], [])
        assert tool["annotations"]["readOnlyHint"] is (tool["name"] in READS)
        if tool["name"] in READS:
            assert {"allow_private", "allow_secret"} <= set(tool["inputSchema"]["properties"])


@pytest.mark.conformance(
    "guide-26", "guide-45", "guide-48", "guide-49", "guide-50", "guide-51", "guide-52", "store-3"
)
def test_store_memory_takes_every_settable_field(bot):
    body = {
        "content": "x",
        "title": "t",
        "tags": ["a"],
        "importance": 0.9,
        "ttl_days": 3,
        "sensitivity": "private",
    }
    made = bot.tool("store_memory", **body)
    assert made == {"id": Memory.objects.get().uid, "outcome": "created"}
    read = bot.tool("get_memory", id=made["id"], allow_private=True)["memory"]
    assert (read["title"], read["tags"], read["importance"]) == ("t", ["a"], 0.9)
    assert bot.tool("store_memory", content="x") == {"id": made["id"], "outcome": "refreshed"}


@pytest.mark.conformance("store-2", "store-4")
def test_search_memories_gives_fields_with_score_and_match(bot):
    bot.tool("store_memory", content="zebra stripes", project="zoo", category="animals", type="discovery")
    bot.tool("store_memory", content="zebra crossing", project="town")
    results = bot.tool("search_memories", query="zebra")["results"]
    assert len(results) == 2
    assert results[0]["content"]
    assert 0 < results[0]["match"] <= 1
    assert results[0]["score"] >= results[1]["score"]
    for narrower in ({"project": "zoo"}, {"category": "animals"}, {"type": "discovery"}, {"limit": 1}):
        assert len(bot.tool("search_memories", query="zebra", **narrower)["results"]) == 1
    assert bot.tool("search_memories", query="zebra", min_score=1.0)["results"] == []


@pytest.mark.conformance("store-5")
def test_list_memories_gives_previews_newest_first(bot):
    for n in range(3):
        bot.tool("store_memory", content=f"number {n}", session_id=f"s{n}")
    listed = bot.tool("list_memories", limit=2)["memories"]
    assert [item["preview"] for item in listed] == ["number 2", "number 1"]
    assert "content" not in listed[0]
    assert len(bot.tool("list_memories", session_id="s0")["memories"]) == 1


@pytest.mark.conformance("guide-28", "guide-53", "store-6")
def test_get_memory_counts_an_access(bot):
    uid = bot.tool("store_memory", content="x")["id"]
    bot.tool("get_memory", id=uid)
    assert bot.tool("get_memory", id=uid)["memory"]["accessed_count"] == 2
    is_problem(bot.post("/tools/letsgo/get_memory", {"id": "nothere"}), 404, "not_found")


@pytest.mark.conformance("guide-29")
def test_update_memory_sets_fields_in_place(bot):
    uid = bot.tool("store_memory", content="x")["id"]
    assert bot.tool("update_memory", id=uid, content="y", tags=["t"]) == {"id": uid, "outcome": "updated"}
    assert bot.tool("update_memory", id=uid, content="y") == {"id": uid, "outcome": "unchanged"}
    read = bot.tool("get_memory", id=uid)["memory"]
    assert (read["content"], read["tags"]) == ("y", ["t"])
    is_problem(bot.post("/tools/letsgo/update_memory", {"id": uid}), 422)
    is_problem(bot.post("/tools/letsgo/update_memory", {"id": "nothere", "title": "t"}), 404)
    assert bad_fields(bot.post("/tools/letsgo/update_memory", {"id": uid, "importance": 2})) == {"importance"}


@pytest.mark.conformance("store-7")
def test_delete_memory_moves_it_to_the_trash(bot):
    uid = bot.tool("store_memory", content="x")["id"]
    assert bot.tool("delete_memory", id=uid) == {"id": uid, "outcome": "trashed"}
    assert Memory.objects.get().deleted_at
    is_problem(bot.post("/tools/letsgo/delete_memory", {"id": uid}), 404)


@pytest.mark.conformance("guide-30", "guide-31", "guide-56")
def test_search_by_file_and_by_concept(bot):
    bot.tool("store_memory", content="x", files_modified=["src/app.py"], concepts=["gotcha"])
    bot.tool("store_memory", content="y", files_read=["lib/other.py"], concepts=["pattern"])
    for path in ("src/app.py", "app.py", "src"):
        assert [m["content"] for m in bot.tool("search_by_file", path=path)["results"]] == ["x"]
    assert [m["content"] for m in bot.tool("search_by_concept", concept="pattern")["results"]] == ["y"]
    assert bot.tool("search_by_concept", concept="nothing")["results"] == []


@pytest.mark.conformance("guide-33")
def test_get_timeline_narrows_by_type_project_and_session(bot):
    bot.tool("store_memory", content="x", project="p", session_id="s", type="decision")
    bot.tool("store_memory", content="y")
    assert len(bot.tool("get_timeline")["timeline"]) == 3
    assert len(bot.tool("get_timeline", limit=1)["timeline"]) == 1
    assert {entry["kind"] for entry in bot.tool("get_timeline", session_id="s")["timeline"]} == {
        *("memory", "session_start")
    }
    assert [e["memory"]["preview"] for e in bot.tool("get_timeline", type="decision")["timeline"]] == ["x"]


@pytest.mark.conformance("guide-34", "store-9", "store-10")
def test_facts_are_stored_queried_and_deleted(bot):
    triple = {"subject": "WAL", "predicate": "allows", "object": "readers"}
    made = bot.tool("store_fact", **triple)
    assert made["outcome"] == "created"
    assert bot.tool("store_fact", **triple, confidence=0.3) == {"id": made["id"], "outcome": "updated"}
    [fact] = bot.tool("query_facts", subject="WAL")["facts"]
    assert (fact["object"], fact["confidence"]) == ("readers", 0.3)
    assert bot.tool("query_facts", min_confidence=0.5)["facts"] == []
    assert bot.tool("delete_fact", id=made["id"]) == {"id": made["id"], "outcome": "deleted"}
    assert bot.tool("query_facts")["facts"] == []


@pytest.mark.conformance("guide-35", "store-11")
def test_purge_expired_removes_permanently(bot):
    bot.tool("store_memory", content="old", ttl_days=1)
    bot.tool("store_memory", content="young")
    Memory.objects.filter(content="old").update(expires_at=timezone.now() - timedelta(hours=1))
    assert bot.tool("purge_expired") == {"purged": 1}
    assert bot.tool("purge_expired") == {"purged": 0}
    assert Memory.objects.count() == 1


@pytest.mark.conformance("guide-36")
def test_summarize_old_condenses_a_category(bot):
    for n in range(5):
        bot.tool("store_memory", content=f"old thing {n}", created_at="2020-01-01T00:00:00Z")
    bot.tool("store_memory", content="young thing")
    assert bot.tool("summarize_old", min_entries=6) == {"summarized": 0, "created": 0}
    assert bot.tool("summarize_old") == {"summarized": 5, "created": 1}
    assert bot.tool("summarize_old") == {"summarized": 0, "created": 0}
    assert {m["type"] for m in bot.tool("list_memories")["memories"]} == {"change", "compressed_summary"}


@each("name", ["nothing", "STORE_MEMORY", "store_memory%00", "__class__"])
def test_an_unknown_tool_or_toolset_is_404(bot, name):
    is_problem(bot.post(f"/tools/letsgo/{name}", {}), 404, "unknown_tool")
    is_problem(bot.post(f"/tools/{name}/store_memory", {}), 404, "unknown_toolset")
    is_problem(bot.get(f"/tools/{name}"), 404, "unknown_toolset")


@each("tool", NAMES)
def test_missing_arguments_are_named(bot, tool):
    response = bot.post(f"/tools/letsgo/{tool}")
    if tool in REQUIRED:
        assert bad_fields(response) == set(REQUIRED[tool])
    else:
        assert response.status_code == 200


SPARSE = dict.fromkeys(("category", "type", "importance", "sensitivity", "scope", "tags", "title", "key"))


def test_null_means_absent(bot):
    result(run(bot, "letsgo", "store_memory", content="x is y", **SPARSE))
    memory = Memory.objects.get()
    assert (memory.category, memory.type, memory.importance) == ("general", "change", 0.5)
    assert memory.expires_at is not None
    found = result(run(bot, "letsgo", "search_memories", query="x is y", limit=None, category=None))
    assert len(found["results"]) == 1


def test_null_ttl_means_never(bot):
    result(run(bot, "letsgo", "store_memory", content="x is y", ttl_days=None))
    assert Memory.objects.get().expires_at is None


def test_a_fact_may_have_nulls(bot):
    triple = {"subject": "hub", "predicate": "runs on", "object": "one file"}
    result(run(bot, "letsgo", "store_fact", **triple, confidence=None, project=None, memory_id=None))
    assert Fact.objects.get().confidence == 1.0


def test_empty_update_lists_the_fields_without_the_id(bot):
    problem = is_problem(run(bot, "letsgo", "update_memory", id="any", title=None), 422, "invalid")
    [error] = problem["errors"]
    named = error["message"].partition(": ")[2].split(", ")
    assert "title" in named
    assert "id" not in named


def test_null_in_an_update_clears_nothing(bot):
    made = result(run(bot, "letsgo", "store_memory", content="x is y", tags=["t"], key="k", title="T"))
    nulls = dict.fromkeys(("tags", "key", "type", "importance", "content", "files_read", "entities"))
    done = result(run(bot, "letsgo", "update_memory", id=made["id"], title="U", **nulls))
    memory = Memory.objects.get()
    assert (done["outcome"], memory.title, memory.key, memory.content) == ("updated", "U", "k", "x is y")
    assert memory.labels.count() == 1
    assert memory.expires_at is not None


# The call shapes of LetsGo's own tool


def test_memory_runs_the_named_operation(bot):
    made = result(run(bot, "letsgo", "memory", operation="store_memory", content="zebra herd"))
    shown = result(run(bot, "letsgo", "memory", operation="get_memory", memory_id=made["id"]))
    assert shown["memory"]["content"] == "zebra herd"


def test_memory_needs_the_right_of_the_operation(agent):
    reader = agent(rights=["read"])
    assert run(reader, "letsgo", "memory", operation="list_memories").status_code == 200
    is_problem(run(reader, "letsgo", "memory", operation="store_memory", content="x"), 403)
    assert not Memory.objects.exists()


def test_memory_refuses_an_unknown_operation_and_itself(bot):
    for operation in ("dance", "memory"):
        assert bad_fields(run(bot, "letsgo", "memory", operation=operation)) == {"operation"}
    assert bad_fields(run(bot, "letsgo", "memory")) == {"operation"}


def test_memory_names_the_ignored_arguments_of_the_operation(bot):
    response = run(bot, "letsgo", "memory", operation="list_memories", limit=3, colour="red")
    assert response.json()["ignored"] == ["colour"]


def test_upstream_argument_names_are_accepted(bot, remember):
    source = remember("about a file", files_read=["src/app.py"])
    [found] = result(run(bot, "letsgo", "search_by_file", file_path="src/app.py"))["results"]
    assert found["id"] == source.uid
    fact = {"subject": "app", "predicate": "uses", "object_value": "Redis", "source_entry_id": source.uid}
    made = result(run(bot, "letsgo", "store_fact", **fact))
    assert Fact.objects.get().memory == source
    [known] = result(run(bot, "letsgo", "query_facts", object_value="Redis"))["facts"]
    assert known["id"] == made["id"]
    result(run(bot, "letsgo", "delete_fact", fact_id=made["id"]))
    assert not Fact.objects.exists()
    assert result(run(bot, "letsgo", "summarize_old", max_age_days=3, min_entries=2))["created"] == 0


def test_lists_state_their_order_and_why_they_end(bot, remember):
    for number in range(3):
        remember(f"zebra number {number}", files_read=["zoo.py"], concepts=["gotcha"])
    found = bot.tool("search_memories", query="zebra", limit=2)
    assert (found["total"], found["order"], found["min_score"]) == (3, "-score", 0.35)
    assert bot.tool("search_memories", query="zebra", min_score=1.0)["min_score"] == 1.0
    for name, given in (
        ("list_memories", {}),
        ("search_by_file", {"path": "zoo.py"}),
        ("search_by_concept", {"concept": "gotcha"}),
    ):
        part, whole = bot.tool(name, limit=2, **given), bot.tool(name, **given)
        assert (part["order"], part["has_more"], whole["has_more"]) == ("-updated_at", True, False)


def test_list_continues_at_an_offset(bot, remember):
    made = [remember(f"memory number {n}").uid for n in range(5)]
    first = result(run(bot, "letsgo", "list_memories", limit=3))
    rest = result(run(bot, "letsgo", "list_memories", limit=3, offset=3))
    assert [one["id"] for one in (*first["memories"], *rest["memories"])] == made[::-1]
    assert (first["has_more"], rest["has_more"]) == (True, False)


def test_repeat_merges_lists_and_importance_and_names_the_rest(bot):
    run(bot, "letsgo", "store_memory", content="zebra", tags=["a"], files_read=["x.py"], importance=0.4)
    again = {
        "tags": ["b"],
        "files_read": ["y.py"],
        "importance": 0.7,
        "title": "Other",
        "category": "general",
    }
    response = run(bot, "letsgo", "store_memory", content="zebra", **again)
    assert result(response)["outcome"] == "refreshed"
    assert response.json()["ignored"] == ["title"]
    shown = result(run(bot, "letsgo", "get_memory", id=result(response)["id"]))["memory"]
    assert (shown["tags"], shown["files_read"]) == (["a", "b"], ["x.py", "y.py"])
    assert shown["importance"] == 0.7


def test_repeat_does_not_lower_the_importance(bot):
    run(bot, "letsgo", "store_memory", content="zebra", importance=0.9)
    run(bot, "letsgo", "store_memory", content="zebra", importance=0.1)
    assert Memory.objects.get().importance == 0.9


def test_repeat_of_a_hidden_memory_changes_nothing(agent, remember):
    hidden = remember("zebra", sensitivity="secret", tags=["a"])
    run(agent("public"), "letsgo", "store_memory", content="zebra", tags=["b"], importance=0.9)
    hidden.refresh_from_db()
    assert hidden.importance == 0.5
    assert list(hidden.labels.values_list("value", flat=True)) == ["a"]


def test_purge_deletes_only_what_the_token_sees(agent, remember):
    expired = timezone.now() - timedelta(days=1)
    for level in ("public", "secret"):
        remember(f"a {level} memory", sensitivity=level)
    Memory.objects.update(expires_at=expired)
    caller = agent("public", rights=["write"])
    assert result(run(caller, "letsgo", "purge_expired")) == {"purged": 1}
    assert Memory.objects.get().sensitivity == "secret"


def test_memory_is_pinned_and_unpinned(bot):
    made = result(run(bot, "letsgo", "store_memory", content="Deploy with make ship", pinned=True))
    memory = Memory.objects.get(uid=made["id"])
    assert memory.pinned
    run(bot, "letsgo", "update_memory", id=made["id"], pinned=False)
    memory.refresh_from_db()
    assert not memory.pinned

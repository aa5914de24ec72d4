"""All toolsets: descriptions, ignored arguments and hints about unknown names."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import Agent, is_problem
from tests.toolsets.conftest import result, run

TOOLS = [
    pytest.param(toolset.name, tool, id=f"{toolset.name}-{tool.name}")
    for toolset in TOOLSETS.values()
    for tool in toolset.tools
]
MAX_WORDS = 60


@pytest.mark.parametrize(("toolset", "tool"), TOOLS)
def test_descriptions_have_under_sixty_words(toolset, tool):
    assert 4 <= len(tool.description.split()) < MAX_WORDS
    for name, argument in tool.input_schema["properties"].items():
        assert 0 < len(argument.get("description", "").split()) < MAX_WORDS, name


@pytest.mark.parametrize(("toolset", "tool"), TOOLS)
def test_unknown_argument_is_named_as_ignored(bot: Agent, toolset, tool):
    triple = {"subject": "a", "predicate": "b", "object": "c"}
    needed = {"content": "x", "query": "x", "path": "x", "concept": "x", "category": "cases", **triple}
    needed |= {"action": "recall", "operation": "get_timeline"}
    arguments = {name: needed[name] for name in tool.input_schema["properties"] if name in needed}
    if "id" in tool.input_schema.get("required", []) or toolset == "memory-mcp":
        arguments["id"] = result(run(bot, "letsgo", "store_memory", content="zebra"))["id"]
    if tool.name == "delete_fact":
        arguments["id"] = result(run(bot, "letsgo", "store_fact", **triple))["id"]
    response = run(bot, toolset, tool.name, **arguments, zzz=1)
    assert response.status_code == 200, response.content
    assert "zzz" in response.json()["ignored"]


@pytest.mark.parametrize(
    ("toolset", "tool", "arguments", "wrong", "right"),
    [
        ("letsgo", "search_memories", {"query": "x"}, "limits", "limit"),
        ("letsgo", "store_memory", {"content": "x"}, "session", "session_id"),
        ("memory-mcp", "memory_recall", {"query": "x"}, "maxTokens", "max_tokens"),
        ("mira", "memory", {"action": "recall", "query": "x"}, "facttype", "fact_type"),
        ("pigo", "memory_recall", {"query": "x"}, "topk", "top_k"),
    ],
)
def test_ignored_argument_has_the_nearest_valid_name(bot, toolset, tool, arguments, wrong, right):
    answer = run(bot, toolset, tool, **arguments, **{wrong: "1"}).json()
    assert (answer["ignored"], answer["suggestions"]) == ([wrong], {wrong: right})


@pytest.mark.parametrize("name", ["x", "id", "zzz", "colour", "q" * 5000])
def test_name_like_no_other_has_no_suggestion(bot, name):
    answer = run(bot, "letsgo", "search_memories", query="x", **{name: 1}).json()
    assert (answer["ignored"], "suggestions" in answer) == ([name], False)


def test_number_of_suggestions_is_limited(bot):
    names = {f"limit{number:03}": 1 for number in range(100)}
    answer = run(bot, "letsgo", "search_memories", query="x", **names).json()
    assert (len(answer["ignored"]), len(answer["suggestions"])) == (100, 20)


def test_refusal_names_the_misspelt_argument(bot):
    problem = is_problem(run(bot, "letsgo", "store_memory", contents="x"), 422, "invalid")
    messages = {error["field"]: error["message"] for error in problem["errors"]}
    assert messages["contents"] == "is unknown; did you mean content?"
    assert "content" in messages


@pytest.mark.parametrize(
    ("toolset", "tool", "arguments"),
    [
        ("memory-mcp", "memory_store", {}),
        ("mira", "memory", {"action": "remember"}),
        ("mira", "memory", {"action": "reember"}),
        ("letsgo", "memory", {"operation": "store_memory"}),
    ],
)
def test_every_refusal_names_the_misspelt_argument_once(bot, toolset, tool, arguments):
    problem = is_problem(run(bot, toolset, tool, **arguments, contnet="x"), 422)
    messages = [error["message"] for error in problem["errors"] if error["field"] == "contnet"]
    assert messages == ["is unknown; did you mean content?"]


@pytest.mark.parametrize("wrong", ["bug-fix", "bug", "Bugfix"])
def test_refusal_names_the_nearest_value(bot, wrong):
    problem = is_problem(run(bot, "letsgo", "store_memory", content="x", type=wrong), 422, "invalid")
    [error] = problem["errors"]
    assert error["message"].endswith("; did you mean bugfix?")


def test_refusal_does_not_call_upstream_names_unknown(bot):
    problem = is_problem(run(bot, "letsgo", "search_by_file", file_path="x", limit=0), 422, "invalid")
    assert [error["field"] for error in problem["errors"]] == ["limit"]


@pytest.mark.parametrize(
    ("toolset", "wrong", "right"),
    [
        ("letsgo", "search_memory", "search_memories"),
        ("memory-mcp", "recall", "memory_recall"),
        ("mira", "memories", "memory"),
        ("pigo", "remember", "memory_remember"),
    ],
)
def test_unknown_tool_names_the_nearest(bot, toolset, wrong, right):
    problem = is_problem(run(bot, toolset, wrong), 404, "unknown_tool")
    assert f"did you mean {right}?" in problem["detail"]


def test_unknown_toolset_names_the_nearest(bot):
    problem = is_problem(run(bot, "memory_mcp", "memory_recall"), 404, "unknown_toolset")
    assert "did you mean memory-mcp?" in problem["detail"]


def test_unknown_operation_names_the_nearest(bot):
    problem = is_problem(run(bot, "letsgo", "memory", operation="delete_memries"), 422, "invalid")
    assert problem["errors"][0]["message"].endswith("; did you mean delete_memory?")


@pytest.mark.parametrize(
    ("action", "arguments", "ignored"),
    [
        ("remember", {"content": "x", "query": "y", "limit": 3, "hard": True}, ["hard", "limit", "query"]),
        ("recall", {"query": "x", "key": "k", "ttl_days": 3, "tags": ["t"]}, ["key", "tags", "ttl_days"]),
        ("forget", {"id": "x", "project": "p", "content": "c"}, ["content", "project"]),
    ],
)
def test_mira_names_arguments_of_another_action(bot, action, arguments, ignored):
    assert run(bot, "mira", "memory", action=action, **arguments).json()["ignored"] == ignored


def test_mira_names_the_level_that_a_repeat_does_not_lower(bot):
    first = {"action": "remember", "content": "we use Go", "sensitivity": "private", "project": "p"}
    run(bot, "mira", "memory", **first)
    answer = run(bot, "mira", "memory", **{**first, "sensitivity": "public", "tags": ["t"]}).json()
    assert answer["ignored"] == ["sensitivity"]
    assert [label.value for label in Memory.objects.get().labels.all()] == ["t"]


def test_letsgo_repeat_adds_lists_and_names_the_rest(bot):
    run(bot, "letsgo", "store_memory", content="zebra", aliases=["z"], importance=0.9, session_id="one")
    again = {"aliases": ["stripes"], "entities": [{"entity": "Zoe"}], "importance": 0.1, "session_id": "two"}
    answer = run(bot, "letsgo", "store_memory", content="zebra", **again, ttl_days=3).json()
    assert answer["ignored"] == ["importance", "session_id"]
    shown = result(run(bot, "letsgo", "get_memory", id=answer["result"]["id"]))["memory"]
    assert (shown["aliases"], shown["entities"][0]["entity"]) == (["stripes", "z"], "Zoe")


def test_letsgo_upsert_names_the_time_that_it_does_not_change(bot):
    run(bot, "letsgo", "store_memory", content="zebra", key="k")
    arguments = {"content": "zebras", "key": "k", "created_at": "2020-01-01T00:00:00Z", "title": "Z"}
    answer = run(bot, "letsgo", "store_memory", **arguments).json()
    assert (answer["result"]["outcome"], answer["ignored"]) == ("updated", ["created_at"])


def test_repeat_of_an_unreadable_memory_names_all_that_was_given(agent):
    writer = agent("public", rights=["write"])
    run(writer, "letsgo", "store_memory", content="zebra", sensitivity="secret")
    again = {"content": "zebra", "sensitivity": "secret", "tags": ["t"], "title": "T"}
    answer = run(writer, "letsgo", "store_memory", **again).json()
    assert (answer["result"]["outcome"], answer["ignored"]) == ("refreshed", ["tags", "title"])


def test_upsert_of_an_unreadable_memory_names_nothing(agent):
    writer = agent("public", rights=["write"])
    first = {"content": "zebra", "key": "k", "sensitivity": "secret"}
    run(writer, "letsgo", "store_memory", **first)
    answer = run(writer, "letsgo", "store_memory", **{**first, "content": "zebras", "tags": ["t"]}).json()
    assert (answer["result"]["outcome"], answer["ignored"]) == ("updated", [])


def test_pigo_repeat_takes_the_layers_and_names_the_rest(bot):
    first = {"category": "cases", "content": "The build failed; the cache was full", "session_id": "one"}
    run(bot, "pigo", "memory_remember", **first)
    again = {**first, "abstract": "Full cache", "tags": ["ci"], "session_id": "two", "ttl_days": 5}
    answer = run(bot, "pigo", "memory_remember", **again).json()
    assert (answer["result"]["decision"], answer["ignored"]) == ("SKIP", ["session_id"])
    memory = Memory.objects.get()
    assert (memory.abstract, memory.labels.get().value) == ("Full cache", "ci")


def test_pigo_repeat_takes_the_category(bot):
    run(bot, "letsgo", "store_memory", content="Ada leads the export team", category="people")
    arguments = {"category": "profile", "content": "Ada leads the export team"}
    answer = run(bot, "pigo", "memory_remember", **arguments).json()
    assert (answer["result"]["category"], answer["ignored"]) == ("profile", [])


def test_pigo_names_the_ignored_arguments_of_a_skipped_memory(bot):
    first = {"category": "preferences", "content": "Ada prefers tabs over spaces in Go files"}
    run(bot, "pigo", "memory_remember", **first)
    again = {"category": "preferences", "content": "Ada prefers tabs over spaces", "tags": ["go"]}
    answer = run(bot, "pigo", "memory_remember", **again).json()
    assert (answer["result"]["decision"], answer["ignored"]) == ("SKIP", ["tags"])


def test_pigo_names_the_second_of_two_limits(bot):
    answer = run(bot, "pigo", "memory_recall", query="x", top_k=3, limit=4).json()
    assert answer["ignored"] == ["limit"]

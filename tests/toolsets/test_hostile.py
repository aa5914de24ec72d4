"""Any value in any argument, hostile markup, and arguments that are not objects."""

from itertools import product

import pytest

from memoryhub.models import Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import is_problem
from tests.cases import each
from tests.toolsets.conftest import result, run

GOOD = {
    ("memory-mcp", "memory_store"): {"content": "c"},
    ("memory-mcp", "memory_recall"): {"query": "q"},
    ("memory-mcp", "memory_forget"): {"id": "x"},
    ("pigo", "memory_recall"): {"query": "q"},
    ("pigo", "memory_remember"): {"content": "c", "category": "events"},
    ("pigo", "memory_forget"): {"id": "x"},
}
MIRA = [
    {"action": "remember", "content": "c"},
    {"action": "recall", "query": "q"},
    {"action": "forget", "id": "x"},
]
LETSGO = {
    "store_memory": {"content": "c"},
    "search_memories": {"query": "q"},
    "list_memories": {},
    "get_memory": {"id": "x"},
    "update_memory": {"id": "x", "content": "c"},
    "delete_memory": {"id": "x"},
    "search_by_file": {"path": "p"},
    "search_by_concept": {"concept": "c"},
    "get_timeline": {},
    "store_fact": {"subject": "s", "predicate": "p", "object": "o"},
    "query_facts": {},
    "delete_fact": {"id": "x"},
    "purge_expired": {},
    "summarize_old": {},
    "memory": {"operation": "list_memories"},
}
CALLS = [
    *((*place, good) for place, good in GOOD.items()),
    *(("mira", "memory", good) for good in MIRA),
    *(("letsgo", tool, good) for tool, good in LETSGO.items()),
]
VALUES = [None, "", "\x00", -1, 10**30, 1e300, [], {}, True, "x" * 200_000, "🦓", [[["x"]]], "' OR 1=1 --"]
MARKUP = "<script>alert(1)</script> </memory-context> [[INST]] \u202e zebra {{7*7}}"


def test_all_tools_are_covered():
    called = {(toolset, tool) for toolset, tool, _ in CALLS}
    assert called == {(name, tool.name) for name, toolset in TOOLSETS.items() for tool in toolset.tools}


@pytest.mark.slow
@each("toolset, tool, good", CALLS)
def test_any_value_is_accepted_or_refused_with_its_field(bot, toolset, tool, good):
    for name, value in product(TOOLSETS[toolset].find(tool).input_schema["properties"], VALUES):
        response = run(bot, toolset, tool, **{**good, name: value})
        case = (name, repr(value)[:12], response.content)
        assert response.status_code in (200, 404, 422), case
        if response.status_code == 422:
            fields = {error["field"].split(".")[0] for error in response.json()["errors"]}
            assert fields <= {name, "body", *good}, case


@each("toolset, tool, good", CALLS)
def test_arguments_must_be_an_object(bot, toolset, tool, good):
    for body in ([], "x", 5, [["id", "x"]]):
        is_problem(bot.post(f"/tools/{toolset}/{tool}", body), 422)


@each("toolset, tool, good", CALLS)
def test_unknown_arguments_are_named(bot, toolset, tool, good):
    response = run(bot, toolset, tool, **good, colour="red", shape={"a": 1})
    if response.status_code == 200:
        assert response.json()["ignored"] == ["colour", "shape"]


@pytest.mark.parametrize(
    ("toolset", "store", "find"),
    [
        ("memory-mcp", ("memory_store", {}), ("memory_recall", {"query": "zebra"})),
        ("mira", ("memory", {"action": "remember"}), ("memory", {"action": "recall", "query": "zebra"})),
        ("pigo", ("memory_remember", {"category": "events"}), ("memory_recall", {"query": "zebra"})),
    ],
    ids=["memory-mcp", "mira", "pigo"],
)
def test_text_is_returned_as_stored(bot, toolset, store, find):
    result(run(bot, toolset, store[0], **store[1], content=MARKUP))
    assert Memory.objects.get().content == MARKUP
    response = run(bot, toolset, find[0], **find[1])
    assert response["Content-Type"] == "application/json"
    assert MARKUP in response.content.decode()


@pytest.mark.parametrize(("toolset", "tool", "good"), CALLS)
def test_every_argument_is_described_without_references(toolset, tool, good):
    schema = TOOLSETS[toolset].find(tool).input_schema
    assert schema["type"] == "object"
    assert "$ref" not in str(schema)
    if toolset != "letsgo":
        assert all(one["description"] for one in schema["properties"].values())
    assert set(schema.get("required", [])) <= set(good)

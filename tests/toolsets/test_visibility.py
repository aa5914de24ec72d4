"""Every tool of every toolset with hidden levels, other people's personal memories and closed projects."""

import pytest

from memoryhub.models import Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import is_problem
from tests.cases import each
from tests.toolsets.conftest import run

SEARCHES = [
    ("letsgo", "search_memories", {"query": "zebra stripes"}),
    ("letsgo", "list_memories", {}),
    ("letsgo", "get_timeline", {}),
    ("letsgo", "search_by_file", {"path": "zoo.py"}),
    ("letsgo", "search_by_concept", {"concept": "gotcha"}),
    ("memory-mcp", "memory_recall", {"query": "zebra stripes", "max_tokens": 50_000}),
    ("mira", "memory", {"action": "recall", "query": "zebra stripes"}),
    ("pigo", "memory_recall", {"query": "zebra stripes"}),
]
ENDINGS = [
    ("letsgo", "delete_memory", {}),
    ("memory-mcp", "memory_forget", {}),
    ("memory-mcp", "memory_forget", {"hard": True}),
    ("mira", "memory", {"action": "forget"}),
    ("pigo", "memory_forget", {}),
]
CHANGES = [
    ("letsgo", "update_memory", {"content": "changed"}),
    ("memory-mcp", "memory_store", {"content": "changed"}),
]
named = pytest.mark.parametrize(
    ("toolset", "tool", "arguments"), SEARCHES, ids=[f"{name}-{tool}" for name, tool, _ in SEARCHES]
)


@pytest.fixture
def zoo(remember):
    """One memory of each level, including an unknown one, that every search finds."""

    def make(level, **more):
        known = level if level != "cosmic" else "public"
        memory = remember(
            f"zebra stripes of level {level} {more}",
            sensitivity=known,
            files_read=["zoo.py"],
            concepts=["gotcha"],
            **{"project": "zoo", **more},
        )
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        return memory

    return make


@pytest.mark.conformance("guide-60", "guide-61", "guide-62", "store-18", "store-19", "store-20")
@named
@each(
    "clearance, asked, seen",
    [
        ("secret", {}, ["public"]),
        ("secret", {"allow_private": True}, ["public", "private"]),
        ("secret", {"allow_secret": True}, ["public", "secret"]),
        ("secret", {"allow_private": True, "allow_secret": True}, ["public", "private", "secret"]),
        ("private", {"allow_private": True, "allow_secret": True}, ["public", "private"]),
        ("public", {"allow_private": True, "allow_secret": True}, ["public"]),
    ],
)
def test_level_is_shown_only_if_requested_and_cleared(
    agent, zoo, toolset, tool, arguments, clearance, asked, seen
):
    made = {level: zoo(level) for level in ("public", "private", "secret", "cosmic")}
    text = run(agent(clearance), toolset, tool, **arguments, **asked).content.decode()
    assert {level for level, memory in made.items() if memory.uid in text} == set(seen)
    hidden = set(made) - set(seen)
    assert not any(f"level {level}" in text for level in hidden)


@named
def test_personal_memory_is_shown_to_its_owner_only(agent, zoo, toolset, tool, arguments):
    uid = zoo("public", scope="personal").uid
    assert uid in run(agent(name="own", owner="ada"), toolset, tool, **arguments).content.decode()
    assert uid not in run(agent(name="foreign", owner="bob"), toolset, tool, **arguments).content.decode()


@named
def test_confined_token_sees_only_its_projects(agent, zoo, toolset, tool, arguments):
    own, other = zoo("public"), zoo("public", project="farm")
    team = zoo("public", project="farm", scope="team")
    text = run(agent(projects=["zoo"]), toolset, tool, **arguments).content.decode()
    assert own.uid in text
    assert other.uid not in text
    assert team.uid not in text


@named
def test_ended_memory_is_not_shown(bot, zoo, toolset, tool, arguments):
    from django.utils import timezone

    trashed, expired = zoo("public"), zoo("public", tags=["x"])
    Memory.objects.filter(pk=trashed.pk).update(deleted_at=timezone.now())
    Memory.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    text = run(bot, toolset, tool, **arguments).content.decode()
    assert trashed.uid not in text
    assert expired.uid not in text


@each("toolset, tool, arguments", ENDINGS + CHANGES)
@each(
    "options, memory",
    [
        ({"clearance": "public"}, {"level": "private"}),
        ({"clearance": "private"}, {"level": "secret"}),
        ({"clearance": "secret"}, {"level": "cosmic"}),
        ({"owner": "bob"}, {"level": "public", "scope": "personal"}),
        ({"projects": ["farm"]}, {"level": "public"}),
    ],
)
def test_hidden_memory_looks_missing(agent, zoo, toolset, tool, arguments, options, memory):
    hidden = zoo(**memory)
    caller = agent(**options)
    real = run(caller, toolset, tool, **arguments, id=hidden.uid)
    absent = run(caller, toolset, tool, **arguments, id="a" * 16)
    assert real.status_code == absent.status_code
    hidden_body, absent_body = real.json(), absent.json()
    if "result" in hidden_body:
        assert hidden_body["result"].replace(hidden.uid, "") == absent_body["result"].replace("a" * 16, "")
    else:
        assert {**hidden_body, "request_id": ""} == {**absent_body, "request_id": ""}
    left = Memory.objects.get(pk=hidden.pk)
    assert (left.deleted_at, left.content) == (None, hidden.content)


@each(
    "toolset, tool, arguments",
    [
        ("letsgo", "store_memory", {"content": "x"}),
        ("memory-mcp", "memory_store", {"content": "x"}),
        ("mira", "memory", {"action": "remember", "content": "x"}),
        ("pigo", "memory_remember", {"content": "x", "category": "events"}),
    ],
)
def test_confined_token_writes_only_to_its_projects(agent, toolset, tool, arguments):
    caller = agent(projects=["zoo"])
    assert run(caller, toolset, tool, **arguments, project="farm").status_code == 403
    assert run(caller, toolset, tool, **arguments).status_code == 200
    assert Memory.objects.get().project == "zoo"


@each(
    "toolset, tool, arguments",
    [
        ("memory-mcp", "memory_store", {"content": "zebra"}),
        ("mira", "memory", {"action": "remember", "content": "zebra"}),
        ("pigo", "memory_remember", {"content": "zebra", "category": "events"}),
    ],
)
def test_hidden_copy_reveals_nothing(agent, remember, toolset, tool, arguments):
    remember("zebra", sensitivity="secret", category="events", title="Top secret", tags=["hushhush"])
    text = run(agent("public"), toolset, tool, **arguments).content.decode()
    assert "stored" in text or "created" in text
    assert "secret" not in text.lower()
    assert "hushhush" not in text
    assert Memory.objects.count() == 2


@each("name", ["letsgo", "memory-mcp", "pigo"])
def test_tool_needs_its_right(agent, name):
    for tool in TOOLSETS[name].tools:
        if tool.right is None:  # the right depends on the arguments
            continue
        others = [right for right in ("read", "write", "maintain") if right != tool.right]
        caller = agent(name=f"{tool.name}-less", rights=others)
        is_problem(run(caller, name, tool.name), 403, "missing_right")

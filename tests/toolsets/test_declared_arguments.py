"""Every argument that a tool declares changes something, or is named in ``ignored``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.models import Fact, FileLink, Label, Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import Agent, stored
from tests.cases import each, rolled_back
from tests.toolsets.conftest import result, run

# A valid value of each argument that differs from its default and from the stored memories or picks one.
SAMPLES: dict[str, Any] = {
    "content": "Deploy with care",
    "title": "Another",
    "subtitle": "Under it",
    "abstract": "In short",
    "overview": "At length",
    "summary": "In short",
    "aliases": ["ship it"],
    "tags": ["release"],
    "concepts": ["gotcha"],
    "files_read": ["a.py"],
    "files_modified": ["a.py"],
    "entities": ["Mara"],
    "importance": 0.9,
    "trust": 0.3,
    "confidence": 0.9,
    "discovery_tokens": 7,
    "ttl_days": 3,
    "pinned": True,
    "key": "deploy",
    "hard": True,
    "reason": "outdated",
    "created_at": "2026-01-02",
    "sensitivity": "private",
    "scope": "team",
    "project": "harbor",
    "session_id": "s-1",
    "type": "decision",
    "category": "alpha",
    "fact_type": "decision",
    "tag": "release",
    "query": "release",
    "limit": 1,
    "top_k": 1,
    "offset": 1,
    "min_score": 0.99,
    "max_tokens": 150,
    "times": True,
    "provenance": True,
    "allow_private": True,
    "allow_secret": True,
    "subject": "hub",
    "predicate": "runs_on",
    "object": "linux",
    "min_confidence": 0.95,
    "as_of": "2020-01-01T00:00:00Z",
    "path": "a.py",
    "concept": "gotcha",
    "older_than_days": 1,
    "min_entries": 100,
}
NEEDED = {"content": "Deploy on Tuesdays", "query": "deploy", "path": "b.py", "concept": "pattern"} | {
    "subject": "shop",
    "predicate": "uses",
    "object": "sqlite",
}
# Values of a toolset's own vocabulary.
OWN: dict[tuple[str, str], Any] = {
    ("memory-mcp", "type"): "self",
    ("memory-mcp", "importance"): 9,
    ("pigo", "category"): "patterns",
}
# Arguments without which another has no effect.
MORE: dict[tuple[str, str], Any] = {("summarize_old", "min_entries"): {"older_than_days": 1}}
ID_OR_TIME = re.compile(r"\b[a-z0-9]{16}\b|\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?")
CHOICES = {"id", "action", "operation"}
VOLATILE = {"id", "uid", "content_hash", "hash", "took_ms", "tokens_used"}


def cases() -> list[tuple[str, str, dict[str, Any], str]]:
    """Return the toolset, the tool, the arguments that choose an action, and the argument."""
    found = []
    for toolset in TOOLSETS.values():
        for tool in toolset.tools:
            actions: list[dict[str, Any]] = [{}]
            if tool.name == "memory" and toolset.name == "mira":
                actions = [{"action": action} for action in ("remember", "recall", "forget")]
            if tool.name == "memory_store":
                actions = [{}, {"id": "OTHER"}]
            names = [
                name for name in tool.input_schema["properties"] if name not in ("id", "action", "operation")
            ]
            found += [(toolset.name, tool.name, action, name) for action in actions for name in names]
    return found


@pytest.fixture
def ids(bot: Agent) -> dict[str, str]:
    """Two memories that differ in every filter, one of each level, and two facts."""
    first = stored(
        bot,
        content="Deploy the release on Mondays",
        type="decision",
        category="alpha",
        tags=["release"],
        concepts=["gotcha", "pattern"],
        project="harbor",
        session_id="s-1",
        files_read=["a.py", "b.py"],
        entities=[{"entity": "Mara"}],
        importance=0.4,
    )
    other = stored(
        bot,
        project="shop",
        content="Deploy the shop at noon",
        type="bugfix",
        concepts=["pattern"],
        files_read=["b.py"],
    )
    for number in range(5):  # old enough to be summarised
        stored(bot, content=f"Note {number} of the team", category="notes")
    weeks_ago = timezone.now() - timedelta(days=20)
    Memory.objects.filter(category="notes").update(created_at=weeks_ago, updated_at=weeks_ago)
    personal = {"scope": "team", "concepts": ["pattern"], "files_read": ["b.py"]}
    hidden = {
        f"allow_{level}": stored(bot, content=f"Deploy the {level} keys", sensitivity=level, **personal)["id"]
        for level in ("private", "secret")
    }
    for category, text in (("cases", "Deploy case"), ("patterns", "Deploy pattern")):
        result(run(bot, "pigo", "memory_remember", category=category, content=text))
    for kind in ("decision", "general"):
        result(
            run(bot, "mira", "memory", action="remember", content=f"Deploy {kind} of Mira", fact_type=kind)
        )
    facts = [
        result(run(bot, "letsgo", "store_fact", subject=subject, predicate=predicate, object=thing, **more))
        for subject, predicate, thing, more in (
            ("shop", "uses", "sqlite", {"confidence": 0.5}),
            ("shop", "uses", "sqlite", {"confidence": 0.99, "project": "harbor", "session_id": "s-1"}),
            ("hub", "runs_on", "linux", {}),
            ("shop", "uses", "keys", {"sensitivity": "private"}),
            ("shop", "uses", "vault", {"sensitivity": "secret"}),
        )
    ]
    return {"MEMORY": first["id"], "OTHER": other["id"], "FACT": facts[0]["id"], **hidden}


@pytest.mark.slow
@each("case", cases())
def test_declared_argument_has_an_effect_or_is_named(bot, ids, case):
    toolset, tool, action, name = case
    value = OWN.get((toolset, name), SAMPLES.get(name, ids["OTHER"]))
    given = _needed(toolset, tool, action, ids) | MORE.get((tool, name), {})
    if tool == "get_memory":
        given["id"] = ids[name]
    if given.get(name) == value:
        value = "something else"
    with rolled_back():
        plain = _outcome(bot, toolset, tool, given)
    with rolled_back():
        changed = _outcome(bot, toolset, tool, {**given, name: value})
    assert "result" in changed, changed
    assert name in changed["ignored"] or changed != plain


def _needed(toolset: str, tool: str, action: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    schema = next(one for one in TOOLSETS[toolset].tools if one.name == tool).input_schema
    needed = {name: NEEDED[name] for name in schema.get("required", []) if name in NEEDED}
    if toolset == "mira":
        needed |= {"remember": {"content": NEEDED["content"]}, "recall": {"query": "deploy"}}.get(
            action["action"], {"id": ids["MEMORY"]}
        )
    elif "id" in schema.get("required", []):
        needed["id"] = ids["FACT" if tool == "delete_fact" else "MEMORY"]
    elif tool == "memory_store":
        needed["content"] = NEEDED["content"]
    if tool == "memory_remember":
        needed["category"] = "cases"
    return {**needed, **{key: ids.get(text, text) for key, text in action.items()}}


def _outcome(bot: Agent, toolset: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer and the rows after the call, without what differs each time."""
    answer = run(bot, toolset, tool, **arguments).json()
    rows = [_plain(row) for row in Memory.objects.order_by("pk").values()]
    labels = list(Label.objects.order_by("memory_id", "kind", "value").values_list("kind", "value"))
    files = list(FileLink.objects.order_by("memory_id", "path").values_list("path", "access"))
    facts = [_plain(row) for row in Fact.objects.order_by("pk").values()]
    answer["result"] = _plain(answer.get("result"))
    entities = list(Memory.objects.order_by("pk").values_list("entities__entity", flat=True))
    return {"ignored": [], **answer, "rows": [rows, labels, files, facts, entities]}


def _plain(value: Any) -> Any:
    """Leave out ids, and times except for the day: they differ between two equal calls."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return (value - timezone.now()).days
    return ID_OR_TIME.sub("…", value) if isinstance(value, str) else value

"""Requirements of the documents that no other test proves (docs/conformance.md)."""

from __future__ import annotations

import hashlib

import pytest

from memoryhub import capabilities
from memoryhub import capture as hooks
from memoryhub.config import Config
from memoryhub.core.text import estimate_tokens
from memoryhub.models import Embedding, JournalEntry, Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import is_problem
from tests.toolsets.conftest import result, run

NOTE = "Ingrid moved the nightly export from cron to the job queue because two runs overlapped. "


def tool_names(toolset):
    return [tool.name for tool in TOOLSETS[toolset].tools]


# LetsGo


@pytest.mark.conformance("guide-57", "store-13")
def test_content_hash_is_sha256(bot):
    made = result(run(bot, "letsgo", "store_memory", content="zebra"))
    shown = result(run(bot, "letsgo", "get_memory", id=made["id"]))["memory"]
    assert shown["content_hash"] == hashlib.sha256(b"zebra").hexdigest()


@pytest.mark.conformance("store-17")
def test_memory_has_one_of_three_levels(bot):
    for level in ("public", "private", "secret"):
        run(bot, "letsgo", "store_memory", content=f"a {level} zebra", sensitivity=level)
    is_problem(run(bot, "letsgo", "store_memory", content="zebra", sensitivity="cosmic"), 422, "invalid")
    assert set(Memory.objects.values_list("sensitivity", flat=True)) == {"public", "private", "secret"}


@pytest.mark.conformance("guide-63", "store-21")
@pytest.mark.parametrize("tool", ["search_memories", "list_memories"])
def test_unknown_level_is_denied(bot, remember, tool):
    remember("zebra")
    Memory.objects.update(sensitivity="cosmic")
    arguments = {"query": "zebra"} if tool == "search_memories" else {}
    found = result(run(bot, "letsgo", tool, **arguments, allow_private=True, allow_secret=True))
    assert next(iter(found.values())) == []


@pytest.mark.conformance("guide-70", "store-34")
def test_journal_only_grows_whatever_the_tools_do(bot):
    made = result(run(bot, "letsgo", "store_memory", content="zebra", ttl_days=1))
    before = list(JournalEntry.objects.order_by("seq").values())
    run(bot, "letsgo", "update_memory", id=made["id"], title="Z")
    run(bot, "letsgo", "delete_memory", id=made["id"])
    run(bot, "letsgo", "purge_expired")
    run(bot, "memory-mcp", "memory_forget", id=made["id"], hard=True)
    after = list(JournalEntry.objects.order_by("seq").values())
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert bot.get("/journal/verify").json()["ok"] is True


@pytest.mark.conformance("guide-2", "guide-3", "guide-4", "guide-5", "guide-6", "guide-7", "store-38")
def test_capabilities_are_registered():
    names = "store memorability boundaries temporal consolidation compression".split()
    assert {f"memory.{name}" for name in names} <= set(capabilities.CAPABILITIES)


@pytest.mark.conformance("guide-8", "guide-9")
def test_memorability_and_temporal_handle_no_event():
    assert {"memorability", "temporal"}.isdisjoint(hook.name for hook in hooks.HOOKS)


@pytest.mark.conformance("store-40")
def test_store_tools_say_what_they_are_for():
    tools = {tool.name: tool.description for tool in TOOLSETS["letsgo"].tools}
    assert "later sessions" in tools["store_memory"]
    assert "subject, predicate and object" in tools["store_fact"]


@pytest.mark.conformance("guide-44")
def test_missing_title_is_generated(bot):
    made = result(run(bot, "letsgo", "store_memory", content="The export moved.\n\nIt is in the queue now."))
    shown = result(run(bot, "letsgo", "get_memory", id=made["id"]))["memory"]
    assert shown["title"] == "The export moved."


@pytest.mark.conformance("guide-46")
def test_memory_has_the_documented_types(bot):
    for name in ("bugfix", "feature", "refactor", "change", "discovery", "decision"):
        made = result(run(bot, "letsgo", "store_memory", content=f"a {name}", type=name))
        assert result(run(bot, "letsgo", "get_memory", id=made["id"]))["memory"]["type"] == name


@pytest.mark.conformance("guide-47")
def test_memory_has_the_documented_concepts(bot):
    names = "how-it-works why-it-exists what-changed problem-solution gotcha pattern trade-off".split()
    for name in names:
        made = result(run(bot, "letsgo", "store_memory", content=f"about {name}", concepts=[name]))
        [found] = result(run(bot, "letsgo", "search_by_concept", concept=name))["results"]
        assert found["id"] == made["id"]


@pytest.mark.conformance("guide-75")
def test_scales_get_one_two_one_and_one():
    config = Config()
    counts = [getattr(config, f"{name}_count") for name in ("immediate", "task", "session", "project")]
    assert (counts, config.max_inject_count) == ([1, 2, 1, 1], 5)


@pytest.mark.conformance("guide-122")
def test_similar_text_is_another_memory(bot):
    first = result(run(bot, "letsgo", "store_memory", content="The export runs at night"))
    second = result(run(bot, "letsgo", "store_memory", content="The export runs nightly"))
    assert (second["outcome"], second["id"] != first["id"]) == ("created", True)


# Memory MCP


@pytest.mark.conformance("mcp-8")
def test_memory_mcp_has_three_tools():
    assert tool_names("memory-mcp") == ["memory_store", "memory_recall", "memory_forget"]


@pytest.mark.conformance("mcp-16", "mcp-17", "mcp-18", "mcp-19")
@pytest.mark.parametrize("name", ["fact", "entity", "relationship", "self"])
def test_memory_mcp_has_four_types(mcp, name):
    assert mcp("store", content="x is y", type=name)["type"] == name


@pytest.mark.conformance("mcp-3")
def test_summary_is_searched(mcp):
    made = mcp("store", content="It runs at night", summary="The quagga job")
    assert [line["id"] for line in mcp("recall", query="quagga")["index"]] == [made["id"]]


@pytest.mark.conformance("mcp-41")
def test_memory_mcp_recalls_without_embeddings(mcp, configure):
    configure(embeddings="none")
    made = mcp("store", content="The export runs at night")
    assert [line["id"] for line in mcp("recall", query="export night")["index"]] == [made["id"]]
    assert not Embedding.objects.exists()


@pytest.mark.conformance("mcp-44")
def test_answer_of_memory_store_is_short(bot):
    response = run(bot, "memory-mcp", "memory_store", content=NOTE * 20, tags=["ops"], type="fact")
    assert estimate_tokens(response.content.decode()) < 1000


@pytest.mark.conformance("mcp-46")
def test_index_takes_less_than_half_of_the_details(mcp):
    for n in range(8):
        mcp("store", content=f"{NOTE * 4} number {n}")
    answer = mcp("recall", query="nightly export queue", max_tokens=3000)
    assert len(answer["index"]) == len(answer["details"]) == 8
    index, details = (estimate_tokens(str(answer[part])) for part in ("index", "details"))
    assert index < details / 2


# Mira


@pytest.mark.conformance("mira-1")
def test_mira_has_one_tool():
    assert tool_names("mira") == ["memory"]


@pytest.mark.conformance("mira-7", "mira-9")
@pytest.mark.parametrize("name", ["preference", "decision", "context", "general"])
def test_mira_has_four_fact_types(mira, name):
    mira("remember", content="we use strict mode", fact_type=name)
    [found] = mira("recall", query="strict mode", fact_type=name)
    assert found["fact_type"] == name


@pytest.mark.conformance("mira-8", "mira-14", "mira-17")
def test_mira_defaults(mira):
    mira("remember", content="we use strict mode")
    [found] = mira("recall", query="strict mode")
    assert (found["fact_type"], found["confidence"], found["scope"]) == ("general", 0.5, "project")


# pigo


@pytest.mark.conformance("pigo-34")
def test_pigo_has_three_tools():
    assert tool_names("pigo") == ["memory_recall", "memory_remember", "memory_forget"]


@pytest.mark.conformance("pigo-17")
def test_pigo_recall_shows_timestamps(pigo):
    pigo("remember", category="events", content="The export moved")
    [found] = pigo("recall", query="export")["results"]
    assert {"created_at", "updated_at"} <= found.keys()


@pytest.mark.conformance("pigo-28")
def test_list_of_a_category_is_sorted_by_use(bot, pigo):
    used = pigo("remember", category="events", content="The zebra escaped")
    unused = pigo("remember", category="events", content="The lion slept")
    pigo("remember", category="cases", content="The gate was open; we closed it")
    pigo("recall", query="zebra escaped")
    items = bot.get("/memories", category="events", order="-accessed_count").json()["items"]
    assert [item["id"] for item in items] == [used["id"], unused["id"]]


@pytest.mark.conformance("pigo-30")
@pytest.mark.parametrize("word", ["quagga", "numbat", "okapi"])
def test_keyword_search_covers_all_layers(pigo, configure, word):
    configure(embeddings="none")
    layers = {"abstract": "the quagga", "overview": "about the numbat", "content": "all of the okapi"}
    made = pigo("remember", category="patterns", **layers)
    assert [one["id"] for one in pigo("recall", query=word)["results"]] == [made["id"]]


@pytest.mark.conformance("pigo-40")
def test_pigo_embeds_what_it_stores(pigo, embedding):
    made = pigo("remember", category="patterns", content="Write the test first")
    assert Embedding.objects.get().memory.uid == made["id"]


@pytest.mark.conformance("pigo-43")
def test_near_duplicates_have_a_cosine_of_seven_tenths():
    assert Config().near_duplicate_similarity == 0.7

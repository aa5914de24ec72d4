"""Agents send null for what they leave out, to LetsGo's tools too."""

from memoryhub.models import Fact, Memory
from tests.api.conftest import is_problem
from tests.toolsets.conftest import result, run

SPARSE = dict.fromkeys(("category", "type", "importance", "sensitivity", "scope", "tags", "title", "key"))


def test_a_null_is_as_if_it_had_been_left_out(bot):
    result(run(bot, "letsgo", "store_memory", content="x is y", **SPARSE))
    memory = Memory.objects.get()
    assert (memory.category, memory.type, memory.importance) == ("general", "change", 0.5)
    assert memory.expires_at is not None
    found = result(run(bot, "letsgo", "search_memories", query="x is y", limit=None, category=None))
    assert len(found["results"]) == 1


def test_a_time_of_null_means_never(bot):
    result(run(bot, "letsgo", "store_memory", content="x is y", ttl_days=None))
    assert Memory.objects.get().expires_at is None


def test_a_fact_may_have_nulls(bot):
    triple = {"subject": "hub", "predicate": "runs on", "object": "one file"}
    result(run(bot, "letsgo", "store_fact", **triple, confidence=None, project=None, memory_id=None))
    assert Fact.objects.get().confidence == 1.0


def test_a_change_of_nothing_is_told_what_can_be_changed_and_the_id_is_not_among_it(bot):
    problem = is_problem(run(bot, "letsgo", "update_memory", id="any", title=None), 422, "invalid")
    [error] = problem["errors"]
    named = error["message"].partition(": ")[2].split(", ")
    assert "title" in named
    assert "id" not in named


def test_a_change_with_nulls_empties_nothing(bot):
    made = result(run(bot, "letsgo", "store_memory", content="x is y", tags=["t"], key="k", title="T"))
    nulls = dict.fromkeys(("tags", "key", "type", "importance", "content", "files_read", "entities"))
    done = result(run(bot, "letsgo", "update_memory", id=made["id"], title="U", **nulls))
    memory = Memory.objects.get()
    assert (done["outcome"], memory.title, memory.key, memory.content) == ("updated", "U", "k", "x is y")
    assert memory.labels.count() == 1
    assert memory.expires_at is not None

"""The number of queries does not grow with the rows: the same with five and with sixty memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.api.search import serialize_hits
from memoryhub.core.pagination import paginate
from memoryhub.facts import queries, services
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.memories.versions import memory_journal, visible_revisions
from memoryhub.models import JournalEntry, Memory
from memoryhub.search.hybrid import search_memories
from memoryhub.stats import counts as stats_counts
from memoryhub.stats.timeline import load_timeline, serialize_entries, sessions_with_counts
from tests.cases import clear_caches, created_by_day

CLEARANCE = Clearance.up_to("secret", owner="ada")


def live():
    return MemoryFilter().select(CLEARANCE)


READS: dict[str, Callable[[], Any]] = {
    "a search by words": lambda: serialize_hits(
        search_memories(live(), "zebra", limit=200, min_score=0).hits, CLEARANCE
    ),
    "a search by a piece": lambda: search_memories(live(), "ebra stri", limit=200, min_score=0),
    "a search by two letters": lambda: search_memories(live(), "eb", limit=200, min_score=0),
    "a list with details": lambda: serializers.memories(
        paginate(live(), "updated_at", 200, None).items, CLEARANCE, serializers.preview
    ),
    "a list of objects": lambda: [serializers.memory(row, {}) for row in live().with_details()],
    "the timeline": lambda: serialize_entries(
        load_timeline(CLEARANCE, MemoryFilter(), limit=200)[0], CLEARANCE
    ),
    "the statistics": lambda: stats_counts.store_statistics(CLEARANCE),
    "the facets": lambda: stats_counts.top_facets(live()),
    "the plot": lambda: created_by_day(live()),
    "the facts": lambda: [serializers.fact(fact) for fact in queries.query_facts(CLEARANCE)],
    "the sessions": lambda: [
        serializers.session(row, n=row.memory_count) for row in sessions_with_counts(CLEARANCE)
    ],
    "the journal": lambda: list(JournalEntry.objects.visible_to(CLEARANCE)),
    "a history": lambda: [
        visible_revisions(Memory.objects.order_by("pk")[0], CLEARANCE),
        list(memory_journal(Memory.objects.order_by("pk")[0], CLEARANCE)),
    ],
}


def grow(actor, first: int, last: int) -> None:
    drafts = [
        MemoryDraft(
            content=f"zebra stripes number {n}",
            tags=[f"t{n}", "all"],
            concepts=["gotcha"],
            aliases=[f"alias{n}"],
            files_read=[f"src/{n}.py"],
            entities=[{"entity": f"e{n}"}],
            session_id=f"s{n}",
            project=f"p{n % 7}",
            sensitivity=("public", "private", "secret")[n % 3],
        )
        for n in range(first, last)
    ]
    stored = memories.create_memories(drafts, actor)
    Memory.objects.update(superseded_by=stored[0].memory)
    for result in stored:
        draft = FactDraft(subject="s", predicate="p", object=result.memory.uid, memory_id=result.memory.uid)
        services.create_fact(draft.model_copy(update={"project": result.memory.project}), actor)


def test_number_of_queries_of_each_read_is_constant(db, actor):
    counts = []
    for first, last in ((0, 5), (5, 60)):
        grow(actor, first, last)
        counts.append({})
        for name, read in READS.items():
            clear_caches()
            with CaptureQueriesContext(connection) as queries:
                assert read() is not None
            counts[-1][name] = len(queries)
    assert counts[0] == counts[1]
    assert max(counts[1].values()) <= 20


# What is removed goes in short transactions; the costs of one are fixed.
@pytest.mark.parametrize("size", [2, 25])
def test_number_of_queries_of_trash_restore_and_purge_is_constant(
    db, actor, django_assert_max_num_queries, size
):
    grow(actor, 0, size)
    uids = list(Memory.objects.values_list("uid", flat=True))
    with django_assert_max_num_queries(10):
        memories.trash_memories(uids, actor)
    with django_assert_max_num_queries(32):
        memories.erase_memories(uids, actor)


def test_storing_a_memory_takes_one_read_and_an_insert_for_each_table(db, actor, embedding):
    grow(actor, 0, 3)
    with CaptureQueriesContext(connection) as queries:
        memories.create_memory(MemoryDraft(content="a fourth zebra"), actor)
    statements = [row["sql"].split()[0] for row in queries]
    assert statements.count("SELECT") == 1, "content, cap and end of the journal together"
    assert statements.count("INSERT") == 3, "memory, vector and journal row"
    assert not {"UPDATE", "DELETE", "PRAGMA"}.intersection(statements)


def test_keys_of_many_memories_are_those_of_their_rows(db, actor):
    stored = memories.create_memories([MemoryDraft(content=f"zebra {n}") for n in range(120)], actor)
    keys = dict(Memory.objects.values_list("uid", "pk"))
    assert {result.memory.uid: result.memory.pk for result in stored} == keys

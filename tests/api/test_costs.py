"""Query counts do not grow with the number of rows."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Clearance
from memoryhub.core.database import is_postgres
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Fact, Session
from tests.cases import each

ENDPOINTS = {
    "list": ("/memories", {"limit": 200}),
    "list by file": ("/memories", {"file": "app.py", "limit": 200}),
    "search": ("/search", {"query": "zebra", "limit": 200, "min_score": 0}),
    "timeline": ("/timeline", {"limit": 200}),
    "sessions": ("/sessions", {"limit": 200}),
    "session": ("/sessions/s0", {"limit": 200}),
    "facts": ("/facts", {"limit": 200}),
    "journal": ("/journal", {"limit": 200}),
    "stats": ("/stats", {}),
}


def fill(bot, first, last):
    items = [
        {
            "content": f"zebra number {n}",
            "session_id": f"s{n % 7}",
            "project": "zoo",
            "tags": [f"t{n}", "all"],
            "files_read": [f"src/{n}/app.py"],
            "entities": [{"entity": f"e{n}"}],
        }
        for n in range(first, last)
    ]
    results = bot.post("/memories/batch", {"memories": items}).json()["results"]
    session = Session.objects.get(session_id="s0")
    for n, result in enumerate(results, start=first):
        bot.post("/facts", {"subject": f"s{n}", "predicate": "p", "object": "o", "memory_id": result["id"]})
        Event.objects.create(session=session, event="tool:post", tool_name="Edit")


def queries_of(bot, path, query):
    bot.get(path, **query)
    with CaptureQueriesContext(connection) as captured:
        assert bot.get(path, **query).status_code == 200
    return [row["sql"] for row in captured]


TOOLS = {
    "list_memories": {"limit": 200},
    "search_by_concept": {"concept": "c", "limit": 200},
    "get_timeline": {"limit": 200},
    "query_facts": {"limit": 200},
}


def queries_of_tool(bot, name):
    bot.tool(name, **TOOLS[name])
    with CaptureQueriesContext(connection) as captured:
        bot.tool(name, **TOOLS[name])
    return [row["sql"] for row in captured]


@pytest.mark.slow
def test_query_counts_do_not_grow_with_rows(bot):
    def measure():
        endpoints = {name: queries_of(bot, *ENDPOINTS[name]) for name in ENDPOINTS}
        return endpoints | {name: queries_of_tool(bot, name) for name in TOOLS}

    fill(bot, 0, 8)
    few = measure()
    fill(bot, 8, 60)
    many = measure()
    assert Fact.objects.count() == 60
    for name in few:
        more = "\n".join(sorted(set(many[name]) - set(few[name])))
        assert len(many[name]) == len(few[name]), f"{name}: {more}"


@each(
    "order, filters",
    [
        ("updated_at", {}),
        ("updated_at", {"project": "zoo"}),
        ("updated_at", {"type": "change"}),
        ("created_at", {}),
        ("created_at", {"since": "2020-01-01"}),
    ],
)
def test_page_is_read_in_index_order_without_sorting(db, filters, order):
    clearance = Clearance.up_to("secret", "ada")
    rows = MemoryFilter(**filters).select(clearance).order_by(f"-{order}", "-pk")[:51]
    assert "TEMP B-TREE" not in rows.explain()


@pytest.mark.sqlite
def test_memories_are_counted_in_the_visibility_index(db):
    rows = MemoryFilter().select(Clearance.up_to("secret", "ada"))
    with CaptureQueriesContext(connection) as captured:
        rows.count()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {captured[0]['sql']}")
        assert "COVERING INDEX memory_gate" in str(cursor.fetchall())


def test_reading_a_memory_takes_four_queries(bot, django_assert_max_num_queries):
    uid = bot.post("/memories", {"content": "x", "tags": ["a"]}).json()["memory"]["id"]
    with django_assert_max_num_queries(4):  # token, memory, its lists, the access counted
        bot.get(f"/memories/{uid}")


def test_stored_memory_is_returned_without_reading_it_back(bot):
    bot.get("/stats")
    with CaptureQueriesContext(connection) as captured:
        bot.post("/memories", {"content": "x", "tags": ["a"], "files_read": ["b"]})
    assert not [row for row in captured if "SELECT" in row["sql"] and "memoryhub_label" in row["sql"]]


SEARCHES = {
    "search": ("/search", {"query": "zebra stripes"}, 4),
    "recall": ("/recall", {"query": "why do zebras have stripes?"}, 6),
    "inject": ("/inject", {"prompt": "Why do the zebras have stripes?"}, 6),
}


@pytest.mark.parametrize(("path", "body", "most"), SEARCHES.values(), ids=SEARCHES)
@pytest.mark.usefixtures("transactional_db", "embedding")
def test_search_takes_few_statements(bot, configure, path, body, most):
    configure(injection_deadline_ms=60_000)
    bot.post("/memories", {"content": "Zebras have stripes against flies", "tags": ["a"]})
    assert bot.post(path, body).status_code == 200
    with CaptureQueriesContext(connection) as captured:
        assert "stripes" in bot.post(path, body).content.decode()
    sent = [row["sql"] for row in captured if not row["sql"].startswith(("BEGIN", "COMMIT"))]
    vectors = is_postgres() and path != "/inject"  # the nearest vectors are a statement of their own there
    assert len(sent) <= most + vectors, "\n".join(sent)


@pytest.mark.sqlite
@pytest.mark.usefixtures("transactional_db", "embedding")
def test_search_after_a_write_reads_only_the_changed_memory(bot):
    fill(bot, 0, 8)
    bot.get("/search?query=zebra")
    bot.post("/memories", {"content": "Zebras have stripes against flies"})
    with CaptureQueriesContext(connection) as captured:
        bot.get("/search?query=zebra")
    (sql,) = [row["sql"] for row in captured if "julianday" in row["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        plan = str(cursor.fetchall())
    assert "json_each" in plan
    assert plan.count("SEARCH memoryhub_memory USING INTEGER PRIMARY KEY") == 2

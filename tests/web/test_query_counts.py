"""The number of statements of the busiest pages, including those of the sign-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Injection, Memory, Session
from tests.cases import each

MAX_STATEMENTS = 12
MAX_MAINTENANCE = 16
# The most once after each change; then the counts are in the cache.
PAGES = {
    "/": MAX_STATEMENTS,
    "/memories/": 10,
    "/memories/?q=zebra": MAX_STATEMENTS,
    "/memories/?project=zoo1&q=zebra": MAX_STATEMENTS,
    "/review/": MAX_STATEMENTS,
    "/duplicates/": MAX_STATEMENTS,
    "/glance/": MAX_STATEMENTS,
}
# Pages that list much: the most after a change, and after an event.
FULL_PAGES = {
    "/memories/{uid}/": (24, MAX_STATEMENTS),
    "/sessions/night/": (15, 13),
    "/sessions/night/?kind=injection": (13, 11),
    "/sessions/night/?kind=kept": (14, MAX_STATEMENTS),
    "/timeline/": (10, 8),
    "/you/": (MAX_STATEMENTS, MAX_STATEMENTS),
}
TITLE = "A memory with everything"
TRANSACTION = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")

pytestmark = pytest.mark.usefixtures("embedding")


@pytest.fixture(autouse=True)
def store(remember: Callable[..., Memory], actor: Actor, alike: list[Memory]) -> None:
    for n in range(30):
        remember(
            f"zebra {n} has its own stripes",
            project=f"zoo{n % 3}",
            tags=[f"t{n}", "all"],
            session_id=f"s{n % 4}",
            confidence=0.2 if n % 2 else 0.5,
        )
    for target in ("hay", "grass"):
        services.create_fact(FactDraft(subject="zebra", predicate="lives_in", object=target), actor)
    session = Session.objects.create(session_id="night", project="zoo0")
    Event.objects.create(session=session, event="tool:post", tool_name="Edit")


def fill_night(remember: Callable[..., Memory], actor: Actor, count: int) -> None:
    """Store a session, and in it a memory with everything that its page lists, most of it ``count`` times."""
    memory = remember("one", session_id="night", project="zoo0", title=TITLE, files_read=["a.py"], tags=["t"])
    session = Session.objects.get(session_id="night")
    for n in range(count):
        texts = {"session_id": "night", "project": "zoo0", "files_read": ["a.py"], "tags": ["t"]}
        other = remember(f"night {count} {n}", **texts)
        replaced, merged = remember(f"old {count} {n}", **texts), remember(f"part {count} {n}", **texts)
        Memory.objects.filter(pk=replaced.pk).update(superseded_by=memory)
        memories.trash_memories([merged.uid], actor)
        Memory.objects.filter(pk=merged.pk).update(merged_into=memory)
        memories.update_memory(memory.uid, MemoryPatch(content=f"text {count} {n}"), actor)
        draft = FactDraft(subject=f"night {count} {n}", predicate="p", object="o", memory_id=memory.uid)
        services.create_fact(draft, actor)
        events: dict[str, Any] = {"session": session, "event": "tool:post", "tool_name": f"Edit {n}"}
        Event.objects.create(**events, memory=memory)
        Event.objects.create(**events, memory=other, boundary=True)
        injected = [{"id": memory.uid}, {"id": other.uid}]
        Injection.objects.create(session=session, project="zoo0", injected=injected)
    prompt = {"event": "prompt:submit", "preview": "What is striped?"}
    Event.objects.create(session=session, **prompt)
    Session.objects.filter(pk=session.pk).update(summary=other)


def count_statements(client: Client, page: str) -> int:
    path = page.format(uid=Memory.objects.get(title=TITLE).uid) if "{uid}" in page else page
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200
    return len([row for row in captured if not row["sql"].startswith(TRANSACTION)])


class TestStatements:
    @each("page", PAGES)
    def test_unchanged_store_takes_few_and_a_change_takes_a_few_more(
        self, admin_client: Client, curator: Client, page: str, remember: Callable[..., Memory]
    ) -> None:
        for client in (admin_client, curator):
            client.get(page)
            assert count_statements(client, page) <= MAX_STATEMENTS
        # An event is no change of memories.
        Event.objects.create(session=Session.objects.get(session_id="night"), event="tool:post")
        assert count_statements(admin_client, page) <= MAX_STATEMENTS
        remember("a new zebra")
        assert count_statements(admin_client, page) <= PAGES[page]


class TestFullPages:
    """In a store with a memory and a session that have everything a page can list."""

    @pytest.fixture(autouse=True)
    def night(self, store: None, remember: Callable[..., Memory], actor: Actor) -> None:
        fill_night(remember, actor, 4)

    @each("page", FULL_PAGES)
    def test_unchanged_store_takes_few_and_changes_and_events_take_more_once(
        self, admin_client: Client, curator: Client, page: str, remember: Callable[..., Memory]
    ) -> None:
        for client in (admin_client, curator):
            count_statements(client, page)
            assert count_statements(client, page) <= MAX_STATEMENTS
        remember("a new zebra")
        assert count_statements(admin_client, page) <= FULL_PAGES[page][0]
        Event.objects.create(session=Session.objects.get(session_id="night"), event="tool:post")
        assert count_statements(admin_client, page) <= FULL_PAGES[page][1]

    def test_more_rows_take_no_more(
        self, admin_client: Client, remember: Callable[..., Memory], actor: Actor
    ) -> None:
        few = {page: self.count_computed_and_cached(admin_client, page) for page in FULL_PAGES}
        Memory.objects.filter(title=TITLE).update(title="")
        fill_night(remember, actor, 12)
        for page, (computed, cached) in few.items():
            more_computed, more_cached = self.count_computed_and_cached(admin_client, page)
            assert more_computed <= computed, (
                page
            )  # the search index may have read the first rows in more steps
            assert more_cached == cached, page

    def count_computed_and_cached(self, client: Client, page: str) -> list[int]:
        count_statements(client, page)  # the search index reads new rows
        cache.clear()
        return [count_statements(client, page) for _ in range(2)]


def test_maintenance_page_takes_few(admin_client: Client) -> None:
    assert count_statements(admin_client, "/maintenance/") <= MAX_MAINTENANCE
    assert count_statements(admin_client, "/maintenance/") <= MAX_STATEMENTS

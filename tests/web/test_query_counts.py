"""The number of statements of the busiest pages, including those of the sign-in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Memory, Session

MAX_STATEMENTS = 12
MAX_AFTER_CHANGE = 16  # once after each change; then the counts are in the cache
PAGES = ("/", "/memories/", "/search/?q=zebra", "/review/", "/duplicates/", "/glance/")
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


def count_statements(client: Client, page: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(page).status_code == 200
    return len([row for row in captured if not row["sql"].startswith(TRANSACTION)])


@pytest.mark.parametrize("page", PAGES)
class TestStatements:
    def test_unchanged_store_takes_few(self, admin_client: Client, page: str) -> None:
        client = admin_client
        client.get(page)
        assert count_statements(client, page) <= MAX_STATEMENTS

    def test_person_with_permissions_takes_few(self, curator: Client, page: str) -> None:
        curator.get(page)
        assert count_statements(curator, page) <= MAX_STATEMENTS

    def test_event_is_no_change_of_memories(self, admin_client: Client, page: str) -> None:
        admin_client.get(page)
        Event.objects.create(session=Session.objects.get(session_id="night"), event="tool:post")
        assert count_statements(admin_client, page) <= MAX_STATEMENTS

    def test_changed_store_takes_a_few_more(
        self, admin_client: Client, page: str, remember: Callable[..., Memory]
    ) -> None:
        admin_client.get(page)
        remember("a new zebra")
        assert count_statements(admin_client, page) <= MAX_AFTER_CHANGE

"""Results that are cached until the store changes, and the pages that use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.models import Embedding, Event, Memory, Session
from memoryhub.web.base import requests
from memoryhub.web.base.requests import viewer_key
from memoryhub.web.duplicates import presenters

Remember = Callable[..., Memory]
PUBLIC = Clearance.up_to("public")


@pytest.fixture
def ask(db: None) -> Callable[..., int]:
    """Each computed result is another number."""
    results = iter(range(100))

    def asked(clearance: Clearance = PUBLIC) -> int:
        request = RequestFactory().get("/")
        return requests.cached_until_change(request, "question", clearance, lambda: next(results))

    return asked


def test_result_is_reused_while_nothing_changes(ask: Any) -> None:
    assert [ask(), ask()] == [0, 0]


def test_change_of_the_store_invalidates_the_result(ask: Any, remember: Remember) -> None:
    ask()
    remember("a change")
    assert ask() == 1


def test_event_invalidates_only_results_that_depend_on_events(db: None) -> None:
    def ask(depends_on_events: bool) -> int:
        return requests.cached_until_change(
            RequestFactory().get("/"),
            f"question-{depends_on_events}",
            PUBLIC,
            Event.objects.count,
            depends_on_events=depends_on_events,
        )

    session = Session.objects.create(session_id="night")
    assert [ask(True), ask(False)] == [0, 0]
    Event.objects.create(session=session, event="tool:post")
    assert [ask(True), ask(False)] == [1, 0]


def test_token_is_read_once_for_a_request_that_changes_nothing(
    db: None, django_assert_num_queries: Any
) -> None:
    for method, statements in (("GET", 1), ("POST", 2)):
        request = RequestFactory().generic(method, "/")
        with django_assert_num_queries(statements):
            requests.store_token(request)
            requests.store_token(request)


def test_expiry_of_a_memory_invalidates_the_result(
    ask: Any, remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("for a day", ttl_days=1)
    ask()
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert ask() == 1


def test_each_clearance_has_its_own_result(ask: Any) -> None:
    clearances = [
        Clearance.up_to("public"),
        Clearance.up_to("secret"),
        Clearance.up_to("secret", owner="ada"),
        Clearance.up_to("secret", projects=["p"]),
        Clearance.up_to("public", projects=["p"]),
    ]
    assert [ask(one) for one in clearances] == list(range(len(clearances)))


def test_cached_value_may_be_outdated_or_missing(ask: Any, remember: Remember) -> None:
    assert requests.cached_value("question", viewer_key(PUBLIC)) is None
    ask()
    remember("a change")
    assert requests.cached_value("question", viewer_key(PUBLIC)) == 0


def without_files(client: Client) -> int:
    """Return the number of memories without files in the health report."""
    text = " ".join(re.sub("<[^>]+>", " ", client.get("/glance/").content.decode()).split())
    return int(re.findall(r"Without files [^0-9]{0,200}?(\d+)", text)[0])


def test_home_counts_a_new_memory(visitor: Client, remember: Any) -> None:
    remember("one zebra")
    assert visitor.get("/").context["numbers"]["total"] == 1
    remember("another zebra")
    assert visitor.get("/").context["numbers"]["total"] == 2


def test_home_does_not_count_again_without_a_change(visitor: Client, remember: Any) -> None:
    remember("one zebra", ttl_days=0)
    visitor.get("/")
    Memory.objects.all()._raw_delete(Memory.objects.db)  # without a journal entry
    assert visitor.get("/").context["numbers"]["total"] == 1


def test_home_does_not_count_an_expired_memory(
    visitor: Client, remember: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("one zebra")
    remember("a zebra of today", ttl_days=1)
    assert visitor.get("/").context["numbers"]["total"] == 2
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert visitor.get("/").context["numbers"]["total"] == 1


def test_home_numbers_depend_on_clearance(visitor: Client, admin_client: Client, remember: Any) -> None:
    remember("one zebra")
    remember("a private zebra", sensitivity="private")
    admin_client.post("/switch/", {"level": "private", "on": "1"})
    assert admin_client.get("/").context["numbers"]["total"] == 2
    assert visitor.get("/").context["numbers"]["total"] == 1


class TestStatsPage:
    def test_new_memory_is_counted(self, visitor: Client, remember: Any) -> None:
        remember("one zebra")
        assert without_files(visitor) == 1
        remember("another zebra")
        assert without_files(visitor) == 2

    def test_rows_are_not_counted_again_without_a_change(self, visitor: Client, remember: Any) -> None:
        remember("one zebra", ttl_days=0)
        assert without_files(visitor) == 1
        Memory.objects.all()._raw_delete(Memory.objects.db)  # without a journal entry
        assert without_files(visitor) == 1

    def test_numbers_depend_on_clearance(self, visitor: Client, admin_client: Client, remember: Any) -> None:
        remember("one zebra")
        remember("a private zebra", sensitivity="private")
        admin_client.post("/switch/", {"level": "private", "on": "1"})
        assert without_files(admin_client) == 2
        assert without_files(visitor) == 1


@pytest.mark.usefixtures("embedding")
class TestNearDuplicates:
    def clusters(self, client: Client, query: str = "") -> int:
        return len(client.get(f"/duplicates/{query}").context["found"].clusters)

    def test_memories_are_compared_once_without_a_change(
        self, visitor: Client, alike: list[Memory], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.clusters(visitor) == 1
        monkeypatch.setattr(presenters, "find_clusters", None)
        assert self.clusters(visitor) == self.clusters(visitor, "?page=2") == 1

    def test_new_memory_and_trashed_memory_show_at_once(
        self, curator: Client, alike: list[Memory], remember: Any, actor: Actor
    ) -> None:
        assert self.clusters(curator) == 1
        pair = [remember(f"{text} saffron soup", project="q") for text in ("an old", "a very old")]
        assert self.clusters(curator) == 2
        memories.trash_memories([pair[0].uid], actor)
        assert self.clusters(curator) == 1

    def test_new_vector_shows_at_once(self, visitor: Client, alike: list[Memory]) -> None:
        removed = [
            Embedding(memory=one.memory, model=one.model, vector=one.vector)
            for one in Embedding.objects.all()
        ]
        Embedding.objects.all().delete()
        assert self.clusters(visitor) == 0
        Embedding.objects.bulk_create(removed)
        assert self.clusters(visitor) == 1

    def test_filters_have_their_own_results(self, visitor: Client, alike: list[Memory]) -> None:
        assert self.clusters(visitor) == 1
        assert self.clusters(visitor, "?project=nowhere") == 0
        assert self.clusters(visitor, "?similarity=1") == 0

"""Numbers that cost much are told again only while nothing happens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.models import Embedding, Memory
from memoryhub.web.base import caching
from memoryhub.web.duplicates import views


@pytest.fixture(autouse=True)
def everything_costs_much(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(caching, "CHEAP_SECONDS", -1.0)
    cache.clear()
    yield
    cache.clear()


def without_files(client: Client, path: str) -> int:
    """What the health report says."""
    text = " ".join(re.sub("<[^>]+>", " ", client.get(path).content.decode()).split())
    return int(re.findall(r"Without files [^0-9]{0,200}?(\d+)", text)[0])


def test_the_first_page_counts_what_was_stored_since(visitor: Client, remember: Any) -> None:
    remember("one zebra")
    assert visitor.get("/").context["numbers"]["total"] == 1
    remember("another zebra")
    assert visitor.get("/").context["numbers"]["total"] == 2


def test_while_nothing_happens_it_does_not_count_again(visitor: Client, remember: Any) -> None:
    remember("one zebra")
    visitor.get("/")
    Memory.objects.all()._raw_delete(Memory.objects.db)  # unseen: nothing says that it happened
    assert visitor.get("/").context["numbers"]["total"] == 1


def test_what_has_expired_is_counted_no_more(
    visitor: Client, remember: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("one zebra")
    remember("a zebra of today", ttl_days=1)
    assert visitor.get("/").context["numbers"]["total"] == 2
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert visitor.get("/").context["numbers"]["total"] == 1


def test_nobody_is_told_what_another_one_sees(visitor: Client, admin_client: Client, remember: Any) -> None:
    remember("one zebra")
    remember("a private zebra", sensitivity="private")
    admin_client.post("/switch/", {"level": "private", "on": "1"})
    assert admin_client.get("/").context["numbers"]["total"] == 2
    assert visitor.get("/").context["numbers"]["total"] == 1


@pytest.mark.parametrize("path", ["/glance/", "/glance/health/"])
class TestAtAGlance:
    def test_it_tells_what_was_stored_since(self, visitor: Client, remember: Any, path: str) -> None:
        remember("one zebra")
        assert without_files(visitor, path) == 1
        remember("another zebra")
        assert without_files(visitor, path) == 2

    def test_while_nothing_happens_it_does_not_count_again(
        self, visitor: Client, remember: Any, path: str
    ) -> None:
        remember("one zebra")
        assert without_files(visitor, path) == 1
        Memory.objects.all()._raw_delete(Memory.objects.db)  # unseen: nothing says that it happened
        assert without_files(visitor, path) == 1

    def test_nobody_is_told_what_another_one_sees(
        self, visitor: Client, admin_client: Client, remember: Any, path: str
    ) -> None:
        remember("one zebra")
        remember("a private zebra", sensitivity="private")
        admin_client.post("/switch/", {"level": "private", "on": "1"})
        assert without_files(admin_client, path) == 2
        assert without_files(visitor, path) == 1


@pytest.mark.usefixtures("embedding")
class TestNearDuplicates:
    def clusters(self, client: Client, query: str = "") -> int:
        return len(client.get(f"/duplicates/{query}").context["found"].clusters)

    def test_while_nothing_happens_they_are_compared_once(
        self, visitor: Client, alike: list[Memory], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.clusters(visitor) == 1
        monkeypatch.setattr(views, "find_clusters", None)
        assert self.clusters(visitor) == self.clusters(visitor, "?page=2") == 1

    def test_what_is_stored_or_decided_since_tells_at_once(
        self, curator: Client, alike: list[Memory], remember: Any, actor: Actor
    ) -> None:
        assert self.clusters(curator) == 1
        pair = [remember(f"{text} saffron soup", project="q") for text in ("an old", "a very old")]
        assert self.clusters(curator) == 2
        memories.trash_memories([pair[0].uid], actor)
        assert self.clusters(curator) == 1

    def test_a_vector_that_has_come_since_tells_at_once(self, visitor: Client, alike: list[Memory]) -> None:
        kept_aside = [
            Embedding(memory=one.memory, model=one.model, vector=one.vector)
            for one in Embedding.objects.all()
        ]
        Embedding.objects.all().delete()
        assert self.clusters(visitor) == 0
        Embedding.objects.bulk_create(kept_aside)
        assert self.clusters(visitor) == 1

    def test_another_question_has_another_answer(self, visitor: Client, alike: list[Memory]) -> None:
        assert self.clusters(visitor) == 1
        assert self.clusters(visitor, "?project=nowhere") == 0
        assert self.clusters(visitor, "?similarity=1") == 0

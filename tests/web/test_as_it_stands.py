"""Numbers that cost much are told again only while nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from memoryhub.models import Memory
from memoryhub.web import kept


@pytest.fixture(autouse=True)
def everything_costs_much(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept, "CHEAP", -1.0)
    cache.clear()
    yield
    cache.clear()


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


def test_nobody_is_told_what_another_one_sees(visitor: Client, admin_client: Client, remember: Any) -> None:
    remember("one zebra")
    remember("a private zebra", sensitivity="private")
    admin_client.post("/switch/", {"level": "private", "on": "1"})
    assert admin_client.get("/").context["numbers"]["total"] == 2
    assert visitor.get("/").context["numbers"]["total"] == 1

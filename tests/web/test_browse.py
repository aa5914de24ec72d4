"""The list of memories: filters, orders, pages, facets."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.web.memories import views
from tests.cases import each


def titles(response: Any) -> list[str]:
    rows = re.findall(r'<h3 class="row-title".*?</h3>', response.content.decode(), re.S)
    return [" ".join(re.sub(r"<[^>]+>", "", row).split()) for row in rows]


def next_page(response: Any) -> str:
    found = re.search(r'rel="next" href="([^"]+)"', response.content.decode())
    return found[1].replace("&amp;", "&") if found else ""


def test_row_shows_title_preview_type_project_and_date(visitor: Client, remember: Any) -> None:
    made = remember("Oats at six.\n\nHay at noon.", title="Feeding times", type="decision", project="zoo")
    page = visitor.get("/memories/").content.decode()
    assert f'<a href="/memories/{made.uid}/">Feeding times</a>' in page
    assert "Oats at six. Hay at noon." in page
    assert '<span class="dot t-decision" aria-hidden="true"></span>decision' in page
    assert 'href="/memories/?project=zoo">zoo</a>' in page
    exact = made.updated_at.astimezone(UTC)
    times = f'datetime="{exact:%Y-%m-%dT%H:%M:%S}Z" title="{exact:%Y-%m-%d %H:%M:%S} UTC"'
    assert f'<time {times} data-format="dated">{exact:%Y-%m-%d %H:%M}</time>' in page


def test_levels_above_public_have_a_badge(insider: Client, four_levels: Any) -> None:
    page = insider.get("/memories/").content.decode()
    rows = re.findall(r'<li class="row">.*?</li>', page, re.S)
    assert [("badge-secret" in row, "badge-private" in row) for row in rows] == [
        (True, False),
        (False, True),
        (False, False),
    ]


class TestPages:
    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(views, "PAGE_SIZE", 3)

    @each("order", ["", "-updated_at", "-created_at", "-importance", "-accessed_count"])
    def test_pages_show_every_memory_once(self, visitor: Client, remember: Any, order: str) -> None:
        for number in range(8):
            remember(f"memory {number}", importance=number % 3 / 10)
        seen, address = [], f"/memories/?order={order}"
        while address:
            response = visitor.get(address)
            seen += titles(response)
            address = next_page(response) and "/memories/" + next_page(response)
        assert sorted(seen) == [f"memory {number}" for number in range(8)]

    def test_new_memory_does_not_shift_the_next_page(self, visitor: Client, remember: Any) -> None:
        for number in range(5):
            remember(f"memory {number}")
        second = "/memories/" + next_page(visitor.get("/memories/"))
        before = titles(visitor.get(second))
        remember("something new")
        assert titles(visitor.get(second)) == before == ["memory 1", "memory 0"]

    def test_later_page_links_to_the_first_and_keeps_the_filters(
        self, visitor: Client, remember: Any
    ) -> None:
        for number in range(5):
            remember(f"memory {number}", project="zoo")
        first = visitor.get("/memories/?project=zoo")
        assert "First page" not in first.content.decode()
        second = visitor.get("/memories/" + next_page(first))
        assert '<a class="button" href="?project=zoo">' in second.content.decode()

    @each("cursor", ["x", "e30", "WyJjcmVhdGVkX2F0IiwgMSwgMV0"])
    def test_invalid_cursor_is_reported_with_a_link_to_the_first_page(
        self, visitor: Client, remember: Any, cursor: str
    ) -> None:
        remember("memory")
        response = visitor.get("/memories/", {"cursor": cursor, "project": "zoo"})
        assert response.status_code == 422
        assert 'href="/memories/?project=zoo"' in response.content.decode()


class TestOrders:
    def test_orders_by_importance(self, visitor: Client, remember: Any) -> None:
        for share in (0.2, 0.9, 0.5):
            remember(f"memory {share}", importance=share)
        response = visitor.get("/memories/?order=-importance")
        assert titles(response) == ["memory 0.9", "memory 0.5", "memory 0.2"]
        assert '<option value="-importance" selected>Most important</option>' in response.content.decode()

    def test_order_by_age_shows_when_a_memory_was_created(self, visitor: Client, remember: Any) -> None:
        remember("late", created_at=datetime(2020, 5, 1, tzinfo=UTC))
        remember("early", created_at=datetime(2010, 5, 1, tzinfo=UTC))
        response = visitor.get("/memories/?order=-created_at")
        assert titles(response) == ["late", "early"]
        assert "2010-05-01" in response.content.decode()

    def test_unknown_order_is_reported(self, visitor: Client) -> None:
        response = visitor.get("/memories/?order=content")
        assert response.status_code == 422
        assert "Unknown sort order" in response.content.decode()


class TestFilters:
    def test_htmx_filters_leave_a_clean_url(self, visitor: Client, remember: Any) -> None:
        remember("one", project="zoo")
        headers = {"HX-Request": "true", "HX-Target": "listing"}
        form = {"project": "zoo", "tag": "", "since": "", "order": "-importance"}
        response = visitor.get("/memories/", form, headers=headers)
        assert response["HX-Push-Url"] == "/memories/?project=zoo&order=-importance"
        assert b"<html" in response.content

    def test_active_filters_show_as_removable_chips(self, visitor: Client, remember: Any) -> None:
        remember("one", project="zoo", tags=["wild"])
        remember("two", project="zoo")
        response = visitor.get("/memories/?project=zoo&tag=wild")
        page = response.content.decode()
        assert titles(response) == ["one"]
        assert '<a class="chip" href="/memories/?tag=wild" ' in page
        assert '<a class="chip" href="/memories/?project=zoo" ' in page

    def test_memories_that_expire_soon_can_be_listed(self, visitor: Client, remember: Any) -> None:
        remember("soon", ttl_days=2)
        remember("later", ttl_days=60)
        remember("never", ttl_days=0)
        response = visitor.get("/memories/?expiring=1")
        assert titles(response) == ["soon"]
        assert "expires <time" in response.content.decode()

    def test_no_match_differs_from_an_empty_store(self, visitor: Client, remember: Any) -> None:
        assert "No memories yet" in visitor.get("/memories/").content.decode()
        remember("one")
        assert "No memories match these filters" in visitor.get("/memories/?tag=x").content.decode()

    def test_trashed_and_expired_memories_are_not_listed(self, visitor: Client, remember: Any) -> None:
        gone = remember("gone")
        Memory.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
        late = remember("late")
        Memory.objects.filter(pk=late.pk).update(expires_at=timezone.now())
        assert titles(visitor.get("/memories/?trashed=1")) == []


def test_only_persons_with_permission_are_offered_to_add(sign_in: Any) -> None:
    assert "New memory" not in sign_in(name="reader").get("/memories/").content.decode()
    assert "New memory" in sign_in("add_memory", name="writer").get("/memories/").content.decode()


def test_number_of_queries_does_not_grow_with_the_rows(visitor: Client, remember: Any) -> None:
    counted = []
    for upto in (2, 20):
        for number in range(upto):
            remember(f"memory {upto} {number}", tags=["a", "b"], files_read=["x"], project=f"p{number}")
        visitor.get("/memories/")
        with CaptureQueriesContext(connection) as queries:
            visitor.get("/memories/")
        counted.append(len(queries))
    assert counted[0] == counted[1]


def test_empty_list_links_to_connecting_agents(visitor: Client) -> None:
    page = visitor.get("/memories/").content.decode()
    assert '<a class="button" href="/connect/">Connect an agent</a>' in page


def test_large_counts_are_grouped_in_facets() -> None:
    option = {"value": "zoo", "count": 2821, "href": "?project=zoo"}
    assert "2,821" in render_to_string("memories.html#option", {"option": option})

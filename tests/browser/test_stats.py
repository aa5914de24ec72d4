"""The statistics page: names of charts, and links to filtered lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from playwright.sync_api import expect

from memoryhub import memories
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Event, Injection, Memory, Session


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def world(remember: Any, actor: Any) -> None:
    """Data for every chart."""
    session = Session.objects.create(session_id="s", project="zoo")
    kinds = ("decision", "bugfix", "feature")
    for number in range(12):
        kind = kinds[number % 3]
        memory = remember(f"memory {number}", type=kind, importance=number / 12, ttl_days=5, project="zoo")
        then = timezone.now() - timedelta(days=number * 40)
        Memory.objects.filter(pk=memory.pk).update(created_at=then, updated_at=then, accessed_count=number)
        Event.objects.create(session=session, event="tool:post", memory=memory)
        Event.objects.create(session=session, event="tool:post", skip_reason=f"reason {number % 4}")
        at = timezone.now() - timedelta(days=number)
        Injection.objects.create(project="zoo", at=at, injected=[{"id": "x"}] if number % 3 else [])
    with pytest.raises(memories.SecretDetected):
        memories.create_memory(MemoryDraft(content="key AKIA" + "QYLPMN5HHHFPZAM2"), actor)


def test_line_of_the_health_report_links_to_its_memories(open_page: Any, reader: Any, world: None) -> None:
    page = open_page("/glance/", reader)
    expect(page.get_by_role("row", name="Stale").get_by_role("cell").first).to_have_text("9")
    page.get_by_role("link", name="Stale").click()
    expect(page.locator(".list-head").get_by_text("9 memories")).to_be_visible()


@pytest.mark.usefixtures("embedding")
def test_near_duplicates_are_counted_by_themselves(open_page: Any, reader: Any, remember: Any) -> None:
    saying = "The harbour closes at noon on Sundays and opens again on Monday morning"
    remember(saying, project="p")
    remember(f"{saying} at two", project="p")
    page = open_page("/glance/", reader)
    expect(page.get_by_role("row", name="Near-duplicates").get_by_role("cell").first).to_contain_text("2")


def test_every_chart_has_a_name_and_its_numbers_in_a_table(open_page: Any, reader: Any, world: None) -> None:
    page = open_page("/glance/", reader)
    for name in ("Injections in each day", "Credentials refused in each day", "Memories that expire"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    page.get_by_text("Show as a table: Injections").click()
    expect(page.get_by_role("table", name="Injections in each day")).to_be_visible()
    expect(page.get_by_role("table", name="importance and age")).to_be_visible()

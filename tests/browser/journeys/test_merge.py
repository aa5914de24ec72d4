"""Merge duplicates: the health report counts them, one click merges, another undoes it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from playwright.sync_api import expect

from memoryhub.models import Memory

pytestmark = pytest.mark.usefixtures("embedding")
SAYING = "The build cache lives on the runner and is emptied every night"


def test_the_health_report_leads_to_duplicates_that_are_merged_and_parted(
    set_out: Any, person: Any, remember: Any, scripts: bool
) -> None:
    cache.clear()
    remember(f"{SAYING} at two", title="Build cache")
    remember(SAYING, title="Cache of the build")
    remember("Trains run late in winter", title="Trains")
    page = set_out("/glance/", person("ada", "change_memory", "delete_memory"))
    if scripts:
        line = page.get_by_role("row", name="Near-duplicates")
        expect(line.get_by_role("cell").first).to_contain_text("2")
    page.get_by_role("link", name="Near-duplicates", exact=True).click()
    expect(page.get_by_text("1 cluster among 3 memories")).to_be_visible()
    page.get_by_role("button", name="Merge selected").click()
    expect(page.get_by_text("Merged 2 memories")).to_be_visible()
    assert Memory.objects.trashed().count() == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Merge selected")).to_be_visible()
    assert Memory.objects.trashed().count() == 0


def test_all_sure_duplicates_are_merged_and_the_merge_is_undone(
    set_out: Any, person: Any, remember: Any
) -> None:
    cache.clear()
    for n in range(3):
        for ending in (".", "!"):
            remember(f"{SAYING}, on runner {'abc'[n] * 5}{ending}", title=f"Cache {n}{ending}")
    page = set_out("/", person("ada", "change_memory", "delete_memory"))
    page.get_by_role("link", name="Memories", exact=True).first.click()
    page.get_by_role("link", name="Duplicates").first.click()
    page.get_by_role("link", name="Merge all above 0.95 …").click()
    expect(page.get_by_text("will move to the trash")).to_be_visible()
    assert Memory.objects.trashed().count() == 0
    page.get_by_role("button", name="Merge 3 clusters").or_(
        page.get_by_role("button", name="Merge 1 cluster")
    ).click()
    expect(page.get_by_text("moved to the trash")).to_be_visible()
    merged = Memory.objects.trashed().count()
    assert merged
    page.get_by_role("button", name="Undo").first.click()
    expect(page.get_by_role("link", name="Merge all above 0.95 …")).to_be_visible()
    assert Memory.objects.trashed().count() == 0

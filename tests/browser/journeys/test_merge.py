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
    expect(page.get_by_text("2 memories are one now")).to_be_visible()
    assert Memory.objects.trashed().count() == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Merge selected")).to_be_visible()
    assert Memory.objects.trashed().count() == 0

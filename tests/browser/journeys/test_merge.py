"""Merge duplicates: the health report counts them, one click merges, another undoes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from playwright.sync_api import expect

from memoryhub.models import Membership
from tests.browser.journeys.conftest import go_to

PROJECT = "runner"
pytestmark = pytest.mark.usefixtures("embedding")
SAYING = "The build cache lives on the runner and is emptied every night"


@pytest.fixture
def ada(person: Any) -> User:
    """A member of one project, who sees no duplicates of others."""
    user: User = person("ada", "change_memory", "delete_memory")
    Membership.objects.create(user=user, project=PROJECT)
    return user


@pytest.fixture
def trashed(new_memories: Any) -> Callable[[], int]:
    return lambda: int(new_memories().trashed().count())


def test_duplicates_from_the_health_report_are_merged_and_the_merge_undone(
    set_out: Any, ada: User, remember: Any, scripts: bool, trashed: Callable[[], int]
) -> None:
    cache.clear()
    remember(f"{SAYING} at two", title="Build cache", project=PROJECT)
    remember(SAYING, title="Cache of the build", project=PROJECT)
    remember("Trains run late in winter", title="Trains", project=PROJECT)
    page = set_out("/glance/", ada)
    if scripts:
        line = page.get_by_role("row", name="Near-duplicates")
        expect(line.get_by_role("cell").first).to_contain_text("2")
    page.get_by_role("link", name="Near-duplicates", exact=True).click()
    expect(page.get_by_text("1 cluster among 3 memories")).to_be_visible()
    page.get_by_role("button", name="Merge selected").click()
    expect(page.get_by_text("Merged 2 memories")).to_be_visible()
    assert trashed() == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Merge selected")).to_be_visible()
    assert trashed() == 0


def test_all_sure_duplicates_are_merged_and_the_merge_is_undone(
    set_out: Any, ada: User, remember: Any, trashed: Callable[[], int]
) -> None:
    cache.clear()
    for n in range(3):
        for ending in (".", "!"):
            remember(
                f"{SAYING}, on runner {'abc'[n] * 5}{ending}", title=f"Cache {n}{ending}", project=PROJECT
            )
    page = set_out("/", ada)
    go_to(page, "Memories", "Duplicates")
    page.get_by_role("link", name="Merge all above 0.95…").click()
    expect(page.get_by_text("will move to the trash")).to_be_visible()
    assert trashed() == 0
    page.get_by_role("button", name="Merge 3 clusters").or_(
        page.get_by_role("button", name="Merge 1 cluster")
    ).click()
    expect(page.get_by_text("moved to the trash")).to_be_visible()
    merged = trashed()
    assert merged
    page.get_by_role("button", name="Undo").first.click()
    expect(page.get_by_role("link", name="Merge all above 0.95…")).to_be_visible()
    assert trashed() == 0

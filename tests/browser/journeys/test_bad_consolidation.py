"""Undo a bad consolidation: find the run that faded a memory, and undo it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from playwright.sync_api import Page, expect

from memoryhub.access.policy import Actor, Clearance
from memoryhub.maintenance import executor, runs
from memoryhub.models import MaintenanceRun, Memory
from tests.browser.journeys.conftest import go_to


def open_memory(page: Page) -> None:
    box = page.get_by_role("searchbox", name="Search memories")
    box.fill("paint 0")
    box.press("Enter")
    page.get_by_role("link", name="Paint 0").click()


def test_run_is_undone_from_a_faded_memory(set_out: Any, person: Any, remember: Any, scripts: bool) -> None:
    for n in range(3):
        remember(f"faded paint {n}", title=f"Paint {n}", project="attic")
    memories = Memory.objects.filter(project="attic")
    memories.update(updated_at=timezone.now() - timedelta(days=40))
    actor = Actor("user:olena", Clearance.up_to("secret"))
    bad = runs.enqueue("consolidate", {"project": "attic"}, actor)
    executor.execute(bad)
    assert set(memories.values_list("importance", flat=True)) == {0.0}

    rights = ("add_maintenancerun", "view_maintenancerun", "view_private", "view_secret")
    page = set_out("/", person("keeper", *rights))
    open_memory(page)
    importance = page.locator("#field-importance")
    expect(importance).to_contain_text("0.0")
    go_to(page, "Settings", "Maintenance")
    page.get_by_role("region", name="Last runs").get_by_role("link", name="All").click()
    page.get_by_role("link", name="Consolidate").first.click()
    expect(page.locator(".change-row")).to_have_count(3)
    expect(page.get_by_text("olena").first).to_be_visible()
    # The run affected hidden levels too. Undoing it requires showing them.
    expect(page.get_by_role("link", name="Undo")).to_have_count(0)
    for level in ("private", "secret"):
        page.get_by_role("button", name="Visibility").click()
        page.get_by_role("button", name=f"Show {level}").click()
    page.get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Undo run").click()
    expect(page.locator("#run-state")).to_contain_text("Waiting to start")
    executor.execute(MaintenanceRun.objects.latest("pk"))
    if not scripts:
        page.get_by_role("link", name="Refresh").click()
    expect(page.locator("#run-state")).to_contain_text("Done")
    open_memory(page)
    expect(importance).to_contain_text("0.5")
    assert set(memories.values_list("importance", flat=True)) == {0.5}

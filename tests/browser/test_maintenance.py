"""Maintenance: the progress of a run, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from memoryhub import memories as store
from memoryhub.maintenance import executor
from memoryhub.maintenance.nodes import worker_id
from memoryhub.maintenance.worker import Worker, stop_workers
from memoryhub.models import MaintenanceRun, Memory

from .conftest import OpenPage
from .page_checks import find_state_problems

Status = MaintenanceRun.Status


@pytest.fixture
def keeper(person: Callable[..., User]) -> User:
    """A user with the permissions to maintain and erase."""
    return person("keeper", "add_maintenancerun", "view_maintenancerun", "erase_memory")


@pytest.fixture
def faded(remember: Callable[..., Memory]) -> list[Memory]:
    made = [remember(f"faded paint {number}", project="attic") for number in range(3)]
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=40))
    return made


@pytest.fixture
def workers() -> Iterator[None]:
    """Start the server's background threads."""
    at_work = [Worker(dry_runs=False), Worker(dry_runs=True)]
    for worker in at_work:
        worker.start()
    yield
    stop_workers(at_work)


def importances(memories: list[Memory]) -> list[float]:
    return [round(Memory.objects.get(pk=one.pk).importance, 2) for one in memories]


def press(page: Page, operation: str, button: str) -> None:
    card = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=re.compile(f"^{operation}")))
    card.get_by_role("button", name=button, exact=True).click()


def newest() -> MaintenanceRun:
    return MaintenanceRun.objects.latest("pk")


def pretend_running(done: int, total: int) -> None:
    """A run that this process is executing."""
    MaintenanceRun.objects.update(
        status=Status.RUNNING, worker=worker_id(), heartbeat_at=timezone.now(), done=done, total=total
    )


def test_dry_run_then_run_then_undo_while_the_workers_run(
    open_page: OpenPage, keeper: User, faded: list[Memory], workers: None
) -> None:
    page = open_page("/maintenance/", keeper)
    press(page, "Consolidate", "Dry run")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dry run: Consolidate")
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    expect(page.locator(".change-row")).to_have_count(3)
    assert importances(faded) == [0.5, 0.5, 0.5]
    page.get_by_role("button", name="Apply changes").click()
    expect(page.get_by_role("heading", name="What changed")).to_be_visible()
    assert importances(faded) == [0.0, 0.0, 0.0]
    page.get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Undo run").click()
    expect(page.locator("#run-state")).to_contain_text("Done")
    assert importances(faded) == [0.5, 0.5, 0.5]


def test_the_bar_moves_automatically_and_each_quarter_is_announced_once(
    open_page: OpenPage, keeper: User, faded: list[Memory]
) -> None:
    page = open_page("/maintenance/", keeper)
    press(page, "Consolidate", "Dry run")
    bar, said = page.get_by_role("progressbar", name="Progress"), page.locator("#run-status")
    expect(said).to_have_text("Waiting to start, 0 percent")
    pretend_running(26, 100)
    expect(bar).to_have_js_property("value", 26)
    expect(said).to_have_text("Running, 26 percent")
    pretend_running(30, 100)
    expect(bar).to_have_js_property("value", 30)
    expect(said).to_have_text("Running, 26 percent")
    MaintenanceRun.objects.update(status=Status.QUEUED, done=0, total=0)
    executor.execute(newest())
    expect(said).to_have_text("Done")
    expect(page.locator(".change-row")).to_have_count(3)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1500)
    again = [url for url in asked if "/maintenance/" in url]
    assert not again, "a run that has ended is not asked for again"


def test_the_keyboard_stays_on_stop_while_the_bar_moves(
    open_page: OpenPage, keeper: User, faded: list[Memory]
) -> None:
    page = open_page("/maintenance/", keeper)
    press(page, "Consolidate", "Run…")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("Refresh")).to_be_hidden()
    button = page.get_by_role("button", name="Stop")
    button.focus()
    pretend_running(50, 100)
    expect(page.get_by_role("progressbar")).to_have_js_property("value", 50)
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#run-state")).to_contain_text("Stopping")
    assert newest().stop_requested
    MaintenanceRun.objects.update(status=Status.FAILED, cause="stopped")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#run-state")).to_contain_text("Waiting to start")


def test_the_keyboard_continues_at_the_content_when_a_run_ends(
    open_page: OpenPage, keeper: User, faded: list[Memory]
) -> None:
    page = open_page("/maintenance/", keeper)
    press(page, "Consolidate", "Dry run")
    page.get_by_role("button", name="Stop").focus()
    executor.execute(newest())
    expect(page.locator("#run-state")).to_contain_text("Done")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("[data-back]")).to_be_focused()


def test_without_javascript_a_link_asks_again(open_page: OpenPage, keeper: User, faded: list[Memory]) -> None:
    page = open_page("/maintenance/", keeper, java_script_enabled=False)
    press(page, "Consolidate", "Dry run")
    again = page.get_by_role("link", name="Refresh")
    again.click()
    expect(page.locator("#run-state")).to_contain_text("Waiting to start")
    executor.execute(newest())
    again.click()
    expect(page.locator(".change-row")).to_have_count(3)
    expect(again).to_have_count(0)


def test_permanent_loss_is_confirmed_first(
    open_page: OpenPage, keeper: User, remember: Any, actor: Any
) -> None:
    store.apply_bulk_action("expire", [remember("old milk").uid], actor)
    Memory.objects.update(expires_at=timezone.now() - timedelta(days=1))
    page = open_page("/maintenance/", keeper)
    press(page, "Purge expired", "Run…")
    expect(page.get_by_role("heading", level=1)).to_have_text("Permanently remove 1 memory?")
    assert not MaintenanceRun.objects.exists()
    assert not find_state_problems(page)
    page.get_by_role("button", name="Remove permanently").click()
    executor.execute(newest())
    expect(page.get_by_text("permanently removed")).to_be_visible()
    assert not Memory.objects.exists()

"""While a bulk action runs, its bar shows it and its buttons are disabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from memoryhub.access.policy import Actor
from memoryhub.facts import services as fact_store
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, Memory
from tests.browser.conftest import OpenPage, Watch
from tests.browser.page_checks import find_state_problems

Remember = Callable[..., Memory]


@pytest.fixture
def three(live_server: Any, remember: Remember) -> list[Memory]:
    return [remember(f"memory number {n}", importance=0.8, project="p") for n in range(3)]


def held(page: Page, address: str) -> list[Route]:
    """Requests to this address, which wait until the test lets them go on."""
    routes: list[Route] = []
    page.route(address, lambda route: routes.append(route))
    return routes


def release_one(page: Page, routes: list[Route]) -> None:
    """Let the one held request go on, after waiting until the page has sent it."""
    for _ in range(3000):  # a busy machine takes its time
        if routes:
            break
        page.wait_for_timeout(10)
    assert len(routes) == 1
    routes[0].continue_()


def test_the_bar_says_that_it_works_and_is_pressed_once(
    open_page: OpenPage, insider: User, three: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    routes = held(page, "**/acts/")
    page.get_by_label("All on this page").check()
    bar = page.locator("#bulk")
    demote = bar.get_by_role("button", name="Demote")
    demote.click()
    expect(bar).to_have_attribute("aria-busy", "true")
    expect(bar.get_by_role("status")).to_have_text("3 selected: working…")
    expect(demote).to_be_focused()
    for name in ("Approve", "Demote", "Trash", "Clear"):
        expect(bar.get_by_role("button", name=name)).to_be_disabled()
    demote.dispatch_event("click")
    for key in ("d", "t", "Escape"):
        page.keyboard.press(key)
    expect(bar).to_be_visible()
    release_one(page, routes)
    expect(page.locator("#messages")).to_contain_text("3 memories demoted")
    assert set(Memory.objects.values_list("importance", flat=True)) == {0.4}
    page.get_by_label("All on this page").check()
    expect(bar.get_by_role("status")).to_have_text("3 selected")
    expect(bar.get_by_role("button", name="Trash")).to_be_enabled()


def test_bar_stays_until_the_answer_if_the_rows_are_unticked(
    open_page: OpenPage, insider: User, three: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    routes = held(page, "**/acts/")
    page.locator(".row-check").first.check()
    page.locator("#bulk").get_by_role("button", name="Demote").click()
    page.locator(".row-check").first.uncheck()
    expect(page.locator("#bulk")).to_be_visible()
    release_one(page, routes)
    expect(page.locator("#messages")).to_contain_text("1 memory demoted")
    expect(page.locator("#bulk")).to_be_hidden()


def test_after_a_failure_it_can_be_pressed_again_and_enter_is_guarded_as_before(
    open_page: OpenPage, insider: User, three: list[Memory], watch: Watch
) -> None:
    watch.expect(503)
    page = open_page("/memories/", insider)
    page.route("**/acts/", lambda route: route.fulfill(status=503, body="busy"))
    page.get_by_label("All on this page").check()
    bar = page.locator("#bulk")
    bar.get_by_role("button", name="Approve").click()
    expect(page.locator("#failure")).to_be_visible()
    expect(bar).not_to_have_attribute("aria-busy", "true")
    expect(bar.get_by_role("status")).to_have_text("3 selected")
    expect(bar.locator("button[hidden]")).to_be_disabled()
    expect(bar.get_by_role("button", name="Approve")).to_be_enabled()
    # htmx says on the console, besides, what it was answered.
    watch.problems[:] = [one for one in watch.problems if "Response Status Error Code 503" not in one]


def test_the_undo_button_shows_progress_and_works_once(
    open_page: OpenPage, insider: User, three: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    page.get_by_label("All on this page").check()
    page.keyboard.press("d")
    undo = page.locator("#messages").get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    routes = held(page, "**/acts/*/undo/")
    undo.click()
    expect(page.locator("#messages")).to_contain_text("Undoing…")
    expect(undo).to_be_disabled()
    page.keyboard.press("u")
    release_one(page, routes)
    expect(page.locator("#messages")).to_contain_text("Undone for 3 memories.")


def test_the_bar_of_facts_shows_that_it_is_working(open_page: OpenPage, insider: User, actor: Actor) -> None:
    for n in range(2):
        fact_store.create_fact(FactDraft(subject=f"s{n}", predicate="is", object="o"), actor)
    page = open_page("/facts/", insider)
    routes = held(page, "**/facts/end/")
    page.get_by_label("All on this page").check()
    page.locator("#bulk").get_by_role("button", name="No longer true").click()
    expect(page.locator("#bulk").get_by_role("status")).to_have_text("2 selected: working…")
    expect(page.locator("#bulk").get_by_role("button", name="No longer true")).to_be_disabled()
    release_one(page, routes)
    expect(page.locator("#messages")).to_contain_text("2 facts have ended")
    assert not Fact.objects.current().exists()


def test_a_busy_bar_is_accessible_and_fits(open_page: OpenPage, insider: User, three: list[Memory]) -> None:
    page = open_page("/memories/", insider)
    routes = held(page, "**/acts/")
    page.locator(".row-check").first.check()
    page.locator("#bulk").get_by_role("button", name="Approve").click()
    expect(page.locator("#bulk")).to_have_attribute("aria-busy", "true")
    assert not find_state_problems(page)
    release_one(page, routes)
    expect(page.locator(".toast")).to_be_visible()

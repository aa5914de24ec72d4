"""Lists that htmx filters, sorts and pages: focus and scroll position afterwards."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.memories.schemas import MemoryDraft
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.page_checks import WAIT_FOR_FRAMES

LISTS = ["/memories/", "/memories/?q=zebra&min_score=0"]


@pytest.fixture(autouse=True)
def many(live_server: Any, actor: Actor) -> None:
    drafts = [
        MemoryDraft(
            content=f"zebra {number:03}",
            project="zoo" if number % 3 else "farm",
            type="decision" if number % 2 else "discovery",
        )
        for number in range(60)
    ]
    memories.create_memories(drafts, actor)


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def place_of_the_row(page: Page) -> int:
    script = (
        "[...document.querySelectorAll('.rows > li')].findIndex((li) => li.contains(document.activeElement))"
    )
    return int(page.evaluate(script))


class TestTheFocus:
    def test_it_stays_on_a_facet_that_is_selected_and_cleared(
        self, open_page: OpenPage, reader: User
    ) -> None:
        page = open_page("about:blank", reader)
        for path in LISTS:
            page.goto(path)
            facet = page.locator("#facets").get_by_role("link", name=re.compile("^farm"))
            for chosen in (True, False):
                facet.focus()
                page.keyboard.press("Enter")
                expect(page.locator("#facets [aria-current=true]")).to_have_count(int(chosen))
                expect(facet).to_be_focused()

    def test_removing_a_chip_focuses_the_list(self, open_page: OpenPage, reader: User) -> None:
        page = open_page("about:blank", reader)
        for path in LISTS:
            page.goto(f"{path}{'&' if '?' in path else '?'}project=zoo")
            chip = page.locator(".chip").filter(has_text="zoo")
            chip.focus()
            page.keyboard.press("Enter")
            expect(chip).to_have_count(0)
            expect(page.locator("#listing .rows")).to_be_focused()
            page.keyboard.press("Tab")
            assert place_of_the_row(page) == 0

    @pytest.mark.parametrize("by", ["keys", "mouse"])
    def test_the_next_page_begins_at_its_top(self, open_page: OpenPage, reader: User, by: str) -> None:
        page = open_page("about:blank", reader)
        for path in LISTS:
            page.goto(path)
            following = page.locator("main .pages a[rel=next]")
            following.scroll_into_view_if_needed()
            if by == "keys":
                following.focus()
                page.keyboard.press("Enter")
            else:
                following.click()
            page.wait_for_url(re.compile("cursor=|page=2"))
            expect(page.locator("#listing .rows")).to_be_focused()
            expect(page.locator(".rows > li").first).to_be_in_viewport()
            page.keyboard.press("j")
            assert place_of_the_row(page) == 0

    def test_going_back_restores_the_scroll_position(self, open_page: OpenPage, reader: User) -> None:
        page = open_page("about:blank", reader)
        for path in LISTS:
            page.goto(path)
            following = page.locator("main .pages a[rel=next]")
            following.focus()
            page.evaluate(WAIT_FOR_FRAMES)
            left = page.evaluate("scrollY")
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile("cursor=|page=2"))
            page.go_back()
            page.wait_for_url(re.compile(f"{re.escape(path)}$"))
            expect(following).to_be_focused()
            page.wait_for_function("y => Math.abs(scrollY - y) < 3", arg=left)


def test_it_stays_on_a_filter_that_is_applied(open_page: OpenPage, reader: User) -> None:
    page = open_page("/memories/", reader)
    page.get_by_text("More filters", exact=True).click()
    pinned = page.get_by_label("Pinned", exact=True)
    pinned.focus()
    pinned.select_option("no")
    expect(page.locator(".chip")).to_have_count(1)
    expect(pinned).to_be_focused()


def test_a_facet_on_a_small_screen_closes_the_sheet_and_focuses_the_list(
    open_page: OpenPage, reader: User
) -> None:
    page = open_page("/memories/", reader, viewport=PHONE)
    page.get_by_role("button", name="Filters", exact=True).click()
    page.locator("#facets").get_by_role("link", name=re.compile("^farm")).click()
    expect(page.locator(".chip")).to_have_count(1)
    expect(page.locator("#listing .rows")).to_be_focused()
    expect(page.locator(".rows > li").first).to_be_in_viewport()


def test_a_user_who_keeps_typing_keeps_the_focus(open_page: OpenPage, reader: User) -> None:
    page = open_page("/memories/", reader)
    held: list[Any] = []
    page.route("**/memories/?*project=farm*", lambda route: held.append(route))
    page.locator("#facets").get_by_role("link", name=re.compile("^farm")).click()
    page.get_by_role("button", name="Account of reader").focus()
    held[0].continue_()
    expect(page.locator(".chip")).to_have_count(1)
    expect(page.get_by_role("button", name="Account of reader")).to_be_focused()

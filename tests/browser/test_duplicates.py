"""Near-duplicates: merge with a click and undo with another, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub.models import Memory
from tests.browser.page_checks import find_state_problems

from .conftest import DESKTOP, PHONE, OpenPage, Watch, no_sideways_scrolling

Remember = Callable[..., Memory]
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])
pytestmark = pytest.mark.usefixtures("embedding")
SAYING = "The build cache lives on the runner and is emptied every night"


@pytest.fixture
def ada(person: Callable[..., User]) -> User:
    return person("ada", "change_memory", "delete_memory")


@pytest.fixture
def alike(remember: Remember) -> list[Memory]:
    """Three of one saying, the longest first, and two of another."""
    made = [remember(f"{SAYING}{end}", tags=[f"t{n}"]) for n, end in enumerate((" at two", "!", ""))]
    remember("# Trains\n\nThey run late in winter"), remember("# Trains\n\nThey run late in summer")
    return made


def cluster(page: Page, words: str) -> Any:
    return page.get_by_role("article").filter(has_text=words)


def trashed() -> int:
    return Memory.objects.trashed().count()


class TestJourney:
    def test_merge_and_undo(self, open_page: OpenPage, ada: User, alike: list[Memory]) -> None:
        page = open_page("/memories/", ada)
        page.get_by_role("link", name="Duplicates").click()
        expect(page.get_by_text("2 clusters among 5 memories")).to_be_visible()
        mine = cluster(page, SAYING)
        expect(mine.get_by_text("Kept: it has the longest text.")).to_be_visible()
        mine.get_by_role("button", name="Merge selected").click()
        expect(page.get_by_text("Merged 3 memories")).to_be_visible()
        expect(page.get_by_text("1 cluster among 3 memories")).to_be_visible()
        assert trashed() == 2
        assert Memory.objects.get(pk=alike[0].pk).labels.count() == 3
        page.get_by_role("button", name="Undo").click()
        expect(cluster(page, SAYING).get_by_role("button", name="Merge selected")).to_be_visible()
        expect(page.get_by_text("2 clusters among 5 memories")).to_be_visible()
        assert trashed() == 0
        assert Memory.objects.get(pk=alike[0].pk).labels.count() == 1

    @SCRIPTS
    def test_another_one_is_kept_and_one_is_left_out(
        self, open_page: OpenPage, ada: User, alike: list[Memory], scripts: bool
    ) -> None:
        page = open_page("/duplicates/", ada, java_script_enabled=scripts)
        mine = cluster(page, SAYING)
        mine.get_by_role("radio", name=re.compile(r"night!$")).check()
        if scripts:
            expect(mine.get_by_text("Kept: chosen by you.")).to_be_visible()
            expect(mine.get_by_role("radio", name=re.compile(r"night!$"))).to_be_focused()
        mine.get_by_role("checkbox", name=re.compile(r"night$")).uncheck()
        mine.get_by_role("button", name="Merge").first.click()
        expect(page.get_by_text("Merged 2 memories")).to_be_visible()
        assert Memory.objects.trashed().get().merged_into == alike[1]

    @SCRIPTS
    def test_not_duplicates_does_not_come_back(
        self, open_page: OpenPage, ada: User, alike: list[Memory], scripts: bool
    ) -> None:
        page = open_page("/duplicates/", ada, java_script_enabled=scripts)
        cluster(page, SAYING).get_by_role("button", name="Not duplicates").click()
        expect(page.get_by_text("Marked 3 memories as not duplicates")).to_be_visible()
        page.goto("/duplicates/")
        expect(page.get_by_text("1 cluster among 5 memories")).to_be_visible()
        assert trashed() == 0

    @SCRIPTS
    def test_a_text_of_ones_own(
        self, open_page: OpenPage, ada: User, alike: list[Memory], scripts: bool
    ) -> None:
        page = open_page("/duplicates/", ada, java_script_enabled=scripts)
        mine = cluster(page, "Trains")
        mine.get_by_text("Merge with your own text").click()
        expect(mine.get_by_label("Text")).to_have_value(re.compile("winter.*summer|summer.*winter", re.S))
        mine.get_by_label("Text").fill("Trains run late")
        mine.get_by_role("button", name="Merge with this text").click()
        expect(page.get_by_text("Merged 2 memories")).to_be_visible()
        assert Memory.objects.filter(content="Trains run late", deleted_at=None).count() == 1


def test_an_own_text_stays_in_its_form_if_the_session_expired(
    open_page: OpenPage, watch: Watch, ada: User, alike: list[Memory]
) -> None:
    watch.expect(401)
    page = open_page("/duplicates/", ada)
    mine = cluster(page, SAYING)
    mine.get_by_text("Merge with your own text").click()
    mine.get_by_label("Text", exact=True).fill("The cache is emptied at two")
    page.context.clear_cookies(name="sessionid")
    mine.get_by_role("button", name="Merge with this text").click()
    expect(page.get_by_role("alert").filter(has_text="You are signed out.")).to_be_in_viewport()
    expect(mine.get_by_label("Text", exact=True)).to_have_value("The cache is emptied at two")
    assert trashed() == 0


def test_choosing_another_one_keeps_what_was_left_out_and_written(
    open_page: OpenPage, ada: User, alike: list[Memory]
) -> None:
    page = open_page("/duplicates/", ada)
    mine = cluster(page, SAYING)
    mine.get_by_role("checkbox", name=re.compile(r"night$")).uncheck()
    mine.get_by_text("Merge with your own text").click()
    mine.get_by_label("Text").fill("Emptied every night")
    mine.get_by_role("radio", name=re.compile(r"night!$")).check()
    expect(mine.get_by_text("Kept: chosen by you.")).to_be_visible()
    expect(mine.get_by_role("checkbox", name=re.compile(r"night$"))).not_to_be_checked()
    expect(mine.get_by_role("checkbox", name=re.compile(r"two$"))).to_be_checked()
    expect(mine.get_by_label("Text")).to_have_value("Emptied every night")


def test_a_long_word_leaves_the_card_in_a_small_window(
    open_page: OpenPage, ada: User, remember: Remember
) -> None:
    for end in ("", "!"):
        remember(f"{SAYING}{end}", title="a_title_without_any_blank_" * 7, project="p" * 180)
    page = open_page("/duplicates/", ada, viewport=PHONE)
    box = page.get_by_role("article").bounding_box()
    assert box
    assert box["x"] + box["width"] <= PHONE["width"]
    assert no_sideways_scrolling(page)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["large", "small"])
def test_it_fits_the_window_and_names_the_keyboards_place(
    open_page: OpenPage, ada: User, alike: list[Memory], viewport: Any
) -> None:
    page = open_page("/duplicates/", ada, viewport=viewport)
    assert no_sideways_scrolling(page)
    cluster(page, SAYING).get_by_role("button", name="Merge selected").press("Enter")
    expect(page.get_by_role("status").filter(has_text="Merged 3 memories")).to_be_focused()
    assert no_sideways_scrolling(page)


def test_clusters_are_decided_with_single_keys(open_page: OpenPage, ada: User, alike: list[Memory]) -> None:
    page = open_page("/duplicates/", ada)
    expect(page.get_by_text("2 clusters among 5 memories")).to_be_visible()
    page.keyboard.press("m")  # no cluster has the focus
    page.keyboard.press("j")
    page.keyboard.press("m")
    expect(page.get_by_role("status").filter(has_text="Merged 3 memories")).to_be_focused()
    page.keyboard.press("u")
    expect(page.locator(".dup:focus")).to_contain_text(SAYING)
    expect(page.locator(".dup:focus")).to_have_css("outline-style", "solid")
    assert trashed() == 0
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="Marked 3 memories as not duplicates")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("m")
    expect(page.get_by_role("status").filter(has_text="Merged 2 memories")).to_be_focused()
    assert trashed() == 1


def test_a_change_by_someone_else_replaces_the_cluster_with_a_notice(
    open_page: OpenPage, watch: Any, ada: User, alike: list[Memory]
) -> None:
    watch.expect(422)
    page = open_page("/duplicates/", ada)
    Memory.objects.filter(pk=alike[1].pk).update(updated_at=alike[1].created_at.replace(year=2020))
    cluster(page, SAYING).get_by_role("button", name="Merge selected").click()
    expect(cluster(page, SAYING).get_by_role("alert")).to_contain_text("changed since you opened it")
    cluster(page, SAYING).get_by_role("button", name="Merge selected").click()
    expect(page.get_by_text("Merged 3 memories")).to_be_visible()


def test_a_merge_is_accessible_and_fits(open_page: OpenPage, ada: User, alike: list[Memory]) -> None:
    page = open_page("/duplicates/", ada)
    cluster(page, SAYING).get_by_role("button", name="Merge selected").click()
    expect(page.get_by_text("Merged 3 memories")).to_be_visible()
    assert not find_state_problems(page)

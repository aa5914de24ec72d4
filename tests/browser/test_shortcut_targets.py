"""Single keys act on the visible or chosen row only; the bar of ticked rows; undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from playwright.sync_api import Page, expect

from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, Memory
from tests.browser.conftest import OpenPage

Remember = Callable[..., Memory]
LOW = {"width": 1280, "height": 700}


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def press(page: Page, keys: Iterable[str]) -> None:
    for key in keys:
        page.keyboard.press(key)


def nothing_happens(page: Page, keys: Iterable[str]) -> None:
    """Press them, and wait for what they may have asked of the hub.

    Counts do not matter: the page may still be updating them after the action before.
    """
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    press(page, keys)
    page.wait_for_timeout(200)
    assert not [url for url in asked if "/review/counts/" not in url]


@pytest.mark.usefixtures("embedding")
class TestWhileACardIsMerged:
    @pytest.fixture
    def merging(self, open_page: OpenPage, insider: User, remember: Remember) -> Page:
        """The third of six cards shows its similar memories; the first is scrolled out of view."""
        for word in ("barn", "dune", "fjord", "grove"):
            remember(f"The {word} of the tale\n\n" + f"{word} is described at length. " * 40)
        for end in ("", "!"):
            remember("The build cache is emptied every night\n\n" + "It lives on the runner. " * 60 + end)
        page = open_page("/review/", insider, viewport=LOW)
        while "build cache" not in focused(page):
            page.keyboard.press("j")
        page.keyboard.press("m")
        expect(page.locator(".review-card article.dup")).to_be_focused()
        return page

    def test_the_keys_of_other_cards_do_nothing(self, merging: Page) -> None:
        nothing_happens(merging, "dt")
        assert not Memory.objects.trashed().exists()
        assert not Memory.objects.exclude(reviewed_at=None).exists()

    def test_escape_focuses_the_card(self, merging: Page) -> None:
        merging.keyboard.press("Escape")
        expect(merging.locator(".review-card article.dup")).to_have_count(0)
        expect(merging.locator(".review-card .row-title a:focus")).to_contain_text("build cache")

    def test_escape_in_a_text_of_ones_own_loses_no_word(self, merging: Page) -> None:
        merging.get_by_text("Merge with your own text").click()
        text = merging.get_by_role("textbox", name="Text", exact=True)
        text.fill("My own words")
        nothing_happens(merging, ["Escape"])
        expect(text).to_have_value("My own words")


def test_the_first_card_is_not_acted_on_while_it_is_hidden(
    open_page: OpenPage, insider: User, remember: Remember
) -> None:
    for number in range(8):
        remember(f"Number {number}\n\n" + "It is described at length. " * 60)
    page = open_page("/review/", insider, viewport={"width": 1280, "height": 360})
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    nothing_happens(page, "adt")
    page.evaluate("window.scrollTo(0, 0)")
    page.keyboard.press("a")
    expect(page.locator(".review-done")).to_have_count(1)


def test_deciding_a_contradiction_focuses_the_next_one(
    open_page: OpenPage, insider: User, actor: Any
) -> None:
    for subject in ("ada", "ben", "cai"):
        for name in ("Acme", "Brick"):
            services.create_fact(FactDraft(subject=subject, predicate="works at", object=name), actor)
    page = open_page("/review/?tab=contradictions", insider)
    subjects = [one.strip() for one in page.locator("article h2 a").all_inner_texts()]
    press(page, "jjm")
    expect(page.locator(".review-slot .notice")).to_be_focused()
    nothing_happens(page, "m")
    page.keyboard.press("j")
    assert focused(page) == subjects[2]
    press(page, "kk")
    assert focused(page) == subjects[0]
    assert Fact.objects.current().count() == 5


class TestUndoing:
    def test_u_undoes_an_inline_edit(self, open_page: OpenPage, insider: User, remember: Remember) -> None:
        page = open_page(f"/memories/{remember('First words', title='First title').uid}/", insider)
        page.get_by_role("link", name="Change the title").click()
        page.get_by_role("textbox", name="Title").fill("Second title")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The title is saved.")).to_be_visible()
        page.keyboard.press("u")
        expect(page.get_by_role("heading", level=1)).to_have_text("First title")
        assert Memory.objects.get().title == "First title"

    def test_u_undoes_moving_a_memory_to_the_trash(
        self, open_page: OpenPage, insider: User, remember: Remember
    ) -> None:
        page = open_page(f"/memories/{remember('words').uid}/", insider)
        page.get_by_role("button", name="Trash", exact=True).click()
        expect(page.get_by_text("In the trash now:")).to_be_visible()
        page.wait_for_load_state()
        page.keyboard.press("u")
        expect(page.get_by_role("heading", name="words")).to_be_visible()
        assert Memory.objects.live().count() == 1

    @pytest.mark.usefixtures("embedding")
    def test_u_undoes_the_last_merging_of_two_and_then_the_first(
        self, open_page: OpenPage, insider: User, remember: Remember
    ) -> None:
        for name in ("Trains", "Ferries"):
            for ending in ("summer", "winter"):
                remember(f"# {name}\n\n{name} run late in the {ending}", project=name)
        page = open_page("/duplicates/", insider)
        merge = page.get_by_role("button", name="Merge selected")
        merge.nth(1).click()
        expect(page.locator(".undo")).to_have_count(1)
        merge.click()
        expect(page.locator(".undo")).to_have_count(2)
        trashed = set(Memory.objects.trashed().values_list("project", flat=True))
        assert trashed == {"Trains", "Ferries"}
        last = page.locator(".clusters > *").nth(0)
        page.keyboard.press("u")
        expect(last.get_by_role("button", name="Merge selected")).to_be_visible()
        expect(page.locator(".undo")).to_have_count(1)
        page.keyboard.press("u")
        expect(page.locator(".undo")).to_have_count(0)
        assert not Memory.objects.trashed().exists()

    def test_u_undoes_a_settled_contradiction(self, open_page: OpenPage, insider: User, actor: Any) -> None:
        for name in ("Acme", "Brick"):
            services.create_fact(FactDraft(subject="ada", predicate="works at", object=name), actor)
        page = open_page("/facts/contradictions/", insider)
        page.locator("article button[name=keep]").first.click()
        expect(page.locator(".undo")).to_be_visible()
        page.keyboard.press("u")
        expect(page.locator("article.contradiction")).to_have_count(1)
        assert Fact.objects.current().count() == 2


class TestTheBarOfTheTicked:
    @pytest.fixture
    def ticked(self, open_page: OpenPage, insider: User, remember: Remember) -> Page:
        for number in range(5):
            remember(f"memory number {number}", importance=0.8)
        page = open_page("/memories/", insider)
        press(page, "jjx")
        return page

    def test_b_goes_to_it_and_back_to_the_row(self, ticked: Page) -> None:
        row = focused(ticked)
        ticked.keyboard.press("b")
        expect(ticked.get_by_role("button", name="Approve")).to_be_focused()
        ticked.keyboard.press("b")
        assert focused(ticked) == row

    def test_tab_reaches_the_actions_without_a_shortcut(self, ticked: Page) -> None:
        ticked.keyboard.press("b")
        for _ in range(5):  # over the buttons with keys, and the project to move to
            ticked.keyboard.press("Tab")
        expect(ticked.locator("#bulk summary")).to_be_focused()
        ticked.keyboard.press("Enter")
        ticked.keyboard.press("Tab")
        expect(ticked.locator("#bulk-tag")).to_be_focused()

    def test_escape_in_it_unticks_and_keeps_the_place(self, ticked: Page) -> None:
        ticked.keyboard.press("b")
        ticked.keyboard.press("Escape")
        expect(ticked.locator("#bulk")).to_be_hidden()
        expect(ticked.locator(".row-check").nth(1)).to_be_focused()

    def test_b_does_nothing_while_nothing_is_ticked(self, ticked: Page) -> None:
        ticked.keyboard.press("x")
        row = focused(ticked)
        ticked.keyboard.press("b")
        assert focused(ticked) == row

    def test_the_list_of_keys_mentions_it(self, ticked: Page) -> None:
        ticked.keyboard.press("?")
        expect(ticked.get_by_role("dialog", name="Keyboard")).to_contain_text("Move to the bulk actions")

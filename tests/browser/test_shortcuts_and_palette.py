"""Keyboard shortcuts, the command palette and copying."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from memoryhub import memories
from memoryhub.facts.services import create_fact
from memoryhub.memories.schemas import FactDraft
from tests.browser.conftest import PHONE, no_sideways_scrolling
from tests.browser.page_checks import find_state_problems


@pytest.fixture
def three(remember: Any) -> list[Any]:
    """The lists show the newest first: third, second, first."""
    return [remember(f"{name} zebra", project="zoo") for name in ("first", "second", "third")]


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def palette(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to", exact=True)
    expect(box).to_be_focused()
    expect(chosen(page)).to_have_count(1)
    return box


def chosen(page: Page) -> Locator:
    return page.locator("#palette [role=option][aria-selected=true]")


class TestKeys:
    def test_j_and_k_move_through_a_list_and_enter_opens(
        self, open_page: Any, reader: Any, three: Any
    ) -> None:
        page = open_page("/memories/", reader)
        page.keyboard.press("j")
        assert focused(page) == "third zebra"
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert focused(page) == "first zebra"
        page.keyboard.press("k")
        assert focused(page) == "second zebra"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("second zebra")

    @pytest.mark.usefixtures("embedding")
    def test_j_and_k_move_through_the_days_of_a_month_and_through_clusters(
        self, open_page: Any, reader: Any, remember: Any
    ) -> None:
        for day, name in ((3, "third"), (4, "fourth")):
            remember(f"{name} zebra", created_at=datetime(2026, 5, day, 12, tzinfo=UTC))
        for ending in ("summer", "winter"):
            remember(f"# Trains\n\nThey run late in {ending}")
        page = open_page("/timeline/?month=2026-05", reader)
        days = []
        for _ in range(2):
            page.keyboard.press("j")
            days.append(focused(page))
        assert sorted(days) == ["Mon 4 May", "Sun 3 May"]
        page.goto("/duplicates/")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.closest('.clusters > article') !== null")

    def test_slash_goes_to_the_search_in_the_header(self, open_page: Any, reader: Any) -> None:
        page = open_page("/journal/", reader)
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox", name="Search memories")).to_be_focused()
        page.keyboard.type("zebra")
        page.keyboard.press("Enter")
        page.wait_for_url("**/memories/?q=zebra")
        page.keyboard.press("Escape")
        page.locator("h1").click(force=True)
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox", name="Search memories")).to_be_focused()

    def test_e_edits_the_memory_of_the_row_and_of_the_page(
        self, open_page: Any, insider: Any, three: Any
    ) -> None:
        page = open_page("/memories/", insider)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("e")
        page.wait_for_url(f"**/memories/{three[1].uid}/edit/")
        page.goto(f"/memories/{three[0].uid}/")
        page.keyboard.press("e")
        page.wait_for_url(f"**/memories/{three[0].uid}/edit/?from=*")

    def test_e_does_nothing_without_permission_to_edit(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page("/memories/", reader)
        page.keyboard.press("j")
        page.keyboard.press("e")
        page.keyboard.press("j")
        assert focused(page) == "second zebra"

    def test_x_ticks_the_row_and_unticks_it(
        self, open_page: Any, insider: Any, three: Any, actor: Any
    ) -> None:
        memories.trash_memories([one.uid for one in three], actor)
        page = open_page("/trash/", insider)
        page.keyboard.press("j")
        name = focused(page)
        page.keyboard.press("x")
        expect(page.get_by_role("checkbox", name=name)).to_be_checked()
        page.keyboard.press("x")
        expect(page.get_by_role("checkbox", name=name)).not_to_be_checked()

    def test_keys_are_letters_while_someone_types(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page("/memories/", reader)
        box = page.get_by_role("searchbox", name="Search memories")
        box.press_sequentially("/jkex?")
        expect(box).to_have_value("/jkex?")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def test_shortcuts_can_be_switched_off_and_on(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page("/memories/", reader)
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        expect(keys).to_be_visible()
        keys.get_by_role("checkbox", name="Single keys").uncheck()
        page.keyboard.press("Escape")
        page.reload()
        page.keyboard.press("?")
        page.keyboard.press("j")
        expect(keys).to_be_hidden()
        assert focused(page) != "third zebra"
        page.get_by_role("button", name="Account of reader").click()
        page.get_by_role("button", name="Keyboard").click()
        expect(keys.get_by_role("checkbox", name="Single keys")).not_to_be_checked()
        keys.get_by_role("checkbox", name="Single keys").check()
        keys.get_by_role("button", name="Close").click()
        expect(page.get_by_role("button", name="Account of reader")).to_be_focused()
        page.keyboard.press("j")
        assert focused(page) == "third zebra"


class TestPalette:
    def test_it_goes_to_a_page_by_a_part_of_its_name(self, open_page: Any, reader: Any) -> None:
        page = open_page("/", reader)
        palette(page).press_sequentially("journ")
        expect(chosen(page)).to_have_text("Journal")
        page.keyboard.press("Enter")
        page.wait_for_url("**/journal/")

    def test_arrows_choose_and_the_focus_stays_in_the_box(
        self, open_page: Any, reader: Any, three: Any
    ) -> None:
        page = open_page("/", reader)
        box = palette(page)
        box.fill("zebra")
        expect(chosen(page)).to_have_text("third zebrazoo")
        page.keyboard.press("ArrowDown")
        expect(chosen(page)).to_have_text("second zebrazoo")
        expect(box).to_be_focused()
        assert box.get_attribute("aria-activedescendant") == chosen(page).get_attribute("id")
        expect(page.locator("#palette-status")).to_have_text("4 places")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("second zebra")

    def test_enter_before_the_list_is_loaded_opens_its_first_item(self, open_page: Any, reader: Any) -> None:
        page = open_page("/", reader)
        palette(page)
        page.keyboard.type("timel")
        page.keyboard.press("Enter")
        page.wait_for_url("**/timeline/")

    def test_a_project_opens_its_memories(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page("/", reader)
        palette(page).fill("zoo")
        page.get_by_role("option", name="zoo 3 memories").click()
        page.wait_for_url("**/memories/?project=zoo")

    def test_escape_closes_it_and_gives_the_focus_back(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page("/memories/", reader)
        page.keyboard.press("j")
        palette(page)
        page.keyboard.press("Escape")
        expect(page.locator("#palette")).to_be_hidden()
        assert focused(page) == "third zebra"

    def test_it_opens_by_the_mouse_too(self, open_page: Any, reader: Any) -> None:
        page = open_page("/", reader, viewport=PHONE)
        page.get_by_role("button", name="Account of reader").click()
        page.get_by_role("button", name="Go to…").click()
        expect(page.get_by_role("listbox", name="Places")).to_be_visible()
        expect(page.get_by_role("option", name="Journal")).to_be_visible()
        assert no_sideways_scrolling(page)

    def test_a_hostile_title_stays_a_text(self, open_page: Any, reader: Any, remember: Any) -> None:
        title = "<img src=x onerror=alert(1)> zebra"
        remember("words", title=title)
        page = open_page("/", reader)
        palette(page).fill("zebra")
        expect(page.get_by_role("option", name=title).first).to_be_visible()
        assert page.locator("#palette img").count() == 0


def test_the_dialogs_are_accessible_and_fit(open_page: Any, insider: Any, three: Any) -> None:
    page = open_page("/memories/", insider)
    palette(page).fill("zebra")
    expect(page.get_by_role("option", name=re.compile("third zebra"))).to_be_visible()
    assert not find_state_problems(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert not find_state_problems(page)


class TestCopies:
    def test_a_memory_is_copied_from_its_page(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page(
            f"/memories/{three[0].uid}/", reader, permissions=["clipboard-read", "clipboard-write"]
        )
        for form, begins in (("Markdown", "# first zebra\n"), ("JSON", "{\n")):
            page.get_by_role("link", name=f"Copy as {form}").click()
            expect(page.locator("#copied")).to_have_text(f"Copied as {form}")
            assert page.evaluate("navigator.clipboard.readText()").startswith(begins)

    def test_the_address_of_a_memory_and_of_a_session_is_copied(
        self, open_page: Any, reader: Any, remember: Any
    ) -> None:
        uid = remember("zebra", session_id="night", project="zoo").uid
        rights = ["clipboard-read", "clipboard-write"]
        page = open_page(f"/memories/{uid}/?from=mail#history", reader, permissions=rights)
        page.get_by_role("link", name="Copy the link").click()
        expect(page.locator("#copied")).to_have_text("Copied as link")
        assert page.evaluate("navigator.clipboard.readText()").endswith(f"/memories/{uid}/")
        page.goto("/sessions/night/")
        page.get_by_role("button", name="Copy link").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()").endswith("/sessions/night/?project=zoo")

    def test_without_scripts_the_text_opens(self, open_page: Any, reader: Any, three: Any) -> None:
        page = open_page(f"/memories/{three[0].uid}/", reader, java_script_enabled=False)
        page.get_by_role("link", name="Markdown").click()
        expect(page.get_by_text("# first zebra")).to_be_visible()


class TestReport:
    def test_a_session_is_printed_without_what_is_there_to_be_clicked(
        self, open_page: Any, reader: Any, remember: Any
    ) -> None:
        for number in range(3):
            remember(f"learnt {number}", session_id="night", project="zoo")
        page = open_page("/sessions/night/?project=zoo", reader, color_scheme="dark")
        page.get_by_role("link", name="Printable report").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Session night")
        page.evaluate("window.print = () => { window.printed = true }")
        page.get_by_role("button", name="Print").click()
        assert page.evaluate("window.printed") is True
        page.emulate_media(media="print")
        expect(page.get_by_text("learnt 2", exact=True).first).to_be_visible()
        for hidden in (".top", ".sidebar", ".page-head .buttons"):
            expect(page.locator(hidden)).to_be_hidden()
        expect(page.locator(".timeline-at .seconds").first).to_be_visible()
        # Dark letters, also for who reads light ones on the screen.
        expect(page.locator("body")).to_have_css("color", "rgb(25, 32, 29)")

    def test_a_list_is_printed_with_its_words_and_filters(
        self, open_page: Any, insider: Any, three: Any
    ) -> None:
        page = open_page("/memories/?q=zebra&project=zoo", insider)
        words = page.get_by_text("Search: zebra", exact=True)
        expect(words).to_be_hidden()
        page.emulate_media(media="print")
        expect(words).to_be_visible()
        expect(page.locator(".chip")).to_have_text(re.compile(r"Project\s+zoo"))
        expect(page.locator(".chip")).to_be_visible()
        expect(page.locator(".chip svg")).to_be_hidden()

    def test_lists_are_printed_without_buttons(
        self, open_page: Any, insider: Any, three: Any, actor: Any
    ) -> None:
        memories.trash_memories([three[0].uid], actor)
        create_fact(FactDraft(subject="the zoo", predicate="is", object="open"), actor)
        page = open_page("about:blank", insider)
        for path in ("/trash/", "/facts/", "/timeline/entries/"):
            page.emulate_media(media="screen")
            page.goto(path)
            expect(page.locator("main :is(button, .inline-edit):visible")).not_to_have_count(0)
            page.emulate_media(media="print")
            expect(page.locator("main :is(button, .inline-edit):visible")).to_have_count(0)

    def test_rows_of_a_list_begin_at_the_left_edge_of_the_paper(
        self, open_page: Any, insider: Any, three: Any
    ) -> None:
        page = open_page("/memories/", insider, viewport={"width": 794, "height": 1123})
        expect(page.locator(".row-check").first).to_be_visible()
        page.emulate_media(media="print")
        title, meta = (
            page.locator(f".row {part}").first.bounding_box() for part in (".row-title", ".row-meta")
        )
        assert meta["x"] == title["x"] == page.locator(".row").first.bounding_box()["x"]

    def test_a_memory_is_printed_with_exact_times_and_without_what_is_there_to_be_clicked(
        self, open_page: Any, insider: Any, three: Any
    ) -> None:
        page = open_page(f"/memories/{three[0].uid}/", insider)
        page.emulate_media(media="print")
        for hidden in (".page-head .buttons", ".copies", ".memory .copy >> nth=0"):
            expect(page.locator(hidden)).to_be_hidden()
        shown = page.evaluate(
            "getComputedStyle(document.querySelector('.memory time[title]'), '::after').content"
        )
        assert " UTC" in shown
        expect(page.locator(".memory time").first).to_have_css("font-size", "0px")

"""Keyboard only: through each kind of page in order, and in and out of dialogs and menus."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, press_tab
from tests.browser.page_checks import EVERYTHING, Requests, axe_problems, load_axe
from tests.cases import in_case

PATHS = [
    "/",
    "/memories/?q=zebra&min_score=0",
    "/memories/",
    "/memories/{uid}/",
    "/memories/{uid}/edit/",
    "/review/",
    "/review/?tab=unsure",
    "/duplicates/",
    "/facts/",
    "/facts/graph/",
    "/timeline/",
    "/glance/",
    "/trash/",
    "/you/",
]
# Where Tab has been, in its own marks; radio buttons of one name are one stop.
STOPS = """() => [...document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex]")]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.type !== "radio"
    && !one.closest("dialog:not([open])") && one.checkVisibility({visibilityProperty: true}))
  .map((one, place) => { one.stop = place; return one.outerHTML.slice(0, 120); })"""
FROM_THE_TOP = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
}"""
# Records where the focus is after each Tab: -1 outside of the page, -2 at an element that is no stop itself.
# To ask after each key takes longer. A repeated key has not moved the focus yet.
RECORD_STOPS = """() => {
  window.stopsOfTab = [];
  const record = ({ key, type, repeat }) => {
    const { activeElement, body } = document;
    if (key !== "Tab" || (type === "keydown" && !repeat)) return;
    window.stopsOfTab.push(activeElement === body ? -1 : activeElement.stop ?? -2);
  };
  window.addEventListener("keydown", record, true);
  window.addEventListener("keyup", record, true);
}"""


@pytest.fixture
def uid(remember: Any, actor: Any) -> str:
    for name in ("first", "second"):
        made = remember(f"{name} zebra\n\nIt is fed at six.", project="zoo", tags=["oats"], session_id="s1")
    for number in range(3):
        services.create_fact(FactDraft(subject="zebra", predicate="eats", object=f"hay {number}"), actor)
    return str(made.uid)


def tab_over(page: Page) -> None:
    """Press Tab from the top until it leaves the page; every place is reached, in the order of the page."""
    page.evaluate(FROM_THE_TOP)
    stops = page.evaluate(STOPS)
    page.evaluate(RECORD_STOPS)
    pressed: list[int] = []
    for keys in [len(stops) + 1, *[1] * 19]:
        press_tab(page, keys)
        pressed = page.evaluate("() => window.stopsOfTab")
        if (end := _end_of_page(pressed)) is not None:
            break
    else:
        pytest.fail(f"{page.url}: Tab does not lead out of the page but to {stops[pressed[-1]]}")
    reached = [stop for stop in pressed[:end] if stop >= 0]
    assert reached == sorted(reached), f"{page.url}: Tab jumps: {reached}"
    missed = [stops[stop] for stop in set(range(len(stops))) - set(reached)]
    assert not missed, f"{page.url}: Tab never gets to {missed}"


def _end_of_page(pressed: list[int]) -> int | None:
    """Return how many keys led out of the page or, with nothing around it, to its beginning again."""
    return next((at for at, stop in enumerate(pressed) if stop == -1 or (stop == 0 and at)), None)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["large", "small"])
def test_tab_visits_everything_in_order_and_leaves_every_page(
    open_page: OpenPage, insider: Any, uid: str, viewport: Any
) -> None:
    page = open_page("/", insider, viewport=viewport)
    requests = Requests(page)
    for path in PATHS:
        page.goto(path.format(uid=uid))
        requests.settle()
        tab_over(page)


def test_tab_visits_the_bar_of_ticked_rows(open_page: OpenPage, insider: Any, uid: str) -> None:
    page = open_page("about:blank", insider)
    for path in ("/memories/", "/facts/", "/timeline/entries/"):
        page.goto(path)
        page.locator(".row-check").first.focus()
        page.keyboard.press("Space")
        expect(page.locator("#bulk")).to_be_visible()
        tab_over(page)


def test_tab_visits_fields_that_open_in_place(open_page: OpenPage, insider: Any, uid: str) -> None:
    """Each of them in a page of its own."""
    page = open_page("about:blank", insider)
    requests = Requests(page)
    for name in ("title", "tags", "importance"):
        with in_case(name):
            page.goto(f"/memories/{uid}/")
            page.get_by_role("link", name=f"Change the {name}").focus()
            page.keyboard.press("Enter")
            expect(page.locator("[data-inline-form] :focus")).to_be_visible()
            requests.settle()  # until the browser has handled the field's autofocus, too
            tab_over(page)


@pytest.mark.usefixtures("embedding")
def test_the_text_next_to_a_review_card_is_reached_too(
    open_page: OpenPage, insider: Any, remember: Any
) -> None:
    for end in ("", " at two"):
        remember(f"The cache is emptied every night{end}")
    page = open_page("/review/", insider)
    page.keyboard.press("j")
    page.keyboard.press("m")
    expect(page.get_by_role("button", name="Merge selected")).to_be_visible()
    tab_over(page)


def test_the_first_tab_offers_to_skip_to_the_content(open_page: OpenPage, insider: Any, uid: str) -> None:
    page = open_page("/memories/", insider)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash")
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('main'))")


def test_a_dialog_keeps_the_focus_and_gives_it_back(open_page: OpenPage, insider: Any, uid: str) -> None:
    page = open_page("/memories/", insider)
    page.keyboard.press("j")
    for key, name in (("Control+k", "Go to"), ("?", "Keyboard")):
        with in_case(name):
            _enter_and_leave_dialog(page, key, name)


def _enter_and_leave_dialog(page: Page, key: str, name: str) -> None:
    before = page.evaluate("document.activeElement.textContent")
    page.keyboard.press(key)
    dialog = page.get_by_role("dialog", name=name, exact=True)
    expect(dialog).to_be_visible()
    for step in ["Tab"] * 8 + ["Shift+Tab"] * 8:
        page.keyboard.press(step)
        # Between the last place and the first lies the browser's own frame.
        assert page.evaluate("""() => document.activeElement === document.body
            || Boolean(document.activeElement.closest("dialog[open]"))""")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.wait_for_function("(before) => document.activeElement.textContent === before", arg=before)


def test_a_menu_opens_closes_and_gives_the_focus_back(open_page: OpenPage, insider: Any, uid: str) -> None:
    page = open_page("/memories/", insider, viewport=PHONE)
    for button in ("Account of insider", "Menu"):
        with in_case(button):
            opener = page.get_by_role("button", name=button, exact=True)
            opener.focus()
            page.keyboard.press("Enter")
            page.keyboard.press("Tab")
            assert page.evaluate("Boolean(document.activeElement.closest(':popover-open'))")
            page.keyboard.press("Escape")
            expect(opener).to_be_focused()
            expect(page.locator(":popover-open")).to_have_count(0)


def test_the_other_actions_of_a_memory_close_by_escape(open_page: OpenPage, insider: Any, uid: str) -> None:
    page = open_page(f"/memories/{uid}/", insider)
    menu = page.locator("details.more")
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(menu.get_by_role("button", name="Pin")).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(menu.locator("summary")).to_be_focused()


def test_the_menu_of_saved_searches_closes_when_the_focus_leaves_it(
    open_page: OpenPage, insider: Any, uid: str
) -> None:
    page = open_page("/memories/", insider)
    menu = page.locator("details.saved")
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="All saved searches").wait_for()
    load_axe(page)
    assert not list(axe_problems(page, EVERYTHING))
    for _ in range(12):
        page.keyboard.press("Tab")
        if not page.evaluate("Boolean(document.activeElement.closest('details.saved'))"):
            break
    expect(menu).not_to_have_attribute("open", "")
    assert page.evaluate("Boolean(document.activeElement.closest('main'))")

"""Live search: typing, sending, facets and back navigation, also without scripts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE
from tests.browser.page_checks import find_state_problems


@pytest.fixture
def zoo(remember: Any) -> None:
    remember("Feed the zebra at six.", title="Zebra feeding", type="decision", project="zoo", tags=["oats"])
    remember("The zebra crossing is painted.", title="Zebra crossing", type="bugfix", project="town")
    remember("The giraffe sleeps.", title="Giraffe sleep", project="zoo")


def box(page: Page) -> Any:
    return page.get_by_role("searchbox", name="Search memories")


def test_results_appear_while_someone_types(open_page: Any, reader: Any, zoo: None) -> None:
    page = open_page("/memories/", reader)
    page.keyboard.press("/")
    expect(box(page)).to_be_focused()
    box(page).press_sequentially("zebra", delay=20)
    expect(page.get_by_role("link", name="Zebra feeding")).to_be_visible()
    expect(page.get_by_role("link", name="Giraffe sleep")).to_have_count(0)
    expect(page.locator("mark").first).to_have_text("Zebra")
    expect(page.get_by_role("status").filter(has_text="2 results for zebra")).to_have_count(1)
    expect(box(page)).to_be_focused()


def test_typing_replaces_the_address_and_sending_adds_a_step_to_go_back_to(
    open_page: Any, reader: Any, zoo: None
) -> None:
    page = open_page("/memories/", reader)
    box(page).fill("zebra")
    expect(page).to_have_url(re.compile(r"/memories/\?q=zebra$"))
    before = page.evaluate("history.length")
    box(page).fill("giraffe")
    expect(page).to_have_url(re.compile(r"/memories/\?q=giraffe$"))
    assert page.evaluate("history.length") == before
    box(page).press("Enter")
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()
    # Without an input event: on a busy machine, its search would replace the address before the form is sent.
    box(page).evaluate("input => { input.value = 'zebra'; input.form.requestSubmit(); }")
    expect(page.get_by_role("link", name="Zebra feeding")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/memories/\?q=zebra$"))
    page.go_back()
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()
    expect(box(page)).to_have_value("giraffe")


def test_a_facet_narrows_keeps_the_words_and_can_be_undone(open_page: Any, reader: Any, zoo: None) -> None:
    page = open_page("/memories/?q=zebra", reader)
    page.get_by_role("navigation", name="Filters by value").get_by_role("link", name="bugfix").click()
    expect(page).to_have_url(re.compile(r"q=zebra&type=bugfix"))
    expect(page.get_by_role("link", name="Zebra feeding")).to_have_count(0)
    expect(page.get_by_role("link", name="Zebra crossing")).to_be_visible()
    expect(box(page)).to_have_value("zebra")
    box(page).fill("zebra crossing")
    expect(page).to_have_url(re.compile(r"q=zebra\+crossing&type=bugfix"))
    assert find_state_problems(page) == []
    page.get_by_role("link", name="Type bugfix: remove this filter").click()
    expect(page).to_have_url(re.compile(r"/memories/\?q=zebra\+crossing$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"type=bugfix"))


def test_a_wrong_filter_is_shown_and_the_rest_stays(
    open_page: Any, reader: Any, zoo: None, watch: Any
) -> None:
    watch.expect(422)
    page = open_page("/memories/?q=zebra", reader)
    page.get_by_text("More filters", exact=True).click()
    page.get_by_label("Lowest score").fill("7")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Lowest score")).to_be_visible()
    expect(box(page)).to_have_value("zebra")
    expect(page.get_by_label("Lowest score")).to_be_focused()
    page.get_by_label("Lowest score").fill("0.1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Zebra feeding")).to_be_visible()


def test_hostile_text_stays_text(open_page: Any, reader: Any, remember: Any) -> None:
    title = "<script>document.body.remove()</script>"
    remember("zebra <img src=x onerror=document.body.remove()>", title=title)
    page = open_page("/memories/", reader)
    box(page).fill(f"zebra {title}")
    expect(page.locator("#found .row-title")).to_have_text(title)
    assert page.locator("#found script, #found img").count() == 0


def test_keyboard_skips_the_filters(open_page: Any, reader: Any, zoo: None) -> None:
    page = open_page("/memories/?q=zebra", reader)
    skip = page.get_by_role("link", name="Skip the filters")
    skip.focus()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    for _ in range(4):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.row-title a')"):
            break
    expect(page.locator(".row-title a").first).to_be_focused()


def test_an_expired_login_redirects_to_the_login_page_and_back(
    open_page: Any, reader: Any, zoo: None
) -> None:
    page = open_page("/memories/", reader)
    box(page).fill("zebra")
    expect(page).to_have_url(re.compile(r"/memories/\?q=zebra$"))
    page.context.clear_cookies()
    box(page).fill("zebra crossing")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Username").fill("reader")
    page.get_by_label("Password").fill("a good password")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/memories/\?q=zebra$"))


def test_an_unreachable_hub_is_reported(open_page: Any, reader: Any, zoo: None, watch: Any) -> None:
    watch.expect(500)
    page = open_page("/memories/", reader)
    page.route("**/memories/?*", lambda route: route.fulfill(status=500, body="no"))
    box(page).fill("zebra")
    expect(page.locator("#failure")).to_have_text("That did not work. Reload the page and try again.")
    page.unroute("**/memories/?*")
    box(page).fill("zebra c")
    expect(page.get_by_role("link", name="Zebra crossing")).to_be_visible()
    expect(page.locator("#failure")).to_be_hidden()
    watch.problems[:] = [one for one in watch.problems if "Response Status Error Code 500" not in one]


class TestFiltersByKeyboard:
    def test_a_filter_applies_at_once_and_keeps_the_focus(
        self, open_page: Any, reader: Any, zoo: None
    ) -> None:
        page = open_page("/memories/", reader)
        page.get_by_text("More filters", exact=True).click()
        field = page.get_by_role("textbox", name="Tag")
        field.fill("oats")
        field.press("Enter")
        expect(page.get_by_role("link", name="Giraffe sleep")).to_have_count(0)
        expect(page).to_have_url(re.compile(r"/memories/\?tag=oats$"))
        expect(field).to_be_focused()
        expect(page.get_by_role("link", name="Tag oats: remove this filter")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()

    def test_the_order_applies_at_once_and_keeps_the_focus(
        self, open_page: Any, reader: Any, zoo: None
    ) -> None:
        page = open_page("/memories/?q=zebra", reader)
        order = page.get_by_label("Sort")
        order.focus()
        order.select_option("Newest")
        expect(page).to_have_url(re.compile(r"q=zebra&order=-created_at$"))
        expect(page.locator(".row-title").first).to_have_text("Zebra crossing")
        expect(order).to_be_focused()

    def test_the_sheet_of_a_phone_opens_filters_and_closes_by_keys(
        self, open_page: Any, reader: Any, zoo: None
    ) -> None:
        page = open_page("/memories/", reader, viewport=PHONE)
        opener = page.get_by_role("button", name="Filters", exact=True)
        sheet = page.get_by_role("group", name="Filters")
        expect(sheet).to_be_hidden()
        opener.focus()
        page.keyboard.press("Enter")
        expect(sheet).to_be_visible()
        page.keyboard.press("Tab")
        expect(sheet.get_by_role("button", name="Done")).to_be_focused()
        sheet.get_by_text("More filters", exact=True).press("Enter")
        assert find_state_problems(page) == []
        sheet.get_by_label("Type").select_option("bugfix")
        expect(page).to_have_url(re.compile("type=bugfix"))
        expect(sheet).to_be_visible()
        page.keyboard.press("Escape")
        expect(sheet).to_be_hidden()
        expect(opener).to_be_focused()
        expect(page.get_by_role("link", name="Giraffe sleep")).to_have_count(0)

    def test_an_error_focuses_its_field_in_the_sheet(
        self, open_page: Any, reader: Any, zoo: None, watch: Any
    ) -> None:
        watch.expect(422)
        page = open_page("/memories/?since=never", reader, viewport=PHONE)
        page.get_by_role("alert").get_by_role("link", name="From").click()
        expect(page.get_by_label("From")).to_be_focused()


class TestWithoutScripts:
    def test_searching_and_narrowing(self, open_page: Any, reader: Any, zoo: None) -> None:
        page = open_page("/memories/", reader, java_script_enabled=False)
        box(page).fill("zebra")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("link", name="Zebra feeding")).to_be_visible()
        page.get_by_role("navigation", name="Filters by value").get_by_role("link", name="bugfix").click()
        expect(page.get_by_role("link", name="Zebra feeding")).to_have_count(0)
        expect(page.get_by_role("link", name="Zebra crossing")).to_be_visible()

    def test_filters_are_sent_with_the_words(self, open_page: Any, reader: Any, zoo: None) -> None:
        page = open_page("/memories/", reader, java_script_enabled=False)
        box(page).fill("zebra")
        page.get_by_text("More filters", exact=True).click()
        page.get_by_label("Type").select_option("bugfix")
        page.get_by_label("Sort").select_option("Newest")
        page.get_by_role("button", name="Search").click()
        expect(page).to_have_url(re.compile("order=-created_at"))
        expect(page.get_by_role("link", name="Zebra crossing")).to_be_visible()
        expect(page.get_by_role("link", name="Zebra feeding")).to_have_count(0)


def test_clicking_the_corrected_query_searches_for_it(open_page: Any, reader: Any, zoo: None) -> None:
    page = open_page("/memories/", reader)
    box(page).press_sequentially("girafe", delay=20)
    expect(page.get_by_text("Did you mean giraffe?")).to_be_visible()
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()
    expect(page.locator("#found mark").first).to_have_text("Giraffe")
    page.get_by_role("link", name="giraffe", exact=True).click()
    expect(page).to_have_url(re.compile(r"/memories/\?q=giraffe$"))
    expect(box(page)).to_have_value("giraffe")
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()
    expect(page.get_by_text("Did you mean")).to_have_count(0)


def test_an_older_answer_does_not_replace_a_newer_one(open_page: Any, reader: Any, zoo: None) -> None:
    page = open_page("/memories/", reader)
    waiting: list[Any] = []
    page.route(re.compile(r"q=zebra(&|$)"), lambda route: waiting.append(route))
    with page.expect_request(re.compile(r"q=zebra(&|$)")):
        box(page).fill("zebra")
    box(page).fill("giraffe")
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()
    for route in waiting:
        route.fulfill(status=200, content_type="text/html", body='<div id="found">an older answer</div>')
    box(page).fill("giraffe sleep")
    expect(page).to_have_url(re.compile(r"q=giraffe\+sleep$"))
    expect(page.get_by_text("an older answer")).to_have_count(0)
    expect(page.get_by_role("link", name="Giraffe sleep")).to_be_visible()

"""After a refused form the focus is on the error summary, which links to the field. A form is sent once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, Route, expect

from memoryhub import checks, memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services as fact_store
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, Memory, MemoryCheck
from tests.browser.conftest import OpenPage, Watch


@pytest.fixture
def fact(live_server: Any, actor: Actor) -> Fact:
    return fact_store.create_fact(FactDraft(subject="the pier", predicate="is", object="closed"), actor)[0]


def test_the_summary_links_to_the_field(open_page: OpenPage, watch: Watch, insider: User) -> None:
    watch.expect(422)
    page = open_page("/memories/new/", insider)
    page.get_by_role("button", name="Save", exact=True).click()
    summary = page.get_by_role("alert").filter(has_text="Nothing was saved yet.")
    expect(summary).to_be_focused()
    expect(page).to_have_title(re.compile("^Error: New memory"))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("words")
    expect(page.get_by_label("Content")).to_have_value("words")


def test_the_focus_is_on_the_error_after_a_wrong_password(open_page: OpenPage, insider: User) -> None:
    page = open_page("/login/")
    page.get_by_label("Username").fill("insider")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="incorrect")).to_be_focused()
    expect(page).to_have_title(re.compile("^Error: Sign in"))


def test_a_refused_filter_leaves_the_focus_in_its_field(
    open_page: OpenPage, watch: Watch, insider: User
) -> None:
    watch.expect(422)
    page = open_page("/memories/?q=zebra", insider)
    page.get_by_text("More filters").click()
    since = page.locator("#filters [name=since]")
    since.evaluate("one => { one.type = 'text'; }")
    since.press_sequentially("soon")
    since.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="The filter is invalid")).to_be_visible()
    expect(since).to_be_focused()


def click_three_times(page: Page, button: Locator, address: str) -> list[Route]:
    """The requests to this address, which wait."""
    held: list[Route] = []
    page.route(address, lambda route: held.append(route))
    button.evaluate("""async (one) => {
        for (const wait of [0, 50, 100]) {
            await new Promise((done) => setTimeout(done, wait));
            one.click();
        }
    }""")
    for _ in range(3000):  # a busy machine takes its time
        page.wait_for_timeout(10)
        if held:
            break
    return held


def test_a_form_is_sent_once_while_the_hub_is_slow(open_page: OpenPage, insider: User) -> None:
    page = open_page("/checks/new/", insider)
    page.get_by_label("Prompt").fill("What did we decide about tides?")
    page.get_by_label("Must return a memory with these words").fill("tide")
    held = click_three_times(page, page.get_by_role("button", name="Save and run"), "**/checks/new/")
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_text("Check saved.")).to_be_visible()


def test_a_button_with_an_address_of_its_own_is_pressed_once(
    open_page: OpenPage, insider: User, fact: Fact
) -> None:
    page = open_page("/facts/", insider)
    held = click_three_times(page, page.get_by_role("button", name="Delete… the fact"), "**/facts/*/delete/")
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text("Permanently delete 1 fact?")


def test_a_button_with_an_address_of_its_own_stays_in_its_page_while_offline(
    open_page: OpenPage, insider: User, fact: Fact
) -> None:
    page = open_page("/facts/", insider)
    page.locator(".row-check").check()
    delete = page.locator("#bulk").get_by_role("button", name="Delete…")
    page.context.set_offline(True)
    delete.click()
    expect(page.get_by_role("alert").filter(has_text="You are offline.")).to_be_in_viewport()
    page.context.set_offline(False)
    delete.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Permanently delete 1 fact?")


def test_an_inline_form_can_be_sent_again_after_a_new_sign_in(
    open_page: OpenPage, watch: Watch, insider: User, remember: Any
) -> None:
    watch.expect(401, 403)
    memory = remember("Tide tables come from the office", title="Tide tables")
    page = open_page(f"/memories/{memory.uid}/", insider)
    page.get_by_role("link", name="Change the tags").click()
    tags, save = page.get_by_label("Tags"), page.locator(".inline-form").get_by_role("button", name="Save")
    tags.fill("tide")
    page.context.clear_cookies(name="sessionid")
    save.click()
    expect(page.locator("#failure")).to_contain_text("You are signed out.")
    other = page.context.new_page()
    other.goto("/login/")
    other.get_by_label("Username").fill("insider")
    other.get_by_label("Password").fill("a good password")
    other.get_by_role("button", name="Sign in").click()
    expect(other).to_have_url(re.compile("/$"))
    other.close()
    save.click()
    expect(page.locator("#failure")).to_contain_text("Press the button again.")
    expect(tags).to_have_value("tide")
    save.click()
    expect(page.get_by_role("link", name="tide", exact=True)).to_be_visible()


def test_another_request_of_a_signed_out_page_keeps_what_is_typed(
    open_page: OpenPage, insider: User, remember: Any
) -> None:
    memory = remember("Tide tables come from the office", title="Tide tables")
    page = open_page(f"/memories/{memory.uid}/", insider)
    page.get_by_role("link", name="Change the title").click()
    page.get_by_label("Title", exact=True).fill("The tables of the tides")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("link", name="Change the tags").click()
    expect(page.get_by_role("alert").filter(has_text="You are signed out.")).to_be_in_viewport()
    expect(page.get_by_label("Title", exact=True)).to_have_value("The tables of the tides")


def test_an_inline_form_of_a_memory_that_was_erased_keeps_its_text(
    open_page: OpenPage, watch: Watch, insider: User, remember: Any, actor: Actor
) -> None:
    watch.expect(404)
    memory = remember("Tide tables come from the office", title="Tide tables")
    page = open_page(f"/memories/{memory.uid}/", insider)
    page.get_by_role("link", name="Change the title").click()
    page.get_by_label("Title", exact=True).fill("The tables of the tides")
    memories.erase_memories([memory.uid], actor)
    page.locator(".inline-form").get_by_role("button", name="Save").click()
    message = (
        "This no longer exists, or you no longer have access. Nothing was saved. Your text is still here"
    )
    expect(page.locator("#failure")).to_contain_text(message)
    expect(page.get_by_label("Title", exact=True)).to_have_value("The tables of the tides")
    watch.problems[:] = [one for one in watch.problems if "Response Status Error Code 404" not in one]


def test_a_failure_is_shown_on_top_of_a_dialog(
    open_page: OpenPage, watch: Watch, insider: User, remember: Any
) -> None:
    watch.expect(500)
    remember("Tide tables come from the office")
    page = open_page("/", insider)
    expect(page.get_by_text("unbroken")).to_be_visible()
    page.route("**/palette/**", lambda route: route.fulfill(status=500, body="no"))
    page.keyboard.press("Control+k")
    message = page.get_by_text("That did not work.")
    expect(message).to_be_visible()
    assert message.evaluate("""(one) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + height / 2) === one;
    }""")
    with page.expect_response("**/home/journal/"):  # of another part of the page
        page.evaluate("htmx.ajax('GET', '/home/journal/', '#live-tally')")
    page.wait_for_timeout(100)
    expect(message).to_be_visible()
    watch.problems[:] = [one for one in watch.problems if "Response Status Error Code 500" not in one]


def test_a_form_that_is_sent_while_offline_stays_and_can_be_sent_again(
    open_page: OpenPage, insider: User
) -> None:
    page = open_page("/memories/new/", insider)
    page.get_by_label("Content").fill("The tide tables come from the office")
    page.context.set_offline(True)
    page.get_by_role("button", name="Save", exact=True).click()
    message = page.get_by_role("alert").filter(has_text="You are offline. Nothing was sent")
    expect(message).to_be_in_viewport()
    expect(page.get_by_label("Content")).to_have_value("The tide tables come from the office")
    page.context.set_offline(False)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile("/memories/(?!new/)"))
    assert Memory.objects.get().content == "The tide tables come from the office"


def test_memories_of_a_check_are_found_while_typing(
    open_page: OpenPage, insider: User, remember: Any
) -> None:
    memory = remember("Tide tables come from the office", title="Tide tables")
    page = open_page("/checks/new/", insider)
    page.get_by_label("Prompt").fill("Which tide tables?")
    search = page.get_by_role("searchbox", name="Must return these memories")
    search.press_sequentially("tide")
    found = page.get_by_role("group", name="Must return these memories")
    found.get_by_label("Tide tables").check()
    search.fill("harbour walls")
    expect(found.get_by_text("No other memory matches")).to_be_visible()
    expect(found.get_by_label("Tide tables")).to_be_checked()
    page.get_by_role("button", name="Save and run").click()
    expect(page.get_by_text("Check saved.")).to_be_visible()
    assert checks.to_draft(MemoryCheck.objects.get())["must_bring"] == [memory.uid]

"""After a refused form the focus is on the error summary, which links to the field. A form is sent once."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import User
from playwright.sync_api import Route, expect

from memoryhub.checks import services
from memoryhub.models import Memory, MemoryCheck
from tests.browser.conftest import OpenPage, Watch


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


def test_a_form_is_sent_once_while_the_hub_is_slow(open_page: OpenPage, insider: User) -> None:
    page = open_page("/checks/new/", insider)
    page.get_by_label("Prompt").fill("What did we decide about tides?")
    page.get_by_label("Must return a memory with these words").fill("tide")
    held: list[Route] = []
    page.route("**/checks/new/", lambda route: held.append(route))
    button = page.get_by_role("button", name="Save and run")
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
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_text("Check saved.")).to_be_visible()


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
    assert services.to_draft(MemoryCheck.objects.get())["must_bring"] == [memory.uid]

"""Correct a wrong memory: search it, edit it, compare the versions, restore the old one."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from memoryhub.models import Memory
from tests.browser.conftest import OpenPage
from tests.browser.journeys.conftest import use_keyboard

WRONG = "The boiler is bled in June, before the heating season"


@pytest.fixture
def curator(person: Any) -> Any:
    return person("ada", "change_memory")


@pytest.fixture
def wrong(remember: Any) -> Memory:
    remember("The kettle is cleaned with vinegar", title="Kettle", project="house")
    made: Memory = remember(WRONG, title="Bleeding the boiler", project="house")
    return made


def test_a_wrong_memory_is_found_changed_compared_and_restored(
    set_out: Any, curator: Any, wrong: Memory
) -> None:
    page = set_out("/", curator)
    page.get_by_role("searchbox", name="Search memories").fill("boiler")
    page.get_by_role("searchbox", name="Search memories").press("Enter")
    page.get_by_role("link", name="Bleeding the boiler").click()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Content").fill(WRONG.replace("June", "September"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.locator(".cmp-old mark")).to_have_text("June")
    expect(page.locator(".cmp-new mark")).to_have_text("September")
    # It was right after all.
    page.get_by_role("link", name="Compare versions", exact=True).click()
    page.get_by_role("button", name="Restore").first.click()
    expect(page.get_by_role("status").filter(has_text="version").first).to_be_visible()
    assert Memory.objects.get(pk=wrong.pk).content == WRONG
    assert [row.before["content"] for row in wrong.revisions.order_by("number")] == [
        WRONG,
        WRONG.replace("June", "September"),
    ]


def test_memory_is_found_edited_and_saved_with_shortcuts(
    open_page: OpenPage, curator: Any, wrong: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keyboard(monkeypatch)
    page = open_page("/", curator)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search memories")).to_be_focused()
    page.keyboard.type("boiler")
    page.keyboard.press("Enter")
    page.wait_for_url("**/memories/?q=boiler*")
    expect(page.get_by_role("link", name="Bleeding the boiler")).to_be_visible()
    page.get_by_role("link", name="Bleeding the boiler").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Bleeding the boiler")
    page.wait_for_load_state()
    page.keyboard.press("e")
    page.wait_for_url("**/edit/?from=*")
    page.locator("#id_title").fill("When the boiler is bled")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("When the boiler is bled")
    expect(page.get_by_text("Saved.")).to_be_visible()

"""Hide something sensitive that a search found."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from memoryhub.models import Memory
from tests.browser.journeys.conftest import go_to


def test_a_memory_that_a_search_found_is_hidden_and_shown_again(
    set_out: Any, person: Any, remember: Any
) -> None:
    memory = remember("The salary of the baker is discussed in May", title="Salary of the baker")
    page = set_out("/", person("ada", "change_memory", "view_private"))
    page.get_by_role("searchbox", name="Search memories").fill("salary")
    page.get_by_role("searchbox", name="Search memories").press("Enter")
    page.get_by_role("link", name="Salary of the baker").click()
    page.get_by_role("button", name="Hide").click()
    expect(page.get_by_role("button", name="Undo").first).to_be_visible()
    assert Memory.objects.get(pk=memory.pk).sensitivity == "private"
    go_to(page, "Home")
    page.get_by_role("searchbox", name="Search memories").fill("salary")
    page.get_by_role("searchbox", name="Search memories").press("Enter")
    expect(page.get_by_role("link", name="Salary of the baker")).to_have_count(0)

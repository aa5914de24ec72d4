"""Browsing: facets and the trash."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from memoryhub import memories
from memoryhub.models import Memory


def test_facets_orders_and_chips_follow_each_other_without_a_new_page(
    open_page: Any, reader: Any, remember: Any
) -> None:
    remember("zebra one", project="zoo", importance=0.1)
    remember("zebra two", project="zoo", importance=0.9)
    remember("car", project="town")
    page = open_page("/memories/", reader)
    page.evaluate("window.same = true")
    page.get_by_role("navigation", name="Filters by value").get_by_role("link", name="zoo").click()
    expect(page.get_by_role("link", name="car", exact=True)).to_have_count(0)
    page.get_by_label("Sort").select_option("Most important")
    expect(page.locator(".row-title").first).to_have_text("zebra two")
    expect(page).to_have_url(re.compile(r"project=zoo&order=-importance"))
    page.get_by_role("link", name="Project zoo: remove this filter").click()
    expect(page.get_by_role("link", name="car", exact=True)).to_be_visible()
    assert page.evaluate("window.same") is True


class TestTrashWithoutScripts:
    def test_several_selected_memories_are_restored(
        self, open_page: Any, insider: Any, remember: Any, actor: Any
    ) -> None:
        made = [remember(f"chair {number}") for number in range(3)]
        memories.trash_memories([one.uid for one in made], actor)
        page = open_page("/trash/", insider, java_script_enabled=False)
        page.get_by_role("checkbox", name="chair 0").check()
        page.get_by_role("checkbox", name="chair 2").check()
        page.locator("#bulk").get_by_role("button", name="Restore").click()
        expect(page.get_by_text("2 memories restored")).to_be_visible()
        assert set(Memory.objects.live().values_list("title", flat=True)) == {"chair 0", "chair 2"}

    def test_one_is_erased_after_a_question(
        self, open_page: Any, insider: Any, remember: Any, actor: Any
    ) -> None:
        memories.trash_memories([remember("broken chair").uid], actor)
        page = open_page("/trash/", insider, java_script_enabled=False)
        page.get_by_role("checkbox", name="broken chair").check()
        page.locator("#bulk").get_by_role("button", name="Erase…").click()
        expect(page.get_by_role("heading", name="Permanently erase 1 memory?")).to_be_visible()
        page.get_by_role("button", name="Erase permanently").click()
        expect(page.get_by_text("The trash is empty")).to_be_visible()
        assert not Memory.objects.exists()


def test_one_box_ticks_the_whole_page(open_page: Any, insider: Any, remember: Any, actor: Any) -> None:
    memories.trash_memories([remember(f"chair {number}").uid for number in range(3)], actor)
    page = open_page("/trash/", insider)
    page.get_by_label("All on this page").check()
    expect(page.locator(".row-check:checked")).to_have_count(3)

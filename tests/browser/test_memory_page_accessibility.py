"""Accessibility of the content pages after actions, light on a large screen and dark on a small one."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from memoryhub import memories
from memoryhub.memories.schemas import MemoryPatch
from tests.browser.page_checks import find_state_problems


def complaints(page: Page) -> str:
    """Return the problems that axe finds with every fold of the page open."""
    page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    return "".join(f"{page.url}, {problem}\n" for problem in find_state_problems(page))


class TestAxe:
    RIGHTS = ("add_memory", "change_memory", "delete_memory", "erase_memory", "add_fact", "delete_fact")

    def test_it_finds_nothing_in_refusals_conflicts_and_verdicts(
        self, open_page: Any, person: Any, watch: Any, remember: Any, actor: Any
    ) -> None:
        watch.expect(409, 422)
        memory = remember("the first text", tags=["old"])
        page = open_page("/memories/new/", person("ada", *self.RIGHTS))
        page.get_by_label("Importance").fill("7")
        page.get_by_role("button", name="Save", exact=True).click()
        wrong = [complaints(page)]
        page.goto(f"/memories/{memory.uid}/edit/")
        memories.update_memory(memory.uid, MemoryPatch(content="the second text", tags=["new"]), actor)
        page.get_by_label("Content").fill("the third text")
        page.get_by_label("Tags").fill("newer")
        page.get_by_role("button", name="Save").click()
        wrong.append(complaints(page))
        page.goto(f"/memories/{memory.uid}/")
        page.get_by_role("button", name="Trash", exact=True).click()
        wrong.append(complaints(page))
        page.goto("/journal/")
        page.get_by_role("button", name="Verify the chain").click()
        page.get_by_text("The chain is intact.").wait_for()
        wrong.append(complaints(page))
        assert not any(wrong), "\n\n".join(filter(None, wrong))

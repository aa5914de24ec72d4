"""Inline editing, comparing and restoring versions, and saved searches."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory, SavedSearch
from memoryhub.web import saved_searches
from tests.browser.conftest import PHONE, OpenPage
from tests.browser.page_checks import find_state_problems

# Whether the icon after the title lies over one of its lines.
COVERED_BY_LINK = """() => {
  const text = document.createRange();
  text.selectNodeContents(document.querySelector("#field-title h1"));
  const icon = document.querySelector("#field-title svg").getBoundingClientRect();
  return [...text.getClientRects()].some((line) => icon.left < line.right && line.left < icon.right
    && icon.top < line.bottom && line.top < icon.bottom);
}"""


@pytest.fixture
def ada(person: Any) -> User:
    user: User = person("ada", "change_memory", "view_private")
    return user


@pytest.fixture
def memory(remember: Any, actor: Actor) -> Memory:
    """With two changes behind it."""
    made: Memory = remember("the first text\n\nand a second line", title="A title", tags=["old"])
    memories.update_memory(
        made.uid, MemoryPatch(content="the next text\n\nand a second line", importance=0.9), actor
    )
    return memories.update_memory(made.uid, MemoryPatch(tags=["old", "older"]), actor)


def link(page: Page, what: str) -> Any:
    return page.get_by_role("link", name=f"Change the {what}")


class TestFields:
    def test_enter_opens_enter_saves_and_the_focus_stays(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada)
        link(page, "title").focus()
        page.keyboard.press("Enter")
        box = page.get_by_label("Title", exact=True)
        expect(box).to_be_focused()
        expect(box).to_have_value("A title")
        box.fill("A better title")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("A better title")
        expect(link(page, "title")).to_be_focused()
        expect(page).to_have_title("A better title · memoryhub")
        shown = page.locator("#messages")
        expect(shown).to_contain_text("The title is saved.")
        # The history follows without a new page.
        expect(page.locator("#memory-history .versions > li").first).to_contain_text("Title")
        shown.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("A title")
        assert Memory.objects.get(pk=memory.pk).title == "A title"

    def test_escape_leaves_and_nothing_is_stored(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada)
        link(page, "tags").click()
        box = page.get_by_label("Tags", exact=True)
        box.fill("something else")
        page.keyboard.press("Escape")
        expect(link(page, "tags")).to_be_focused()
        expect(page.locator("#field-tags")).to_contain_text("older")
        assert list_values(Memory.objects.get(pk=memory.pk), "tags") == ["old", "older"]

    def test_a_click_on_the_value_opens_it_too(self, open_page: OpenPage, ada: User, memory: Memory) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada)
        page.locator("#field-importance .meter").click()
        expect(page.get_by_label("Importance", exact=True)).to_be_focused()
        page.get_by_role("heading", level=1).click()
        expect(page.get_by_label("Title", exact=True)).to_be_focused()
        # What stood open stays open.
        expect(page.get_by_label("Importance", exact=True)).to_have_value("0.9")

    def test_the_link_of_a_title_from_right_to_left_does_not_cover_it(
        self, open_page: OpenPage, ada: User, remember: Any
    ) -> None:
        title = "قررنا استخدام قاعدة بيانات واحدة لكل مشروع لأن النسخ الاحتياطي أسهل"
        page = open_page(f"/memories/{remember('text', title=title).uid}/", ada, viewport=PHONE)
        expect(page.locator("#field-title svg")).to_be_visible()
        assert not page.evaluate(COVERED_BY_LINK)

    def test_an_error_is_shown_in_place_and_the_typed_text_stays(
        self, open_page: OpenPage, ada: User, memory: Memory, watch: Any
    ) -> None:
        watch.expect(422)
        page = open_page(f"/memories/{memory.uid}/", ada)
        link(page, "importance").click()
        page.get_by_label("Importance", exact=True).fill("7")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Enter a number of at most 1.")).to_be_visible()
        expect(page.get_by_label("Importance", exact=True)).to_have_value("7")
        expect(page.get_by_label("Importance", exact=True)).to_be_focused()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("0.4")
        page.keyboard.press("Enter")
        expect(page.locator("#field-importance")).to_contain_text("0.40")

    def test_a_change_of_another_person_is_reported_before_it_is_overwritten(
        self, open_page: OpenPage, ada: User, memory: Memory, actor: Actor, watch: Any
    ) -> None:
        watch.expect(422)
        page = open_page(f"/memories/{memory.uid}/", ada)
        link(page, "title").click()
        page.get_by_label("Title", exact=True).fill("My title")
        memories.update_memory(memory.uid, MemoryPatch(title="Their title"), actor)
        page.keyboard.press("Enter")
        expect(page.get_by_text("Someone else changed this in the meantime.")).to_be_visible()
        expect(page.get_by_label("Title", exact=True)).to_have_value("My title")
        page.get_by_role("button", name="Overwrite").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("My title")

    def test_the_level_changes_on_the_whole_page(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada)
        page.get_by_role("button", name="Visibility").click()
        page.get_by_role("button", name="Show private").click()
        page.goto(f"/memories/{memory.uid}/")
        link(page, "level").click()
        page.get_by_label("Level").select_option("private")
        page.locator("#field-sensitivity").get_by_role("button", name="Save").click()
        expect(page.locator("#lead-meta .badge-private")).to_be_visible()

    def test_the_message_stays_visible_and_can_be_closed(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada, viewport=PHONE)
        link(page, "importance").click()
        page.get_by_label("Importance", exact=True).fill("0.1")
        page.keyboard.press("Enter")
        shown = page.locator("#messages .notice")
        expect(shown).to_be_in_viewport()
        page.get_by_role("button", name="Close this message").click()
        expect(shown).to_have_count(0)

    def test_without_scripts_the_edit_form_opens_at_the_field(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada, java_script_enabled=False)
        link(page, "importance").click()
        expect(page).to_have_url(re.compile(rf"/memories/{memory.uid}/edit/#id_importance$"))
        page.get_by_label("Importance").fill("0.3")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()


class TestVersions:
    @pytest.mark.parametrize("scripts", [True, False])
    def test_two_are_chosen_compared_restored_and_it_is_undone(
        self, open_page: OpenPage, ada: User, memory: Memory, scripts: bool
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada, java_script_enabled=scripts)
        page.get_by_role("link", name="Compare versions").click()
        page.get_by_label("Compare", exact=True).select_option("1")
        page.get_by_label("with").select_option("2")
        page.get_by_role("button", name="Compare").click()
        expect(page).to_have_url(re.compile(r"from=1&to=2$"))
        expect(page.locator(".cmp-old mark")).to_have_text("first")
        expect(page.locator(".cmp-new mark")).to_have_text("next")
        page.get_by_role("link", name="Swap").click()
        expect(page.locator(".cmp-old mark")).to_have_text("next")
        page.get_by_role("button", name="Restore version 1").click()
        expect(page.get_by_text("Version 1 is restored.")).to_be_visible()
        expect(page.get_by_text("the first text").first).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Undone")).to_be_visible()
        now = Memory.objects.get(pk=memory.pk)
        assert (now.content.split("\n")[0], now.importance) == ("the next text", 0.9)

    def test_a_version_is_restored_from_the_history_after_a_change_in_place(
        self, open_page: OpenPage, ada: User, memory: Memory
    ) -> None:
        page = open_page(f"/memories/{memory.uid}/", ada)
        link(page, "importance").click()
        page.get_by_label("Importance", exact=True).fill("0.2")
        page.keyboard.press("Enter")
        newest = page.locator("#change-3")
        expect(newest).to_contain_text("Importance")
        newest.get_by_role("button", name="Restore version 3").click()
        expect(page.get_by_text("Version 3 is restored.")).to_be_visible()
        assert Memory.objects.get(pk=memory.pk).importance == 0.9


class TestSavedSearches:
    @pytest.fixture(autouse=True)
    def _some(self, remember: Any) -> None:
        remember("low tide", project="harbour")
        remember("high tide", project="harbour", type="decision")

    def test_a_search_is_saved_where_it_was_typed_and_opened_from_the_palette(
        self, open_page: OpenPage, ada: User
    ) -> None:
        page = open_page("/memories/", ada)
        page.get_by_label("Search memories").press_sequentially("tide")
        expect(page).to_have_url(re.compile("q=tide"))
        page.locator("details.saved > summary").click()
        page.get_by_label("Save this search as").fill("Tides")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Saved as “Tides”.")).to_be_visible()
        expect(page.locator("details.saved > summary")).to_be_focused()
        assert [(one.page, "q=tide" in one.query) for one in SavedSearch.objects.all()] == [
            ("memories", True)
        ]
        page.goto("/journal/")
        page.keyboard.press("Control+k")
        page.keyboard.type("tid")
        expect(page.get_by_role("option", name="Tides")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/memories/\?.*q=tide"))
        expect(page.get_by_text("low tide").first).to_be_visible()

    def test_the_menu_opens_by_key_closes_by_escape_and_asks_before_it_replaces(
        self, open_page: OpenPage, ada: User, watch: Any
    ) -> None:
        watch.expect(422)
        saved_searches.save_search(ada, "Mine", "memories", "project=harbour")
        page = open_page("/memories/?type=decision", ada)
        summary = page.locator("details.saved > summary")
        summary.focus()
        page.keyboard.press("Enter")
        box = page.get_by_label("Save this search as")
        expect(box).to_be_visible()
        expect(page.locator("details.saved").get_by_role("link", name="Mine")).to_be_visible()
        box.fill("Mine")
        page.keyboard.press("Escape")
        expect(box).to_be_hidden()
        expect(summary).to_be_focused()
        page.keyboard.press("Enter")
        expect(box).to_have_value("Mine")  # closing it loses nothing
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("You have a search of this name")).to_be_visible()
        page.get_by_role("button", name="Replace the existing search").click()
        expect(page.get_by_text("Saved as “Mine”.")).to_be_visible()
        assert SavedSearch.objects.get().query == "type=decision"
        page.get_by_role("heading", level=1).click()
        expect(page.locator("details.saved[open]")).to_have_count(0)

    def test_saved_searches_work_without_scripts(self, open_page: OpenPage, ada: User) -> None:
        page = open_page("/memories/?type=decision", ada, java_script_enabled=False)
        page.locator("details.saved > summary").click()
        page.get_by_role("link", name="Save this search").click()
        page.get_by_label("Save this search as").fill("Decisions")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved as “Decisions”.")).to_be_visible()
        page.locator("summary", has_text="Rename or delete").click()
        page.get_by_label("Name").fill("What was decided")
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("link", name="What was decided").click()
        expect(page).to_have_url(re.compile(r"/memories/\?type=decision$"))
        page.goto("/searches/")
        page.locator("summary", has_text="Rename or delete").click()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("link", name="What was decided")).to_be_visible()


class TestAccessibly:
    def test_axe_finds_no_issue_and_no_page_is_too_wide(
        self,
        open_page: OpenPage,
        ada: User,
        memory: Memory,
        actor: Actor,
        watch: Any,
        remember: Any,
    ) -> None:
        watch.expect(422)
        saved_searches.save_search(ada, "Unbroken" * 12, "memories", "tag=" + "unbroken" * 60)
        page = open_page(f"/memories/{memory.uid}/", ada)
        wrong: list[str] = []

        def look(where: str) -> None:
            wrong.extend(f"{where}: {problem}" for problem in find_state_problems(page))

        for what in ("title", "tags", "importance", "level"):
            link(page, what).click()
            expect(page.locator("[data-inline-form]").first).to_be_visible()
        expect(page.locator("[data-inline-form]")).to_have_count(4)
        look("open fields")
        page.get_by_label("Title", exact=True).fill("Mine")
        memories.update_memory(memory.uid, MemoryPatch(title="Theirs " + "unbroken" * 30), actor)
        page.get_by_label("Title", exact=True).press("Enter")
        expect(page.get_by_text("Someone else changed this in the meantime.")).to_be_visible()
        look("a conflict")
        page.get_by_label("Importance", exact=True).fill("0.1")
        page.get_by_label("Importance", exact=True).press("Enter")
        expect(page.locator("#messages .notice")).to_be_visible()
        look("a field that was saved")
        for address in (
            f"/memories/{memory.uid}/compare/?from=2&to=2",
            f"/memories/{remember('untouched').uid}/compare/",
            "/searches/?page=memories&query=q%3D" + "unbroken" * 40,
        ):
            page.goto(address)
            look(address)
        page.locator("details.saved-change > summary").first.click()
        look("changing a saved search")
        page.goto("/memories/?tag=" + "unbroken" * 60)
        page.locator("details.saved > summary").click()
        expect(page.get_by_label("Save this search as")).to_be_visible()
        look("the menu")
        assert not wrong, "\n\n".join(wrong)

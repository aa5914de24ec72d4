"""A memory from its creation to the trash and back, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Memory, Session

from .conftest import DESKTOP, PHONE, OpenPage, Watch

Remember = Callable[..., Memory]
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["with JavaScript", "without JavaScript"])
RIGHTS = ("add_memory", "change_memory", "delete_memory", "erase_memory", "add_fact", "delete_fact")
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1))"


@pytest.fixture
def ada(person: Callable[..., User]) -> User:
    return person("ada", *RIGHTS)


def too_wide(page: Page) -> list[str]:
    """What makes the page wider than the window, if it is."""
    found: list[str] = page.evaluate(
        """() => {
            const room = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= room) return [];
            return [...document.querySelectorAll("body *")]
                .filter((element) => element.getBoundingClientRect().right > room)
                .map((element) => `${element.tagName}.${element.className}`);
        }"""
    )
    return found


class TestJourney:
    @SCRIPTS
    def test_a_memory_is_created_edited_trashed_and_restored(
        self, open_page: OpenPage, ada: User, scripts: bool
    ) -> None:
        page = open_page("/memories/new/", ada, java_script_enabled=scripts)
        page.get_by_label("Content").fill("# The boiler\n\nIt is *old*.\nIt leaks.")
        page.get_by_label("Title", exact=True).fill("The boiler")
        page.get_by_label("Tags").fill("house, water")
        page.get_by_label("Project", exact=True).fill("home")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("The boiler")
        expect(page.get_by_text("Stored.", exact=True)).to_be_visible()
        expect(page.locator(".view-read em")).to_have_text("old")

        page.get_by_role("link", name="Edit").click()
        content = page.get_by_label("Content")
        expect(content).to_have_value("# The boiler\n\nIt is *old*.\nIt leaks.")
        content.fill("# The boiler\n\nIt is *new*.\nIt leaks.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        expect(page.locator(".cmp-old mark")).to_have_text("old")
        expect(page.locator(".cmp-new mark")).to_have_text("new")

        page.get_by_role("button", name="Trash", exact=True).click()
        expect(page.get_by_text("In the trash now: The boiler")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Restored.")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text("The boiler")
        assert Memory.objects.live().filter(title="The boiler").exists()

    @SCRIPTS
    def test_a_refused_form_keeps_what_was_typed(
        self, open_page: OpenPage, ada: User, watch: Watch, scripts: bool
    ) -> None:
        watch.expect(422)
        page = open_page("/memories/new/", ada, java_script_enabled=scripts)
        page.get_by_label("Content").fill("Many words")
        page.get_by_label("Importance").fill("7")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("alert").filter(has_text="Nothing was saved yet.")).to_be_visible()
        expect(page.get_by_label("Content")).to_have_value("Many words")
        page.get_by_role("link", name="Importance").click()
        expect(page.get_by_label("Importance")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Importance").fill("0.7")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Stored.", exact=True)).to_be_visible()

    @pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["large", "small"])
    def test_buttons_of_the_form_stay_in_view_and_cover_no_field(
        self, open_page: OpenPage, ada: User, remember: Remember, viewport: Any
    ) -> None:
        memory = remember("It leaks.", files_modified=["src/boiler.py"], session_id="today")
        page = open_page(f"/memories/{memory.uid}/edit/", ada, viewport=viewport)
        save, overview = page.get_by_role("button", name="Save"), page.get_by_label("Overview")
        expect(save).to_be_in_viewport(ratio=1)
        page.get_by_label("Abstract").focus()
        page.keyboard.press("Tab")
        expect(overview).to_be_focused()
        field, button = overview.bounding_box(), save.bounding_box()
        assert field
        assert button
        assert field["y"] + field["height"] <= button["y"]

    @SCRIPTS
    def test_the_stored_text_can_be_shown(
        self, open_page: OpenPage, ada: User, remember: Remember, scripts: bool
    ) -> None:
        memory = remember("It is **bold**.")
        page = open_page(f"/memories/{memory.uid}/", ada, java_script_enabled=scripts)
        expect(page.locator(".view-raw")).to_be_hidden()
        page.get_by_text("Source", exact=True).click()
        expect(page.locator(".view-raw")).to_have_text("It is **bold**.")
        expect(page.locator(".view-read")).to_be_hidden()

    def test_erasing_asks_for_a_word(
        self, open_page: OpenPage, ada: User, remember: Remember, watch: Watch
    ) -> None:
        watch.expect(422)
        memory = remember("to be gone")
        page = open_page(f"/memories/{memory.uid}/", ada)
        page.locator(".more > summary").click()
        page.get_by_role("link", name="Erase").click()
        page.get_by_label("Type “erase”").fill("no")
        page.get_by_role("button", name="Erase permanently").click()
        expect(page.get_by_text("Nothing was erased.")).to_be_visible()
        page.get_by_label("Type “erase”").fill("erase")
        page.get_by_role("button", name="Erase permanently").click()
        expect(page.get_by_text("Erased permanently.")).to_be_visible()
        assert not Memory.objects.exists()


class TestConflict:
    def test_both_texts_are_shown_and_saving_again_decides(
        self, open_page: OpenPage, ada: User, remember: Remember, actor: Actor, watch: Watch
    ) -> None:
        watch.expect(409)
        memory = remember("The first text of this memory.")
        page = open_page(f"/memories/{memory.uid}/edit/", ada)
        memories.update_memory(memory.uid, MemoryPatch(content="The second text of this memory."), actor)
        page.get_by_label("Content").fill("The third text of this memory.")
        page.get_by_role("button", name="Save").click()
        notice = page.get_by_role("alert").filter(has_text="Someone changed this memory")
        expect(notice.locator("del mark")).to_have_text("second")
        expect(notice.locator("ins mark")).to_have_text("third")
        expect(page.get_by_label("Content")).to_have_value("The third text of this memory.")
        page.get_by_role("button", name="Overwrite").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        assert [row.before["content"] for row in memory.revisions.all()] == [
            "The second text of this memory.",
            "The first text of this memory.",
        ]


class TestConveniences:
    def test_the_id_can_be_copied(self, open_page: OpenPage, ada: User, remember: Remember) -> None:
        memory = remember()
        permissions = ["clipboard-read", "clipboard-write"]
        page = open_page(f"/memories/{memory.uid}/", ada, permissions=permissions)
        page.locator("#details > summary").click()
        page.get_by_role("button", name="Copy the id").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == memory.uid

    def test_without_javascript_no_button_does_nothing(
        self, open_page: OpenPage, ada: User, remember: Remember
    ) -> None:
        page = open_page(f"/memories/{remember().uid}/", ada, java_script_enabled=False)
        expect(page.locator(".copy").first).to_be_hidden()

    def test_sessions_are_found_while_typing(
        self, open_page: OpenPage, ada: User, remember: Remember
    ) -> None:
        for name in ("alpha", "beta"):
            remember(name, session_id=f"session-{name}")
        page = open_page("/sessions/", ada)
        page.get_by_label("Search sessions").press_sequentially("alph")
        expect(page.get_by_role("link", name="beta", exact=True)).to_be_hidden()
        expect(page.get_by_role("link", name="alpha", exact=True)).to_be_visible()
        expect(page).to_have_url(re.compile("q=alph"))

    def test_known_projects_are_suggested_when_the_field_is_focused(
        self, open_page: OpenPage, ada: User, remember: Remember
    ) -> None:
        remember("words", project="apollo")
        page = open_page("/memories/new/", ada)
        suggested = page.locator("#projects option")
        expect(suggested).to_have_count(0)
        page.get_by_label("Project", exact=True).focus()
        expect(suggested).to_have_count(1)
        assert suggested.first.get_attribute("value") == "apollo"


class TestRoom:
    @pytest.fixture
    def world(self, remember: Remember, actor: Actor) -> dict[str, str]:
        """Long, broken and hostile texts on every page."""
        wide, now = "unbroken" * 30, timezone.now()
        memory = remember(
            f"{HOSTILE}\n\n{wide}\n\n    {'code ' * 60}\n\n| {' | '.join('abcdefgh')} |\n|{'---|' * 8}\n",
            title=f"{wide} {HOSTILE}",
            subtitle=wide,
            session_id=wide[:150],
            project=wide[:150],
            tags=[wide[:90]],
            files_modified=[f"src/{wide}.py"],
            key=wide[:150],
        )
        memories.update_memory(
            memory.uid, MemoryPatch(content=f"{wide} {HOSTILE}\nshort", tags=["short"]), actor
        )
        services.create_fact(
            FactDraft(subject=wide, predicate=wide[:190], object=wide, memory_id=memory.uid), actor
        )
        session = Session.objects.get()
        Event.objects.create(
            session=session,
            event="tool:post",
            tool_name=wide[:150],
            preview=wide,
            files=[wide],
            keywords=[wide],
            at=now - timedelta(minutes=1),
        )
        return {"uid": memory.uid, "session": wide[:150]}

    def test_no_page_is_wider_than_a_phone_and_nothing_runs(
        self, open_page: OpenPage, ada: User, world: dict[str, str]
    ) -> None:
        page = open_page("/facts/", ada, viewport=PHONE)
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        for path in (
            *(
                "/memories/{uid}/",
                "/memories/{uid}/history/",
                "/memories/{uid}/edit/",
                "/memories/{uid}/erase/",
            ),
            *("/memories/new/", "/sessions/", "/sessions/{session}/", "/timeline/", "/facts/", "/journal/"),
        ):
            page.goto(path.format(**world))
            assert too_wide(page) == [], path

    def test_comparisons_are_side_by_side_where_there_is_room(
        self, open_page: OpenPage, ada: User, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("the first line of it")
        memories.update_memory(memory.uid, MemoryPatch(content="the second line of it"), actor)
        tops = {}
        for name, viewport in (("wide", None), ("phone", PHONE)):
            options: dict[str, Any] = {"viewport": viewport} if viewport else {}
            page = open_page(f"/memories/{memory.uid}/history/", ada, **options)
            boxes = [page.locator(one).bounding_box() for one in (".cmp-old", ".cmp-new")]
            tops[name] = [box["y"] for box in boxes if box]
        assert tops["wide"][0] == tops["wide"][1]
        assert tops["phone"][0] < tops["phone"][1]

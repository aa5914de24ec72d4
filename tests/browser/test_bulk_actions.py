"""Bulk actions: checkboxes, ranges, the action bar, keys and the undo message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.accounts import tokens
from memoryhub.facts import services as fact_store
from memoryhub.maintenance import executor
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Fact, MaintenanceRun, Memory
from memoryhub.web.memories import bulk_actions, views
from memoryhub.web.templatetags import hub
from tests.browser.conftest import PHONE, OpenPage, Watch
from tests.browser.page_checks import find_state_problems
from tests.cases import in_case

Remember = Callable[..., Memory]


@pytest.fixture
def ten(live_server: Any, actor: Actor) -> list[Memory]:
    fields = {"importance": 0.8, "session_id": "s", "project": "p"}
    drafts = [MemoryDraft(content=f"memory number {n}", **fields) for n in range(10)]
    return [result.memory for result in memories.create_memories(drafts, actor)]


def boxes(page: Page) -> list[bool]:
    return [bool(one) for one in page.locator(".row-check").evaluate_all("all => all.map(b => b.checked)")]


def live() -> int:
    return int(Memory.objects.live().count())


def test_ticking_shows_the_bar_and_clearing_hides_it(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    bar = page.locator("#bulk")
    expect(bar).to_be_hidden()
    page.locator(".row-check").nth(1).check()
    expect(bar).to_be_visible()
    expect(bar.locator("output")).to_have_text("1 selected")
    page.locator(".row-check").nth(4).click(modifiers=["Shift"])
    expect(bar.locator("output")).to_have_text("4 selected")
    assert boxes(page) == [False, True, True, True, True, *[False] * 5]
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    page.get_by_label("All on this page").check()
    expect(bar.locator("output")).to_have_text("10 selected")
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()
    expect(page.locator(".row-check").first).to_be_focused()


def test_keys_tick_a_range_act_and_undo_without_a_mouse(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    for key in ("j", "x", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    expect(page.locator("#bulk output")).to_have_text("3 selected")
    page.keyboard.press("t")
    shown = page.locator("#messages")
    expect(shown).to_contain_text("3 memories moved to the trash")
    expect(page.locator(".row-check")).to_have_count(7)
    expect(page.locator(".row-check").first).to_be_focused()
    assert live() == 7
    page.keyboard.press("u")
    expect(shown).to_contain_text("Undone for 3 memories.")
    expect(page.locator(".row-check")).to_have_count(10)
    assert live() == 10
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("selects a range")


def test_the_focus_is_visible_after_an_action_below_the_rows(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/", insider, viewport={"width": 1000, "height": 420})
    page.locator(".row-check").first.check()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.locator("#bulk button[value=trash]").press("Enter")
    expect(page.locator("#messages")).to_contain_text("moved to the trash")
    expect(page.locator(".row-check").first).to_be_focused()
    expect(page.locator(".row-check").first).to_be_in_viewport()


def test_the_message_stays_until_it_is_closed_and_the_page_where_it_was(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/?order=-importance", insider, viewport={"width": 1000, "height": 420})
    page.locator(".row-check").nth(5).check()
    page.evaluate("window.scrollTo(0, 300)")
    before = page.evaluate("[window.scrollY, window.history.length, window.location.href]")
    page.keyboard.press("a")
    expect(page.locator(".toast")).to_have_count(1)
    assert page.evaluate("[window.scrollY, window.history.length, window.location.href]") == before
    page.wait_for_timeout(1500)
    expect(page.locator(".toast")).to_be_visible()
    page.get_by_role("button", name="Close this message").click()
    expect(page.locator(".toast")).to_have_count(0)


def test_enter_in_a_field_presses_its_button(open_page: OpenPage, insider: User, ten: list[Memory]) -> None:
    page = open_page("/memories/", insider)
    page.get_by_label("All on this page").check()
    page.get_by_text("More actions…").click()
    page.locator("#bulk-tag").fill("kept")
    page.locator("#bulk-tag").press("Enter")
    expect(page.locator("#messages")).to_contain_text("10 memories tagged")
    assert Memory.objects.labelled("tag", "kept").count() == 10
    assert not Memory.objects.filter(reviewed_at__isnull=False).exists()


def test_selected_memories_move_to_another_project_and_back(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/?project=p", insider)
    page.get_by_label("All on this page").check()
    page.locator("#bulk").get_by_role("button", name="Move to project").click()
    expect(page.locator("#messages")).to_contain_text("enter the project to move them to")
    page.get_by_label("All on this page").check()
    page.locator("#bulk-project").fill("attic")
    page.locator("#bulk-project").press("Enter")
    expect(page.locator("#messages")).to_contain_text("10 memories changed")
    assert Memory.objects.filter(project="attic").count() == 10
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#messages")).to_contain_text("Undone for 10 memories")
    assert Memory.objects.filter(project="p").count() == 10


def test_select_all_matching_includes_other_pages(
    open_page: OpenPage, insider: User, ten: list[Memory], remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("of another project", project="q")
    monkeypatch.setattr(views, "PAGE_SIZE", 4)
    page = open_page("/memories/?project=p", insider)
    page.locator(".row-check").first.check()
    page.get_by_label("All 10 that match").check()
    expect(page.locator("#bulk output")).to_have_text("All that match")
    page.locator("#bulk").get_by_role("button", name="Trash").click()
    expect(page.locator("#messages")).to_contain_text("10 memories moved to the trash")
    assert live() == 1


@pytest.mark.parametrize("scripts", [True, False])
def test_more_than_a_request_may_change_is_confirmed_and_run(
    open_page: OpenPage, insider: User, ten: list[Memory], monkeypatch: pytest.MonkeyPatch, scripts: bool
) -> None:
    monkeypatch.setattr(views, "PAGE_SIZE", 4)
    for module in (bulk_actions, hub):
        monkeypatch.setattr(module, "MAX_MEMORIES", 4)
    page = open_page("/memories/?project=p", insider, java_script_enabled=scripts)
    page.locator(".row-check").first.check()
    page.get_by_label("All 10 that match").check()
    page.locator("#bulk").get_by_role("button", name="Trash").click()
    expect(page.locator("h1")).to_have_text("Trash 10 memories?")
    assert not (scripts and find_state_problems(page))
    page.get_by_role("button", name="Trash 10 memories").click()
    expect(page.locator("h1")).to_have_text("Bulk action: trash")
    assert executor.execute(MaintenanceRun.objects.get())
    page.reload()
    page.get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Undo run").click()
    expect(page.locator("h1")).to_have_text("Undo: Bulk action")
    assert live() == 0
    assert executor.execute(MaintenanceRun.objects.exclude(undoes=None).get())
    assert live() == 10


def test_other_lists_of_memories_have_the_bar_too(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("about:blank", insider)
    for path in ("/memories/?q=memory", "/timeline/entries/", "/sessions/s/"):
        with in_case(path):
            page.goto(path)
            page.locator(".row-check").nth(0).check()
            page.locator(".row-check").nth(2).click(modifiers=["Shift"])
            page.locator("#bulk").get_by_role("button", name="Demote").click()
            expect(page.locator("#messages")).to_contain_text("3 memories demoted")
            assert Memory.objects.filter(importance=0.4).count() == 3
            page.locator("#messages").get_by_role("button", name="Undo").click()
            expect(page.locator("#messages")).to_contain_text("Undone")
            assert Memory.objects.filter(importance=0.8).count() == 10


def test_the_trash_gives_back_and_erases_after_asking(
    open_page: OpenPage, insider: User, ten: list[Memory], actor: Actor
) -> None:
    memories.trash_memories([memory.uid for memory in ten], actor)
    page = open_page("/trash/", insider)
    page.locator(".row").first.get_by_role("button", name="Restore").click()
    expect(page.locator("#messages")).to_contain_text("1 memory restored")
    page.locator(".row-check").nth(0).check()
    page.locator(".row-check").nth(1).check()
    page.locator("#bulk").get_by_role("button", name="Restore").click()
    expect(page.locator("#messages")).to_contain_text("2 memories restored")
    assert live() == 3
    page.locator(".row-check").nth(0).check()
    page.locator("#bulk").get_by_role("button", name="Erase…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Permanently erase 1 memory?")
    page.get_by_role("button", name="Erase permanently").click()
    expect(page.locator("#messages")).to_contain_text("1 memory erased permanently.")


def test_facts_are_ended_and_the_end_is_undone(open_page: OpenPage, insider: User, actor: Actor) -> None:
    for n in range(3):
        fact_store.create_fact(FactDraft(subject=f"s{n}", predicate="is", object="o"), actor)
    page = open_page("/facts/", insider)
    page.locator(".row-check").nth(0).check()
    page.locator(".row-check").nth(1).check()
    page.locator("#bulk").get_by_role("button", name="No longer true").click()
    expect(page.locator("#messages")).to_contain_text("2 facts have ended")
    assert Fact.objects.current().count() == 1
    page.keyboard.press("u")
    expect(page.locator("#messages")).to_contain_text("2 facts hold again")
    assert Fact.objects.current().count() == 3


def test_everything_works_without_scripts(open_page: OpenPage, insider: User, ten: list[Memory]) -> None:
    page = open_page("/memories/", insider, java_script_enabled=False)
    expect(page.locator("#bulk")).to_be_hidden()
    page.locator(".row-check").nth(0).check()
    page.locator(".row-check").nth(3).check()
    page.locator("#bulk").get_by_role("button", name="Trash").click()
    expect(page.locator("#messages")).to_contain_text("2 memories moved to the trash")
    assert live() == 8
    page.locator("#messages").get_by_role("button", name="Undo").click()
    expect(page.locator("#messages")).to_contain_text("Undone")
    assert live() == 10


def test_people_without_actions_see_no_checkboxes(
    open_page: OpenPage, reader: User, ten: list[Memory]
) -> None:
    page = open_page("about:blank", reader)
    for path in ("/memories/", "/memories/?q=memory", "/timeline/entries/", "/sessions/s/", "/trash/"):
        page.goto(path)
        expect(page.locator(".row-check, #bulk, [data-check-all]")).to_have_count(0)


def test_bar_and_message_are_accessible_and_fit(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    page.locator(".row-check").nth(0).check()
    page.get_by_text("More actions…").click()
    assert not find_state_problems(page)
    page.locator("#bulk").get_by_role("button", name="Approve").click()
    expect(page.locator(".toast")).to_be_visible()
    assert not find_state_problems(page)


def test_the_bar_is_accessible_where_other_things_are_ticked_too(
    open_page: OpenPage, insider: User, ten: list[Memory], actor: Actor
) -> None:
    memories.trash_memories([memory.uid for memory in ten[:3]], actor)
    for n in range(3):
        fact_store.create_fact(FactDraft(subject=f"s{n}", predicate="is", object="o"), actor)
    for name in ("laptop", "server"):
        tokens.issue_token(name, insider.username, actor=actor)
    page = open_page("about:blank", insider, viewport=PHONE)
    for path in ("/trash/", "/facts/", "/you/"):
        with in_case(path):
            page.goto(path)
            page.locator(".row-check").first.check()
            expect(page.locator("#bulk")).to_be_visible()
            assert not find_state_problems(page)


def test_a_row_is_edited_in_place_by_keyboard_and_undone(
    open_page: OpenPage, insider: User, ten: list[Memory]
) -> None:
    page = open_page("/memories/", insider)
    pencil = page.locator(".row .inline-edit").nth(2)
    pencil.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".row-form")).to_have_count(0)
    expect(pencil).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Title", exact=True).fill("Another title")
    page.get_by_label("Tags", exact=True).fill("one, two")
    page.keyboard.press("Enter")
    expect(page.locator("#messages")).to_contain_text("1 memory changed: Another title")
    expect(page.locator(".row-title", has_text="Another title")).to_be_visible()
    expect(page.locator(".row-form")).to_have_count(0)
    page.keyboard.press("u")
    expect(page.locator("#messages")).to_contain_text("Undone")
    assert not Memory.objects.filter(title="Another title").exists()


def test_a_timeline_entry_is_edited_in_place(open_page: OpenPage, insider: User, ten: list[Memory]) -> None:
    page = open_page("/timeline/entries/", insider)
    pencil = page.locator(".timeline .inline-edit").nth(1)
    pencil.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title", exact=True)).to_be_focused()
    assert not find_state_problems(page)
    page.keyboard.press("Escape")
    expect(page.locator(".row-form")).to_have_count(0)
    expect(pencil).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("Title", exact=True).fill("Another title")
    page.keyboard.press("Enter")
    expect(page.locator("#messages")).to_contain_text("1 memory changed: Another title")
    expect(page.locator(".timeline-title", has_text="Another title")).to_be_visible()
    expect(page.locator(".row-check").nth(1)).to_be_focused()
    page.keyboard.press("u")
    expect(page.locator("#messages")).to_contain_text("Undone")
    assert not Memory.objects.filter(title="Another title").exists()


def test_an_invalid_row_stays_open_with_the_focus_in_it(
    open_page: OpenPage, insider: User, ten: list[Memory], watch: Watch
) -> None:
    watch.expect(422)
    page = open_page("/memories/", insider)
    page.locator(".row .inline-edit").nth(1).click()
    page.locator(".row .inline-edit").nth(4).click()
    expect(page.locator(".row-form")).to_have_count(2)
    form = page.locator(".row-form").nth(1)
    form.get_by_label("Title", exact=True).fill("Typed and not lost")
    form.get_by_label("Importance").fill("5")
    page.keyboard.press("Enter")
    expect(form.locator(".error")).to_have_text("Enter a number of at most 1.")
    expect(form.get_by_label("Title", exact=True)).to_have_value("Typed and not lost")
    expect(form.get_by_label("Importance")).to_be_focused()
    assert not find_state_problems(page)
    assert not Memory.objects.filter(title="Typed and not lost").exists()

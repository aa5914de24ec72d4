"""The review queue with many cards, and its keys where they do not apply."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from playwright.sync_api import expect

from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Memory

from .conftest import OpenPage

Remember = Callable[..., Memory]


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def ada(person: Callable[..., User]) -> User:
    return person("ada", "change_memory", "delete_memory", "change_fact")


def test_cards_are_ticked_acted_on_together_and_undone_by_keys(
    open_page: OpenPage, ada: User, remember: Remember
) -> None:
    for number in range(3):
        remember(f"number {number} of many")
    page = open_page("/review/?tab=new", ada)
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.locator(".bulk output")).to_have_text("2 selected")
    page.keyboard.press("a")
    expect(page.locator("#messages")).to_contain_text("2 memories approved")
    expect(page.locator(".review-left")).to_have_text("1 left")
    expect(page.locator("#review-badge")).to_contain_text("1")
    expect(page.locator(".review-card")).to_have_count(1)
    assert Memory.objects.filter(reviewed_at=None).count() == 1
    page.keyboard.press("u")
    expect(page.locator(".review-card")).to_have_count(3)
    expect(page.locator(".review-left")).to_have_text("3 left")
    expect(page.locator("#review-status")).to_have_text("")
    assert Memory.objects.filter(reviewed_at=None).count() == 3


def test_cards_demoted_together_count_as_reviewed(open_page: OpenPage, ada: User, remember: Remember) -> None:
    remember("one of many")
    page = open_page("/review/?tab=new", ada)
    for key in "jxd":
        page.keyboard.press(key)
    expect(page.get_by_text("Nothing new")).to_be_visible()
    memory = Memory.objects.get()
    assert memory.importance == 0.25
    assert memory.reviewed_at


def test_a_restored_card_does_not_make_the_page_longer(
    open_page: OpenPage, ada: User, remember: Remember
) -> None:
    for number in range(15):
        remember(f"number {number} of many")
    page = open_page("/review/?tab=new", ada)
    first = page.locator(".review-card").first.get_attribute("id")
    for done in (1, 2):
        page.keyboard.press("a")
        expect(page.locator(".review-done")).to_have_count(done)
    for done in (1, 0):
        page.keyboard.press("u")
        expect(page.locator(".review-done")).to_have_count(done)
    expect(page.locator(".review-card")).to_have_count(10)
    expect(page.locator(f"#{first}")).to_have_count(1)
    expect(page.locator(".review-left")).to_have_text("15 left")


@pytest.mark.usefixtures("embedding")
def test_m_sends_nothing_where_nothing_is_ticked(open_page: OpenPage, ada: User, remember: Remember) -> None:
    remember("the cache of the runner is emptied", project="p")
    longer = "the cache of the browser has a size of its own, and the runner knows nothing of it"
    remember(longer, project="p", importance=1.0)
    page = open_page("/review/?tab=new", ada)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.keyboard.press("m")
    expect(page.locator(".dup")).to_be_visible()
    box = page.locator('.dup [type="checkbox"][name="uid"]')
    expect(box).not_to_be_checked()
    page.keyboard.press("m")
    expect(box).to_be_focused()
    expect(page.get_by_text("Select the memories to merge into the one that is kept.")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.get_by_text("Select the memories to merge")).to_have_count(0)
    assert not [url for url in sent if "/decide/" in url]
    page.keyboard.press("m")
    expect(page.locator(".undo").filter(has_text="Merged 2 memories")).to_be_visible()


@pytest.mark.usefixtures("embedding")
def test_choosing_another_memory_to_keep_announces_no_undo(
    open_page: OpenPage, ada: User, remember: Remember
) -> None:
    shorter = "The build cache lives on the runner and is emptied every night"
    for end in ("", " at two"):
        remember(f"{shorter}{end}")
    page = open_page("/review/?tab=alike&look=1", ada)
    page.get_by_role("radio", name=f"Keep {shorter}", exact=True).check()
    expect(page.get_by_text("Kept: chosen by you.")).to_be_visible()
    expect(page.locator("#review-status")).to_have_text("")


@pytest.mark.parametrize("key", ["a", "m"])
def test_a_contradiction_that_comes_back_is_announced(
    open_page: OpenPage, ada: User, actor: Actor, remember: Remember, key: str
) -> None:
    for name in ("Acme", "Brick"):
        services.create_fact(FactDraft(subject="ada", predicate="works at", object=name), actor)
    page = open_page("/review/?tab=contradictions", ada)
    page.keyboard.press(key)
    expect(page.locator("#review-status")).not_to_have_text("")
    page.keyboard.press("u")
    expect(page.locator("#review-status")).to_have_text("Undone: ada works at")


def test_deciding_while_near_duplicates_are_compared_is_no_error(
    open_page: OpenPage, ada: User, remember: Remember, embedding: Any
) -> None:
    for number in range(3):
        remember(f"number {number} of many")
    page = open_page("/review/?tab=new", ada)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    held: list[Any] = []
    page.route(re.compile(r"/review/counts/\?compare=1"), lambda route: held.append(route))
    expect(page.get_by_role("link", name="Near-duplicates")).to_contain_text("1")
    cache.clear()
    with page.expect_request(re.compile(r"/review/counts/\?compare=1")):
        page.reload()
    page.keyboard.press("a")
    expect(page.locator(".review-done")).to_have_count(1)
    [comparing] = held
    comparing.continue_()
    expect(page.locator(".review-left")).to_have_text("2 left")
    expect(page.get_by_role("link", name="Near-duplicates")).to_contain_text("1")
    assert wrong == []

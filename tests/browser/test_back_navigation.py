"""Going back to a list keeps its filters, order, page, scroll position and focus."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from memoryhub import memories
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Injection, Memory, Session
from tests.browser.page_checks import WAIT_FOR_FRAMES
from tests.cases import in_case

MANY = 56  # more than a page of each list
# Functions: the pages' security policy refuses the ``eval`` of an expression that is not true at once.
FOCUS_IS_ON = "name => document.activeElement.textContent.trim() === name"
SCROLL_IS = "y => Math.abs(scrollY - y) < 3"
LISTS = (  # and the links in their rows
    ("/memories/?project=zoo&order=-created_at", ".row-title a"),
    ("/memories/?q=zebra&project=zoo&min_score=0", ".row-title a"),
    ("/sessions/?project=zoo", "tbody th a"),
    ("/timeline/entries/?project=zoo", ".timeline-title a"),
    ("/facts/?predicate=eats", "td[data-label=Where] a"),
    ("/injections/?project=zoo", ".injection .row-meta a"),
    ("/journal/?operation=insert", "td[data-label=Object] a"),
)


@pytest.fixture
def many(actor: Any) -> list[Memory]:
    """Enough memories and sessions for two pages of each list and a scrollbar."""
    now = timezone.now()
    drafts = [
        MemoryDraft(
            content=f"zebra {number:03}",
            project="zoo",
            session_id=f"night-{number:03}",
            created_at=now - timedelta(minutes=number),
            importance=0.9,
        )
        for number in range(MANY)
    ]
    return [result.memory for result in memories.create_memories(drafts, actor)]


@pytest.fixture
def facts_and_injections(many: list[Memory], actor: Any) -> None:
    for memory in many:
        draft = FactDraft(subject=memory.title, predicate="eats", object="oats", memory_id=memory.uid)
        services.create_fact(draft, actor)
    now = timezone.now()
    Injection.objects.bulk_create(
        Injection(session=session, project="zoo", at=now, prompt_preview="zebra?", took_ms=1)
        for session in Session.objects.all()
    )


def there_and_back(page: Page, link: Any, back: Callable[[], Any]) -> None:
    """Open a link far down, go back, and check that nothing changed."""
    link.scroll_into_view_if_needed()
    page.evaluate("scrollBy(0, 120)")
    page.evaluate(WAIT_FOR_FRAMES)
    at, scrolled, name = page.url, page.evaluate("scrollY"), link.inner_text().strip()
    assert scrolled > 200
    link.click()
    page.wait_for_url(lambda url: url != at)
    back()
    page.wait_for_url(at)
    page.wait_for_function(FOCUS_IS_ON, arg=name)
    page.wait_for_function(SCROLL_IS, arg=scrolled)


@pytest.mark.usefixtures("facts_and_injections")
class TestEachList:
    def test_the_browsers_back_button_restores_it(self, open_page: Any, reader: Any) -> None:
        page = open_page("about:blank", reader)
        for path, row in LISTS:
            with in_case(path):
                page.goto(path)
                rows = page.locator(f"main {row}")
                there_and_back(page, rows.nth(min(18, rows.count() - 1)), page.go_back)

    def test_the_next_page_has_its_own_address_without_scripts_too(self, open_page: Any, reader: Any) -> None:
        page = open_page("about:blank", reader, java_script_enabled=False)
        for path, row in LISTS:
            with in_case(path):
                page.goto(path)
                rows = page.locator(f"main {row}")
                page.locator("main .pages a[rel=next]").click()
                page.wait_for_url(re.compile("cursor=|page=2"))
                at, name, href = page.url, rows.nth(3).inner_text(), str(rows.nth(3).get_attribute("href"))
                rows.nth(3).click()
                page.wait_for_url(lambda url, at=at: url != at)
                page.go_back()
                page.wait_for_url(at)
                expect(rows.nth(3)).to_have_text(name, use_inner_text=True)
                expect(rows.nth(3)).to_have_attribute("href", href)
                assert "zoo" in at or "predicate=eats" in at or "operation=insert" in at


def test_pages_and_facets_that_htmx_fetched_survive_too(open_page: Any, reader: Any, many: Any) -> None:
    page = open_page("/memories/", reader)
    page.get_by_label("Sort").select_option("Most important")
    page.wait_for_url("**order=-importance**")
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**cursor=**")
    expect(page.locator("#listing .rows")).to_be_focused()  # it begins at its top
    there_and_back(page, page.locator("main .row-title a").nth(14), page.go_back)
    assert "order=-importance" in page.url
    page.go_back()
    page.wait_for_url(lambda url: "cursor" not in url)
    expect(page.get_by_label("Sort")).to_have_value("-importance")


def test_the_list_of_a_session_survives_links_of_its_picture(
    open_page: Any, reader: Any, remember: Any
) -> None:
    begun = timezone.now() - timedelta(hours=3)
    for number in range(30):
        at = begun + timedelta(minutes=5 * number)
        remember(f"zebra {number:03}", session_id="night", project="zoo", created_at=at)
    page = open_page("/sessions/night/?project=zoo", reader)
    expect(page.locator("main svg a").first).to_be_visible()
    there_and_back(page, page.locator("main .timeline-title a").nth(20), page.go_back)


@pytest.mark.usefixtures("embedding")
def test_the_clusters_of_duplicates_survive_too(open_page: Any, reader: Any, remember: Any) -> None:
    for number in range(6):
        word = chr(ord("a") + number) * 6
        for ending in ("summer", "winter"):
            remember(f"# {word.title()}\n\n{word} trains run late in {ending}", project="zoo")
    page = open_page("/duplicates/", reader)
    links = page.locator("main .clusters a[href^='/memories/']")
    there_and_back(page, links.last, page.go_back)


def test_a_memory_links_back_to_the_list_it_was_opened_from(open_page: Any, reader: Any, many: Any) -> None:
    page = open_page("/memories/?project=zoo&order=-created_at", reader)
    there_and_back(
        page,
        page.locator("main .row-title a").nth(14),
        lambda: page.get_by_role("link", name="Back to: Memories").click(),
    )


def test_back_from_the_edit_shortcut_returns_to_the_row(open_page: Any, insider: Any, many: Any) -> None:
    page = open_page("/memories/?project=zoo", insider)
    for _ in range(12):
        page.keyboard.press("j")
    page.wait_for_function(FOCUS_IS_ON, arg="zebra 011")
    page.keyboard.press("e")
    page.wait_for_url("**/edit/")
    page.go_back()
    page.wait_for_url("**/memories/?project=zoo")
    page.wait_for_function(FOCUS_IS_ON, arg="zebra 011")


def test_a_memory_opened_directly_has_no_back_link(open_page: Any, reader: Any, remember: Any) -> None:
    page = open_page(f"/memories/{remember('zebra').uid}/", reader)
    expect(page.get_by_role("heading", level=1)).to_have_text("zebra")
    expect(page.locator(".back")).to_be_hidden()


def test_a_list_that_is_opened_again_starts_at_the_top(open_page: Any, reader: Any, many: Any) -> None:
    page = open_page("/memories/", reader)
    page.locator("main .row-title a").nth(14).click()
    page.wait_for_url(lambda url: not url.endswith("/memories/"))
    page.goto("/memories/")
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.activeElement === document.body")


def test_times_stay_true_while_a_page_is_open(open_page: Any, reader: Any, remember: Any) -> None:
    page = open_page("about:blank", reader)
    page.clock.install()
    remember("zebra")
    page.goto("/memories/")
    expect(page.locator(".row time")).to_have_text("just now")
    page.clock.fast_forward(3 * 60_000)
    expect(page.locator(".row time")).to_have_text(re.compile(r"^[23]\sminutes\sago$"))
    page.clock.fast_forward(26 * 3600_000)
    expect(page.locator(".row time")).to_have_text(re.compile(r"^1\sday\sago$"))


def test_the_second_page_of_a_list_has_no_link_back_to_the_list(
    open_page: Any, reader: Any, many: Any
) -> None:
    page = open_page("/memories/", reader)
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**cursor=**")
    page.reload()
    expect(page.locator("[data-back]")).to_be_hidden()

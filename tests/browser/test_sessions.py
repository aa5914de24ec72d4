"""Session pages, the timeline and the connect page: mouse, keyboard, small screen, accessibility."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from memoryhub.models import AgentToken, Event, Injection, Session
from tests.browser.conftest import DESKTOP, PHONE, no_sideways_scrolling
from tests.browser.page_checks import WAIT_FOR_FRAMES

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
TOOLS = ("Read", "Grep", "Edit", "Bash", "WebFetch", "mcp__x__odd")
PARTS = {"substance": 0.9, "salience": 0.8, "distinctiveness": 1.0, "type_weight": 1.0, "total": 0.91}
SAID = [
    {"name": "boundaries", "priority": 100, "status": "ok", "detail": "segment 2"},
    {
        "name": "capture",
        "priority": 150,
        "status": "skipped",
        "detail": "memory.memorability is switched off",
    },
]


@pytest.fixture
def long(remember: Any) -> Session:
    """Three hundred events."""
    return record(remember, 300)


@pytest.fixture
def short(remember: Any) -> Session:
    """Sixty events: like the long session, but faster to check."""
    return record(remember, 60)


def record(remember: Any, events: int) -> Session:
    """So many events, three of them kept, boundaries, a night between them, two injections."""
    kept = [
        remember(f"what was learnt {n}", type=kind, session_id="long", project="zoo", created_at=NOON)
        for n, kind in enumerate(("decision", "bugfix", "discovery"))
    ]
    session = Session.objects.get()
    third, part = events // 3, events // 5
    memories = {third // 2 + third * n: memory for n, memory in enumerate(kept)}
    Event.objects.bulk_create(
        Event(
            session=session,
            event="tool:post" if n % 25 else "prompt:submit",
            tool_name=TOOLS[n % len(TOOLS)] if n % 25 else "",
            at=NOON + timedelta(seconds=20 * n) + timedelta(hours=14 * (n > events * 2 // 3)),
            segment=n // part,
            boundary=n > 0 and n % part == 0,
            keywords=["zebra", f"subject{n // part}"],
            files=[f"src/file{n}.py"],
            memory=memories.get(n),
            memorability=0.91 if n in memories else 0.2 if n % 3 else None,
            memorability_parts=PARTS if n in memories else {},
            skip_reason="" if n in memories else "below the gate",
            handlers=SAID,
            preview=f"output {n}",
        )
        for n in range(events)
    )
    for n in (1, 26):
        Injection.objects.create(
            session=session,
            project="zoo",
            at=NOON + timedelta(seconds=20 * n),
            prompt_preview="how do zebras sleep?",
            token_budget=2000,
            tokens_used=120,
            injected=[{"id": kept[0].uid, "score": 0.6, "scale": "task"}],
            withheld=[{"id": kept[1].uid, "reason": "over the budget"}],
        )
    return session


def test_a_long_session_fits_its_page_and_scrolls_in_its_own_box(
    open_page: Any, reader: Any, long: Session
) -> None:
    for viewport in (DESKTOP, PHONE):
        page = open_page("/sessions/long/", reader, viewport=viewport)
        assert no_sideways_scrolling(page)
    box = page.get_by_role("region", name="Picture of the session")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        page.evaluate(WAIT_FOR_FRAMES)
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")


def test_stored_memories_are_reached_by_keyboard_and_link_to_their_page(
    open_page: Any, reader: Any, long: Session
) -> None:
    page = open_page("/sessions/long/", reader)
    page.get_by_role("region", name="Picture of the session").focus()
    page.keyboard.press("Tab")
    assert "what was learnt 0" in page.evaluate("document.activeElement.querySelector('title').textContent")
    page.keyboard.press("Enter")
    page.wait_for_url("**/memories/*/")
    expect(page.get_by_role("heading", name="what was learnt 0").first).to_be_visible()


def test_the_chips_narrow_and_an_event_opens(open_page: Any, reader: Any, long: Session) -> None:
    page = open_page("/sessions/long/", reader)
    page.get_by_text("Filter events").click()
    page.get_by_role("navigation", name="Outcome").get_by_role("link", name="Kept 3").click()
    expect(page.locator(".timeline > li")).to_have_count(3)
    page.locator(".event-more > summary").first.click()
    expect(page.get_by_text("reaches the threshold of 0.30").first).to_be_visible()
    expect(page.get_by_text("memory.memorability is switched off").first).to_be_visible()


def test_the_log_is_one_click_away(open_page: Any, reader: Any, long: Session) -> None:
    page = open_page("/sessions/long/", reader)
    page.get_by_role("link", name="2 injections").click()
    expect(page.get_by_role("heading", name="What the agent received")).to_be_visible()
    expect(page.get_by_text("no tokens left 2")).to_be_visible()
    expect(page.locator(".injection-reason")).to_have_text(["no tokens left"] * 2)


def test_a_month_links_to_the_next_and_previous_one(open_page: Any, reader: Any, remember: Any) -> None:
    remember("in spring", project="zoo", created_at=NOON)
    remember("in autumn", project="zoo", created_at=NOON + timedelta(days=200))
    page = open_page("/timeline/?project=zoo", reader)
    page.get_by_text("in autumn").wait_for()
    page.get_by_role("link", name="March 2024").click()
    page.get_by_text("in spring").wait_for()
    page.get_by_role("link", name="Every entry").click()
    page.get_by_text("in autumn").wait_for()


def test_reloading_keeps_waiting_for_the_first_event_and_back_visits_each_step(
    open_page: Any, person: Any
) -> None:
    user = person("keeper", "add_agenttoken", "change_agenttoken", "add_memory")
    page = open_page("/connect/", user)
    page.get_by_role("link", name="Codex CLI").click()
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#snippet-codex")).to_contain_text("Bearer mh_")
    page.reload()
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    expect(page.locator("#snippet-codex")).not_to_contain_text("Bearer mh_")
    page.go_back()
    expect(page.get_by_label("Name", exact=True)).to_have_value("codex")
    page.go_back()
    expect(page.get_by_role("link", name="Codex CLI")).to_be_visible()
    assert AgentToken.objects.count() == 1

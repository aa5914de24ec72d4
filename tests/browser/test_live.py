"""Live pages update themselves and never move what someone reads."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from playwright.sync_api import Page, expect

from memoryhub.models import Event, Session
from tests.browser.page_checks import find_state_problems

ROUND = 12_000  # ms: a little more than from one question to the next
ROUNDS_ALONE = 6  # after so many without input, the page counts as idle
# The page sets its clock for the next question once the last is answered, which takes a moment of its own.
TELLS_WHEN_IT_IS_SET = """(() => {
  const set = window.setTimeout;
  window.isSet = false;
  window.setTimeout = (then, after, ...others) => {
    if (!(after >= 5_000)) return set(then, after, ...others);
    window.isSet = true;
    return set(() => { window.isSet = false; then(); }, after, ...others);
  };
})()"""


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def open_live(open_page: Any) -> Any:
    """A page with a controlled clock and recent input."""

    def open_(path: str, user: Any, **options: Any) -> Page:
        page = open_page("about:blank", user, **options)
        page.clock.install()
        page.add_init_script(TELLS_WHEN_IT_IS_SET)
        page.goto(path)
        page.locator("#live-turn").wait_for()
        return page

    return open_


def wait_a_round(page: Page, hand: bool = True) -> None:
    """Let the page ask once; ``hand``: someone is there."""
    if hand:
        page.mouse.move(5, 300)
        page.mouse.move(6, 300)
    page.wait_for_function("() => window.isSet")
    with page.expect_response(lambda one: one.request.headers.get("if-none-match") is not None):
        page.clock.run_for(ROUND)


def leave_alone(page: Page) -> None:
    """Let time pass and the page poll until it counts as idle."""
    for _ in range(ROUNDS_ALONE):
        wait_a_round(page, hand=False)


def titles(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#live-new .row-title").all_inner_texts()]


class TestHome:
    def test_numbers_change_in_place_and_rows_wait_for_a_button(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra", project="zoo")
        page = open_live("/", reader)
        remember("second zebra", project="zoo")
        wait_a_round(page)
        expect(page.locator("#live-tally")).to_contain_text("2 memories")
        assert titles(page) == ["first zebra"]
        expect(page.get_by_role("status").filter(has_text="Something is new")).to_have_count(1)
        page.get_by_role("button", name="Show what is new").click()
        expect(page.locator("#live-new .row")).to_have_count(2)
        assert titles(page) == ["second zebra", "first zebra"]
        expect(page.get_by_role("button", name="Show what is new")).to_be_hidden()

    def test_new_rows_appear_automatically_on_an_idle_page(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        leave_alone(page)
        remember("second zebra")
        wait_a_round(page, hand=False)
        expect(page.locator("#live-new .row")).to_have_count(2)
        expect(page.get_by_role("button", name="Show what is new")).to_be_hidden()

    def test_rows_appear_automatically_again_after_the_reader_left(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        remember("second zebra")
        wait_a_round(page)
        page.get_by_role("button", name="Show what is new").click()
        expect(page.locator("#live-new .row")).to_have_count(2)
        leave_alone(page)
        remember("third zebra")
        wait_a_round(page, hand=False)
        expect(page.locator("#live-new .row")).to_have_count(3)

    def test_a_resting_pointer_does_not_count_as_activity(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        page.mouse.move(300, 300)
        leave_alone(page)
        page.mouse.move(300, 300)
        remember("second zebra")
        wait_a_round(page, hand=False)
        expect(page.locator("#live-new .row")).to_have_count(2)
        expect(page.get_by_role("button", name="Show what is new")).to_be_hidden()

    def test_a_pointer_that_moves_is_a_hand(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        page.mouse.move(300, 300)
        leave_alone(page)
        page.mouse.move(301, 300)
        remember("second zebra")
        wait_a_round(page, hand=False)
        expect(page.get_by_role("button", name="Show what is new")).to_be_visible()
        expect(page.locator("#live-new .row")).to_have_count(1)

    def test_paused_updates_send_no_request_and_the_choice_is_kept(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        page.get_by_role("button", name="Pause live updates").click()
        expect(page.get_by_role("button", name="Resume live updates")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        page.clock.run_for(10 * ROUND)
        assert asked == []
        page.reload()
        expect(page.get_by_role("button", name="Resume live updates")).to_be_visible()
        remember("second zebra")
        page.get_by_role("button", name="Resume live updates").click()
        expect(page.locator("#live-tally")).to_contain_text("2 memories")

    def test_hidden_page_sends_no_request(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        page.wait_for_function("() => window.isSet")  # the page's own requests are answered
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
            "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
        )
        page.clock.run_for(10 * ROUND)
        assert asked == []
        with page.expect_response(lambda one: one.status == 304):
            page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")

    def test_requests_to_an_unreachable_hub_become_less_frequent(
        self, open_live: Any, reader: Any, remember: Any, watch: Any
    ) -> None:
        watch.expect(503)
        remember("first zebra")
        page = open_live("/", reader)
        asked: list[str] = []

        def refuse(route: Any) -> None:
            asked.append(route.request.url)
            route.fulfill(status=503, body="busy")

        page.route("**/*", refuse)
        for _ in range(30):
            page.clock.run_for(10_000)
        assert 3 <= len(asked) <= 7
        expect(page.locator("#live-new .row")).to_have_count(1)
        expect(page.locator("#live-turn")).to_have_text("Pause live updates (no answer)")
        expect(page.locator("#live.is-on")).to_have_count(0)
        page.unroute_all()
        with page.expect_response(lambda one: one.status == 304):
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#live-turn")).to_have_text("Pause live updates")

    def test_the_switch_redirects_to_the_sign_in_after_the_session_ended(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        page.context.clear_cookies()
        wait_a_round(page)
        page.get_by_role("button", name="Signed out: reload to sign in").click()
        expect(page.get_by_label("Password")).to_be_visible()

    def test_the_empty_first_page_fills_itself(self, open_live: Any, reader: Any, remember: Any) -> None:
        page = open_live("/", reader)
        expect(page.get_by_text("No memories yet")).to_be_visible()
        remember("first zebra")
        wait_a_round(page)
        expect(page.get_by_role("link", name="first zebra")).to_be_visible()

    def test_a_hostile_title_stays_a_text(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("first zebra")
        page = open_live("/", reader)
        remember("words", title="<img src=x onerror=alert(1)><script>alert(2)</script>")
        wait_a_round(page)
        page.get_by_role("button", name="Show what is new").click()
        expect(page.get_by_role("link", name="<img src=x")).to_be_visible()
        assert page.locator("#live-new img, #live-new script").count() == 0


class TestSessions:
    def test_the_focus_stays_on_its_row(self, open_live: Any, reader: Any, remember: Any) -> None:
        for name in ("one", "two"):
            remember(f"learnt {name}", session_id=name)
        page = open_live("/sessions/", reader)
        page.get_by_role("link", name="learnt one", exact=True).focus()
        remember("learnt more", session_id="three")
        wait_a_round(page)
        page.get_by_role("button", name="Show what is new").click()
        expect(page.locator("#live-sessions tr")).to_have_count(3)
        page.get_by_role("link", name="learnt one", exact=True).focus()
        remember("learnt more of one", session_id="one")
        wait_a_round(page)
        assert page.evaluate("document.activeElement.textContent") == "learnt one"

    def test_counts_of_a_session_change_in_its_row(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("learnt", session_id="one")
        page = open_live("/sessions/", reader)
        Event.objects.create(session=Session.objects.get(), event="tool:post", skip_reason="routine")
        wait_a_round(page)
        expect(page.locator("#live-sessions td[data-label=Skipped]")).to_have_text("1")
        expect(page.get_by_role("button", name="Show what is new")).to_be_hidden()

    def test_typed_text_is_kept_and_the_filtered_list_is_updated_live(
        self, open_live: Any, reader: Any, remember: Any
    ) -> None:
        for name in ("owl", "bat"):
            remember(f"learnt {name}", session_id=name)
        page = open_live("/sessions/", reader)
        page.get_by_label("Search sessions").fill("owl")
        page.clock.run_for(400)
        expect(page.locator("#live-sessions tr")).to_have_count(1)
        remember("learnt of bats", session_id="bat")
        wait_a_round(page)
        expect(page.locator("#live-sessions tr")).to_have_count(1)
        expect(page.get_by_label("Search sessions")).to_have_value("owl")


class TestOpenSession:
    def test_new_events_are_added_at_the_end(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("learnt one", session_id="night", project="zoo")
        page = open_live("/sessions/night/?project=zoo", reader)
        page.get_by_role("link", name="learnt one").last.focus()
        remember("learnt two", session_id="night", project="zoo")
        wait_a_round(page)
        rows = page.locator("#live-days .timeline > li")
        expect(rows).to_have_count(3)  # the start of the session, and two memories
        expect(rows.last).to_contain_text("learnt two")
        expect(page.locator("#live-meta")).to_contain_text("2 memories")
        assert "learnt one" in page.evaluate("document.activeElement.textContent")
        expect(page.get_by_role("button", name="Show what is new")).to_be_hidden()

    def test_newest_first_it_waits_for_the_reader(self, open_live: Any, reader: Any, remember: Any) -> None:
        remember("learnt one", session_id="night", project="zoo")
        page = open_live("/sessions/night/?project=zoo&order=newest", reader)
        remember("learnt two", session_id="night", project="zoo")
        wait_a_round(page)
        expect(page.locator("#live-days .timeline > li")).to_have_count(2)
        page.get_by_role("button", name="Show what is new").click()
        expect(page.locator("#live-days .timeline > li").first).to_contain_text("learnt two")


def test_without_scripts_the_switch_is_not_shown(open_page: Any, reader: Any, remember: Any) -> None:
    remember("first zebra")
    page = open_page("/", reader, java_script_enabled=False)
    expect(page.locator("#live")).to_be_hidden()


def test_new_rows_are_accessible_and_fit(open_live: Any, reader: Any, remember: Any) -> None:
    remember("first zebra")
    page = open_live("/", reader)
    remember("second zebra")
    page.keyboard.press("Tab")
    wait_a_round(page)
    expect(page.get_by_role("button", name="Show what is new")).to_be_visible()
    assert not find_state_problems(page)

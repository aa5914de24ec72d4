"""Settings of the user's system are respected: reduced motion, forced colours, low window."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import DESKTOP, OpenPage

PATHS = ["/", "/memories/", "/glance/", "/facts/graph/", "/review/"]


@pytest.fixture
def some(remember: Any) -> None:
    for name in ("first", "second"):
        remember(f"{name} zebra", project="zoo", tags=["oats"], sensitivity="private")


def test_animations_are_off_with_reduced_motion(open_page: OpenPage, insider: Any, some: None) -> None:
    page = open_page("/", insider, reduced_motion="reduce")
    for path in PATHS:
        page.goto(path)
        page.keyboard.press("Tab")
        for element in page.locator("main :is(a, button, summary)").all()[:5]:
            if element.is_visible():
                element.hover(force=True, no_wait_after=True)
        page.emulate_media(color_scheme="dark")
        page.emulate_media(color_scheme="light")
        assert page.evaluate("document.getAnimations().length") == 0, path
        moving = page.evaluate(
            """() => [...document.querySelectorAll("*")].filter((one) => {
                const style = getComputedStyle(one);
                return parseFloat(style.transitionDuration) > 0 || style.scrollBehavior === "smooth";
            }).map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert not moving, path


def test_selected_items_are_visible_with_forced_colours(
    open_page: OpenPage, insider: Any, some: None
) -> None:
    page = open_page("/memories/", insider, forced_colors="active")
    assert page.evaluate("matchMedia('(forced-colors: active)').matches")
    border = "getComputedStyle(%s).borderBottomColor"
    links = page.get_by_role("navigation", name="Main")
    here = links.locator("[aria-current]").first.evaluate("(one) => " + border % "one")
    other = links.locator("a:not([aria-current])").nth(1).evaluate("(one) => " + border % "one")
    assert here != other
    page.get_by_role("button", name="Visibility").click()
    page.get_by_role("button", name="Show private").click()
    visibility = page.get_by_role("button", name="Visibility: private shown")
    expect(visibility).to_have_css("outline-style", "solid")
    visibility.click()
    pressed = page.get_by_role("button", name="Show private")
    expect(pressed).to_have_attribute("aria-pressed", "true")
    expect(pressed).to_have_css("outline-style", "solid")
    page.keyboard.press("Control+k")
    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_have_css("outline-style", "solid")


def test_focus_is_visible_with_forced_colours(open_page: OpenPage, insider: Any, some: None) -> None:
    page = open_page("/memories/", insider, forced_colors="active")
    for _ in range(12):
        page.keyboard.press("Tab")
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2, page.evaluate("document.activeElement.outerHTML")


def test_the_header_does_not_stay_in_a_low_window(open_page: OpenPage, insider: Any, some: None) -> None:
    page = open_page("/memories/", insider, viewport={"width": 320, "height": 256})
    page.mouse.wheel(0, 2000)
    expect(page.locator(".top")).not_to_be_in_viewport()
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
    page.evaluate("window.scrollTo(0, 500)")
    expect(page.locator(".top")).to_be_in_viewport()

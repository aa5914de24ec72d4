"""Each journey runs by mouse, by mouse without scripts, by keyboard alone, and by touch on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from tests.browser.conftest import PHONE, OpenPage, press_tab

Walk = Callable[..., Page]
MAX_TABS = 300
HAS_FOCUS = '(e) => (e.closest("a[href], button, summary, label") ?? e).contains(document.activeElement)'
# The stops of Tab between the focus and an element, without radio buttons, of which one is a stop.
STOPS_BEFORE = f"""(target) => {{
  if (({HAS_FOCUS})(target)) return 0;
  const here = document.activeElement;
  const isAfter = (one, other) => one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .filter((one) => isAfter(here, one) && isAfter(one, target) && !one.contains(target))
    .filter((one) => one.tabIndex >= 0 && !one.disabled && one.type !== "radio"
      && !one.closest(":popover-open") && one.checkVisibility({{ visibilityProperty: true }})).length;
}}"""
# Whether the page shows that an element has the focus; null if it has not.
IS_MARKED = f'(e) => ({HAS_FOCUS})(e) ? document.activeElement.matches(":focus-visible") : null'
TAKES_SPACE = '(e) => e.matches("input[type=checkbox], input[type=radio]")'


OTHER_WAYS = (pytest.param(way, marks=pytest.mark.long) for way in ("no scripts", "keyboard", "phone"))


@pytest.fixture(params=["mouse", *OTHER_WAYS])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "keyboard":
        use_keyboard(monkeypatch)
    elif request.param == "phone":
        monkeypatch.setattr(Locator, "click", Locator.tap)
    return str(request.param)


@pytest.fixture
def scripts(way: str) -> bool:
    return way != "no scripts"


@pytest.fixture
def set_out(open_page: OpenPage, way: str) -> Walk:
    """``set_out("/", user)``: a browser with scripts or without, or a phone."""
    phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True} if way == "phone" else {}

    def open_(path: str, user: Any = None, **options: Any) -> Page:
        return open_page(path, user, java_script_enabled=way != "no scripts", **phone, **options)

    return open_


def go_to(page: Page, *names: str) -> None:
    """Follow links of the main navigation, which phones show in a drawer."""
    menu = page.get_by_role("button", name="Menu", exact=True)
    for name in names:
        if menu.is_visible():
            menu.click()
        with page.expect_navigation():
            page.get_by_role("navigation", name="Main").get_by_role("link", name=name, exact=True).click()


@pytest.fixture(autouse=True)
def new_memories(transactional_db: None) -> Callable[[], MemoryQuerySet]:
    """Return a function that returns what the test has stored. On nodes, the database also has the demo."""
    earlier = list(Memory.objects.values_list("pk", flat=True))
    return lambda: Memory.objects.exclude(pk__in=earlier)


def use_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let locators press keys where they would use the mouse or change a field directly."""
    for name in ("click", "check", "fill", "select_option", "set_input_files"):
        monkeypatch.setattr(Locator, name, globals()[f"_{name}"])


def _reach(target: Locator, timeout: float | None = None) -> None:
    """Press Tab until the element has the focus, and the page shows it."""
    target.wait_for(timeout=timeout)
    # To ask after each key takes longer than the key.
    press_tab(target.page, target.evaluate(STOPS_BEFORE) - 1)
    for _ in range(MAX_TABS):
        if (is_marked := target.evaluate(IS_MARKED)) is not None:
            assert is_marked, f"the focus of {target} cannot be seen"
            return
        target.page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {target}")


def _click(target: Locator, timeout: float | None = None) -> None:
    _reach(target, timeout)
    target.page.keyboard.press("Space" if target.evaluate(TAKES_SPACE) else "Enter")


def _check(target: Locator) -> None:
    _click(target)
    expect(target).to_be_checked()


def _fill(target: Locator, text: str) -> None:
    _reach(target)
    target.page.keyboard.press("Control+a")
    target.page.keyboard.type(text)


def _select_option(target: Locator, label: str) -> None:
    _reach(target)
    target.page.keyboard.type(label)
    expect(target.locator("option:checked")).to_have_text(label)


def _set_input_files(target: Locator, path: Any) -> None:
    # Playwright does not wait until Chromium hands over its dialogs, so ask before the keys to the field.
    with target.page.expect_file_chooser() as chooser:
        _reach(target)
        target.page.keyboard.press("Space")
    chooser.value.set_files(path)

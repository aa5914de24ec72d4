"""Checks of a page: size, axe-core, width and focus, in both themes and at every width."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import Page, Request, ViewportSize

from tests.browser import page_weight

WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# 640 px is 1280 at 200 %; 320 is 1280 at 400 %, the narrowest that WCAG 1.4.10 asks for.
HALF: ViewportSize = {"width": 640, "height": 844}
NARROWEST: ViewportSize = {"width": 320, "height": 844}
# Every size in which a page must fit, and the themes in which it is checked there; axe runs in the last.
# Their order needs one change of the theme at each size.
SIZES: tuple[tuple[ViewportSize, tuple[str, ...]], ...] = (
    (WIDE, ("dark", "light")),
    (HALF, ()),
    (PHONE, ("light", "dark")),
    (NARROWEST, ()),
)
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
ONLY_VIOLATIONS = {"resultTypes": ["violations"], "preload": False}
# The target size of 24 px is in WCAG 2.2, but not in the default rules of axe.
# So are the words that a control shows, within its name (2.5.3), which axe counts as an experiment.
EVERYTHING: dict[str, Any] = {
    "rules": {"target-size": {"enabled": True}, "label-content-name-mismatch": {"enabled": True}}
}
# The rules that a theme changes. They take three quarters of the time, so that they only see each look once.
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
LOOKS_OF_TEXT = (Path(__file__).parent / "contrast.js").read_text()
# In one run with the other rules: half of the time of a run is for the map of the page that both need.
RUN_AXE = """async ([looks, options]) => {
  const chosen = new Set(looks.map((look) => window.textByLook.get(look)));
  const rules = ["color-contrast", "link-in-text-block"].map((id) => axe._audit.getRule(id));
  const before = rules.map((rule) => rule.matches);
  rules.forEach((rule, at) => {
    rule.matches = (element, ...more) => chosen.has(element) && before[at].call(rule, element, ...more);
  });
  try {
    return (await axe.run(options)).violations;
  } finally {
    rules.forEach((rule, at) => { rule.matches = before[at]; });
  }
}"""
MAX_PHONE_HEIGHT = 5000  # of a page of the demo; reports are for paper
WAIT_FOR_FRAMES = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"""
IS_DARK = """() => matchMedia("(prefers-color-scheme: dark)").matches"""
TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const scrolls = (element) => element && (getComputedStyle(element).overflowX !== "visible"
    || scrolls(element.parentElement !== document.body && element.parentElement));
  const beyond = (element) => element.getBoundingClientRect().right > room + 1 && !scrolls(element);
  return ["the page", ...[...document.querySelectorAll("body *")].filter(beyond).slice(0, 8)
    .map((element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class")}`)];
}"""
# The last column has the buttons of a row, so it must be visible without scrolling.
WIDE_TABLES = """() => [...document.querySelectorAll(".table-wrap")]
  .filter((wrap) => wrap.scrollWidth > wrap.clientWidth + 1)
  .map((wrap) => `a table scrolls sideways: ${wrap.firstElementChild.className}`)"""
# What WCAG 1.4.12 wants a page to bear from who reads so.
SPACED = """(on) => {
  const sheet = new CSSStyleSheet();
  if (on) sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: 0.12em !important;
    word-spacing: 0.16em !important } p { margin-bottom: 2em !important }`);
  document.adoptedStyleSheets = [sheet];
}"""
CLIPPED = """() => [...document.querySelectorAll("main *")].filter((one) => {
  const style = getComputedStyle(one);
  return one.textContent.trim() && one.clientHeight > 1 && style.overflowY === "hidden" && !one.closest("svg")
    && style.webkitLineClamp === "none" && one.scrollHeight > one.clientHeight + 3;
}).slice(0, 8).map((one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class")}`)"""
UNSEEN_FOCUS = (Path(__file__).parent / "focus.js").read_text()


class Requests:
    """How many requests of a page are on their way."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.open: set[Request] = set()
        page.on("request", lambda request: self.open.add(request))
        page.on("requestfinished", lambda request: self.open.discard(request))
        page.on("requestfailed", lambda request: self.open.discard(request))

    def settle(self) -> None:
        """Wait until the page's own requests are answered."""
        for _ in range(200):
            self.page.evaluate(WAIT_FOR_FRAMES)
            if not self.open:
                return
        raise AssertionError(f"{self.page.url} still waits for {[one.url for one in self.open]}")


def unfold(page: Page) -> None:
    """All folds, but menus, which open over the page and close when the focus leaves them."""
    page.evaluate("""() => {
      for (const fold of document.querySelectorAll("main details:not(.saved)")) fold.open = true;
    }""")


class PageChecks:
    """All checks of a page in both themes and at all widths; remembers which text they have compared."""

    def __init__(self) -> None:
        self.compared: dict[str, set[int]] = {"light": set(), "dark": set()}

    def find_problems(self, page: Page) -> Iterator[str]:
        yield from find_excess_weight(page)
        load_axe(page)
        # Where a page gave it; the link to skip covers something.
        page.evaluate("document.activeElement.blur()")
        for viewport, themes in SIZES:
            page.set_viewport_size(viewport)
            for theme in themes:
                set_theme(page, theme)
                if theme == themes[-1]:
                    found = [*self.find_axe_problems(page, theme, EVERYTHING), *page.evaluate(UNSEEN_FOCUS)]
                else:
                    found = [*self.find_axe_problems(page, theme, COLOURS)]
                yield from (f"{theme}, {viewport['width']} px: {problem}" for problem in found)
            yield from find_wide_content(page, viewport["width"])
        yield from find_spaced_problems(page)

    def find_axe_problems(self, page: Page, theme: str, options: dict[str, Any]) -> Iterator[str]:
        """Run axe, and compare the colours of text that looks like none before in this theme."""
        new = [look for look in page.evaluate(LOOKS_OF_TEXT) if look not in self.compared[theme]]
        self.compared[theme].update(new)
        if new or options is not COLOURS:
            yield from map(describe, page.evaluate(RUN_AXE, [new, {**ONLY_VIOLATIONS, **options}]))


def find_state_problems(page: Page) -> list[str]:
    """Check a state that no address opens: light on a large screen, and dark on a small one.

    With axe's default rules: what opens may cover a part of other targets.
    """
    before = page.viewport_size or WIDE
    load_axe(page)
    found = []
    for viewport, theme in ((WIDE, "light"), (PHONE, "dark")):
        page.set_viewport_size(viewport)
        set_theme(page, theme)
        problems = (*axe_problems(page, {}), *page.evaluate(TOO_WIDE))
        found += [f"{theme}, {viewport['width']} px: {problem}" for problem in problems]
    page.set_viewport_size(before)
    set_theme(page, "light")
    return found


def find_wide_content(page: Page, width: int) -> Iterator[str]:
    """Yield what does not fit into the width, and tables that scroll on a large screen."""
    if wide := page.evaluate(TOO_WIDE):
        yield f"scrolls sideways at {width} px: {wide}"
    if width == WIDE["width"]:
        yield from page.evaluate(WIDE_TABLES)


def find_spaced_problems(page: Page) -> Iterator[str]:
    """Yield what does not fit at the narrowest width with wide letters."""
    page.evaluate(SPACED, True)
    if wide := page.evaluate(TOO_WIDE):
        yield f"scrolls sideways at {NARROWEST['width']} px with wide letters: {wide}"
    if clipped := page.evaluate(CLIPPED):
        yield f"cuts off letters that are set wide: {clipped}"
    page.evaluate(SPACED, False)


def find_excess_height(page: Page) -> Iterator[str]:
    """Yield a page that takes long to scroll through on a phone."""
    page.set_viewport_size(PHONE)
    height = page.evaluate("document.documentElement.scrollHeight")
    if height > MAX_PHONE_HEIGHT:
        yield f"is {height} px high at {PHONE['width']} px (at most {MAX_PHONE_HEIGHT})"


def find_excess_weight(page: Page) -> Iterator[str]:
    loaded = page_weight.loaded_bytes(page)
    is_admin = urlsplit(page.url).path.startswith("/admin/")  # Django's admin loads many files of its own
    if len(loaded) > page_weight.MAX_REQUESTS and not is_admin:
        yield f"makes {len(loaded)} requests (at most {page_weight.MAX_REQUESTS}): {sorted(loaded)}"
    if (weight := sum(loaded.values())) > page_weight.MAX_PAGE_BYTES:
        first = sorted(loaded.items(), key=lambda one: -one[1])[:4]
        yield f"weighs {weight // 1000} kB: {first}"


def set_theme(page: Page, theme: str) -> None:
    if page.evaluate(IS_DARK) != (theme == "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.evaluate(WAIT_FOR_FRAMES)


@contextmanager
def axe_on_each_page(page: Page) -> Iterator[None]:
    """Give axe to each page that opens: a third of the time that its evaluation in an open page takes."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Page.enable")
    devtools.send("Page.addScriptToEvaluateOnNewDocument", {"source": AXE})
    try:
        yield
    finally:
        devtools.detach()  # also removes the script


def load_axe(page: Page) -> None:
    """Load axe, unless the page was opened with it."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)


def axe_problems(page: Page, options: dict[str, Any]) -> Iterator[str]:
    asked = json.dumps({**ONLY_VIOLATIONS, **options})
    yield from map(describe, page.evaluate(f"axe.run({asked}).then((all) => all.violations)"))


def describe(violation: dict[str, Any]) -> str:
    nodes = [f"{node['target']}: {node['failureSummary']}" for node in violation["nodes"][:4]]
    found = " | ".join(" ".join(one.split()) for one in nodes)
    return f"{violation['id']} ({len(violation['nodes'])}): {found}"

"""Checks of a page: size, axe-core, width and focus, in both themes and at every width."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import Page, Request, ViewportSize

from tests.browser import page_weight

Theme = Literal["light", "dark"]
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# 640 px is 1280 at 200 %; 320 is 1280 at 400 %, the narrowest that WCAG 1.4.10 asks for.
HALF: ViewportSize = {"width": 640, "height": 844}
NARROWEST: ViewportSize = {"width": 320, "height": 844}
# Every size in which a page must fit, and the themes in which text is compared there.
# Their order, and the reverse one, need one change of the theme at two sizes, and none between two pages.
SIZES: tuple[tuple[ViewportSize, tuple[Theme, ...]], ...] = (
    (WIDE, ("dark", "light")),
    (HALF, ()),
    (PHONE, ("light", "dark")),
    (NARROWEST, ()),
)
ALL_RULES = ((WIDE, "light"), (PHONE, "dark"))  # where axe applies all of its rules
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
ONLY_VIOLATIONS = {"resultTypes": ["violations"], "preload": False}
# The target size of 24 px is in WCAG 2.2, but not in the default rules of axe.
# So are the words that a control shows, within its name (2.5.3), which axe counts as an experiment.
EVERYTHING: dict[str, Any] = {
    "rules": {"target-size": {"enabled": True}, "label-content-name-mismatch": {"enabled": True}}
}
# The rules that a theme changes. They take three quarters of the time, so that they only see each look once.
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
WAIT_FOR_FRAMES = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"""
LOOKS_OF_TEXT = (Path(__file__).parent / "contrast.js").read_text()
ENDS_OF_ROWS = (Path(__file__).parent / "rows.js").read_text()
# In one run with the other rules: half of the time of a run is for the map of the page that both need.
# The size of targets takes a third of the other rules: of large ones in rows, the first and the last count.
RUN_AXE = f"""async ([looks, options]) => {{
  const texts = new Set(looks.map((look) => window.textByLook.get(look)));
  const targets = new Set(({ENDS_OF_ROWS})(document.body.querySelectorAll("*")));
  const isSmall = ({{ width, height }}) => width < 24 || height < 24;
  const isMeasured = (target) => targets.has(target) || isSmall(target.getBoundingClientRect());
  const chosen = new Map([
    ["color-contrast", (text) => texts.has(text)],
    ["link-in-text-block", (text) => texts.has(text)],
    ["target-size", isMeasured],
  ]);
  const rules = [...chosen.keys()].map((id) => axe._audit.getRule(id));
  const before = rules.map((rule) => rule.matches);
  rules.forEach((rule, at) => {{
    const isChosen = chosen.get(rule.id);
    rule.matches = (element, ...more) => isChosen(element) && before[at].call(rule, element, ...more);
  }});
  try {{
    return (await axe.run(options)).violations;
  }} finally {{
    rules.forEach((rule, at) => {{ rule.matches = before[at]; }});
  }}
}}"""
MAX_PHONE_HEIGHT = 5000  # of a page of the demo; reports are for paper
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
  if (!on) {
    document.adoptedStyleSheets.pop();
    return;
  }
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: 0.12em !important;
    word-spacing: 0.16em !important } p { margin-bottom: 2em !important }`);
  document.adoptedStyleSheets.push(sheet);
}"""
CLIPPED = """() => [...document.querySelectorAll("main *")].filter((one) => {
  const style = getComputedStyle(one);
  return one.textContent.trim() && one.clientHeight > 1 && style.overflowY === "hidden" && !one.closest("svg")
    && style.webkitLineClamp === "none" && one.scrollHeight > one.clientHeight + 3;
}).slice(0, 8).map((one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class")}`)"""
UNSEEN_FOCUS = (Path(__file__).parent / "focus.js").read_text()
# Few calls, because each takes some milliseconds in three processes.
START = f"""() => {{
  document.activeElement.blur(); // where a page gave it; the link to skip covers something
  return [typeof axe !== "undefined", ({IS_DARK})()];
}}"""
LOOKS_IN_A_STABLE_PAGE = f"async () => {{ await ({WAIT_FOR_FRAMES})(); return ({LOOKS_OF_TEXT})(); }}"
ALL_RULES_AND_FOCUS = f"""async (given) => {{
  return [await ({RUN_AXE})(given), ({UNSEEN_FOCUS})({ENDS_OF_ROWS}), ({TOO_WIDE})(), ({WIDE_TABLES})()];
}}"""
DEFAULT_RULES = f"async (given) => [await ({RUN_AXE})(given), ({TOO_WIDE})()]"
SPACED_PROBLEMS = f"""() => {{
  const wide = ({TOO_WIDE})();
  ({SPACED})(true);
  const found = [wide, ({TOO_WIDE})(), ({CLIPPED})()];
  ({SPACED})(false);
  return found;
}}"""


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
        has_axe, is_dark = page.evaluate(START)
        if not has_axe:
            page.evaluate(AXE)
        shown = "dark" if is_dark else "light"
        for viewport, themes in self._steps(page):
            page.set_viewport_size(viewport)
            for theme in themes:
                if theme != shown:
                    page.emulate_media(color_scheme=theme)
                    shown = theme
                has_all_rules = (viewport, theme) in ALL_RULES
                check = self.find_all_problems if has_all_rules else self.find_faint_text
                yield from (f"{theme}, {viewport['width']} px: {problem}" for problem in check(page, theme))
            if viewport is HALF:
                yield from describe_width(page.evaluate(TOO_WIDE), viewport["width"])
            if viewport is NARROWEST:
                yield from find_narrow_problems(page)

    def _steps(self, page: Page) -> Iterable[tuple[ViewportSize, tuple[Theme, ...]]]:
        """Return :data:`SIZES`, in the reverse order if the page before ended at the narrowest one."""
        if page.viewport_size != NARROWEST:
            return SIZES
        return [(viewport, themes[::-1]) for viewport, themes in reversed(SIZES)]

    def find_faint_text(self, page: Page, theme: Theme) -> Iterator[str]:
        """Compare the colours of text that looks like none before in this theme."""
        new = self._new_looks(page, theme)
        found = page.evaluate(RUN_AXE, [new, {**ONLY_VIOLATIONS, **COLOURS}]) if new else []
        self.compared[theme].update(new)
        yield from map(describe, found)

    def find_all_problems(self, page: Page, theme: Theme) -> Iterator[str]:
        """Apply all rules, and the rules on colours to new looks of text; check the focus and the width."""
        new = self._new_looks(page, theme)
        found = page.evaluate(ALL_RULES_AND_FOCUS, [new, {**ONLY_VIOLATIONS, **EVERYTHING}])
        self.compared[theme].update(new)
        violations, unseen, wide, tables = found
        yield from map(describe, violations)
        yield from unseen
        if wide:
            yield f"scrolls sideways: {wide}"
        if page.viewport_size == WIDE:
            yield from tables

    def find_default_problems(self, page: Page, theme: Theme) -> list[str]:
        """Apply axe's default rules, and the rules on colours to new looks of text; check the width.

        Without the size of targets: what opens may cover a part of other targets.
        """
        new = self._new_looks(page, theme)
        violations, wide = page.evaluate(DEFAULT_RULES, [new, ONLY_VIOLATIONS])
        if not violations:  # the next test finds a defect of the same text too
            self.compared[theme].update(new)
        return [*map(describe, violations), *wide]

    def _new_looks(self, page: Page, theme: Theme) -> list[int]:
        looks = page.evaluate(LOOKS_IN_A_STABLE_PAGE)
        return [look for look in looks if look not in self.compared[theme]]


STATES = PageChecks()  # of all tests in this process: text that looks the same is compared once


def find_state_problems(page: Page) -> list[str]:
    """Check a state that no address opens: light on a large screen, and dark on a small one."""
    before = page.viewport_size or WIDE
    load_axe(page)
    found: list[str] = []
    for viewport, theme in ALL_RULES:
        page.set_viewport_size(viewport)
        set_theme(page, theme)
        problems = STATES.find_default_problems(page, theme)
        found += (f"{theme}, {viewport['width']} px: {problem}" for problem in problems)
    page.set_viewport_size(before)
    set_theme(page, "light")
    return found


def describe_width(wide: list[str], width: int, letters: str = "") -> Iterator[str]:
    if wide:
        yield f"scrolls sideways at {width} px{letters}: {wide}"


def find_narrow_problems(page: Page) -> Iterator[str]:
    """Yield what does not fit at the narrowest width, and what does not fit there with wide letters."""
    wide, spaced, clipped = page.evaluate(SPACED_PROBLEMS)
    yield from describe_width(wide, NARROWEST["width"])
    yield from describe_width(spaced, NARROWEST["width"], " with wide letters")
    if clipped:
        yield f"cuts off letters that are set wide: {clipped}"


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


def set_theme(page: Page, theme: Theme) -> None:
    if page.evaluate(IS_DARK) != (theme == "dark"):
        page.emulate_media(color_scheme=theme)
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

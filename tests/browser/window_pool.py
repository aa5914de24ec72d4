"""Browser windows that tests reuse, because opening one costs as much as ten pages.

A reused window is like a new one: empty cookies and storage, a history of one page, no listeners or request
handlers, the requested size and colours, and the pointer in the corner. A window with a change that cannot be
reverted (a controlled clock) is closed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Error, Page

STATIC_ADDRESS = "/static/img/icon.svg"  # of the hub, to reach its storage; without a script or the database
PATIENCE, PATIENCE_TO_LOAD = 30_000, 60_000  # ms; a busy machine takes its time
EMPTY_STORAGE = "() => { localStorage.clear(); sessionStorage.clear(); }"
IS_UNTOUCHED = "() => [Date, setTimeout, fetch].every((one) => /native code/.test(one))"


@dataclass
class Window:
    """A page in its own context, and its listeners."""

    page: Page
    context: BrowserContext
    devtools: CDPSession
    kind: str
    listeners: list[tuple[Any, Callable[..., Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        listen = self.page.on

        def on(event: Any, listener: Callable[..., Any]) -> None:
            self.listeners.append((event, listener))
            listen(event, listener)

        self.page.on = on  # type: ignore[method-assign, assignment]

    def clean(self, origin: str) -> bool:
        """Take back what a test did; False: not all of it can be."""
        for event, listener in self.listeners:
            self.page.remove_listener(event, listener)
        self.listeners.clear()
        for other in self.context.pages:
            if other is not self.page:
                other.close()
        self.page.unroute_all()
        self.context.unroute_all()
        self.page.goto(STATIC_ADDRESS)
        self.page.evaluate(EMPTY_STORAGE)
        self.page.mouse.move(0, 0)
        self.context.clear_cookies()
        self.devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        self.devtools.send("Page.resetNavigationHistory")
        return bool(self.page.evaluate(IS_UNTOUCHED))


class Windows:
    """The windows of one browser; each is used by one test at a time."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.idle: dict[str, list[Window]] = defaultdict(list)

    def take(
        self, origin: str, *, viewport: Any, color_scheme: Any = "light", reduced_motion: Any, **options: Any
    ) -> Window:
        """One of this size and these colours; the rest of Playwright's options no window can change."""
        kind = repr(sorted(options.items()))
        idle = self.idle[kind]
        window = idle.pop() if idle else self._open(kind, origin, options)
        window.page.set_viewport_size(viewport)
        window.page.emulate_media(
            media="null",
            color_scheme=color_scheme,
            reduced_motion=reduced_motion,
            forced_colors=options.get("forced_colors", "null"),
            contrast=options.get("contrast", "null"),
        )
        window.context.set_default_timeout(PATIENCE)
        window.context.set_default_navigation_timeout(PATIENCE_TO_LOAD)
        return window

    def give_back(self, window: Window, origin: str) -> None:
        try:
            as_new = "permissions" not in window.kind and window.clean(origin)
        except Error:  # it is closed, or hangs
            as_new = False
        if as_new:
            self.idle[window.kind].append(window)
        else:
            window.context.close()

    def _open(self, kind: str, origin: str, options: dict[str, Any]) -> Window:
        context = self.browser.new_context(base_url=origin, locale="en-GB", **options)
        page = context.new_page()
        return Window(page, context, context.new_cdp_session(page), kind)

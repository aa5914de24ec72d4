"""Chromium with a live server. Console errors, failed requests and requests to other hosts fail a test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, TimeoutError, expect
from pytest_django.live_server_helper import LiveServer

from tests.browser.window_pool import PATIENCE, Window, Windows
from tests.clients import create_person, signed_in_client
from tests.settings import NODES
from tools.screenshots.chromium import installed, started

# Playwright's synchronous API runs an event loop in this thread, where Django refuses to run.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

expect.set_options(timeout=PATIENCE)
if NODES:
    LiveServer.url = property(lambda server: NODES)  # type: ignore[method-assign, assignment]

HARMLESS = (
    # Chromium repeats each error status as a message; the response itself is judged.
    "Failed to load resource: the server responded with a status",
)
# A preloaded font that the last page has cached, or that a busy machine draws late, counts as unused.
UNUSED_FONT = "woff2 was preloaded using link preload but not used within a few seconds"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


# A busy Chromium can lose a key or a dialog. Wrong content is an AssertionError, which is never repeated.
ONCE_MORE = pytest.mark.flaky(reruns=1, only_rerun=[TimeoutError])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)
            item.add_marker(ONCE_MORE)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for this folder; its event loop must not outlive it. Without one: skipped, in CI failed."""
    if installed() is None:
        reason = "no Chromium here; install Debian's package chromium to run the browser tests"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with started() as browser:
        yield browser


@dataclass
class Watch:
    """What went wrong in a page, as it happened; ``expect`` names statuses that a test wants to see."""

    host: str
    problems: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)

    def expect(self, *statuses: int) -> None:
        self.expected |= set(statuses)

    def over(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        is_harmless = message.text.startswith(HARMLESS) or UNUSED_FONT in message.text
        if message.type in ("error", "warning") and not is_harmless:
            self.problems.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "about") and address.netloc != self.host:
            self.problems.append(f"another host: {request.url}")

    def _failed(self, request: Request) -> None:
        # Requests that htmx aborts for newer input, or that a new page interrupts, are no failures.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.problems.append(f"{response.status}: {response.url}")


@pytest.fixture
def watch(live_server: Any) -> Watch:
    return Watch(urlsplit(live_server.url).netloc)


OpenPage = Callable[..., Page]


@pytest.fixture(scope="package", autouse=True)
def static_files_of_the_hub() -> Iterator[None]:
    """Static files come from the hub's middleware, as in production, not from the test server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesHandler, "_should_handle", lambda *_: False)
        yield


@pytest.fixture(scope="package")
def windows(chromium: Browser) -> Windows:
    return Windows(chromium)


@pytest.fixture
def open_page(windows: Windows, live_server: Any, watch: Watch) -> Iterator[OpenPage]:
    """``open_page("/memories/", user=…, viewport=PHONE, …)``: a watched page, signed in when a user is given.

    Further arguments are those of Playwright's ``new_context``: ``color_scheme``, ``java_script_enabled``, …
    """
    opened: list[Window] = []

    def open_(path: str = "/", user: User | None = None, **options: Any) -> Page:
        window = windows.take(live_server.url, **{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        opened.append(window)
        if user is not None:
            window.context.add_cookies([_session_cookie(user, live_server.url)])
        watch.over(window.page)
        window.page.goto(path)
        return window.page

    yield open_
    for window in opened:
        windows.give_back(window, live_server.url)
    assert not watch.problems, "\n".join(watch.problems)


def _session_cookie(user: User, address: str) -> Any:
    client = signed_in_client(user)
    return {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": address}


@pytest.fixture
def person(live_server: Any) -> Callable[..., User]:
    """``person("ada", "add_memory")``: a user with these permissions; the password is "a good password"."""
    return create_person


@pytest.fixture
def reader(person: Callable[..., User]) -> User:
    """Someone without any permission."""
    return person("reader")


@pytest.fixture
def insider(person: Callable[..., User]) -> User:
    """A user with every permission on memories and facts."""
    actions = ("add", "change", "delete", "view")
    names = [f"{action}_{model}" for action in actions for model in ("memory", "fact")]
    return person("insider", *names, "view_private", "view_secret", "erase_memory")


def press_tab(page: Page, times: int) -> None:
    """Hold Tab until it has moved the focus this often: a quarter less processor time than single keys."""
    for _ in range(times):
        page.keyboard.down("Tab")
    if times > 0:
        page.keyboard.up("Tab")


def no_sideways_scrolling(page: Page) -> bool:
    """Whether the page fits the width of its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

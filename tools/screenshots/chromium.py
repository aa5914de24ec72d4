"""Find and start Chromium, for screenshots, benchmarks and browser tests. Needs Playwright, not Django."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as PlaywrightError

_NAMES = (
    "/usr/bin/chromium-headless-shell",
    "/usr/bin/chromium",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
# Chromium's sandbox does not work for root and in most containers; the pages are our own.
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


class NoChromium(Exception):
    """Chromium cannot be started. The message says why and what to do."""


def installed() -> str | None:
    """Return the path of the system's Chromium or Chrome, or None."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def started(*arguments: str) -> Iterator[Browser]:
    """Start a headless browser: the system's, else Playwright's. Raise NoChromium without both."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed(), args=[*_ARGUMENTS, *arguments])
        except PlaywrightError as error:
            raise NoChromium(
                "Chromium cannot be started. Install Debian's package chromium, or run"
                f" 'playwright install chromium'.\n{_reason(str(error))}"
            ) from None
        yield browser
        browser.close()


def _reason(message: str) -> str:
    """Return the line of a Playwright error that states the cause."""
    return next((line for line in message.splitlines() if "FATAL" in line), message.partition("\n")[0])

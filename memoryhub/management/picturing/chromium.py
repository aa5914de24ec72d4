"""Where this machine's Chromium is, and how it is started: for pictures, benchmarks and browser tests.

Needs Playwright, which the hub does without: import it where a browser is really wanted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as PlaywrightError

_NAMES = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium's own sandbox does not work for root and in most containers; the pages are our own.
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


class NoChromium(Exception):
    """None starts here; the message says why and what to do."""


def installed() -> str | None:
    """The path of the system's Chromium, or of what is as good; None without one."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def started(*arguments: str) -> Iterator[Browser]:
    """A headless browser: the system's, or else the one that Playwright keeps. NoChromium without both."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed(), args=[*_ARGUMENTS, *arguments])
        except PlaywrightError as error:
            raise NoChromium(
                "no Chromium starts here; install Debian's package chromium, or run:"
                f" playwright install chromium\n{_reason(str(error))}"
            ) from None
        yield browser
        browser.close()


def _reason(said: str) -> str:
    """Of all that Playwright tells about a start that failed, the line that says why."""
    return next((line for line in said.splitlines() if "FATAL" in line), said.partition("\n")[0])

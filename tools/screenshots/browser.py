"""A headless Chromium that visits pages and takes pictures. Needs Playwright and Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import (
    Browser,
    BrowserContext,
    FloatRect,
    Page,
    Response,
    Route,
)
from playwright.sync_api import Error as PlaywrightError

from tools.screenshots.chromium import started
from tools.screenshots.frozen_clock import NOW
from tools.screenshots.pages import Picture

WIDTHS = {"wide": (1280, 900), "phone": (390, 844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# Pixels of the upper part of a page.
UPPER = {"wide": 1800, "phone": 2000}
# What the address bar would show; the browser is told where that really is.
ADDRESS = "http://127.0.0.1:8000"
_COLOURS = 256  # of a picture: nobody misses the others, and a file has two thirds of the size
_ALIKE = 48  # squared distance of two colours that nobody tells apart, such as two shades of a letter's edge
_PATIENCE = 20_000  # ms


class BadPage(Exception):
    """A page is not as it should be; the message says which and how."""


def browsing(port: int) -> AbstractContextManager[Browser]:
    """A browser that finds :data:`ADDRESS` at a port of this machine."""
    return started(f"--host-resolver-rules=MAP {urlsplit(ADDRESS).netloc} 127.0.0.1:{port}")


@dataclass
class Camera:
    """Visits pages at one width, signed in as who the picture asks for."""

    browser: Browser
    width: str
    passwords: Mapping[str, str]
    bodies: Mapping[str, str]
    contexts: dict[str, BrowserContext] = field(default_factory=dict)

    def take(self, picture: Picture, address: str, folder: Path) -> Iterator[Path]:
        """One file for each theme."""
        page = self._context(picture.who).new_page()
        try:
            if body := self.bodies.get(picture.template):
                page.route(f"{ADDRESS}{address}", _answer(body))
            self._visit(page, picture, address)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                file = folder / f"{picture.name}-{self.width}-{theme}.webp"
                file.write_bytes(self._seen(page, picture))
                file.chmod(0o644)  # unlike what else the hub writes, these are to be seen
                yield file
        except PlaywrightError as error:
            raise BadPage(f"{picture.name} ({address}): {error}") from None
        finally:
            page.close()

    def _visit(self, page: Page, picture: Picture, address: str) -> None:
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(f"script error: {error}"))
        page.on("response", lambda response: _judge(response, picture.status, troubles))
        page.goto(address, wait_until="load")
        picture.steps(page)
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready")
        if troubles:
            raise BadPage(f"{picture.name} ({address}): {troubles[0]}")

    def _seen(self, page: Page, picture: Picture) -> bytes:
        width, height = WIDTHS[self.width]
        full = picture.shows != "window"
        if full:
            page.evaluate("scrollTo(0, 0)")  # the header sticks to where the steps have scrolled
            height = max(height, int(page.evaluate("document.documentElement.scrollHeight")))
        if picture.shows == "upper":
            height = min(height, UPPER[self.width])
        clip = FloatRect(x=0, y=0, width=width, height=height)
        return _small(page.screenshot(full_page=full, clip=clip, animations="disabled"))

    def _context(self, who: str) -> BrowserContext:
        if who not in self.contexts:
            width, height = WIDTHS[self.width]
            context = self.browser.new_context(
                base_url=ADDRESS,
                locale="en-GB",
                timezone_id="UTC",
                viewport={"width": width, "height": height},
                reduced_motion="reduce",
            )
            context.set_default_timeout(_PATIENCE)
            context.clock.set_fixed_time(NOW)
            self.contexts[who] = context
            if who:
                self._sign_in(context, who)
        return self.contexts[who]

    def _sign_in(self, context: BrowserContext, who: str) -> None:
        """By the door that people use, with the level switched on that is named."""
        name, _, level = who.partition(":")
        page = context.new_page()
        page.goto("/login/")
        page.fill("input[name=username]", name)
        page.fill("input[name=password]", self.passwords[name])
        page.press("input[name=password]", "Enter")
        page.wait_for_url(lambda url: "/login/" not in url)
        if level:
            page.click("[popovertarget=visibility]")
            page.click(f"button.switch-{level}")
            page.wait_for_load_state()
        page.close()


def _answer(body: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(body=body, content_type="text/html")


def _small(png: bytes) -> bytes:
    """The same as WebP, in fewer colours: each pixel gets the nearest of :func:`_palette`."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.int32)
    packed = pixels @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, where, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    palette = _palette(colours[np.argsort(-counts, kind="stable")])
    nearest = np.array([((palette - one) ** 2).sum(axis=1).argmin() for one in colours])
    drawn = palette[nearest][where.reshape(-1)].reshape(pixels.shape).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(drawn).save(out, "WEBP", lossless=True)
    return out.getvalue()


def _palette(colours: NDArray[np.int32]) -> NDArray[np.int32]:
    """Of colours, the commonest first, those that are told apart.

    The commonest alone would be greys: the edges of letters have hundreds, a dot that tells a type one.
    """
    taken: list[NDArray[np.int32]] = []
    while len(colours) and len(taken) < _COLOURS:
        taken.append(colours[0])
        colours = colours[((colours - colours[0]) ** 2).sum(axis=1) > _ALIKE]
    return np.array(taken)


def _judge(response: Response, status: int, troubles: list[str]) -> None:
    if response.status >= 400 and response.status != status:
        troubles.append(f"{response.status}: {response.url}")

"""Visit pages in a headless Chromium and take pictures. Needs Playwright and Pillow."""

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
UPPER_PIXELS = {"wide": 1800, "phone": 2000}
# The address that pages show. The browser connects to the real port instead.
ADDRESS = "http://127.0.0.1:8000"
_MAX_COLOURS = 256  # of a picture; makes files a third smaller
_MIN_DISTANCE = 48  # squared, between two colours of a palette; nearer ones look the same
_TIMEOUT = 20_000  # milliseconds


class BadPage(Exception):
    """A page cannot be pictured. The message names the page and the reason."""


def start_browser(port: int) -> AbstractContextManager[Browser]:
    """Start a browser that connects to a local port when it opens :data:`ADDRESS`."""
    return started(f"--host-resolver-rules=MAP {urlsplit(ADDRESS).netloc} 127.0.0.1:{port}")


@dataclass
class Camera:
    """Visits pages at one width, signed in as the viewer of each picture.

    ``bodies``: the text of each ``Picture.template``.
    """

    browser: Browser
    width: str
    passwords: Mapping[str, str]
    bodies: Mapping[str, str]
    contexts: dict[str, BrowserContext] = field(default_factory=dict)

    def take(self, picture: Picture, address: str, folder: Path) -> Iterator[Path]:
        """Take the picture in each theme, and yield the files."""
        page = self._context(picture.viewer).new_page()
        try:
            if body := self.bodies.get(picture.template):
                page.route(f"{ADDRESS}{address}", _fulfill_with(body))
            self._visit(page, picture, address)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                file = folder / f"{picture.name}-{self.width}-{theme}.webp"
                file.write_bytes(self._capture(page, picture))
                file.chmod(0o644)  # the umask of the hub allows only the owner
                yield file
        except PlaywrightError as error:
            raise BadPage(f"{picture.name} ({address}): {error}") from None
        finally:
            page.close()

    def _visit(self, page: Page, picture: Picture, address: str) -> None:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(f"script error: {error}"))
        page.on("response", lambda response: _check_status(response, picture.status, errors))
        page.goto(address, wait_until="load")
        picture.prepare(page)
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready")
        if errors:
            raise BadPage(f"{picture.name} ({address}): {errors[0]}")

    def _capture(self, page: Page, picture: Picture) -> bytes:
        width, height = WIDTHS[self.width]
        full = picture.area != "window"
        if full:
            page.evaluate("scrollTo(0, 0)")  # the sticky header is where the page was scrolled to
            height = max(height, int(page.evaluate("document.documentElement.scrollHeight")))
        if picture.area == "upper":
            height = min(height, UPPER_PIXELS[self.width])
        clip = FloatRect(x=0, y=0, width=width, height=height)
        return _compress(page.screenshot(full_page=full, clip=clip, animations="disabled"))

    def _context(self, viewer: str) -> BrowserContext:
        """Return the signed-in session of a viewer."""
        if viewer not in self.contexts:
            width, height = WIDTHS[self.width]
            context = self.browser.new_context(
                base_url=ADDRESS,
                locale="en-GB",
                timezone_id="UTC",
                viewport={"width": width, "height": height},
                reduced_motion="reduce",
            )
            context.set_default_timeout(_TIMEOUT)
            context.clock.set_fixed_time(NOW)
            self.contexts[viewer] = context
            if viewer:
                self._sign_in(context, viewer)
        return self.contexts[viewer]

    def _sign_in(self, context: BrowserContext, viewer: str) -> None:
        """Submit the sign-in form, and turn on the level that the viewer names."""
        name, _, level = viewer.partition(":")
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


def _fulfill_with(body: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(body=body, content_type="text/html")


def _compress(png: bytes) -> bytes:
    """Return a picture as WebP, with each pixel in the nearest colour of :func:`_palette`."""
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.int32)
    packed = pixels @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    values, positions, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([values >> 16, values >> 8 & 255, values & 255], axis=1)
    palette = _palette(colours[np.argsort(-counts, kind="stable")])
    nearest = np.array([((palette - colour) ** 2).sum(axis=1).argmin() for colour in colours])
    drawn = palette[nearest][positions.reshape(-1)].reshape(pixels.shape).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(drawn).save(out, "WEBP", lossless=True)
    return out.getvalue()


def _palette(colours: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the most common colours that differ visibly. ``colours`` is sorted by frequency.

    Without the minimum distance, the hundreds of greys at the edges of letters would use up the palette.
    """
    taken: list[NDArray[np.int32]] = []
    while len(colours) and len(taken) < _MAX_COLOURS:
        taken.append(colours[0])
        colours = colours[((colours - colours[0]) ** 2).sum(axis=1) > _MIN_DISTANCE]
    return np.array(taken)


def _check_status(response: Response, expected: int, errors: list[str]) -> None:
    if response.status >= 400 and response.status != expected:
        errors.append(f"{response.status}: {response.url}")

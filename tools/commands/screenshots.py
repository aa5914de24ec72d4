"""``python -m tools screenshots``: pictures of every page in both themes and widths, for the
documentation.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.template.loader import render_to_string
from tqdm import tqdm

from memoryhub.management.operator import plural
from tools.screenshots import frozen_clock, scene, server, temporary_store
from tools.screenshots.pages import PICTURES, Picture

FOLDER = "docs/screenshots"
_SHOWN = r"screenshots/([a-z0-9-]+\.webp)"


class Command(BaseCommand):
    help = (
        "Take pictures of every page, light and dark, at 1280 and 390 pixels, of the demo in a store of its "
        "own that is gone afterwards. Without FOLDER, only those of the documentation are taken, into "
        f"{FOLDER}. Needs Chromium, and what requirements-dev.txt lists."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", nargs="?", metavar="FOLDER", help="where to write them")
        parser.add_argument(
            "--only", action="append", metavar="NAME", help="take only this picture; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if temporary_store.home != settings.HOME:
            raise CommandError("screenshots need a temporary store; run: python -m tools screenshots")
        pictures = _chosen(options["only"])
        try:
            from tools.screenshots import browser as screenshots_browser  # noqa: F401 asked for before the work begins
        except ModuleNotFoundError as error:
            raise CommandError(f"{error.name} is missing; pip install -r requirements-dev.txt") from None
        if options["folder"]:
            folder = Path(options["folder"])
            self._report(self._take_all(pictures, folder), folder)
        else:
            self._update_documentation(pictures)

    def _update_documentation(self, pictures: list[Picture]) -> None:
        """Take the pictures that the documentation shows, and remove those that it shows no more."""
        shown, folder = shown_files(settings.BASE_DIR), settings.BASE_DIR / FOLDER
        pictures = [one for one in pictures if any(file.startswith(f"{one.name}-") for file in shown)]
        with TemporaryDirectory() as taken:
            files = [file for file in self._take_all(pictures, Path(taken)) if file.name in shown]
            folder.mkdir(parents=True, exist_ok=True)
            kept = [Path(copy(file, folder)) for file in files]
        self._report(kept, folder)
        for old in {file for file in folder.glob("*.webp") if file.name not in shown}:
            old.unlink()
            self.stdout.write(f"{old.name} is gone: no document shows it")

    def _report(self, files: list[Path], folder: Path) -> None:
        size = sum(file.stat().st_size for file in files) / 1_000_000
        self.stdout.write(f"{plural(len(files), 'picture')} in {folder}, {size:.1f} MB")

    def _take_all(self, pictures: list[Picture], folder: Path) -> list[Path]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{folder} cannot be made: {error.strerror}") from None
        with frozen_clock.standing_still(), frozen_clock.same_ids():
            passwords = scene.prepare()
            return self._take(pictures, scene.found(), passwords, folder)

    def _take(
        self, pictures: list[Picture], found: Mapping[str, str], passwords: dict[str, str], folder: Path
    ) -> list[Path]:
        from tools.screenshots import browser as screenshots_browser
        from tools.screenshots.chromium import NoChromium

        addresses = [(one, one.address(found)) for one in pictures]
        bodies = {one.template: str(render_to_string(one.template)) for one in pictures if one.template}
        files: list[Path] = []
        wrong: list[str] = []
        try:
            with server.serving() as port, screenshots_browser.browsing(port) as browser:
                cameras = [
                    screenshots_browser.Camera(browser, width, passwords, bodies)
                    for width in screenshots_browser.WIDTHS
                ]
                for picture, address in tqdm(addresses, disable=None, leave=False):
                    for taking in cameras:
                        try:
                            files += taking.take(picture, address, folder)
                        except screenshots_browser.BadPage as problem:
                            wrong.append(str(problem))
        except NoChromium as problem:
            raise CommandError(str(problem)) from None
        if wrong:
            raise CommandError("\n".join([f"{plural(len(wrong), 'page')} could not be pictured:", *wrong]))
        return files


def shown_files(root: Path) -> set[str]:
    """Return the names of the pictures that the documentation shows."""
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    return {name for page in pages for name in re.findall(_SHOWN, page.read_text("utf-8"))}


def _chosen(names: list[str] | None) -> list[Picture]:
    unknown = set(names or ()) - {one.name for one in PICTURES}
    if unknown:
        known = ", ".join(one.name for one in PICTURES)
        raise CommandError(f"--only: no picture is called {', '.join(sorted(unknown))}; there are: {known}")
    return [one for one in PICTURES if not names or one.name in names]

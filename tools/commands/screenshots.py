"""``python -m tools screenshots``: pictures of every page in both themes and widths, for the
documentation.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.template.loader import render_to_string
from tqdm import tqdm

from memoryhub.management.operator import plural
from tools.screenshots import frozen_clock, scene, server, temporary_store
from tools.screenshots.pages import PICTURES, Picture

FOLDER = "docs/screenshots"


class Command(BaseCommand):
    help = (
        "Take pictures of every page, light and dark, at 1280 and 390 pixels, of the demo in a store of its "
        "own that is gone afterwards. Needs Chromium, and what requirements-dev.txt lists."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", nargs="?", metavar="FOLDER", help=f"where to write the pictures (default: {FOLDER})"
        )
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
        folder = Path(options["folder"] or settings.BASE_DIR / FOLDER)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{folder} cannot be made: {error.strerror}") from None
        with frozen_clock.standing_still(), frozen_clock.same_ids():
            passwords = scene.prepare()
            files = self._take(pictures, scene.found(), passwords, folder)
        size = sum(file.stat().st_size for file in files) / 1_000_000
        self.stdout.write(f"{plural(len(files), 'picture')} in {folder}, {size:.1f} MB")
        if not options["only"]:
            self._tidy(folder, files)

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

    def _tidy(self, folder: Path, files: list[Path]) -> None:
        """Pictures of pages that are no more go; what this command never takes stays."""
        for old in {*folder.glob("*-light.webp"), *folder.glob("*-dark.webp")} - set(files):
            old.unlink()
            self.stdout.write(f"{old.name} is gone: there is no such page any more")


def _chosen(names: list[str] | None) -> list[Picture]:
    unknown = set(names or ()) - {one.name for one in PICTURES}
    if unknown:
        known = ", ".join(one.name for one in PICTURES)
        raise CommandError(f"--only: no picture is called {', '.join(sorted(unknown))}; there are: {known}")
    return [one for one in PICTURES if not names or one.name in names]

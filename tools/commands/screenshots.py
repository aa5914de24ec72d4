"""``python -m tools screenshots``: take pictures of every page in both themes and widths."""

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

from memoryhub.core.text import format_count
from tools.screenshots import frozen_clock, scene, server, temporary_store
from tools.screenshots.pages import PICTURES, Picture

FOLDER = "docs/screenshots"
_FILE_NAME = r"screenshots/([a-z0-9-]+\.webp)"


class Command(BaseCommand):
    help = (
        "Take pictures of every page of the demo, light and dark, at 1280 and 390 pixels. Uses a temporary "
        f"store. Without FOLDER, take those that the documentation shows, into {FOLDER}. Needs Chromium and "
        "the packages in requirements-dev.txt."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", nargs="?", metavar="FOLDER", help="folder for the pictures")
        parser.add_argument(
            "--only", action="append", metavar="NAME", help="take only this picture; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if temporary_store.home != settings.HOME:
            raise CommandError("screenshots need a temporary store; run: python -m tools screenshots")
        pictures = _select_pictures(options["only"])
        try:
            from tools.screenshots import browser as screenshots_browser  # noqa: F401 fail early
        except ModuleNotFoundError as error:
            raise CommandError(f"{error.name} is missing; pip install -r requirements-dev.txt") from None
        if options["folder"]:
            folder = Path(options["folder"])
            self._report(self._take_all(pictures, folder), folder)
        else:
            self._update_documentation(pictures)

    def _update_documentation(self, pictures: list[Picture]) -> None:
        """Take the pictures that the documentation shows, and remove those that it no longer shows."""
        shown, folder = shown_files(settings.BASE_DIR), settings.BASE_DIR / FOLDER
        pictures = [
            picture for picture in pictures if any(file.startswith(f"{picture.name}-") for file in shown)
        ]
        with TemporaryDirectory() as taken:
            files = [file for file in self._take_all(pictures, Path(taken)) if file.name in shown]
            folder.mkdir(parents=True, exist_ok=True)
            copies = [Path(copy(file, folder)) for file in files]
        self._report(copies, folder)
        for old in {file for file in folder.glob("*.webp") if file.name not in shown}:
            old.unlink()
            self.stdout.write(f"Removed {old.name}: the documentation does not show it.")

    def _report(self, files: list[Path], folder: Path) -> None:
        size = sum(file.stat().st_size for file in files) / 1_000_000
        self.stdout.write(f"{format_count(len(files), 'picture')} in {folder}, {size:.1f} MB")

    def _take_all(self, pictures: list[Picture], folder: Path) -> list[Path]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{folder} cannot be created: {error.strerror}") from None
        with frozen_clock.freeze_clock(), frozen_clock.fixed_ids():
            passwords = scene.prepare()
            return self._take(pictures, scene.find_arguments(), passwords, folder)

    def _take(
        self, pictures: list[Picture], arguments: Mapping[str, str], passwords: dict[str, str], folder: Path
    ) -> list[Path]:
        from tools.screenshots import browser as screenshots_browser
        from tools.screenshots.chromium import NoChromium

        addresses = [(picture, picture.address(arguments)) for picture in pictures]
        templates = {picture.template for picture in pictures if picture.template}
        bodies = {template: str(render_to_string(template)) for template in templates}
        files: list[Path] = []
        errors: list[str] = []
        try:
            with server.serving() as port, screenshots_browser.start_browser(port) as browser:
                cameras = [
                    screenshots_browser.Camera(browser, width, passwords, bodies)
                    for width in screenshots_browser.WIDTHS
                ]
                for picture, address in tqdm(addresses, disable=None, leave=False):
                    for camera in cameras:
                        try:
                            files += camera.take(picture, address, folder)
                        except screenshots_browser.BadPage as error:
                            errors.append(str(error))
        except NoChromium as error:
            raise CommandError(str(error)) from None
        if errors:
            raise CommandError(
                "\n".join([f"{format_count(len(errors), 'picture')} could not be taken:", *errors])
            )
        return files


def shown_files(root: Path) -> set[str]:
    """Return the names of the pictures that the documentation shows."""
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    return {name for page in pages for name in re.findall(_FILE_NAME, page.read_text("utf-8"))}


def _select_pictures(names: list[str] | None) -> list[Picture]:
    known = [picture.name for picture in PICTURES]
    unknown = set(names or ()) - set(known)
    if unknown:
        raise CommandError(
            f"--only: no picture is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}"
        )
    return [picture for picture in PICTURES if not names or picture.name in names]

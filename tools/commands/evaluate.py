"""``manage.py evaluate FILE...``: how well search finds, measured over sets of memories and questions."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.management.operator import shown
from tools.evaluation import report
from tools.evaluation.isolated_run import MODES
from tools.evaluation.runner import Failed, Measured, measure
from tools.evaluation.sets import NotASet, RetrievalSet, read_set

INTERRUPTED = 130


class Command(BaseCommand):
    help = (
        "Store each set of memories in a temporary store of its own, ask its questions through the hub's "
        "search, and print how well they were answered, beside bare FTS5. Your own store is not touched."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            type=Path,
            help="a retrieval set (JSON); default: fixtures/retrieval",
        )
        parser.add_argument(
            "--mode",
            action="append",
            choices=MODES,
            default=[],
            help="measure this mode of search alone; may be repeated (default: all three)",
        )
        parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there as JSON, too")

    def handle(self, *args: Any, **options: Any) -> None:
        own = Path(settings.BASE_DIR) / "fixtures" / "retrieval"
        given = self._read(options["files"] or sorted(own.glob("*.json")))
        if options["json"]:
            self._write(options["json"], None)
        try:
            measured = [measure(path, one, options["mode"], self._tell) for path, one in given.items()]
        except Failed as failed:
            raise CommandError(str(failed)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted; nothing was kept", returncode=INTERRUPTED) from None
        if options["json"]:
            self._write(options["json"], measured)
        for line in report.lines(measured):
            self.stdout.write(line)

    def _read(self, paths: list[Path]) -> dict[Path, RetrievalSet]:
        """All sets, before the first is stored."""
        try:
            given = {path: read_set(path) for path in paths}
        except NotASet as problem:
            raise CommandError(str(problem)) from None
        names: dict[tuple[str, str], Path] = {}
        for path, one in given.items():
            twin = names.setdefault((one.name, one.unit), path)
            if twin != path:
                raise CommandError(f"{path}: name {one.name!r} is that of {twin} too; leave one out")
        return given

    def _write(self, path: Path, measured: list[Measured] | None) -> None:
        """Write the figures; without any see whether it can be done, before an hour's work is lost."""
        try:
            with path.open("a" if measured is None else "w", encoding="utf-8") as file:
                if measured is not None:
                    file.write(json.dumps(report.as_json(measured), indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CommandError(f"--json: {path} cannot be written: {error.strerror}") from None

    def _tell(self, line: str) -> None:
        self.stderr.write(shown(line, 300))

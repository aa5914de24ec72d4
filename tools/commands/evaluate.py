"""``manage.py evaluate FILE...``: measure search with retrieval sets, injection and recall with prompts."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.management import shown
from tools.evaluation import report
from tools.evaluation.isolated_run import MODES
from tools.evaluation.prompt_report import failure_lines, measure_prompts, prompt_lines, prompts_as_json
from tools.evaluation.prompt_sets import read_prompts
from tools.evaluation.runner import RunFailed, measure
from tools.evaluation.sets import InvalidSet, RetrievalSet, read_set

INTERRUPTED = 130


class Command(BaseCommand):
    help = (
        "Store each set of memories in a temporary store, search with its questions, and print the figures "
        "of the hub's search and of plain FTS5. A folder of labelled prompts is run through injection and "
        "recall instead. Your own store is not touched."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            type=Path,
            help="a retrieval set (JSON), or one folder of labelled prompts; default: fixtures/retrieval",
        )
        parser.add_argument(
            "--mode",
            action="append",
            choices=MODES,
            default=[],
            help="measure only this search mode; repeatable (default: all three)",
        )
        parser.add_argument("--json", metavar="FILE", type=Path, help="also write all figures to FILE")
        parser.add_argument(
            "--held-back",
            action="store_true",
            help="of a folder of prompts: measure the half that is held back for the final figures",
        )
        parser.add_argument(
            "--fresh",
            action="store_true",
            help="of a folder of prompts: store all memories as new, as they are after an import",
        )
        parser.add_argument(
            "--learned",
            action="store_true",
            help="of a folder of prompts: first count which memories helped with the other half",
        )
        parser.add_argument(
            "--failures", action="store_true", help="of a folder of prompts: list those that did not pass"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        files = options["files"]
        folder = files[0] if len(files) == 1 and files[0].is_dir() else None
        if not folder and any(options[name] for name in ("held_back", "fresh", "learned", "failures")):
            raise CommandError("--held-back, --fresh, --learned and --failures need a folder of prompts")
        if folder and options["mode"]:
            raise CommandError("--mode is for retrieval sets. Leave it out for a folder of prompts.")
        if options["json"]:
            self._write(options["json"], None)
        try:
            figures = self._measure_prompts(folder, options) if folder else self._measure_sets(files, options)
        except (RunFailed, InvalidSet) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted; no figures were written", returncode=INTERRUPTED) from None
        if options["json"]:
            self._write(options["json"], figures)

    def _measure_prompts(self, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
        """Print the figures of labelled prompts, and return them."""
        given = read_prompts(folder, held_back=options["held_back"])
        flags = [f"--{name}" for name in ("held-back", "fresh", "learned") if options[name.replace("-", "_")]]
        outcomes = measure_prompts(folder, given, flags, self._report)
        failures = failure_lines(outcomes) if options["failures"] else ()
        half = "held back" if options["held_back"] else "development"
        for line in (*failures, *prompt_lines(given, outcomes, half)):
            self.stdout.write(line)
        return prompts_as_json(outcomes)

    def _measure_sets(self, files: list[Path], options: dict[str, Any]) -> dict[str, Any]:
        """Print the figures of retrieval sets, and return them."""
        own = Path(settings.BASE_DIR) / "fixtures" / "retrieval"
        given = self._read(files or sorted(own.glob("*.json")))
        measured = [measure(path, one, options["mode"], self._report) for path, one in given.items()]
        for line in report.lines(measured):
            self.stdout.write(line)
        return report.as_json(measured)

    def _read(self, paths: list[Path]) -> dict[Path, RetrievalSet]:
        """Read all sets, so that an invalid one is reported before the first is measured."""
        given = {path: read_set(path) for path in paths}
        names: dict[tuple[str, str], Path] = {}
        for path, one in given.items():
            other = names.setdefault((one.name, one.unit), path)
            if other != path:
                raise CommandError(f"{path}: {other} has the same name {one.name!r}; leave one out")
        return given

    def _write(self, path: Path, figures: dict[str, Any] | None) -> None:
        """Write the figures. Without figures, only check that the file is writable, before the long run."""
        try:
            with path.open("a" if figures is None else "w", encoding="utf-8") as file:
                if figures is not None:
                    file.write(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CommandError(f"--json: {path} cannot be written: {error.strerror}") from None

    def _report(self, line: str) -> None:
        self.stderr.write(shown(line, 300))

"""``manage.py evaluate_extraction``: what the rules find in labelled conversations."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.extraction.evaluation import Judged, evaluate, figures
from memoryhub.extraction.transcripts import NotATranscript
from memoryhub.management.operator import shown


class Command(BaseCommand):
    help = (
        "Read labelled conversations by the rules and print precision (how many of the candidates are worth "
        "keeping) and recall (how much of what is worth keeping was found). No store is touched."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder",
            metavar="FOLDER",
            nargs="?",
            type=Path,
            help="a folder with labels.toml and the conversations; default: fixtures/conversations",
        )
        parser.add_argument("--details", action="store_true", help="print what was missed and what was wrong")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"] or Path(settings.BASE_DIR) / "fixtures" / "conversations"
        try:
            judged = evaluate(folder)
        except (OSError, ValueError, KeyError, NotATranscript) as error:
            raise CommandError(f"{folder} cannot be evaluated: {type(error).__name__}: {error}") from None
        for one in judged if options["details"] else ():
            self._tell(one)
        for name in dict.fromkeys(one.part for one in judged):
            self._sum(name, [one for one in judged if one.part == name])
        self._sum("all", judged)

    def _tell(self, one: Judged) -> None:
        self.stdout.write(f"{one.name}: {len(one.right)} right")
        for label in one.missed:
            self.stdout.write(f"  missed: {label.says}")
        for candidate in one.wrong:
            self.stdout.write(f"  wrong:  {candidate.category}: {shown(candidate.content, 120)}")

    def _sum(self, name: str, judged: list[Judged]) -> None:
        found = figures(judged)
        self.stdout.write(
            f"{name:9} {len(judged):3} conversations, {found.labels:3} labels, {found.found:3} candidates: "
            f"precision {found.precision:.2f}, recall {found.recall:.2f}, "
            f"right category {found.in_category:.2f}"
        )

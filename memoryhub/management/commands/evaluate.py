"""``manage.py evaluate FILE...``: measure the quality of search (see ``tools/evaluation``)."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser


def _load() -> type[BaseCommand]:
    try:
        from tools.commands import evaluate
    except ModuleNotFoundError:
        # Django shows no stack trace for a CommandError, except for one that a parser raises.
        sys.exit("evaluate needs a checkout of the repository: the package leaves tools/ out")
    return evaluate.Command


class Command(BaseCommand):
    help = "Measure how well search answers the questions of a retrieval set. Needs a source checkout."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        _load()().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        command = _load()()
        command.stdout, command.stderr = self.stdout, self.stderr
        command.handle(*args, **options)

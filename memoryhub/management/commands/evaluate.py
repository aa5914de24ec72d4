"""``manage.py evaluate FILE...``: measure the quality of search (see ``tools/evaluation``)."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError


def _load() -> type[BaseCommand]:
    try:
        from tools.commands import evaluate
    except ModuleNotFoundError:
        raise CommandError(
            "evaluate needs a checkout of the repository: the package leaves tools/ out"
        ) from None
    return evaluate.Command


class Command(BaseCommand):
    help = "Measure how well search answers the questions of a retrieval set. Needs a source checkout."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        _load()().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        _load()(stdout=self.stdout._out, stderr=self.stderr._out).handle(*args, **options)

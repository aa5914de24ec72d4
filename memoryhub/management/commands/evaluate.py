"""``manage.py evaluate FILE...``: measure the quality of search (see ``tools/evaluation``)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memoryhub.management import load_tool


class Command(BaseCommand):
    help = "Measure how well search answers the questions of a retrieval set. Needs a source checkout."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        load_tool("evaluate")().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        command = load_tool("evaluate")()
        command.stdout, command.stderr = self.stdout, self.stderr
        command.handle(*args, **options)

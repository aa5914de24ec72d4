"""``python -m tools evaluate_freshness``: outdated memories found in a recorded repository history."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from tools.evaluation.freshness import measure_history

FOLDER = settings.BASE_DIR / "fixtures" / "freshness"


class Command(BaseCommand):
    help = (
        "Play a recorded history of a repository into a temporary store, and print the share of outdated "
        "memories that the hub marks, and how many others it marks."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", nargs="?", type=Path, default=FOLDER, help="with history.jsonl and labels.json"
        )
        parser.add_argument("--details", action="store_true", help="list what was missed and false alarms")
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        result = measure_history(options["folder"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(result), indent=2))
            return
        outdated, others = len(result.found) + len(result.missed), len(result.false_alarms)
        self.stdout.write(
            f"found        {result.found_share:.0%}: {len(result.found)} of {outdated} outdated"
        )
        total = others + len(result.unmarked)
        self.stdout.write(f"false alarms {result.false_alarm_share:.0%}: {others} of {total} others")
        if result.missing:
            self.stdout.write(f"not captured {len(result.missing)}")
        if options["details"]:
            for name in ("missed", "false_alarms", "missing"):
                for headline in getattr(result, name):
                    self.stdout.write(f"{name.replace('_', ' ')}: {headline}")

"""``manage.py evaluate_secrets``: precision and recall of the detector over a labelled set."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import defaultdict
from typing import Any

from django.core.management.base import BaseCommand

from memoryhub.ops.checks import INSTALLATION
from memoryhub.security.secrets import find_secrets
from tools.secret_examples import Example, make_examples

HALVES = {"tuning": 0, "held-out": 1}
TYPICAL_LENGTH = 2000  # characters


class Command(BaseCommand):
    help = (
        "Run the detector of credentials over texts with and without one, put together at run time, and "
        "print recall, false alarms, precision and time, for the half that rules were tuned on and for the "
        "other."
    )
    requires_system_checks = [INSTALLATION]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--seed", type=int, default=7, help="other values in the same templates (default: 7)"
        )
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")
        parser.add_argument("--by-kind", action="store_true", help="print the recall of each kind")
        parser.add_argument("--show-misses", action="store_true", help="print kinds missed and false alarms")

    def handle(self, *args: Any, **options: Any) -> None:
        tried = [
            (one, [kind for kind, _ in find_secrets(one.text)]) for one in make_examples(options["seed"])
        ]
        figures = {
            name: _compute_figures([pair for pair in tried if pair[0].half == half])
            for name, half in HALVES.items()
        }
        figures["all"] = _compute_figures(tried)
        spent = _milliseconds([one for one, _ in tried])
        if options["json"]:
            self.stdout.write(json.dumps({**figures, "milliseconds_per_2000_characters": spent}, indent=2))
            return
        for name, told in figures.items():
            self.stdout.write(
                f"{name:9} recall {told['recall']:.2%} of {told['with']} texts of {told['kinds']} kinds, "
                f"precision {told['precision']:.2%}, "
                f"false alarms {told['false_alarms']} of {told['without']} texts without a credential"
            )
        self.stdout.write(f"{spent:.2f} ms of processor time for {TYPICAL_LENGTH} characters")
        if options["by_kind"]:
            self._tell_kinds(tried)
        if options["show_misses"]:
            self._tell_misses(tried)

    def _tell_kinds(self, tried: list[tuple[Example, list[str]]]) -> None:
        kinds: dict[str, list[bool]] = defaultdict(list)
        for one, found in tried:
            if one.kind:
                kinds[one.kind].append(bool(found))
        for kind, hits in sorted(kinds.items()):
            self.stdout.write(f"  {sum(hits):>3} of {len(hits):<3} {kind}")

    def _tell_misses(self, tried: list[tuple[Example, list[str]]]) -> None:
        for one, found in tried:
            if one.kind and not found:
                self.stdout.write(f"missed: {one.kind}: {_outline(one.text)}")
            elif found and not one.kind:
                self.stdout.write(f"false alarm: {', '.join(found)}: {_outline(one.text)}")


def _outline(text: str) -> str:
    """The text on one line. Its values are made up."""
    return text.replace("\n", "⏎")[:160]


def _compute_figures(tried: list[tuple[Example, list[str]]]) -> dict[str, Any]:
    hits = [bool(found) for one, found in tried if one.kind]
    alarms = sum(bool(found) for one, found in tried if not one.kind)
    return {
        "with": len(hits),
        "kinds": len({one.kind for one, _ in tried if one.kind}),
        "without": len(tried) - len(hits),
        "recall": sum(hits) / len(hits),
        "false_alarms": alarms,
        "precision": sum(hits) / (sum(hits) + alarms),
    }


def _milliseconds(shown: list[Example]) -> float:
    """Processor time for a typical text: what must pass, side by side in texts of this length."""
    whole = "\n".join(one.text for one in shown if not one.kind)
    texts = [whole[at : at + TYPICAL_LENGTH] for at in range(0, len(whole) - TYPICAL_LENGTH, TYPICAL_LENGTH)]
    began = time.process_time()
    for text in texts:
        find_secrets(text)
    return (time.process_time() - began) * 1000 / len(texts)

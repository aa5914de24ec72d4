"""``python -m tools evaluate_secrets``: precision and recall of secret detection on a labelled set."""

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
Result = tuple[Example, list[str]]  # an example, and the kinds of the secrets found in it


class Command(BaseCommand):
    help = (
        "Run the secret detector on generated texts with and without secrets, and print recall, false "
        "alarms, precision and time, for the half that the rules were tuned on and for the other half."
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
        results = [
            (example, [kind for kind, _ in find_secrets(example.text)])
            for example in make_examples(options["seed"])
        ]
        figures = {
            name: _compute_figures([result for result in results if result[0].half == half])
            for name, half in HALVES.items()
        }
        figures["all"] = _compute_figures(results)
        spent = _milliseconds([example for example, _ in results])
        if options["json"]:
            self.stdout.write(json.dumps({**figures, "milliseconds_per_2000_characters": spent}, indent=2))
            return
        for name, values in figures.items():
            self.stdout.write(
                f"{name:9} recall {values['recall']:.2%} of {values['with']} texts "
                f"of {values['kinds']} kinds, precision {values['precision']:.2%}, "
                f"false alarms {values['false_alarms']} of {values['without']} texts without a credential"
            )
        self.stdout.write(f"{spent:.2f} ms of processor time for {TYPICAL_LENGTH} characters")
        if options["by_kind"]:
            self._print_kinds(results)
        if options["show_misses"]:
            self._print_mistakes(results)

    def _print_kinds(self, results: list[Result]) -> None:
        kinds: dict[str, list[bool]] = defaultdict(list)
        for example, found in results:
            if example.kind:
                kinds[example.kind].append(bool(found))
        for kind, hits in sorted(kinds.items()):
            self.stdout.write(f"  {sum(hits):>3} of {len(hits):<3} {kind}")

    def _print_mistakes(self, results: list[Result]) -> None:
        for example, found in results:
            line = example.text.replace("\n", "⏎")[:160]
            if example.kind and not found:
                self.stdout.write(f"missed: {example.kind}: {line}")
            elif found and not example.kind:
                self.stdout.write(f"false alarm: {', '.join(found)}: {line}")


def _compute_figures(results: list[Result]) -> dict[str, Any]:
    hits = [bool(found) for example, found in results if example.kind]
    alarms = sum(bool(found) for example, found in results if not example.kind)
    return {
        "with": len(hits),
        "kinds": len({example.kind for example, _ in results if example.kind}),
        "without": len(results) - len(hits),
        "recall": sum(hits) / len(hits),
        "false_alarms": alarms,
        "precision": sum(hits) / (sum(hits) + alarms),
    }


def _milliseconds(examples: list[Example]) -> float:
    """Return the processor time for a text of typical length, made of examples without secrets."""
    whole = "\n".join(example.text for example in examples if not example.kind)
    texts = [whole[at : at + TYPICAL_LENGTH] for at in range(0, len(whole) - TYPICAL_LENGTH, TYPICAL_LENGTH)]
    start = time.process_time()
    for text in texts:
        find_secrets(text)
    return (time.process_time() - start) * 1000 / len(texts)

"""``python -m tools evaluate_prompt_injection``: precision and recall on labelled texts."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.ops.checks import INSTALLATION
from tools.prompt_injection.evaluation import (
    HALVES,
    TYPICAL_LENGTH,
    LabelledText,
    Outcome,
    Score,
    compute_score,
    compute_scores_by,
    default_sets,
    inspect_samples,
    load_samples,
    seconds_per_typical_text,
)


class Command(BaseCommand):
    help = (
        "Run the prompt-injection detector on labelled injections and ordinary memories, and print recall, "
        "false alarms and precision by kind and by language."
    )
    requires_system_checks = [INSTALLATION]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files",
            nargs="*",
            type=Path,
            help="JSON lines with text, label, kind, language (default: fixtures/governor)",
        )
        parser.add_argument(
            "--set", choices=(*HALVES, "all"), default="all", help="which half of the texts (default: all)"
        )
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")
        parser.add_argument(
            "--show-misses", action="store_true", help="print missed injections and false alarms with reasons"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        samples = _load_samples(options["files"], options["set"])
        outcomes = inspect_samples(samples)
        figures = _collect_figures(outcomes, samples)
        if options["json"]:
            self.stdout.write(json.dumps(figures, indent=2))
        else:
            self._print_tables(
                outcomes, figures["milliseconds_per_text"], figures["milliseconds_per_2000_characters"]
            )
        if options["show_misses"]:
            for outcome in outcomes:
                if outcome.wrong:
                    self.stderr.write(_format_mistake(outcome))

    def _print_tables(self, outcomes: list[Outcome], per_text: float, per_typical: float) -> None:
        groups: list[tuple[str, dict[str, Score]]] = [
            (
                "half",
                {**compute_scores_by(outcomes, lambda sample: sample.half), "all": compute_score(outcomes)},
            ),
            ("kind", compute_scores_by(outcomes, lambda sample: f"{sample.label} {sample.kind}")),
            ("language", compute_scores_by(outcomes, lambda sample: sample.language)),
        ]
        for title, scores in groups:
            self.stdout.write(
                f"{title:24}{'caught':>13}{'recall':>9}{'alarms':>13}{'rate':>9}{'precision':>11}"
            )
            for name, score in scores.items():
                self.stdout.write(_format_row(name, score))
            self.stdout.write("")
        self.stdout.write(f"{per_text:.2f} ms a text, {per_typical:.2f} ms for {TYPICAL_LENGTH} characters")


def _load_samples(files: list[Path], half: str) -> list[LabelledText]:
    own = Path(settings.BASE_DIR) / "fixtures" / "governor"
    try:
        samples = load_samples(files or default_sets(own))
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    chosen = [sample for sample in samples if half in ("all", sample.half)]
    if not chosen:
        raise CommandError(
            "No labelled texts: name a file of JSON lines with text, label, kind and language."
        )
    return chosen


def _collect_figures(outcomes: list[Outcome], samples: list[LabelledText]) -> dict[str, Any]:
    typical = seconds_per_typical_text(samples)
    characters = sum(len(sample.text) for sample in samples)
    return {
        "all": _to_rates(compute_score(outcomes)),
        "half": {
            name: _to_rates(score) for name, score in compute_scores_by(outcomes, lambda s: s.half).items()
        },
        "kind": {
            name: _to_rates(score)
            for name, score in compute_scores_by(outcomes, lambda s: f"{s.label} {s.kind}").items()
        },
        "language": {
            name: _to_rates(score)
            for name, score in compute_scores_by(outcomes, lambda s: s.language).items()
        },
        "milliseconds_per_text": round(typical * characters / TYPICAL_LENGTH / len(samples) * 1000, 3),
        "milliseconds_per_2000_characters": round(typical * 1000, 3),
    }


def _to_rates(score: Score) -> dict[str, float]:
    rates = {"recall": score.recall, "precision": score.precision, "alarm_rate": score.alarm_rate}
    return {**asdict(score), **{name: round(rate, 4) for name, rate in rates.items()}}


def _format_row(name: str, score: Score) -> str:
    """Return one line of a table. Cells without a value are blank."""
    caught = f"{score.caught}/{score.injections}" if score.injections else ""
    recall = f"{score.recall:.1%}" if score.injections else ""
    alarms = f"{score.alarms}/{score.ordinary}" if score.ordinary else ""
    rate = f"{score.alarm_rate:.2%}" if score.ordinary else ""
    precision = f"{score.precision:.1%}" if score.injections and score.ordinary else ""
    return f"{name:24}{caught:>13}{recall:>9}{alarms:>13}{rate:>9}{precision:>11}".rstrip()


def _format_mistake(outcome: Outcome) -> str:
    sample = outcome.sample
    mistake = "missed" if sample.label == "injection" else "alarm "
    reasons = f"  [{'; '.join(outcome.reasons)}]" if outcome.reasons else ""
    text = json.dumps(sample.text, ensure_ascii=False)[:300]
    return f"{mistake} {sample.kind}/{sample.language} {text}{reasons}"

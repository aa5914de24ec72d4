"""``python -m tools train_prompt_injection``: train the classifier on the labelled texts."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.ops.checks import INSTALLATION
from memoryhub.security.prompt_injection.classifier import WEIGHTS_FILE
from tools.prompt_injection.composing import compose_texts
from tools.prompt_injection.evaluation import LabelledText, default_sets, load_samples
from tools.prompt_injection.training import save_model, train_model


class Command(BaseCommand):
    help = (
        "Train the classifier of prompt injections on the labelled texts, without their unseen half. "
        "The same texts give the same weights."
    )
    requires_system_checks = [INSTALLATION]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--output", type=Path, default=WEIGHTS_FILE, help="the file (default: the one in use)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        base = Path(settings.BASE_DIR)
        try:
            samples = _load_training_samples(base / "fixtures" / "governor")
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        model = train_model(samples)
        try:
            save_model(model, options["output"])
        except OSError as error:
            raise CommandError(f"cannot write {options['output']}: {error.strerror}") from error
        self.stdout.write(
            f"{(model.table != 0).sum()} weights from {len(samples)} labelled texts: {options['output']}"
        )


def _load_training_samples(folder: Path) -> list[LabelledText]:
    known = [sample for sample in load_samples(default_sets(folder)) if sample.half == "dev"]
    training = folder / "training"
    composed = compose_texts(sorted(training.glob("*.toml")))
    return known + load_samples(sorted(training.glob("*.jsonl"))) + composed

"""``python -m tools train_prompt_injection``: train the weights of the wording on the labelled texts."""

from __future__ import annotations

import ast
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.ops.checks import INSTALLATION
from memoryhub.security.prompt_injection.weights import WEIGHTS_FILE
from tools.prompt_injection.evaluation import LabelledText, load_samples
from tools.prompt_injection.training import save_model, train_model

MIN_PASSAGE_LENGTH = 30  # characters of a passage of documentation


class Command(BaseCommand):
    help = (
        "Train the weights of the wording on the labelled texts, without their unseen half, and on the "
        "documentation as ordinary text. The same texts give the same weights."
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
        ordinary = sorted({*_documentation_passages(base / "docs"), *_docstrings(base / "memoryhub")})
        model = train_model(samples, ordinary)
        try:
            save_model(model, options["output"])
        except OSError as error:
            raise CommandError(f"cannot write {options['output']}: {error.strerror}") from error
        self.stdout.write(
            f"{len(model.weights)} weights from {len(samples)} labelled texts and {len(ordinary)} passages of"
            f" documentation: {options['output']}"
        )


def _load_training_samples(folder: Path) -> list[LabelledText]:
    known = [sample for sample in load_samples(sorted(folder.glob("*.jsonl"))) if sample.half == "dev"]
    return known + load_samples(sorted((folder / "training").glob("*.jsonl")))


def _documentation_passages(folder: Path) -> Iterator[str]:
    """Yield paragraphs of the documentation, except the page that quotes prompt injections."""
    for path in sorted(folder.glob("*.md")):
        if path.stem != "governor":
            yield from (
                text for text in path.read_text("utf-8").split("\n\n") if len(text) >= MIN_PASSAGE_LENGTH
            )


def _docstrings(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        if "prompt_injection" in path.as_posix():
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) >= MIN_PASSAGE_LENGTH:
                    yield text

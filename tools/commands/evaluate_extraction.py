"""``python -m tools evaluate_extraction``: precision and recall of the rules on labelled conversations."""

from __future__ import annotations

import tomllib
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memoryhub.extraction.comparison import Candidate
from memoryhub.extraction.conversation import InvalidTranscript, parse_turns, read_transcript
from memoryhub.extraction.rules import extract
from memoryhub.management import shown


@dataclass(frozen=True)
class Label:
    """Something worth keeping. A candidate that contains all ``words``, in any case, expresses it."""

    categories: tuple[str, ...]
    words: tuple[str, ...]
    says: str

    def fits(self, candidate: Candidate) -> bool:
        text = candidate.content.casefold()
        return all(word.casefold() in text for word in self.words)


@dataclass
class Result:
    """The candidates of a conversation. ``wrong``: those that fit no label that is still open."""

    name: str
    part: str
    right: list[tuple[Label, Candidate]] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    wrong: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    """The figures of conversations. ``in_category``: share of right candidates with an expected category."""

    labels: int
    found: int
    precision: float
    recall: float
    in_category: float


def _compare(name: str, part: str, labels: Sequence[Label], candidates: Iterable[Candidate]) -> Result:
    result = Result(name, part)
    open_labels = list(labels)
    for candidate in candidates:
        fitting = [label for label in open_labels if label.fits(candidate)]
        if not fitting:
            result.wrong.append(candidate)
        for label in fitting:  # a sentence can fit two labels
            result.right.append((label, candidate))
            open_labels.remove(label)
    result.missed = open_labels
    return result


def evaluate(folder: Path) -> list[Result]:
    """Extract from all conversations of a folder with ``labels.toml``, and compare with the labels."""
    with (folder / "labels.toml").open("rb") as file:
        table = tomllib.load(file)
    results = []
    for row in table["conversation"]:
        labels = [Label(tuple(k["category"].split()), tuple(k["words"]), k["says"]) for k in row["keep"]]
        candidates = extract(parse_turns(read_transcript(folder / f"{row['name']}.txt")))
        results.append(_compare(row["name"], row.get("part", "tuned"), labels, candidates))
    return results


def figures(results: Sequence[Result]) -> Figures:
    """Return the figures over all conversations. Precision is 1 without candidates, recall without labels."""
    right = [pair for result in results for pair in result.right]
    fitting = len({id(candidate) for _, candidate in right})
    found = fitting + sum(len(result.wrong) for result in results)
    labels = len(right) + sum(len(result.missed) for result in results)
    in_category = sum(candidate.category in label.categories for label, candidate in right)
    return Figures(
        labels,
        found,
        fitting / found if found else 1.0,
        len(right) / labels if labels else 1.0,
        in_category / len(right) if right else 1.0,
    )


class Command(BaseCommand):
    help = (
        "Extract memories from labelled conversations with the rules. Print precision (share of candidates "
        "that are worth keeping) and recall (share of labels that were found). No store is touched."
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
        parser.add_argument("--details", action="store_true", help="list missed labels and wrong candidates")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"] or Path(settings.BASE_DIR) / "fixtures" / "conversations"
        try:
            results = evaluate(folder)
        except (OSError, ValueError, KeyError, InvalidTranscript) as error:
            raise CommandError(f"{folder} cannot be evaluated: {type(error).__name__}: {error}") from None
        for result in results if options["details"] else ():
            self._print_details(result)
        for part in dict.fromkeys(result.part for result in results):
            self._print_figures(part, [result for result in results if result.part == part])
        self._print_figures("all", results)

    def _print_details(self, result: Result) -> None:
        self.stdout.write(f"{result.name}: {len(result.right)} right")
        for label in result.missed:
            self.stdout.write(f"  missed: {label.says}")
        for candidate in result.wrong:
            self.stdout.write(f"  wrong:  {candidate.category}: {shown(candidate.content, 120)}")

    def _print_figures(self, name: str, results: list[Result]) -> None:
        found = figures(results)
        self.stdout.write(
            f"{name:9} {len(results):3} conversations, {found.labels:3} labels, {found.found:3} candidates: "
            f"precision {found.precision:.2f}, recall {found.recall:.2f}, "
            f"right category {found.in_category:.2f}"
        )

"""How well the rules do on labelled conversations: precision and recall. Pure but for reading the files.

``manage.py evaluate_extraction``: what the rules find in labelled conversations.
"""

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
from memoryhub.management.operator import shown


@dataclass(frozen=True)
class Label:
    """What is worth keeping. ``words``: a candidate that says it holds all of them, in any case."""

    categories: tuple[str, ...]
    words: tuple[str, ...]
    says: str

    def fits(self, candidate: Candidate) -> bool:
        text = candidate.content.casefold()
        return all(word.casefold() in text for word in self.words)


@dataclass
class Judged:
    """One conversation; ``part``: its set. ``wrong``: what fits no label, or one that was met already."""

    name: str
    part: str
    right: list[tuple[Label, Candidate]] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    wrong: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    """``in_category``: share of the right ones that are in a category of their label."""

    labels: int
    found: int
    precision: float
    recall: float
    in_category: float


def judge(name: str, part: str, labels: Sequence[Label], found: Iterable[Candidate]) -> Judged:
    judged = Judged(name, part)
    open_labels = list(labels)
    for candidate in found:
        fitting = [label for label in open_labels if label.fits(candidate)]
        if not fitting:
            judged.wrong.append(candidate)
        for label in fitting:  # one sentence may say two things
            judged.right.append((label, candidate))
            open_labels.remove(label)
    judged.missed = open_labels
    return judged


def evaluate(folder: Path) -> list[Judged]:
    """All conversations of a folder with ``labels.toml``; OSError and ValueError when it cannot be read."""
    with (folder / "labels.toml").open("rb") as file:
        table = tomllib.load(file)
    judged = []
    for row in table["conversation"]:
        labels = [Label(tuple(k["category"].split()), tuple(k["words"]), k["says"]) for k in row["keep"]]
        found = extract(parse_turns(read_transcript(folder / f"{row['name']}.txt")))
        judged.append(judge(row["name"], row.get("part", "tuned"), labels, found))
    return judged


def figures(judged: Iterable[Judged]) -> Figures:
    """Over all of them together. Nothing found is precise, nothing to be found is all found."""
    judged = list(judged)
    right = [pair for one in judged for pair in one.right]
    told = len({id(candidate) for _, candidate in right})
    wrong = sum(len(one.wrong) for one in judged)
    labels = len(right) + sum(len(one.missed) for one in judged)
    fitting = sum(candidate.category in label.categories for label, candidate in right)
    return Figures(
        labels,
        told + wrong,
        told / (told + wrong) if told + wrong else 1.0,
        len(right) / labels if labels else 1.0,
        fitting / len(right) if right else 1.0,
    )


class Command(BaseCommand):
    help = (
        "Read labelled conversations by the rules and print precision (how many of the candidates are worth "
        "keeping) and recall (how much of what is worth keeping was found). No store is touched."
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
        parser.add_argument("--details", action="store_true", help="print what was missed and what was wrong")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"] or Path(settings.BASE_DIR) / "fixtures" / "conversations"
        try:
            judged = evaluate(folder)
        except (OSError, ValueError, KeyError, InvalidTranscript) as error:
            raise CommandError(f"{folder} cannot be evaluated: {type(error).__name__}: {error}") from None
        for one in judged if options["details"] else ():
            self._tell(one)
        for name in dict.fromkeys(one.part for one in judged):
            self._sum(name, [one for one in judged if one.part == name])
        self._sum("all", judged)

    def _tell(self, one: Judged) -> None:
        self.stdout.write(f"{one.name}: {len(one.right)} right")
        for label in one.missed:
            self.stdout.write(f"  missed: {label.says}")
        for candidate in one.wrong:
            self.stdout.write(f"  wrong:  {candidate.category}: {shown(candidate.content, 120)}")

    def _sum(self, name: str, judged: list[Judged]) -> None:
        found = figures(judged)
        self.stdout.write(
            f"{name:9} {len(judged):3} conversations, {found.labels:3} labels, {found.found:3} candidates: "
            f"precision {found.precision:.2f}, recall {found.recall:.2f}, "
            f"right category {found.in_category:.2f}"
        )

"""How well the rules do on labelled conversations: precision and recall. Pure but for reading the files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memoryhub.extraction.candidates import Candidate
from memoryhub.extraction.conversation import turns
from memoryhub.extraction.rules import extract
from memoryhub.extraction.transcripts import read


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
        found = extract(turns(read(folder / f"{row['name']}.txt")))
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

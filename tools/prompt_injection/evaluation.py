"""Evaluation of prompt-injection detection on labelled texts: precision, recall, false alarms. No Django.

A labelled set is a file of JSON lines ``{"text", "label", "kind", "language"}``. The label is ``injection``
or ``ordinary``. Each set has two halves: authors of rules may look at the ``dev`` half and measure on the
``unseen`` one. A line may name its ``half``; otherwise a hash of the text decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter

from memoryhub.security.prompt_injection import inspect

LABELS = ("injection", "ordinary")
HALVES = ("dev", "unseen")
TYPICAL_LENGTH = 2000  # characters; times are reported for a text of this length


@dataclass(frozen=True)
class LabelledText:
    """A text with its label."""

    text: str
    label: str
    kind: str
    language: str
    half: str = ""  # ``dev`` or ``unseen``
    weight: float = 1.0  # in training

    def __post_init__(self) -> None:
        if not self.half:
            digest = sha256(self.text.encode("utf-8", "surrogatepass")).digest()
            object.__setattr__(self, "half", HALVES[digest[0] % 2])


@dataclass(frozen=True)
class Outcome:
    """The result for a text. ``flagged``: something was removed. ``touched``: anything was changed."""

    sample: LabelledText
    flagged: bool
    touched: bool
    reasons: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        """Return True for a missed injection, and for an ordinary text from which something was removed."""
        return not self.touched if self.sample.label == "injection" else self.flagged


@dataclass(frozen=True)
class Score:
    """Counts of outcomes, and rates from 0 to 1. Without injections, recall is 1."""

    injections: int
    caught: int
    ordinary: int
    alarms: int

    @property
    def recall(self) -> float:
        return self.caught / self.injections if self.injections else 1.0

    @property
    def precision(self) -> float:
        return self.caught / (self.caught + self.alarms) if self.caught + self.alarms else 1.0

    @property
    def alarm_rate(self) -> float:
        return self.alarms / self.ordinary if self.ordinary else 0.0


def default_sets(folder: Path) -> list[Path]:
    """Return the labelled sets of a folder, without those that are only for training."""
    return sorted([*folder.glob("*.jsonl"), *folder.glob("varied/*.jsonl")])


def load_samples(paths: Iterable[Path]) -> list[LabelledText]:
    """Load labelled texts. A wrong line raises a ValueError with its file and number."""
    found: list[LabelledText] = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                sample = LabelledText(
                    row["text"], row["label"], row["kind"], row["language"], row.get("half", "")
                )
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{number}: not a labelled text: {error}") from error
            if sample.label not in LABELS:
                raise ValueError(f"{path}:{number}: label must be one of {', '.join(LABELS)}")
            if sample.half not in HALVES:
                raise ValueError(f"{path}:{number}: half must be one of {', '.join(HALVES)}")
            found.append(sample)
    return found


def inspect_samples(samples: Iterable[LabelledText]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for sample in samples:
        verdict = inspect(sample.text)
        reasons = tuple(f"{finding.kind}: {finding.reason}" for finding in verdict.findings)
        outcomes.append(Outcome(sample, verdict.flagged, bool(verdict.findings), reasons))
    return outcomes


def compute_score(outcomes: Iterable[Outcome]) -> Score:
    """Count the outcomes. An injection is caught if anything in it was changed."""
    outcomes = list(outcomes)
    injections = [outcome for outcome in outcomes if outcome.sample.label == "injection"]
    ordinary = [outcome for outcome in outcomes if outcome.sample.label == "ordinary"]
    return Score(
        len(injections),
        sum(not outcome.wrong for outcome in injections),
        len(ordinary),
        sum(outcome.wrong for outcome in ordinary),
    )


def compute_scores_by(outcomes: Iterable[Outcome], group: Callable[[LabelledText], str]) -> dict[str, Score]:
    """Return the score of each group, sorted by name."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group(outcome.sample), []).append(outcome)
    return {name: compute_score(groups[name]) for name in sorted(groups)}


def seconds_per_typical_text(samples: list[LabelledText]) -> float:
    """Return the seconds for a text of 2000 characters with warm caches; 0 without samples."""
    size = sum(len(sample.text) for sample in samples)
    if not size:
        return 0.0
    inspect_samples(samples)
    start = perf_counter()
    inspect_samples(samples)
    return (perf_counter() - start) / size * TYPICAL_LENGTH

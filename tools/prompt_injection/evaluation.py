"""How well the governor does on labelled texts: precision, recall, false alarms, by kind and language. Pure.

A labelled set is a file of JSON lines ``{"text", "label", "kind", "language"}``, the label ``injection`` or
``ordinary``. A hash of the text parts each set in two halves: rules are written with the ``dev`` half in
sight and measured on the ``unseen`` one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter

from memoryhub.security.prompt_injection.inspection import inspect

LABELS = ("injection", "ordinary")
HALVES = ("dev", "unseen")
TYPICAL_LENGTH = 2000  # characters: the time is told for a text of this length


@dataclass(frozen=True)
class LabelledText:
    """A text, and what it is."""

    text: str
    label: str
    kind: str
    language: str

    @property
    def half(self) -> str:
        """``dev`` or ``unseen``, by a hash of the text."""
        return HALVES[sha256(self.text.encode("utf-8", "surrogatepass")).digest()[0] % 2]


@dataclass(frozen=True)
class Outcome:
    """What the governor made of a text. ``flagged``: removed something; ``touched``: changed anything."""

    sample: LabelledText
    flagged: bool
    touched: bool
    reasons: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        """A missed injection, or an ordinary text of which something was removed."""
        return not self.touched if self.sample.label == "injection" else self.flagged


@dataclass(frozen=True)
class Score:
    """Counts of outcomes, and the rates drawn from them (0..1; 1 precision and recall of nothing)."""

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


def load_samples(paths: Iterable[Path]) -> list[LabelledText]:
    """The labelled texts of these files; ValueError with file and line for a line that is none."""
    found: list[LabelledText] = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                sample = LabelledText(row["text"], row["label"], row["kind"], row["language"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}:{number}: not a labelled text: {error}") from error
            if sample.label not in LABELS:
                raise ValueError(f"{path}:{number}: label must be one of {', '.join(LABELS)}")
            found.append(sample)
    return found


def inspect_samples(samples: Iterable[LabelledText]) -> list[Outcome]:
    """The governor's verdict on each."""
    outcomes: list[Outcome] = []
    for sample in samples:
        verdict = inspect(sample.text)
        reasons = tuple(f"{finding.kind}: {finding.reason}" for finding in verdict.findings)
        outcomes.append(Outcome(sample, verdict.flagged, bool(verdict.findings), reasons))
    return outcomes


def compute_score(outcomes: Iterable[Outcome]) -> Score:
    """Counts over outcomes. An injection is caught when anything of it was changed."""
    known = list(outcomes)
    injections = [outcome for outcome in known if outcome.sample.label == "injection"]
    ordinary = [outcome for outcome in known if outcome.sample.label == "ordinary"]
    return Score(
        len(injections),
        sum(not outcome.wrong for outcome in injections),
        len(ordinary),
        sum(outcome.wrong for outcome in ordinary),
    )


def compute_scores_by(outcomes: Iterable[Outcome], group: Callable[[LabelledText], str]) -> dict[str, Score]:
    """The score of each group, in the order of its name."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group(outcome.sample), []).append(outcome)
    return {name: compute_score(groups[name]) for name in sorted(groups)}


def seconds_per_typical_text(samples: list[LabelledText]) -> float:
    """Seconds for a text of 2000 characters, when words have been met before; 0 without samples."""
    size = sum(len(sample.text) for sample in samples)
    if not size:
        return 0.0
    inspect_samples(samples)
    begun = perf_counter()
    inspect_samples(samples)
    return (perf_counter() - begun) / size * TYPICAL_LENGTH

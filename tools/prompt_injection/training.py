"""Learning the weights of the wording from labelled texts: logistic regression, the same each time. Pure."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from pathlib import Path

from memoryhub.security.prompt_injection.normalise import normalise
from memoryhub.security.prompt_injection.tokens import read
from memoryhub.security.prompt_injection.weights import SMOOTH, Model, features
from tools.prompt_injection.evaluation import Labelled

ROUNDS = 8
RATE = 0.5
LEAST = 0.05  # weights nearer to 0 are left out
# Kinds whose texts are mostly something else than an order in plain words.
UNFIT = frozenset({"indirect", "obfuscated", "markup", "role"})


def features_of(text: str) -> set[str]:
    """The features of a whole text."""
    plain = normalise(text)
    return features(plain.text, read(plain, text).symbols)


def train(samples: Iterable[Labelled], ordinary: Iterable[str]) -> Model:
    """The model of labelled texts, and of plain documentation as further ordinary texts."""
    examples = [
        (sorted(features_of(sample.text)), sample.label == "injection")
        for sample in samples
        if sample.kind not in UNFIT
    ]
    examples += [(sorted(features_of(text)), False) for text in ordinary]
    weights: dict[str, float] = {}
    steps: dict[str, float] = {}
    bias = 0.0
    shuffle = random.Random(0).shuffle
    for _ in range(ROUNDS):
        shuffle(examples)
        for names, wanted in examples:
            bias -= 0.02 * _learn(names, wanted, bias, weights, steps)
    kept = {name: round(weight, 2) for name, weight in sorted(weights.items()) if abs(weight) >= LEAST}
    return Model(round(bias, 3), kept)


def _learn(
    names: list[str], wanted: bool, bias: float, weights: dict[str, float], steps: dict[str, float]
) -> float:
    """One step towards one example (AdaGrad); how far off it was."""
    share = 1 / math.sqrt(len(names) + SMOOTH)
    score = bias + sum(weights.get(name, 0.0) for name in names) * share
    off = 1 / (1 + math.exp(-max(-30.0, min(30.0, score)))) - wanted
    for name in names:
        slope = off * share
        steps[name] = steps.get(name, 0.01) + slope * slope
        weights[name] = weights.get(name, 0.0) - RATE * slope / math.sqrt(steps[name])
    return off


def save(model: Model, path: Path) -> None:
    """The model as JSON, one weight a line, so that a change can be read."""
    lines = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}: {weight}" for name, weight in model.weights.items()
    )
    path.write_text(f'{{"bias": {model.bias}, "weights": {{\n{lines}\n}}}}\n', "utf-8")

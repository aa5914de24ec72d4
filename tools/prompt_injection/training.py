"""Learning the weights of the wording from labelled texts: logistic regression, the same each time. Pure."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from pathlib import Path

from memoryhub.security.prompt_injection.normalisation import normalise
from memoryhub.security.prompt_injection.tokeniser import tokenise
from memoryhub.security.prompt_injection.weights import SMOOTHING, WordingModel, extract_features
from tools.prompt_injection.evaluation import LabelledText

ROUNDS = 8
LEARNING_RATE = 0.5
MIN_WEIGHT = 0.05  # weights nearer to 0 are left out
# Kinds whose texts are mostly something else than an order in plain words.
EXCLUDED_KINDS = frozenset({"indirect", "obfuscated", "markup", "role"})


def extract_text_features(text: str) -> set[str]:
    """The features of a whole text."""
    plain = normalise(text)
    return extract_features(plain.text, tokenise(plain, text).symbols)


def train_model(samples: Iterable[LabelledText], ordinary: Iterable[str]) -> WordingModel:
    """The model of labelled texts, and of plain documentation as further ordinary texts."""
    examples = [
        (sorted(extract_text_features(sample.text)), sample.label == "injection")
        for sample in samples
        if sample.kind not in EXCLUDED_KINDS
    ]
    examples += [(sorted(extract_text_features(text)), False) for text in ordinary]
    weights: dict[str, float] = {}
    steps: dict[str, float] = {}
    bias = 0.0
    shuffle = random.Random(0).shuffle
    for _ in range(ROUNDS):
        shuffle(examples)
        for names, wanted in examples:
            bias -= 0.02 * _learn_example(names, wanted, bias, weights, steps)
    kept = {name: round(weight, 2) for name, weight in sorted(weights.items()) if abs(weight) >= MIN_WEIGHT}
    return WordingModel(round(bias, 3), kept)


def _learn_example(
    names: list[str], wanted: bool, bias: float, weights: dict[str, float], steps: dict[str, float]
) -> float:
    """One step towards one example (AdaGrad); how far off it was."""
    share = 1 / math.sqrt(len(names) + SMOOTHING)
    score = bias + sum(weights.get(name, 0.0) for name in names) * share
    off = 1 / (1 + math.exp(-max(-30.0, min(30.0, score)))) - wanted
    for name in names:
        slope = off * share
        steps[name] = steps.get(name, 0.01) + slope * slope
        weights[name] = weights.get(name, 0.0) - LEARNING_RATE * slope / math.sqrt(steps[name])
    return off


def save_model(model: WordingModel, path: Path) -> None:
    """The model as JSON, one weight a line, so that a change can be read."""
    lines = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}: {weight}" for name, weight in model.weights.items()
    )
    path.write_text(f'{{"bias": {model.bias}, "weights": {{\n{lines}\n}}}}\n', "utf-8")

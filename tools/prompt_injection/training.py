"""Training of the weights of the wording: deterministic logistic regression. No Django."""

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
MIN_WEIGHT = 0.05  # smaller weights are dropped
# Kinds of which most texts are not plain words.
EXCLUDED_KINDS = frozenset({"indirect", "obfuscated", "markup", "role"})


def extract_text_features(text: str) -> set[str]:
    plain = normalise(text)
    return extract_features(plain.text, tokenise(plain, text).symbols)


def train_model(samples: Iterable[LabelledText], ordinary: Iterable[str]) -> WordingModel:
    """Train a model. ``ordinary``: further ordinary texts, such as documentation."""
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
        for names, is_injection in examples:
            bias -= 0.02 * _learn_example(names, is_injection, bias, weights, steps)
    kept = {name: round(weight, 2) for name, weight in sorted(weights.items()) if abs(weight) >= MIN_WEIGHT}
    return WordingModel(round(bias, 3), kept)


def _learn_example(
    names: list[str], is_injection: bool, bias: float, weights: dict[str, float], steps: dict[str, float]
) -> float:
    """Adapt the weights to one example with AdaGrad, and return the error before."""
    share = 1 / math.sqrt(len(names) + SMOOTHING)
    score = bias + sum(weights.get(name, 0.0) for name in names) * share
    error = 1 / (1 + math.exp(-max(-30.0, min(30.0, score)))) - is_injection
    for name in names:
        slope = error * share
        steps[name] = steps.get(name, 0.01) + slope * slope
        weights[name] = weights.get(name, 0.0) - LEARNING_RATE * slope / math.sqrt(steps[name])
    return error


def save_model(model: WordingModel, path: Path) -> None:
    """Write the model as JSON with one weight per line, so that diffs are readable."""
    lines = ",\n".join(
        f"{json.dumps(name, ensure_ascii=False)}: {weight}" for name, weight in model.weights.items()
    )
    path.write_text(f'{{"bias": {model.bias}, "weights": {{\n{lines}\n}}}}\n', "utf-8")

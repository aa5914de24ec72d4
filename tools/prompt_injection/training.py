"""Training of the classifier: logistic regression in numpy. The same texts give the same weights. No Django.

The units of a text are its sentences and its passages. Every unit of an ordinary text is ordinary. Of a long
injection only some units are an order, and the labels do not say which: after the first round, those with
the highest scores count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memoryhub.security.prompt_injection.classifier import (
    TABLE_BITS,
    Classifier,
    Features,
    Floats,
    HashedText,
    Integers,
)
from memoryhub.security.prompt_injection.detector import split_units
from memoryhub.security.prompt_injection.normalisation import normalise
from memoryhub.security.prompt_injection.tokeniser import tokenise
from tools.prompt_injection.evaluation import LabelledText

ROUNDS = 2
STEPS = 80  # of gradient descent in a round
LEARNING_RATE = 0.08
DECAY = 2e-6
MOMENTUM, SQUARED_MOMENTUM = 0.9, 0.99  # of the Adam optimiser
CAUTION = 0.5  # points that every score loses, so that few ordinary texts are removed
MAX_UNITS = 3  # units of an injection that all count as orders; of longer ones, a quarter
# Kinds of which most texts are not plain words.
EXCLUDED_KINDS = frozenset({"indirect", "obfuscated", "markup", "role", "encoded"})


@dataclass(frozen=True)
class Example:
    """A labelled text and its weight, with the buckets, the values and the scale of each unit."""

    is_injection: bool
    weight: float
    units: list[tuple[Integers, Floats, float]]


@dataclass
class Model:
    """The weights during training."""

    bias: float
    table: Floats


def extract_units(text: str) -> list[Features]:
    """Return the features of the sentences of a text, and of its passages if it has several sentences."""
    plain = normalise(text)
    line = tokenise(plain, text)
    sentences, passages = split_units(plain.text, line)
    hashed = HashedText(plain.text, line)
    return [hashed.features(units) for units in (sentences, passages)[: min(len(sentences), 2)]]


def train_model(samples: Sequence[LabelledText]) -> Classifier:
    """Train a classifier on labelled texts."""
    kinds = {label: EXCLUDED_KINDS if label == "injection" else () for label in ("injection", "ordinary")}
    examples = [_to_example(sample) for sample in samples if sample.kind not in kinds[sample.label]]
    examples = [example for example in examples if example.units]
    model: Model | None = None
    for _ in range(ROUNDS):
        model = _fit(*_select_units(examples, model))
    assert model
    unit = float(np.abs(model.table).max()) / 127 or 1.0
    return Classifier(
        round(model.bias - CAUTION, 6), round(unit, 8), np.round(model.table / unit).astype(np.int8)
    )


def save_model(model: Classifier, path: Path) -> None:
    np.savez_compressed(path, bias=model.bias, unit=model.unit, table=model.table)


def _to_example(sample: LabelledText) -> Example:
    units: list[tuple[Integers, Floats, float]] = []
    for found in extract_units(sample.text):
        cuts = np.searchsorted(found.units, np.arange(1, len(found.scales)))
        buckets, values = np.split(found.buckets, cuts), np.split(found.values, cuts)
        units += zip(buckets, values, found.scales.tolist(), strict=True)
    return Example(sample.label == "injection", sample.weight, units)


def _select_units(
    examples: Sequence[Example], model: Model | None
) -> tuple[list[tuple[Integers, Floats, float]], Floats, Floats]:
    """Return the units to learn from, whether each is an order (0 or 1), and its weight."""
    units: list[tuple[Integers, Floats, float]] = []
    labels: list[float] = []
    weights: list[float] = []
    for example in examples:
        selected = example.units
        weight = 1 / np.sqrt(len(selected))
        if example.is_injection:
            selected = _likely_orders(example.units, model)
            weight = example.weight / len(selected)
        units += selected
        labels += [float(example.is_injection)] * len(selected)
        weights += [weight] * len(selected)
    return units, np.array(labels), np.array(weights)


def _likely_orders(
    units: list[tuple[Integers, Floats, float]], model: Model | None
) -> list[tuple[Integers, Floats, float]]:
    if len(units) <= MAX_UNITS:
        return units
    if model is None:
        return units[-1:]  # the last passage
    table = model.table
    scores = [table[buckets] @ values * scale for buckets, values, scale in units]
    best = np.argsort(-np.array(scores), kind="stable")[: max(1, len(units) // 4)]
    return [units[place] for place in best]


def _fit(units: list[tuple[Integers, Floats, float]], labels: Floats, weights: Floats) -> Model:
    """Minimise the weighted logistic loss with Adam. The whole set is one batch."""
    sizes = [len(buckets) for buckets, _, _ in units]
    rows = np.repeat(np.arange(len(units)), sizes)
    buckets = np.concatenate([found for found, _, _ in units])
    values = np.concatenate([found * scale for _, found, scale in units])
    weights = weights / weights.sum()
    table = np.zeros((1 << TABLE_BITS) + 1)  # the last one is the bias
    mean, square = np.zeros_like(table), np.zeros_like(table)
    for step in range(1, STEPS + 1):
        scores = table[-1] + np.bincount(rows, table[buckets] * values, len(units))
        errors = (1 / (1 + np.exp(-np.clip(scores, -30, 30))) - labels) * weights
        slope = np.append(np.bincount(buckets, errors[rows] * values, 1 << TABLE_BITS), errors.sum())
        slope[:-1] += DECAY * table[:-1]
        mean = MOMENTUM * mean + (1 - MOMENTUM) * slope
        square = SQUARED_MOMENTUM * square + (1 - SQUARED_MOMENTUM) * slope**2
        rate = LEARNING_RATE * np.sqrt(1 - SQUARED_MOMENTUM**step) / (1 - MOMENTUM**step)
        table -= rate * mean / (np.sqrt(square) + 1e-9)
    return Model(float(table[-1]), table[:-1])

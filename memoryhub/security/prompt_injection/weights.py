"""A small linear model of the wording of orders, trained on labelled texts. No Django.

Rules (``rules/evidence``) require the content of an order. The wording helps if a text expresses it in
unusual words. There are weights for words (``forget``), for parts (``#ignore``) and for two parts in a row
(``#show>your``). The developer tool ``train_prompt_injection`` computes them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from memoryhub.security.prompt_injection.lexicon import BREAK, LEXICON, SIGNS

WEIGHTS_FILE = Path(__file__).with_name("weights.json")
SMOOTHING = 5  # added to the number of features, so that short passages count less
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?|[?!:\"]")
# Frequent parts, which would be most of the features and mean little.
_COMMON_PARTS = """article to in is has and for from subject it this these as if must what soft meta run
    matter place cond asks whoever link ascap boss insteadof""".split()
_IGNORED_PARTS = frozenset((*SIGNS, *_COMMON_PARTS))


@dataclass(frozen=True)
class WordingModel:
    """The weights. A score above 0 means that the wording is more like an order than not."""

    bias: float
    weights: Mapping[str, float]

    def score(self, features: Iterable[str]) -> float:
        """Return the sum of the known weights, divided by a measure of the number of features."""
        known, count, weights = 0.0, 0, self.weights
        for feature in features:
            count += 1
            if feature in weights:
                known += weights[feature]
        return self.bias + known / math.sqrt(count + SMOOTHING)


def _parts_by_symbol() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for part, symbols in sorted(LEXICON.members.items()):
        for symbol in symbols:
            if part not in _IGNORED_PARTS:
                found.setdefault(symbol, []).append(part)
    return {symbol: tuple(parts) for symbol, parts in found.items()}


_PARTS_BY_SYMBOL = _parts_by_symbol()
_KNOWN_SYMBOLS = frozenset((*_PARTS_BY_SYMBOL, BREAK))


@lru_cache(maxsize=20_000)
def _symbol_features(before: str, symbol: str) -> frozenset[str]:
    parts = _PARTS_BY_SYMBOL.get(symbol, ())
    return frozenset(f"#{part}" for part in parts) | {
        f"#{first}>{part}" for first in _PARTS_BY_SYMBOL.get(before, ()) for part in parts
    }


def extract_features(text: str, symbols: str) -> set[str]:
    """Return the features of a normalised passage and its symbols (see ``tokeniser``)."""
    found = {"0" if word.isdigit() else word for word in _WORD.findall(text)}
    known = [symbol for symbol in symbols if symbol in _KNOWN_SYMBOLS]
    for before, symbol in set(zip([BREAK, *known], known, strict=False)):
        found |= _symbol_features(before, symbol)
    return found


def load_model(path: Path = WEIGHTS_FILE) -> WordingModel:
    """Load a trained model. Without the file all scores are 0."""
    if not path.exists():
        return WordingModel(0.0, {})
    stored = json.loads(path.read_text("utf-8"))
    return WordingModel(stored["bias"], stored["weights"])


MODEL = load_model()

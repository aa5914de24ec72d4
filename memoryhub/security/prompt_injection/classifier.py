"""A linear model of the wording of orders: hashed n-grams, trained on labelled texts. No Django.

Rules (``rules/evidence``) require the content of an order. The model weighs how a text is worded. Its
features are words and their stems, pairs of words, word classes (``rules/word_classes.toml``), character
n-grams, the parts of words (see ``lexicon``), and how a unit (a sentence or a passage) begins and where it is
in the text. The hash of a feature is an index into one table of weights. The developer tool
``train_prompt_injection`` computes the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.rule_files import RuleSchema, load_rule_file
from memoryhub.security.prompt_injection.lexicon import LEXICON, SIGNS
from memoryhub.security.prompt_injection.normalisation import fold_word
from memoryhub.security.prompt_injection.tokeniser import SymbolLine

WEIGHTS_FILE = Path(__file__).with_name("weights.npz")
TABLE_BITS = 19  # a table of 2 ** 19 weights with one byte each
SMOOTHING = 20  # added to the number of features, so that short units count less
# A word or a sign. The first alternative is only faster.
_WORD = re.compile(
    r"((?:[a-z0-9]++(?![^\x00-\x7f])|(?:[^\W_]++|[\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963]++)+)"
    r"(?:'[a-z]{1,2}\b)?|[?!:\"])"
)
_MINOR_BIT, _KEY_BITS = 1 << TABLE_BITS, TABLE_BITS + 1
_NGRAM_SIZE = 4
_STEM_LENGTH = 5
MINOR_VALUE = 0.3  # n-grams and word classes are many and overlap: each counts less than a word
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - TABLE_BITS)
# Different salts for different kinds of features.
_WORD_SALT, _PAIR_SALT, _GAP_SALT, _BEGINNING_SALT, _PLACE_SALT, _NGRAM_SALT, _CLASS_SALT = (
    np.uint64(0xC2B2AE3D27D4EB4F * step & 0xFFFFFFFFFFFFFFFF) for step in range(1, 8)
)
_PART_SALT = 1 << 40
# Frequent parts, which mean little.
_COMMON_PARTS = """article to in is has and for from subject it this these as if must what soft meta run
    matter place cond asks whoever link ascap boss insteadof""".split()
_IGNORED_PARTS = frozenset((*SIGNS, *_COMMON_PARTS))

Spans = Sequence[tuple[int, int]]
Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Floats = NDArray[np.float64]
Occurrences = tuple[Integers, Integers, Hashes]  # the start, the end and the hash of each


class WordClasses(RuleSchema):
    """Words whose class is the word itself, by language, and the endings that are classes of other words."""

    function_words: dict[str, str]
    endings: tuple[str, ...]


_CLASSES = load_rule_file(Path(__file__).with_name("rules") / "word_classes.toml", WordClasses)
_FUNCTION_WORDS = frozenset(
    fold_word(word) for words in _CLASSES.function_words.values() for word in words.split()
)


@dataclass(frozen=True)
class Features:
    """The distinct features of some units: for each, the number of its unit, its bucket, and its value.

    ``scales``: the factor of the sum of the weights of each unit, which depends on its length.
    """

    units: Integers
    buckets: Integers
    values: Floats
    scales: Floats


class Classifier:
    """The weights. A score above 0 means that the wording is more like an order than not."""

    def __init__(self, bias: float, unit: float, table: NDArray[np.int8]) -> None:
        self.bias, self.unit, self.table = bias, unit, table

    def score(self, features: Features) -> Floats:
        """Return the score of each unit."""
        weights = self.table[features.buckets] * features.values
        sums = np.bincount(features.units, weights, len(features.scales))
        return np.asarray(self.bias + self.unit * sums * features.scales)


class HashedText:
    """The hashed features of a normalised text, and their places in it."""

    def __init__(self, text: str, line: SymbolLine) -> None:
        pieces = _WORD.split(text)  # each second one is a word
        ends = np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))
        self.starts, self.ends = ends[:-1:2], ends[1::2]
        hashes = np.array(list(map(_hash_word, pieces[1::2])), np.uint64).reshape(-1, 3)
        self.words, self.stems, self.classes = hashes.T
        major = [*self._word_features(), _part_features(line)]
        found = [*major, *self._class_features(), _ngrams(text)]
        starts, ends, hashes = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        keys = _to_keys(hashes)
        keys[sum(len(one) for one, _, _ in major) :] |= _MINOR_BIT
        self.found = (starts, ends, keys)

    def features(self, units: Spans) -> Features:
        """Return the features of units, which are spans of the text: sorted, and none overlaps another."""
        firsts = np.array([start for start, _ in units], np.int64)
        lasts = np.array([end for _, end in units], np.int64)
        keys = np.concatenate([self._beginnings(firsts, lasts), self._inside(firsts, lasts)])
        keys.sort()  # faster than np.unique, which hashes
        keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        numbers, is_minor = keys >> _KEY_BITS, keys >> TABLE_BITS & 1
        sizes = np.bincount(numbers, 1 - is_minor, len(units))
        values = np.where(is_minor, MINOR_VALUE, 1.0)
        return Features(numbers, keys & ((1 << TABLE_BITS) - 1), values, 1 / np.sqrt(sizes + SMOOTHING))

    def _word_features(self) -> Iterator[Occurrences]:
        words, starts, ends = self.words, self.starts, self.ends
        yield starts, ends, words + _WORD_SALT
        yield starts[:-1], ends[1:], _combine(words[:-1], words[1:], _PAIR_SALT)
        yield starts[:-2], ends[2:], _combine(words[:-2], words[2:], _GAP_SALT)

    def _class_features(self) -> Iterator[Occurrences]:
        """Yield stems, a word and the class of its neighbour, and three classes that follow each other."""
        words, classes, starts, ends = self.words, self.classes, self.starts, self.ends
        yield starts, ends, self.stems + _WORD_SALT
        yield starts[:-1], ends[1:], _combine(words[:-1], classes[1:], _CLASS_SALT)
        yield starts[:-1], ends[1:], _combine(classes[:-1], words[1:], _CLASS_SALT)
        pairs = _combine(classes[:-1], classes[1:], _CLASS_SALT)
        yield starts[:-2], ends[2:], _combine(pairs[:-1], classes[2:], _CLASS_SALT)

    def _inside(self, firsts: Integers, lasts: Integers) -> Integers:
        """Return the keys, with the number of their unit, of the features that are inside one."""
        starts, ends, keys = self.found
        numbers = np.searchsorted(firsts, starts, "right") - 1
        inside = (numbers >= 0) & (ends <= lasts[numbers])
        return numbers[inside] << _KEY_BITS | keys[inside]

    def _beginnings(self, firsts: Integers, lasts: Integers) -> Integers:
        """Return how each unit begins and ends, alone and with its place: alone, first, last, or between."""
        numbers = np.arange(len(firsts))
        places = np.full(len(firsts), 2, np.uint64)
        places[0], places[-1] = 0, 1
        places = (places if len(firsts) > 1 else places + np.uint64(2)) * _PLACE_SALT
        first = np.searchsorted(self.starts, firsts)
        last = np.searchsorted(self.starts, lasts) - 1
        one, two = first <= last, first < last
        words = self.words[first[one]]
        pairs = _combine(self.words[first[two]], self.words[first[two] + 1], _PAIR_SALT)
        found = [
            places,
            words + _BEGINNING_SALT,
            _combine(words, places[one], _PLACE_SALT),
            pairs + _BEGINNING_SALT,
            _combine(pairs, places[two], _PLACE_SALT),
            _combine(self.words[last[one]], places[one], _BEGINNING_SALT),
        ]
        of = [numbers, *[numbers[one]] * 2, *[numbers[two]] * 2, numbers[one]]
        return np.asarray(np.concatenate(of) << _KEY_BITS | _to_keys(np.concatenate(found)))


def _to_keys(hashes: Hashes) -> Integers:
    """Return the buckets. The number of the unit and the bit of n-grams are added above them."""
    return (hashes * _MULTIPLIER >> _SHIFT).astype(np.int64)


def _combine(first: Hashes, second: Hashes, salt: np.uint64) -> Hashes:
    return np.asarray((first * _MULTIPLIER ^ second) * _MULTIPLIER + salt)


@lru_cache(maxsize=20_000)
def _hash_word(word: str) -> tuple[int, int, int]:
    """Return the hashes of a word, of its stem and of its class."""
    spellings = "0" if word.isdigit() else word, word[:_STEM_LENGTH], f"-{_word_class(word)}"
    word_hash, stem, word_class = (crc32(one.encode("utf-8", "surrogatepass")) for one in spellings)
    return word_hash, stem, word_class


def _word_class(word: str) -> str:
    """Return a function word or a sign itself, and of other words an ending or the length."""
    if word in _FUNCTION_WORDS or not word[0].isalnum():
        return word
    if any(letter.isdigit() for letter in word):
        return "0" if word.isdigit() else "0x"
    if not word.isascii():
        return f"~{min(3, len(word) // 3)}"
    ending = next((one for one in _CLASSES.endings if word.endswith(one) and len(word) > len(one) + 1), "")
    return ending or f"x{min(2, len(word) // 4)}"


def _ngrams(text: str) -> Occurrences:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    count = max(0, len(codes) - _NGRAM_SIZE + 1)
    hashes = np.zeros(count, np.uint64)
    for step in range(_NGRAM_SIZE):
        hashes = hashes * _MULTIPLIER + codes[step : step + count]
    starts = np.arange(count, dtype=np.int64)
    return starts, starts + _NGRAM_SIZE, hashes + _NGRAM_SALT


def _parts_by_symbol() -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for part, symbols in sorted(LEXICON.members.items()):
        for symbol in symbols:
            if part not in _IGNORED_PARTS:
                found.setdefault(symbol, []).append(crc32(part.encode()))
    return {symbol: tuple(parts) for symbol, parts in found.items()}


_PARTS_BY_SYMBOL = _parts_by_symbol()


def _part_features(line: SymbolLine) -> Occurrences:
    """Return the parts of the words, and pairs of parts of words with a meaning that follow each other."""
    starts: list[int] = []
    ends: list[int] = []
    hashes: list[int] = []
    before, start_before = "", 0
    for symbol, start, end in zip(line.symbols, line.starts, line.ends, strict=True):
        if symbol in _PARTS_BY_SYMBOL:
            for hashed, is_pair in _symbol_hashes(before, symbol):
                starts.append(start_before if is_pair else start)
                ends.append(end)
                hashes.append(hashed)
            before, start_before = symbol, start
    return np.array(starts, np.int64), np.array(ends, np.int64), np.array(hashes, np.uint64)


@lru_cache(maxsize=20_000)
def _symbol_hashes(before: str, symbol: str) -> tuple[tuple[int, bool], ...]:
    parts = _PARTS_BY_SYMBOL[symbol]
    pairs = [(first << 31 ^ part, True) for first in _PARTS_BY_SYMBOL.get(before, ()) for part in parts]
    return (*((part + _PART_SALT, False) for part in parts), *pairs)


def load_classifier(path: Path = WEIGHTS_FILE) -> Classifier:
    """Load a trained model. Without the file all scores are 0."""
    if not path.exists():
        return Classifier(0.0, 0.0, np.zeros(1 << TABLE_BITS, np.int8))
    with np.load(path) as stored:
        return Classifier(float(stored["bias"]), float(stored["unit"]), stored["table"])


CLASSIFIER = load_classifier()

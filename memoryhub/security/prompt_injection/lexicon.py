"""The words of all languages in one tree; words misspelt, in l33t, or several written as one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from memoryhub.core.text import STOP_WORDS
from memoryhub.security.prompt_injection.normalisation import LEET, fold_word
from memoryhub.security.prompt_injection.words import ENGLISH, FOREIGN, UNSPACED

# Symbols of what is no word of the lexicon.
OTHER, BREAK, LINE, COMMA, COLON, QUOTE = "x", "\n", "/", ",", ":", '"'
WALL = "|"  # stands between two ends of sentence where nothing goes on: list items, table cells
SIGNS: dict[str, str] = {
    "other": OTHER,
    "comma": COMMA,
    "colon": COLON,
    "quote": QUOTE,
    "line": LINE,
    "url": "U",
    "mail": "M",
    "path": "P",
    "file": "P",
    "sample": "P",
    "secretpath": "Z",
    "rolesys": "S",
    "roleuser": "R",
    "tag": "T",
    "danger": "D",
    "leak": "L",
}


@dataclass
class PhraseNode:
    """A place in the tree of phrases: the symbol of the phrase that ends here, and what may follow."""

    symbol: str = ""
    following: dict[str, PhraseNode] = field(default_factory=dict)


@dataclass(frozen=True)
class Lexicon:
    """Words and phrases by what they may play.

    ``members`` holds the symbols of each part: one character stands for each set of parts that occurs.
    ``masks`` holds, for each symbol and each part under its name, a number with one bit for every part.
    """

    tree: dict[str, PhraseNode]
    stems: frozenset[str]
    unspaced: re.Pattern[str]
    unspaced_symbols: dict[str, str]
    members: dict[str, frozenset[str]]
    masks: dict[str, int]


# English words that mean something else in another language: there the English meaning is the likelier one.
_ENGLISH_FIRST = STOP_WORDS | frozenset(
    "dan her die hay man alt war gab list dare solo sage van rest hat gut note data mail la".split()
)


def _split_entries(words: str) -> list[str]:
    return [" ".join(fold_word(entry).split()) for entry in words.split(",")]


def _add_words(
    table: dict[str, str], found: dict[str, set[str]], spared: frozenset[str] = frozenset()
) -> None:
    """The parts of each entry of a table, beside those it has already; ``spared`` words are left out."""
    for part, words in table.items():
        for entry in _split_entries(words):
            if entry and entry not in spared:
                found.setdefault(entry, set()).add(part)


def _add_implied_parts(found: dict[str, set[str]]) -> None:
    """Parts that follow from others: "you ..." speaks to the model, a word plays what its stem plays."""
    stems = {entry: parts for entry, parts in found.items() if entry.endswith("*")}
    for entry, parts in found.items():
        words = entry.split()
        if len(words) > 1 and ("you" in (words[0], words[-1]) or words[0] in ("you're", "you'll", "you've")):
            parts.add("you")
        if "secretprompt" in parts:
            parts |= {"ownprompt", "orders"}
        if "received" in parts:
            parts.add("told")
        if "wordsabove" in parts:
            parts |= {"matter", "back"}
        for end in range(len(entry), 1, -1):
            parts |= stems.get(f"{entry[:end]}*", set())


def _build_lexicon() -> Lexicon:
    spaced: dict[str, set[str]] = {}
    unspaced: dict[str, set[str]] = {}
    for table in ENGLISH:
        _add_words(table, spaced)
    for table in FOREIGN:
        _add_words(table, spaced, _ENGLISH_FIRST)
    for table in UNSPACED:
        _add_words(table, unspaced)
    _add_implied_parts(spaced)
    _add_implied_parts(unspaced)
    names: dict[frozenset[str], str] = {}
    for parts in (*spaced.values(), *unspaced.values()):
        names.setdefault(frozenset(parts), chr(0xE000 + len(names)))
    members: dict[str, set[str]] = {sign: {symbol} for sign, symbol in SIGNS.items()}
    for parts_set, symbol in names.items():
        for part in parts_set:
            members.setdefault(part, set()).add(symbol)
    longest_first = sorted(unspaced, key=len, reverse=True)
    return Lexicon(
        _build_tree({entry: names[frozenset(parts)] for entry, parts in spaced.items()}),
        frozenset(word for entry in spaced for word in entry.split() if word.endswith("*")),
        re.compile("|".join(map(re.escape, longest_first))),
        {entry: names[frozenset(parts)] for entry, parts in unspaced.items()},
        {part: frozenset(symbols) for part, symbols in members.items()},
        _build_masks(members),
    )


def _build_masks(members: dict[str, set[str]]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for place, (part, symbols) in enumerate(sorted(members.items())):
        masks[part] = 1 << place
        for symbol in symbols:
            masks[symbol] = masks.get(symbol, 0) | 1 << place
    return masks


def _build_tree(symbols: dict[str, str]) -> dict[str, PhraseNode]:
    root = PhraseNode()
    for entry, symbol in symbols.items():
        node = root
        for word in entry.split():
            node = node.following.setdefault(word, PhraseNode())
        node.symbol = symbol
    return root.following


UNKNOWN: tuple[str, frozenset[str], tuple[PhraseNode, ...]] = (OTHER, frozenset(), ())
_MAX_WORD_LENGTH = 40  # letters of a word that may be one of the lexicon
MIN_JOINED_LENGTH = 14  # letters from which a word may be several written as one
LEXICON = _build_lexicon()
_WORDS = frozenset(word for word in LEXICON.tree if word.isascii() and word.isalpha())
_CORE_WORDS = sorted(
    word
    for part in ("ignore", "back", "orders", "rules", "secretprompt", "show", "unbound", "secret", "all")
    for table in ENGLISH
    for entry in _split_entries(table.get(part, ""))
    for word in entry.split()
    if len(word) >= 6 and word.isalpha()
)


def _deletions(word: str) -> Iterator[str]:
    """The word with one inner letter missing; its last letter is grammar and stays."""
    for place in range(1, len(word) - 1):
        yield word[:place] + word[place + 1 :]


_SHORTENED = {short: word for word in _CORE_WORDS for short in (*_deletions(word), word)}
_SCRAMBLED = {(word[0], word[-1], "".join(sorted(word))): word for word in _CORE_WORDS}


_ARABIC_PREFIXES = frozenset("وفبلك")  # and, so, with, to, like: written together with the word


@lru_cache(maxsize=50_000)
def lexicon_keys(word: str) -> tuple[str, ...]:
    """The entries of the lexicon that one word may stand for, itself first."""
    word = word.strip("_@$") or word
    if len(word) > _MAX_WORD_LENGTH:
        return (word,)
    found = [word[:-2] if word.endswith("'s") and word not in LEXICON.tree else word]
    found += [
        stem for end in range(len(word), word.isascii(), -1) if (stem := f"{word[:end]}*") in LEXICON.stems
    ]
    if len(word) > 3 and word[0] in _ARABIC_PREFIXES and word not in LEXICON.tree:
        found.append(word[1:])
    if len(found) == 1 and found[0] not in LEXICON.tree:
        meant = _read_leet(word) or _correct_spelling(word)
        if meant:
            found.append(meant)
    return tuple(found)


@lru_cache(maxsize=50_000)
def look_up_word(word: str) -> tuple[str, frozenset[str], tuple[PhraseNode, ...]]:
    """The symbol of a word by itself, the words that may follow it in a phrase, and where phrases go on."""
    nodes = tuple(LEXICON.tree[name] for name in lexicon_keys(word) if name in LEXICON.tree)
    symbol = next((node.symbol for node in nodes if node.symbol), OTHER)
    nodes = tuple(node for node in nodes if node.following)
    return symbol, frozenset(word for node in nodes for word in node.following), nodes


def _read_leet(word: str) -> str | None:
    """The word of the lexicon that digits and signs were put into, if there is one."""
    if word.isalpha() or len(word) > 20 or not any(letter in LEET for letter in word) or word.isdigit():
        return None
    readings = [""]
    for letter in word:
        readings = [start + meant for start in readings for meant in LEET.get(letter, letter)][:32]
    return next((reading for reading in readings if reading in _WORDS or _correct_spelling(reading)), None)


def _correct_spelling(word: str) -> str | None:
    """The core word that was misspelt: inner letters mixed, one missing or one too many."""
    if not 6 <= len(word) <= 16 or not word.isascii() or not word.isalpha():
        return None
    mixed = _SCRAMBLED.get((word[0], word[-1], "".join(sorted(word))))
    if mixed:
        return mixed
    if word in _SHORTENED:
        return _SHORTENED[word]
    return next((_SHORTENED[short] for short in _deletions(word) if short in _CORE_WORD_SET), None)


_CORE_WORD_SET = frozenset(_CORE_WORDS)
_SHORT_WORDS = """a an the to of in on is it me my i us we be do so or and you your all any for not now say hi
    hello yes this that previous prior with from by as at"""
_JOINABLE = frozenset(word for word in _WORDS if len(word) > 2) | frozenset(_SHORT_WORDS.split())


@lru_cache(maxsize=5_000)
def split_joined_words(word: str) -> tuple[str, ...]:
    """The words that were written as one ("ignoreallpreviousinstructions"); empty when it is no such word."""
    if not MIN_JOINED_LENGTH <= len(word) <= 120 or not word.isascii() or not word.isalpha():
        return ()
    best: list[tuple[str, ...] | None] = [()] + [None] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - 14), end):
            before = best[start]
            if before is not None and word[start:end] in _JOINABLE:
                candidate = (*before, word[start:end])
                held = best[end]
                if held is None or len(candidate) < len(held):
                    best[end] = candidate
    found = best[-1]
    return found if found and len(found) > 2 else ()

"""The words of all languages in one tree; misspelt words, leetspeak and joined words. No Django.

The words are in ``rules/words/*.toml``, by language and by the part that they play in an order. An entry is a
word or a phrase, written with its accents. ``*`` at its end matches any ending. Of two phrases that match,
the longer one counts. In languages without spaces, entries match anywhere.

A word may have several parts. ``rules/evidence/*.toml`` defines which parts together are evidence. Parts that
need an explanation: ``ignoreend``, ``showend``, ``answerend``, ``sendend`` and ``whatend`` are verbs and
questions that follow their object; ``heed`` with ``neg`` is "beachte ... nicht"; ``tellnot`` is a single word
for "keep secret from".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from memoryhub.core.rule_files import RuleSchema, load_rule_file
from memoryhub.core.text import STOP_WORDS
from memoryhub.security.prompt_injection.normalisation import LEET, fold_word

WORDS = Path(__file__).with_name("rules") / "words"
# Symbols for everything that is no word of the lexicon.
OTHER, BREAK, LINE, COMMA, COLON, QUOTE = "x", "\n", "/", ",", ":", '"'
WALL = "|"  # between two sentence ends that separate list items or table cells
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
# English words with another meaning in another language. The English meaning is more likely.
_ENGLISH_FIRST = STOP_WORDS | frozenset(
    "dan her die hay man alt war gab list dare solo sage van rest hat gut note data mail la".split()
)


class WordFile(RuleSchema):
    """The words of one language: for each part, its entries separated by commas."""

    language: str
    spaces: bool = True
    parts: dict[str, str]


def load_words() -> tuple[WordFile, ...]:
    return tuple(load_rule_file(path, WordFile) for path in sorted(WORDS.glob("*.toml")))


@dataclass
class PhraseNode:
    """A node in the tree of phrases: the symbol of the phrase that ends here, and the next words."""

    symbol: str = ""
    following: dict[str, PhraseNode] = field(default_factory=dict)


@dataclass(frozen=True)
class Lexicon:
    """Words and phrases by their parts.

    Each combination of parts has a symbol, which is one character. ``members`` maps a part to its symbols.
    ``masks`` maps a part to a number with one bit, and a symbol to a number with the bits of its parts.
    """

    tree: dict[str, PhraseNode]
    stems: frozenset[str]
    unspaced: re.Pattern[str]
    unspaced_symbols: dict[str, str]
    members: dict[str, frozenset[str]]
    masks: dict[str, int]


def _split_entries(words: str) -> list[str]:
    return [" ".join(fold_word(entry).split()) for entry in words.split(",")]


def _add_words(file: WordFile, found: dict[str, set[str]]) -> None:
    """Add the parts of each entry to those that it has in other languages."""
    excluded = frozenset() if file.language == "English" or not file.spaces else _ENGLISH_FIRST
    for part, words in file.parts.items():
        for entry in _split_entries(words):
            if entry and entry not in excluded:
                found.setdefault(entry, set()).add(part)


def _add_implied_parts(found: dict[str, set[str]]) -> None:
    """Add the parts that other parts imply. A word also has the parts of its stems."""
    stems = {entry[:-1]: parts for entry, parts in found.items() if entry.endswith("*")}
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
            if stem_parts := stems.get(entry[:end]):
                parts |= stem_parts


def _build_lexicon(files: tuple[WordFile, ...]) -> Lexicon:
    spaced: dict[str, set[str]] = {}
    unspaced: dict[str, set[str]] = {}
    for file in files:
        _add_words(file, spaced if file.spaces else unspaced)
    _add_implied_parts(spaced)
    _add_implied_parts(unspaced)
    combinations = {frozenset(parts) for parts in (*spaced.values(), *unspaced.values())}
    # Sorted, so that the symbols of a part are close together: regexes over ranges compile faster.
    symbols = {parts: chr(0xE000 + place) for place, parts in enumerate(sorted(combinations, key=sorted))}
    members: dict[str, set[str]] = {sign: {symbol} for sign, symbol in SIGNS.items()}
    for combination, symbol in symbols.items():
        for part in combination:
            members.setdefault(part, set()).add(symbol)
    longest_first = sorted(unspaced, key=len, reverse=True)
    return Lexicon(
        _build_tree({entry: symbols[frozenset(parts)] for entry, parts in spaced.items()}),
        frozenset(word for entry in spaced for word in entry.split() if word.endswith("*")),
        re.compile("|".join(map(re.escape, longest_first))),
        {entry: symbols[frozenset(parts)] for entry, parts in unspaced.items()},
        {part: frozenset(found) for part, found in members.items()},
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
MIN_JOINED_LENGTH = 14  # letters of a word that may be several joined words
_MAX_JOINED_WORD = 14  # letters of a word in such a word
_MAX_WORD_LENGTH = 40  # letters of a word that may be in the lexicon
_FILES = load_words()
LEXICON = _build_lexicon(_FILES)
_WORDS = frozenset(word for word in LEXICON.tree if word.isascii() and word.isalpha())
# English words that are also recognised when they are misspelt.
_CORE_WORDS = sorted(
    word
    for part in ("ignore", "back", "orders", "rules", "secretprompt", "show", "unbound", "secret", "all")
    for file in _FILES
    if file.language == "English"
    for entry in _split_entries(file.parts.get(part, ""))
    for word in entry.split()
    if len(word) >= 6 and word.isalpha()
)


def _deletions(word: str) -> Iterator[str]:
    """Yield the word without one inner letter. The last letter may be an ending and stays."""
    for place in range(1, len(word) - 1):
        yield word[:place] + word[place + 1 :]


def _letters(word: str) -> tuple[str, str, str]:
    return word[0], word[-1], "".join(sorted(word))


_CORE_WORD_SET = frozenset(_CORE_WORDS)
_SHORTENED = {short: word for word in _CORE_WORDS for short in (*_deletions(word), word)}
_SCRAMBLED = {_letters(word): word for word in _CORE_WORDS}
_ARABIC_PREFIXES = frozenset("وفبلك")  # and, so, with, to, like: written together with the word
_SHORT_WORDS = """a an the to of in on is it me my i us we be do so or and you your all any for not now say hi
    hello yes this that previous prior with from by as at"""
_JOINABLE = frozenset(word for word in _WORDS if len(word) > 2) | frozenset(_SHORT_WORDS.split())


@lru_cache(maxsize=50_000)
def lexicon_keys(word: str) -> tuple[str, ...]:
    """Return the entries of the lexicon that a word may mean, the word itself first."""
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
        correct = _read_leet(word) or _correct_spelling(word)
        if correct:
            found.append(correct)
    return tuple(found)


@lru_cache(maxsize=50_000)
def look_up_word(word: str) -> tuple[str, frozenset[str], tuple[PhraseNode, ...]]:
    """Return the symbol of a word, the words that may follow it in phrases, and the nodes of these."""
    nodes = tuple(LEXICON.tree[key] for key in lexicon_keys(word) if key in LEXICON.tree)
    symbol = next((node.symbol for node in nodes if node.symbol), OTHER)
    nodes = tuple(node for node in nodes if node.following)
    return symbol, frozenset(word for node in nodes for word in node.following), nodes


def _read_leet(word: str) -> str | None:
    """Return the word of the lexicon that is written with digits and signs for letters, if there is one."""
    if word.isalpha() or len(word) > 20 or not any(letter in LEET for letter in word) or word.isdigit():
        return None
    readings = [""]
    for letter in word:
        readings = [start + plain for start in readings for plain in LEET.get(letter, letter)][:16]
    known = next((reading for reading in readings if reading in _WORDS), None)
    return known or next(filter(_correct_spelling, readings[:2]), None)


def _correct_spelling(word: str) -> str | None:
    """Return the core word of which inner letters are mixed, or one is missing or added."""
    if not 6 <= len(word) <= 16 or not word.isascii() or not word.isalpha():
        return None
    mixed = _SCRAMBLED.get(_letters(word))
    if mixed:
        return mixed
    if word in _SHORTENED:
        return _SHORTENED[word]
    return next((_SHORTENED[short] for short in _deletions(word) if short in _CORE_WORD_SET), None)


@lru_cache(maxsize=5_000)
def split_joined_words(word: str) -> tuple[str, ...]:
    """Split a word such as "ignoreallpreviousinstructions". Return () for other words."""
    if not MIN_JOINED_LENGTH <= len(word) <= 120 or not word.isascii() or not word.isalpha():
        return ()
    best: list[tuple[str, ...] | None] = [()] + [None] * len(word)  # the shortest split of each beginning
    for start, before in enumerate(best):
        if before is None:
            continue
        for end in range(start + 1, min(start + _MAX_JOINED_WORD, len(word)) + 1):
            shortest = best[end]
            if word[start:end] in _JOINABLE and (shortest is None or len(before) + 1 < len(shortest)):
                best[end] = (*before, word[start:end])
    found = best[-1]
    return found if found and len(found) > 2 else ()

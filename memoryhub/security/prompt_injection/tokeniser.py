"""Conversion of a normalised text to a line of symbols, one for each word or sign. No Django.

The symbol of a word says which parts it can have in an order.

Rules are regular expressions over that line (see ``patterns``). It is about six times shorter than the text,
gaps in rules are bounded, and no repetition is nested, so the time is linear in the length of the text.

A command that does harm is one symbol: it destroys something, or sends secrets to another host. A sending
command must contain a secret *as the data that it sends*, and an address outside, both in one line. A key
that only opens the connection, as in ``ssh -i``, does not count.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file
from memoryhub.security.prompt_injection.lexicon import (
    BREAK,
    COLON,
    COMMA,
    LEXICON,
    LINE,
    MIN_JOINED_LENGTH,
    OTHER,
    QUOTE,
    SIGNS,
    UNKNOWN,
    WALL,
    PhraseNode,
    lexicon_keys,
    look_up_word,
    split_joined_words,
)
from memoryhub.security.prompt_injection.normalisation import NormalisedText


class CommandPatterns(PatternFile):
    destructive: Regex
    leaks: Regex
    outside: Regex
    destructive_words: tuple[str, ...]
    sender_words: tuple[str, ...]
    secret_words: tuple[str, ...]


class TokenPatterns(PatternFile):
    first_lead: Regex
    closing: Regex
    maybe_trailer: Regex
    trailer: Regex
    token: Regex


_RULES = Path(__file__).with_name("rules")
_COMMANDS = load_rule_file(_RULES / "commands.toml", CommandPatterns)
_TOKENS = load_rule_file(_RULES / "tokens.toml", TokenPatterns)


def find_destructive_commands(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of destructive commands in a normalised text."""
    if any(word in text for word in _COMMANDS.destructive_words):
        yield from (match.span() for match in _COMMANDS.destructive.finditer(text))


def find_leaking_commands(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of commands in a normalised text that send a secret to another host."""
    if any(word in text for word in _COMMANDS.sender_words) and any(
        word in text for word in _COMMANDS.secret_words
    ):
        yield from (
            match.span()
            for match in _COMMANDS.leaks.finditer(text)
            if _COMMANDS.outside.search(match.group())
        )


_SIGN_SYMBOLS = {"comma": COMMA, "colon": COLON, "quote": QUOTE}


@dataclass(frozen=True)
class SymbolLine:
    """The symbols of a text, with the start and the end of each symbol in the normalised text."""

    symbols: str
    starts: list[int]
    ends: list[int]


def tokenise(plain: NormalisedText, original: str) -> SymbolLine:
    """Return the symbols of a normalised text. ``original`` is the text before normalisation."""
    return _Tokeniser(plain, original).tokenise()


class _Tokeniser:
    def __init__(self, plain: NormalisedText, original: str) -> None:
        self.plain, self.original = plain, original
        self.text = _TOKENS.closing.sub("\\1\n", plain.text) if "</" in plain.text else plain.text
        self.symbols: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.words: list[tuple[str, int]] = []  # not yet looked up, each with its start
        prefix = _TOKENS.first_lead.match(self.text)
        self.line_prefix = prefix.group().strip() if prefix else ""

    def tokenise(self) -> SymbolLine:
        words = self.words
        for match in _TOKENS.token.finditer(f"\n{self.text}"):
            kind = match.lastgroup
            if kind == "words":
                run = match["words"]
                start = match.end() - len(run) - 1
                for word in run.split(" "):
                    if len(word) < MIN_JOINED_LENGTH and "@" not in word:
                        words.append((word, start))
                    else:
                        self._add_unusual_word(word, start)
                    start += len(word) + 1
            elif kind == "line":
                self._add_line_end(match)
            elif kind != "mark":
                if words:
                    self._look_up_words()
                self._add_sign(kind or "", match)
        self._look_up_words()
        self._unite_commands()
        if _TOKENS.maybe_trailer.search(self.text):
            self._unite_trailers()
        return SymbolLine("".join(self.symbols), self.starts, self.ends)

    def _unite_commands(self) -> None:
        commands = (("danger", find_destructive_commands), ("leak", find_leaking_commands))
        for sign, find_commands in commands:
            for start, end in reversed(list(find_commands(self.text))):
                self._unite(SIGNS[sign], start, end)

    def _unite_trailers(self) -> None:
        """Replace the name of a commit trailer by one symbol without a meaning."""
        for trailer in reversed(list(_TOKENS.trailer.finditer(self.text))):
            self._unite(OTHER, *trailer.span(1))

    def _unite(self, symbol: str, start: int, end: int) -> None:
        """Replace all symbols between two places by one."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        if first < last:
            self.symbols[first:last] = [symbol]
            self.ends[first:last] = [max(end, self.ends[last - 1])]
            self.starts[first:last] = [self.starts[first]]

    def _add(self, symbol: str, start: int, end: int) -> None:
        self.symbols.append(symbol)
        self.starts.append(start)
        self.ends.append(end)

    def _add_sign(self, kind: str, match: re.Match[str]) -> None:
        start, end = match.start() - 1, match.end() - 1
        if kind in _SIGN_SYMBOLS:
            self._add(_SIGN_SYMBOLS[kind], start, end)
        elif kind == "cjk":
            self._add_unspaced(match.group(), start)
        elif kind in ("blank", "item", "cell"):
            for symbol in BREAK if kind == "blank" else (BREAK, WALL, BREAK):
                self._add(symbol, max(start, 0), end)
            self.line_prefix = ""
        elif kind in ("rolesys", "roleuser"):
            if match.group()[0] == "\n":
                if start >= 0:
                    self._add(BREAK, start, start + 1)
                start += 1
            self._add(SIGNS[kind], start, end)
        else:
            self._add(SIGNS.get(kind, OTHER), start, end)

    def _add_line_end(self, match: re.Match[str]) -> None:
        """Treat a line end inside a sentence as a blank. Elsewhere a sentence may end there."""
        start, end = match.start() - 1, match.end() - 1
        if start < 0:
            return
        prefix = match.group().strip()
        before = self.text[start - 1 : start]
        place = self.plain.span(end, end + 1)[0] if end < len(self.text) else len(self.original)
        after = self.original[place : place + 1]
        continues = after.isalpha() and not after.isupper() and before not in ".:!?{}()=,;>"
        if prefix == self.line_prefix and continues:
            return
        self.line_prefix = prefix
        self._look_up_words()
        self._add(LINE, start, end)

    def _add_unusual_word(self, word: str, start: int) -> None:
        """Add a mail address, a long word, or the words of a joined word."""
        end = start + len(word)
        known = look_up_word(word) != UNKNOWN
        if "@" in word.strip("@") and not known:
            self._look_up_words()
            self._add(SIGNS["mail"], start, end)
            return
        parts = () if known or self.text[end : end + 1] == "(" else split_joined_words(word)
        for part in parts or (word,):
            self.words.append((part, start))
            start += len(part)

    def _look_up_words(self) -> None:
        """Add the symbols of the collected words. At each place the longest phrase of the lexicon counts."""
        words, symbols, starts, ends = self.words, self.symbols, self.starts, self.ends
        place, count = 0, len(words)
        while place < count:
            word, start = words[place]
            symbol, following, nodes = look_up_word(word)
            place += 1
            if nodes and place < count and not following.isdisjoint(lexicon_keys(words[place][0])):
                symbol, place = self._longest_phrase(symbol, nodes, place)
                word, last = words[place - 1]
                ends.append(last + len(word))
            else:
                ends.append(start + len(word))
            symbols.append(symbol)
            starts.append(start)
        words.clear()

    def _longest_phrase(self, symbol: str, nodes: tuple[PhraseNode, ...], place: int) -> tuple[str, int]:
        """Return the symbol of the longest phrase that continues from ``nodes``, and the place after it."""
        found = (symbol, place)
        while nodes and place < len(self.words):
            keys = lexicon_keys(self.words[place][0])
            nodes = tuple(node.following[key] for node in nodes for key in keys if key in node.following)
            place += 1
            for node in nodes:
                if node.symbol:
                    found = (node.symbol, place)
                    break
        return found

    def _add_unspaced(self, text: str, start: int) -> None:
        """Add Chinese or Japanese: the entries of the lexicon, and a filler for two other characters."""
        position = 0
        for known in LEXICON.unspaced.finditer(text):
            self._add_fillers(start + position, start + known.start())
            position = known.end()
            self._add(LEXICON.unspaced_symbols[known.group()], start + known.start(), start + position)
        self._add_fillers(start + position, start + len(text))

    def _add_fillers(self, start: int, end: int) -> None:
        for place in range(start, end, 2):
            self._add(OTHER, place, min(place + 2, end))

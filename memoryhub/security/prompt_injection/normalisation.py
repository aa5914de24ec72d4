"""Normalisation of a text for detection, with the way back to the original characters. No Django.

:func:`normalise` undoes what hides an order: escapes (``&#105;``, ``%69``, ``\\u0069``), compatibility forms,
look-alike letters, invisible characters, tag characters, diacritics, spaced letters, and words hyphenated
over a line end. Each step keeps, for every character, its place in the original.

NFKC turns fullwidth, mathematical, circled and superscript letters into plain ones. The tables here contain
the look-alikes that NFKC leaves. Their keys are lower case: letters are lowered before they are looked up.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

# Letters of other alphabets. They are replaced only in words that read as Latin, not in Russian or Greek
# text.
_CYRILLIC = dict(zip("авсԁеԍһіїјкӏмԛорѕтԝхуүзьъѵгпн", "abcdeghiijklmqopstwxyy3bbvrnh", strict=True))
_GREEK = dict(zip("αβγδεζηικλμνορσςτυχωϳ", "abydezniklmvopoctuxwj", strict=True))
_ARMENIAN = dict(zip("օսոհցզքայլւ", "ounhgqpwjli", strict=True))
FOREIGN: dict[str, str] = {**_CYRILLIC, **_GREEK, **_ARMENIAN}

# Variants of Latin letters that no language uses in ordinary words. They are always replaced.
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_STROKED = dict(zip("łøđħıŧƀƃɓƈɗɖɛɠƙɱɲŋɵƥɾʂƭʋʉɨɩɑɡⱥɇɉɍɏ", "lodhitbbbcddegkmnnoprstvuiiagaejry", strict=True))
_TURNED = dict(zip("ǝɐɔɟɥɯɹʇʌʍʎ", "eacfhmrtvwy", strict=True))
LATIN: dict[str, str] = {**_SMALL_CAPITALS, **_STROKED, **_TURNED, "æ": "ae", "œ": "oe", "ß": "ss", "þ": "th"}


def _enclosed_letters() -> dict[str, str]:
    """Return negative circled and squared letters and regional indicators, which NFKC leaves."""
    found: dict[str, str] = {}
    for first in (0x1F150, 0x1F170, 0x1F1E6):
        found.update({chr(first + step): chr(ord("a") + step) for step in range(26)})
    return found


LATIN.update(_enclosed_letters())

# Digits and signs for letters in leetspeak, each with its possible letters, the most likely one first.
LEET: dict[str, str] = {
    "0": "o",
    "1": "il",
    "2": "z",
    "3": "e",
    "4": "a",
    "5": "s",
    "6": "g",
    "7": "t",
    "8": "b",
    "9": "g",
    "@": "a",
    "$": "s",
    "!": "i",
    "+": "t",
}


_ESCAPE = re.compile(
    r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});|%[2-7][0-9a-f]"
    r"|\\u\{?[0-9a-f]{4,6}\}?|\\x[0-9a-f]{2}|\\[nrt]|\\[01][0-7]{2}",
    re.IGNORECASE,
)
# Hangul in single jamo and kana with a separate voicing mark are composed. Other characters are folded alone.
_CLUSTER = re.compile("[^\x00-\x7f](?:[\u1160-\u11ff]{1,2}|[\u3099\u309a])?")
_LATIN_LETTER, _FOREIGN_LETTER = re.compile("[A-Za-z]"), re.compile(f"[{''.join(FOREIGN)}]")
# Only from the start of a word: to look from each letter of a long one takes quadratic time.
_NON_ASCII_WORD = re.compile(r"(?<![^\W\d_])[A-Za-z]*+[^\W\d_\x00-\x7f][^\W\d_]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_MAYBE_SPACED = re.compile(r"[ ._\-*|/·•~+\n][^\W_][ ._\-*|/·•~+\n][^\W_](?![^\W_])")
_SPACED = re.compile(r"(?<![^\W_])[^\W_]([ ._\-*|/·•~+\n])[^\W_](?:\1[^\W_])+(?![^\W_])")
_HYPHENATED = re.compile(r"-(?<=[a-z]-)[ \t]*\n[ \t>#*/]*(?=[a-z])")
_TAGS = range(0xE0020, 0xE007F)
# Arabic vowel signs and the stretching stroke are optional in a word.
_ARABIC_MARKS = frozenset(map(chr, [*range(0x64B, 0x660), 0x640, 0x670]))
_ARABIC_LETTERS = str.maketrans("أإآٱىة", "اااايه")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u2032": "'"})
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
_MAX_ROUNDS = 3  # escapes within escapes


@dataclass(frozen=True)
class NormalisedText:
    """A normalised text.

    ``origin`` contains, for each character of ``text`` and for its end, an index into the original text. It
    is ``None`` if each character is at the same place as in the original.
    """

    text: str
    origin: list[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original characters of ``text[start:end]``."""
        if self.origin is None or end <= start:
            return (start, end) if self.origin is None else (self.origin[start], self.origin[start])
        stop = end
        while stop < len(self.origin) - 1 and self.origin[stop] <= self.origin[end - 1]:
            stop += 1
        return self.origin[start], self.origin[stop]


def normalise(text: str) -> NormalisedText:
    """Return the text in plain lower-case letters, without invisible characters."""
    found = _replace(_unescape(text), _CONTROL, _replace_control)
    if not found.text.isascii():
        found = _replace_lookalikes(_replace(found, _CLUSTER, lambda match: fold_character(match.group())))
    found = NormalisedText(found.text.lower(), found.origin)  # folded characters are in lower case already
    if "-" in found.text:
        found = _replace(found, _HYPHENATED, lambda _match: "")
    return _replace(found, _SPACED, _join_letters, each=2) if _MAYBE_SPACED.search(found.text) else found


def fold_word(word: str) -> str:
    """Return a word or phrase of the lexicon in the form that ``normalise`` gives it in a text."""
    if word.isascii():
        return word.lower()
    composed = unicodedata.normalize("NFC", word)
    return _CLUSTER.sub(lambda match: fold_character(match.group()), composed).lower()


@lru_cache(maxsize=20_000)
def fold_character(cluster: str) -> str:
    """Return the plain form of a non-ASCII character: nothing, one letter, or several."""
    code = ord(cluster[0])
    if code in _TAGS:
        return chr(code - 0xE0000).lower()
    plain = unicodedata.normalize("NFKC", cluster).lower().translate(_QUOTES).translate(_DASHES)
    plain = "".join(LATIN.get(letter, letter) for letter in plain)
    bare = "".join(
        letter
        for letter in unicodedata.normalize("NFD", plain)
        if not "\u0300" <= letter <= "\u036f" and letter not in _ARABIC_MARKS and not _is_invisible(letter)
    )
    return unicodedata.normalize("NFC", bare).translate(_ARABIC_LETTERS)


def _is_invisible(letter: str) -> bool:
    """Return True for control, format and filler characters, except line ends and tabs."""
    if letter in "\n\t ":
        return False
    return unicodedata.category(letter) in {"Cf", "Cc", "Co", "Cn", "Cs"} or letter in _FILLERS


_FILLERS = frozenset(
    [
        *"\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800",
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    ]
)


def _unescape(text: str) -> NormalisedText:
    found = NormalisedText(text)
    if "&" not in text and "%" not in text and "\\" not in text:
        return found
    for _ in range(_MAX_ROUNDS):
        before = found.text
        found = _replace(found, _ESCAPE, _decode_escape)
        if found.text == before:
            break
    return found


def _decode_escape(match: re.Match[str]) -> str:
    escape = match.group()
    if escape[0] == "&":
        plain = html.unescape(escape)
        return plain if len(plain) <= len(escape) else escape
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if escape[1] in "nrtNRT":
        return "\n" if escape[1] in "nN" else " "
    if escape[1].isdigit():
        return chr(int(escape[1:], 8))
    code = int(escape[2:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape


def _replace_control(match: re.Match[str]) -> str:
    """Replace line ends of all kinds by ``\\n``, and remove other control characters."""
    line_end = match.group() in "\x0b\x0c\x85\u2028\u2029" or match.group() == "\r"
    return "\n" if line_end and not match.string.startswith("\r\n", match.start()) else ""


def _join_letters(match: re.Match[str]) -> str:
    """Join the letters of "i g n o r e". Digits stay apart."""
    letters = match.group()[::2]
    return match.group() if letters.isdigit() else letters


def _replace_lookalikes(found: NormalisedText) -> NormalisedText:
    """Replace letters of other alphabets in words that mix them with Latin, or that are in a Latin text."""
    foreign = len(_FOREIGN_LETTER.findall(found.text))
    if not foreign:
        return found
    latin = len(_LATIN_LETTER.findall(found.text))

    def plain(match: re.Match[str]) -> str:
        word = match.group()
        letters = [FOREIGN.get(letter, letter) for letter in word]
        mixed = any("a" <= letter.lower() <= "z" for letter in word)
        alike = all(letter.isascii() for letter in letters)
        return "".join(letters) if alike and (mixed or (len(word) > 1 and latin > 2 * foreign)) else word

    return NormalisedText(_NON_ASCII_WORD.sub(plain, found.text), found.origin)


def _replace(
    found: NormalisedText,
    pattern: re.Pattern[str],
    replacement: Callable[[re.Match[str]], str],
    each: int = 0,
) -> NormalisedText:
    """Like ``re.sub``, but keep the way back.

    ``each``: how many characters of a match each new character replaces; 0 if it replaces the whole match.
    """
    pieces: list[str] = []
    origin: list[int] = []
    before = found.origin
    position = 0
    for match in pattern.finditer(found.text):
        start, end = match.span()
        new = replacement(match)
        pieces += (found.text[position:start], new)
        origin.extend(range(position, start) if before is None else before[position:start])
        first = start if before is None else before[start]
        if len(new) == end - start:
            origin.extend(range(start, end) if before is None else before[start:end])
        elif each:
            origin.extend(range(start, end, each) if before is None else before[start:end:each])
        else:
            origin.extend([first] * len(new))
        position = end
    if not position:
        return found
    pieces.append(found.text[position:])
    size = len(found.text)
    origin.extend(range(position, size + 1) if before is None else before[position : size + 1])
    return NormalisedText("".join(pieces), origin)

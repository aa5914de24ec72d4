"""Text of which every letter was replaced, or that was written backwards. No Django."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from string import ascii_lowercase

_Turn = Callable[[str], str]

# Frequent words of English, of German and of orders. A clause that has more of them once it is decoded was
# encoded.
_COMMON_WORDS = frozenset(
    """the and you your that what all with now are from not this say tell for der die das und ist nicht alle
    dein deine mir ein eine den auf mit ignore disregard forget previous instructions rules system prompt
    reveal""".split()
)
_SHORT_WORDS = frozenset("to of in is it me".split())  # too often those of a shift other than 13
_PLAIN_WORD = re.compile(r"[a-z]{2,12}")
_CLAUSE_END = re.compile(r"([\n.:!?])")
_MIN_COMMON_WORDS = 2  # in a clause
_MIN_COMMON_SHARE = 0.15  # of its words


def _reverse_words(text: str) -> str:
    return _PLAIN_WORD.sub(lambda match: match.group()[::-1], text)


def _replace_letters(alphabet: str, text: str) -> str:
    return text.translate(str.maketrans(ascii_lowercase, alphabet))


# The inverse of each cipher. None of them moves a word. The alphabet backwards is Atbash.
_SHIFTS: list[_Turn] = [
    partial(_replace_letters, ascii_lowercase[n:] + ascii_lowercase[:n]) for n in range(1, 26)
]
_ROT13 = _SHIFTS[12]
_CIPHERS: list[_Turn] = [*_SHIFTS, partial(_replace_letters, ascii_lowercase[::-1]), _reverse_words]


def _encipher_common_words() -> dict[str, list[_Turn]]:
    """Return the ciphers by which a word is a common one."""
    found: dict[str, list[_Turn]] = {}
    for decode in _CIPHERS:
        for word in _COMMON_WORDS | _SHORT_WORDS if decode is _ROT13 else _COMMON_WORDS:
            found.setdefault(_invert(decode, word), []).append(decode)
    return found


def _invert(decode: _Turn, word: str) -> str:
    """Return the word that a cipher turns into the given one."""
    if decode is _reverse_words:
        return word[::-1]
    letters = {decode(letter): letter for letter in ascii_lowercase}
    return "".join(letters[letter] for letter in word)


_ENCIPHERED = _encipher_common_words()


def decode_clauses(plain: str) -> tuple[str, bool]:
    """Return the normalised text with each clause decoded, and whether it may be reversed as a whole.

    Each clause keeps its place. It is decoded by its own cipher or, if it has no common words, by that of the
    clause before it. The text is empty if no clause is in a cipher.
    """
    clauses = _CLAUSE_END.split(plain)
    ciphers = [_find_cipher(clause) if len(clause) > 1 else None for clause in clauses]
    cipher = next(filter(None, ciphers), None)
    if not cipher:
        return "", False
    turned = []
    for clause, own in zip(clauses, ciphers, strict=True):
        cipher = own or cipher
        turned.append(cipher(clause))
    return "".join(turned), _reverse_words in ciphers


def _find_cipher(clause: str) -> _Turn | None:
    """Return the cipher by which a clause has several common words, and twice as many as it has now."""
    words = _PLAIN_WORD.findall(clause)
    found = [_ENCIPHERED[word] for word in words if word in _ENCIPHERED]
    if len(found) < _MIN_COMMON_WORDS:
        return None
    cipher, common = Counter(chain.from_iterable(found)).most_common(1)[0]
    known = sum(word in _COMMON_WORDS or word in _SHORT_WORDS for word in words)
    return cipher if common >= max(_MIN_COMMON_WORDS, _MIN_COMMON_SHARE * len(words), 2 * known) else None


PIG_LATIN = re.compile(r"\b(?:[a-z']{1,20}ay[.,;:!?]{0,2}\s{1,3}){2,400}[a-z']{1,20}ay\b", re.IGNORECASE)
MAYBE_PIG_LATIN = re.compile(r"ay[.,;:!?]{0,2}\s{1,3}[a-z']{1,20}ay\b", re.IGNORECASE)
_PIG_WORD = re.compile(r"([a-z']+)ay\b")
_MOVED = re.compile(r"(?:qu|[^aeiou])$")
_VOWELS = frozenset("aeiou")


def decode_pig_latin(code: str) -> str:
    """Return words such as "eviouspray" and "allway" in plain letters."""
    return _PIG_WORD.sub(_decode_pig_word, code.lower())


def _decode_pig_word(match: re.Match[str]) -> str:
    """Move consonants back to the start, as many as give a word of the lexicon, or one."""
    from memoryhub.security.prompt_injection.lexicon import LEXICON  # compiling it takes time

    rest = match[1]
    if rest[0] in _VOWELS and rest[-1] in "wyh":
        return rest[:-1]
    moved = ""
    readings: list[str] = []
    while rest and (last := _MOVED.search(rest)) and len(readings) < 3:
        rest, moved = rest[: last.start()], last.group() + moved
        readings.append(moved + rest)
    known = (word for word in readings if word in LEXICON.tree or word in _COMMON_WORDS)
    return next(known, next(iter(readings), match[1]))

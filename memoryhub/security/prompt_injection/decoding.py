"""Decoding of hidden text: base64, hexadecimal, binary, Morse, Braille, ciphers and others. No Django."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from string import ascii_lowercase

from memoryhub.core.rule_files import PatternFile, Regex, load_rule_file

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


_BASE64 = re.compile(r"(?<![\w+/])[A-Za-z0-9+/_-]{16,8000}={0,2}(?![\w+/])")
_MAYBE_SPACED_CODE = re.compile(r"[ :,-](?:(?:0x|U\+00)?(?:[0-9a-fA-F]{2}|\d{3})[ :,-]{1,2}){2}")
_HEX = re.compile(
    r"(?<![0-9a-fA-F])(?:(?:0x|U\+00)?[0-9a-fA-F]{2}[ :,-]{0,2}){11,4000}"
    r"(?:0x|U\+00)?[0-9a-fA-F]{2}(?![0-9a-fA-F])"
)
_LONG_WORD = re.compile(r"\S{16,}")
_CHUNK = re.compile(r"[^\s+/#>*|-]\S+|[+/-]\S{3,}")  # no sign that joins or quotes
_PUNCTUATION = "\"'`,.;:()[]{}"
_HEX_SIGNS = re.compile(r"0x|U\+00|[ :,-]")
_CHARACTER_CODES = re.compile(r"(?<!\d)(?:\d{2,3}[ ,]{1,2}){11,2000}\d{2,3}(?!\d)")
# Five characters are four bytes. The first one is in a small range if they are ASCII.
_BASE85 = re.compile(
    r"(?:[A-Zabcdef][\w!#$%&()+;*<=>?@^`{|}~-]{4}){4,1600}[\w!#$%&()+;*<=>?@^`{|}~-]{0,4}", re.ASCII
)
_ASCII85 = re.compile(r"(?:[+-J][!-u]{4}){4,1600}[!-u]{0,4}")
_BASE32 = re.compile(r"(?<![\w+/])[A-Z2-7]{16,8000}={0,6}(?![\w+/])")
_MAYBE_BINARY = re.compile("000")
_NON_ASCII = re.compile("[\u2800-\U000e01ef]")
_BRAILLE = re.compile("[\u2801-\u283f][\u2800-\u283f ]{8,4000}")
_BRAILLE_LETTERS = str.maketrans(
    dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵\u2800⠂⠲⠖⠦⠄⠤", "abcdefghijklmnopqrstuvwxyz ,.!?'-", strict=True))
)
_MORSE = re.compile(r"(?<![.-])(?:[.-]{1,5}[ /|]{1,3}){11,2000}[.-]{1,5}(?![.-])")
_MAYBE_MORSE = re.compile(r"[.-]{1,5} [.-]{1,5} [.-]{1,5} ")
_MORSE_LETTERS = dict(
    zip(
        """.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .--
        -..- -.-- --..""".split(),
        "abcdefghijklmnopqrstuvwxyz",
        strict=True,
    )
)
_MORSE_SIGNS = re.compile(r"([.-]+)( ?[/|] ?|  +)?")
# A byte can be hidden in an invisible character that selects a variant of the character before it.
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,2000}")
_BINARY = re.compile(r"(?<!\d)(?:[01]{8}[ ,]{0,2}){8,4000}(?!\d)")
_PART = re.compile(
    r"""(?:[=:(\[,+]|\b(?:is|be|and|y|part|half|take|add|join|combine|with|plus|ist|und|है))[ ]?"""
    r"""(?:"([^"\n]{1,80})"|'([^'\n]{1,80})'|`([^`\n]{1,80})`)"""
)
_JOINING = (
    *("+", "concat", "combin", "join", "glue", "together", "halves", "parts", "fragments", "sentence"),
    *("in order", "evaluate", "verbind", "zusammen", "जोड़"),
)
_MAX_PARTS = 20
_MIN_CODE_LENGTH = 16
_MIN_GROUPS_LENGTH = 20
_MIN_READABLE_SHARE = 0.9  # share of letters, digits, blanks and punctuation in decoded text


@dataclass(frozen=True)
class DecodedPassage:
    """A decoded passage, with the place of its code in the original text and the name of the code."""

    start: int
    end: int
    text: str
    code: str


def find_encoded_passages(text: str) -> Iterator[DecodedPassage]:
    """Yield the passages of the original text that decode to readable text."""
    yield from _join_parts(text)
    yield from _decode_candidates(text)


def _join_parts(text: str) -> Iterator[DecodedPassage]:
    """Yield the joined quoted parts of a text that asks to join them."""
    lowered = text.lower()
    if not any(word in lowered for word in _JOINING):
        return
    parts = list(islice(_PART.finditer(text), _MAX_PARTS))
    if len(parts) > 1:
        for between in ("", " "):
            joined = between.join(part[part.lastindex or 0] for part in parts)
            yield DecodedPassage(parts[0].start(), parts[-1].end(), joined, "parts")


def _decode_candidates(text: str) -> Iterator[DecodedPassage]:
    for word in _LONG_WORD.finditer(text):
        start, end = word.span()
        for pattern, code, decode, size in _CODES:
            for match in pattern.finditer(text, start, end) if end - start >= size else ():
                if plain := decode(match.group()):
                    yield DecodedPassage(*match.span(), plain, code)
    for chunks in _find_chunks(text):
        yield from _join_chunks(chunks)
    for maybe, codes in _SPACED_CODES:
        for pattern, code, decode in codes if maybe.search(text) else ():
            for match in pattern.finditer(text):
                if plain := decode(match.group()):
                    yield DecodedPassage(*match.span(), plain, code)


def _find_chunks(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the words of one length that follow each other, with the next one if that is shorter."""
    chunks: list[re.Match[str]] = []
    size = 0
    for word in _CHUNK.finditer(text):
        length = word.end() - word.start()
        if length != size:
            if size * len(chunks) >= _MIN_CODE_LENGTH and len(chunks) > 1:
                yield [*chunks, word] if length < size else chunks
            chunks, size = [], length
        chunks.append(word)
    if size * len(chunks) >= _MIN_CODE_LENGTH and len(chunks) > 1:
        yield chunks


def _join_chunks(chunks: list[re.Match[str]]) -> Iterator[DecodedPassage]:
    """Yield what the chunks of a code give together. Words before them, and one after them, are left out."""
    parts = [chunk.group().strip(_PUNCTUATION) for chunk in chunks]
    first = next(
        (place for place, part in enumerate(parts) if not (part.isalpha() and part[1:].islower())), len(parts)
    )
    for last in (len(parts), len(parts) - 1):
        joined = "".join(parts[first:last])
        for pattern, code, decode, _ in _CODES:
            if pattern.fullmatch(joined) and (plain := decode(joined)):
                yield DecodedPassage(chunks[first].start(), chunks[last - 1].end(), plain, code)
                return


def _decode_base64(code: str) -> str:
    body = code.rstrip("=").replace("-", "+").replace("_", "/")
    if body.isalpha() and (body.islower() or body.isupper()):
        return ""  # a long word
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return _to_readable_text(raw)


def _decode_groups(code: str, decode: Callable[[str], bytes]) -> str:
    """Decode groups of five. The last characters may be punctuation that follows the code."""
    if not _read_groups(code[:_MIN_GROUPS_LENGTH], decode):
        return ""
    readings = (_read_groups(code[: len(code) - cut], decode) for cut in range(5))
    return next(filter(None, readings), "")


def _read_groups(code: str, decode: Callable[[str], bytes]) -> str:
    try:
        return _to_readable_text(decode(code))
    except ValueError:
        return ""


def _decode_base32(code: str) -> str:
    body = code.rstrip("=")
    try:
        return _to_readable_text(base64.b32decode(body + "=" * (-len(body) % 8)))
    except binascii.Error:
        return ""


def _decode_binary(code: str) -> str:
    digits = code.replace(" ", "").replace(",", "")
    return _to_readable_text(int(digits, 2).to_bytes(len(digits) // 8, "big"))


def _decode_hex(code: str) -> str:
    digits = _HEX_SIGNS.sub("", code)
    return _to_readable_text(bytes.fromhex(digits)) if len(digits) % 2 == 0 else ""


def _decode_character_codes(code: str) -> str:
    numbers = [int(number) for number in re.findall(r"\d+", code)]
    return _to_readable_text(bytes(numbers)) if max(numbers) < 256 else ""


def _decode_morse(code: str) -> str:
    signs = _MORSE_SIGNS.findall(code)
    return "".join(_MORSE_LETTERS.get(letter, "") + " " * bool(gap) for letter, gap in signs)


def _decode_braille(code: str) -> str:
    return re.sub("[\u2800-\u28ff]", "", code.translate(_BRAILLE_LETTERS))


def _decode_variation_selectors(code: str) -> str:
    places = (ord(sign) for sign in code)
    return _to_readable_text(bytes(n - 0xFE00 if n < 0x10000 else n - 0xE0100 + 16 for n in places))


# For each code the pattern, the name, the decoder, and the characters of the shortest one.
_CODES = (
    (_BASE64, "base64", _decode_base64, 16),
    (_HEX, "hexadecimal", _decode_hex, 24),
    (_BASE32, "base32", _decode_base32, 16),
    (_BASE85, "base85", partial(_decode_groups, decode=base64.b85decode), 20),
    (_ASCII85, "Ascii85", partial(_decode_groups, decode=base64.a85decode), 20),
)
# Codes that may contain blanks: a quick test, and for each code the pattern, the name and the decoder.
_SPACED_CODES = (
    (
        _NON_ASCII,
        (
            (_VARIATION_SELECTORS, "variation selectors", _decode_variation_selectors),
            (_BRAILLE, "Braille", _decode_braille),
        ),
    ),
    (_MAYBE_MORSE, ((_MORSE, "Morse code", _decode_morse),)),
    (MAYBE_PIG_LATIN, ((PIG_LATIN, "Pig Latin", decode_pig_latin),)),
    (_MAYBE_BINARY, ((_BINARY, "binary", _decode_binary),)),
    (
        _MAYBE_SPACED_CODE,
        (
            (_HEX, "hexadecimal", _decode_hex),
            (_CHARACTER_CODES, "character codes", _decode_character_codes),
        ),
    ),
)


def _to_readable_text(raw: bytes) -> str:
    """Decode UTF-8, or UTF-16 as in PowerShell. Return "" if the bytes are no text or not readable."""
    try:
        text = raw.decode("utf-16-le" if raw[1:2] == b"\0" else "utf-8")
    except UnicodeDecodeError:
        return ""
    readable = sum(1 for letter in text if letter.isalnum() or letter in " \n\t.,;:!?'\"-_/<>|[]()")
    has_letters = any(letter.isalpha() for letter in text)
    return text if has_letters and readable >= _MIN_READABLE_SHARE * len(text) else ""


_WORDS = re.compile(r"[^\W_]+")
_BRACE = re.compile(r"[{}]")
_MAX_CALL_LENGTH = 6000


class MarkupPatterns(PatternFile):
    tokens: Regex
    system_tag: Regex
    call_openings: Regex
    json_call: Regex
    json_arguments: Regex
    image: Regex
    html_image: Regex
    carries_data: Regex


_RULES = load_rule_file(Path(__file__).parent / "rules" / "markup.toml", MarkupPatterns)


@dataclass(frozen=True)
class MarkupMatch:
    """A span of the normalised text. If ``removed`` is false, the markup stays with other brackets."""

    start: int
    end: int
    kind: str
    reason: str
    removed: bool


def find_markup(text: str) -> list[MarkupMatch]:
    """Return the markup in order of place."""
    found: list[MarkupMatch] = []
    if "<" in text or "[" in text:
        found += _find_calls(text)
        found += [
            MarkupMatch(*match.span(), "markup", "a chat or memory token", False)
            for match in _RULES.tokens.finditer(text)
        ]
        if "system>" in text:
            found += _find_system_tags(text)
    if '"' in text and "{" in text:
        found += _find_json_calls(text)
    if "//" in text:
        found += _find_images(text)
    return sorted(found, key=lambda markup: (markup.start, markup.end))


def _find_system_tags(text: str) -> Iterator[MarkupMatch]:
    """Yield system tags around prose. Around a single value they are ordinary XML."""
    for match in _RULES.system_tag.finditer(text):
        before = text[max(0, match.start() - 200) : match.start()].rpartition("<")[2]
        after = text[match.end() : match.end() + 200].partition("<")[0]
        closing = match.group() == "</system>"
        if not closing or max(len(_WORDS.findall(before)), len(_WORDS.findall(after))) > 2:
            yield MarkupMatch(*match.span(), "markup", "a system tag", False)


def _find_calls(text: str) -> Iterator[MarkupMatch]:
    """Yield tool calls on their own lines. Inside a sentence only the tags are made harmless."""
    position = 0
    for match in _RULES.call_openings.finditer(text):
        if match.start() < position:
            continue
        closing = f"</{match[1] or match[2]}>"
        end = text.find(closing, match.end(), match.end() + _MAX_CALL_LENGTH)
        position = len(text) if end < 0 and len(text) - match.end() < _MAX_CALL_LENGTH else end + len(closing)
        if end < 0 or not _is_alone_on_its_lines(text, match.start(), position):
            position = match.end()
            continue
        yield MarkupMatch(match.start(), position, "toolcall", "a tool call", True)


def _find_json_calls(text: str) -> Iterator[MarkupMatch]:
    position = 0
    closing: dict[int, int] | None = None
    for match in _RULES.json_call.finditer(text):
        opening = text.rfind("{", max(position, match.start() - 200), match.start() + 1)
        if opening < position:
            continue
        if closing is None:
            closing = _match_braces(text)
        end = closing.get(opening, 0)
        if (
            0 < end - opening < _MAX_CALL_LENGTH
            and _RULES.json_arguments.search(text, opening, end)
            and _is_alone_on_its_lines(text, opening, end)
        ):
            yield MarkupMatch(opening, end, "toolcall", "a tool call in JSON", True)
            position = end


def _match_braces(text: str) -> dict[int, int]:
    """Return the end of each object in braces, by the place of its opening brace."""
    found: dict[int, int] = {}
    open_braces: list[int] = []
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            open_braces.append(match.start())
        elif open_braces:
            found[open_braces.pop()] = match.end()
    return found


def _is_alone_on_its_lines(text: str, start: int, end: int) -> bool:
    """Return True if the lines of a span contain fewer than four other words."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    newline = text.find("\n", end)
    after = text[end : newline if newline >= 0 else len(text)]
    return len(_WORDS.findall(f"{before[-200:]} {after[:200]}")) < 4


def _find_images(text: str) -> Iterator[MarkupMatch]:
    for pattern in (_RULES.image, _RULES.html_image):
        for match in pattern.finditer(text):
            if _RULES.carries_data.search(match[1]):
                yield MarkupMatch(*match.span(), "exfiltration", "an image that carries data away", True)

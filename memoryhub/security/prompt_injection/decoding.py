"""Decoding of hidden text: base64, hexadecimal, character codes, rot13 and reversed text. No Django."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

_BASE64 = re.compile(r"(?<![\w+/])[A-Za-z0-9+/_-]{16,8000}={0,2}(?![\w+/])")
_MAYBE_SPACED_CODE = re.compile(
    r"[0-9a-fA-F]{2}[ :][0-9a-fA-F]{2}[ :][0-9a-fA-F]{2}[ :]|\d[ ,]{1,2}\d{2,3}[ ,]{1,2}\d{2,3}[ ,]"
)
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2}[ :]?){11,4000}[0-9a-fA-F]{2}(?![0-9a-fA-F])")
_CHARACTER_CODES = re.compile(r"(?<!\d)(?:\d{2,3}[ ,]{1,2}){11,2000}\d{2,3}(?!\d)")
# Words of orders in rot13 and reversed. Texts without one of them are not decoded.
_ROT13 = ("vtaber", "qvfertneq", "sbetrg", "vafgehpgvba", "cebzcg", "cerivbhf", "erirny")
_REVERSED = ("erongi", "draggersid", "tegrof", "noitcurtsni", "tpmorp", "suoiverp", "laever")
_MIN_CODE_LENGTH = 16
_MAX_CANDIDATES = 40  # in one text
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
    for match, code, decode in islice(_candidates(text), _MAX_CANDIDATES):
        plain = decode(match.group())
        if plain:
            yield DecodedPassage(match.start(), match.end(), plain, code)


def _candidates(text: str) -> Iterator[tuple[re.Match[str], str, Callable[[str], str]]]:
    end = 0
    for word in text.split():
        if len(word) < _MIN_CODE_LENGTH:
            continue
        start = text.index(word, end)
        end = start + len(word)
        for match in _BASE64.finditer(text, start, end):
            yield match, "base64", _decode_base64
        for match in _HEX.finditer(text, start, end):
            yield match, "hexadecimal", _decode_hex
    if _MAYBE_SPACED_CODE.search(text):
        for match in _HEX.finditer(text):
            yield match, "hexadecimal", _decode_hex
        for match in _CHARACTER_CODES.finditer(text):
            yield match, "character codes", _decode_character_codes


def decode_rot13(plain: str) -> str | None:
    """Return the decoded text if the normalised text may be in rot13."""
    return codecs.encode(plain, "rot13") if any(word in plain for word in _ROT13) else None


def reverse_text(plain: str) -> str | None:
    """Return the reversed text if the normalised text may be written backwards."""
    return plain[::-1] if any(word in plain for word in _REVERSED) else None


def _decode_base64(code: str) -> str:
    body = code.rstrip("=").replace("-", "+").replace("_", "/")
    if body.isalpha() and (body.islower() or body.isupper()):
        return ""  # a long word
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return _to_readable_text(raw)


def _decode_hex(code: str) -> str:
    digits = code.replace(" ", "").replace(":", "")
    return _to_readable_text(bytes.fromhex(digits)) if len(digits) % 2 == 0 else ""


def _decode_character_codes(code: str) -> str:
    numbers = [int(number) for number in re.findall(r"\d+", code)]
    return _to_readable_text(bytes(numbers)) if max(numbers) < 256 else ""


def _to_readable_text(raw: bytes) -> str:
    """Decode UTF-8. Return "" if the bytes are no text or not readable."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    readable = sum(1 for letter in text if letter.isalnum() or letter in " \n\t.,;:!?'\"-_/<>|[]()")
    has_letters = any(letter.isalpha() for letter in text)
    return text if has_letters and readable >= _MIN_READABLE_SHARE * len(text) else ""

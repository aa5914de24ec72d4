"""Characters that look like Latin letters. Pure data.

NFKC already turns fullwidth, mathematical, circled and superscript letters into plain ones; these tables name
what it leaves alone. Keys are lower case: letters are lowered before they are looked up.
"""

from __future__ import annotations

# Letters of other living alphabets: replaced only in words that read as Latin, or Russian would be noise.
_CYRILLIC = dict(zip("авсԁеԍһіїјкӏмԛорѕтԝхуүзьъѵгпн", "abcdeghiijklmqopstwxyy3bbvrnh", strict=True))
_GREEK = dict(zip("αβγδεζηικλμνορσςτυχωϳ", "abydezniklmvopoctuxwj", strict=True))
_ARMENIAN = dict(zip("օսոհցզքայլւ", "ounhgqpwjli", strict=True))
FOREIGN: dict[str, str] = {**_CYRILLIC, **_GREEK, **_ARMENIAN}

# Variants of Latin letters that no living language spells ordinary words with: always replaced.
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_STROKED = dict(zip("łøđħıŧƀƃɓƈɗɖɛɠƙɱɲŋɵƥɾʂƭʋʉɨɩɑɡⱥɇɉɍɏ", "lodhitbbbcddegkmnnoprstvuiiagaejry", strict=True))
_TURNED = dict(zip("ǝɐɔɟɥɯɹʇʌʍʎ", "eacfhmrtvwy", strict=True))
LATIN: dict[str, str] = {**_SMALL_CAPITALS, **_STROKED, **_TURNED, "æ": "ae", "œ": "oe", "ß": "ss", "þ": "th"}


def _enclosed() -> dict[str, str]:
    """Negative circled and squared letters and regional indicators, which NFKC keeps."""
    found: dict[str, str] = {}
    for first in (0x1F150, 0x1F170, 0x1F1E6):
        found.update({chr(first + step): chr(ord("a") + step) for step in range(26)})
    return found


LATIN.update(_enclosed())

# Digits and signs that stand for letters in "l33t": each with what it may mean, likeliest first.
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

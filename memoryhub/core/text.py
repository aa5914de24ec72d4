"""Words, stems and short forms of a text. Pure.

Stems and folding follow what SQLite's ``porter unicode61 remove_diacritics 2`` tokenizer does, so that what
the index matched can be recognised again when the match is scored.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

WORD = re.compile(r"[^\W_]+")
# Scripts written without spaces, where a "word" of the tokenizer is a whole sentence.
CJK = re.compile(r"[぀-ヿㇰ-ㇿ㐀-䶿一-鿿豈-﫿ｦ-ﾟ가-힯฀-๿\U00020000-\U0003FFFF]")
# Diacritics leave Latin letters alone: й and и, が and か are different letters, to readers and to the index.
_LATIN_MARKS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n\s*\n|(?<=[。！？])")
_MARKDOWN_MARKS = re.compile(r"^(?:[#>*\s]+|-+(?=\s|$))+")  # of Markdown; "--quiet" is an option
# What a tokenizer makes of a text: blanks go with the word behind them.
_TOKEN_PIECE = re.compile(
    r"[A-Za-z]{1,5}|[0-9]|[!-/:-@\[-`{-~]{1,2}|[^\S ]\s*|[\u00a1-\u07ff\u1e00-\u1fff\u2010-\u2bff]{1,2}"
    r"|[^\x00-\u07ff\u1e00-\u2bff]"
)
_ASTRAL = re.compile(r"[\U00010000-\U0010ffff]")  # emoji, and scripts that are rare
_porter = Stemmer.Stemmer("porter", 0)
_WITHOUT_MARKS = str.maketrans("", "", "#*_`~")
_VOWEL_THEN_CONSONANT = re.compile(r"[aeiouy][^aeiou]")

# English function and question words; a query made of nothing else keeps them.
STOP_WORDS = frozenset(
    """a about after again all also am an and any are aren as at be because been before being between both
    but by can could couldn d did didn do does doesn doing don down during each few for from further had
    hadn has hasn have haven having he her here hers him his how i if in into is isn it its itself just
    ll m me more most my no nor not now o of off on once only or other our out over own re s same shall
    she should shouldn so some such t than that the their them then there these they this those through
    to too under until up us ve very was wasn we were weren what when where which while who whom why
    will with won would wouldn you your yours""".split()
)

NEGATIONS = frozenset(
    """aren cannot couldn didn doesn don hadn hasn haven isn never no nor not shouldn wasn weren without won
    wouldn""".split()
)


def fold(text: str) -> str:
    """Lower case, Latin letters without diacritics, one form of the Greek sigma."""
    lowered = text.lower()
    if text.isascii():
        return lowered
    bare = _LATIN_MARKS.sub("", unicodedata.normalize("NFD", lowered))
    return unicodedata.normalize("NFC", bare).replace("ς", "σ").replace("µ", "μ").replace("ſ", "s")


def words(text: str) -> list[str]:
    """The folded words of a text, in order."""
    return WORD.findall(fold(text))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The Porter stem of one folded word.

    SQLite leaves very short and very long words alone, and knows two endings that Snowball's "porter" does
    not: -logy becomes -log, -bly becomes what -ble becomes.
    """
    # Bytes as letters: so does SQLite count, and it matters beside an ß.
    letters = word.encode("utf-8", "surrogatepass").decode("latin-1")
    if not 3 <= len(letters) <= 64:
        return word
    found = str(_porter.stemWord(letters))
    if found.endswith("logi") and _VOWEL_THEN_CONSONANT.search(found[:-4]):
        found = found[:-1]
    elif found.endswith("bli") and _VOWEL_THEN_CONSONANT.search(found[:-3]):
        found = str(_porter.stemWord(f"{found[:-1]}e"))
    return found.encode("latin-1").decode("utf-8", "surrogatepass")


def terms(text: str) -> set[str]:
    """The distinct stems of a text without stop words: what two texts are compared by."""
    return {stem(word) for word in words(text) if word not in STOP_WORDS}


def decisive_words(text: str) -> set[str]:
    """The numbers of a text, and "not" if it denies anything: who differ in these do not say the same."""
    found = set(words(text))
    return {word for word in found if any(map(str.isdigit, word))} | ({"not"} if found & NEGATIONS else set())


def jaccard(one: set[str], other: set[str]) -> float:
    """Shared share of two term sets, 0..1; two empty sets share nothing."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def collapse_whitespace(text: str) -> str:
    """One line: runs of white space become a blank."""
    return " ".join(text.split())


def shorten(text: str, chars: int) -> str:
    """One line of at most ``chars`` characters, cut at a word if one ends near, with an ellipsis."""
    line = collapse_whitespace(text.lstrip()[: chars * 8 + 1000])
    if len(line) <= chars:
        return line
    cut = line[: max(chars - 1, 0)]
    head, _, tail = cut.rpartition(" ")
    if head and len(tail) < 20:
        cut = head
    return cut.rstrip(" ,;:-") + "…"


def first_line(text: str) -> str:
    """The first line that holds anything, without Markdown's heading and list marks."""
    for line in text.splitlines():
        bare = _MARKDOWN_MARKS.sub("", line).strip()
        if bare:
            return bare
    return collapse_whitespace(text)


def without_title_line(content: str, title: str) -> str:
    """Return the content without a first line that repeats the title, unless that line begins a paragraph.

    Markdown marks, whitespace and a final full stop or colon do not count.
    """
    first, _, rest = content.strip().partition("\n")
    if not title.strip() or _comparable(first) != _comparable(title):
        return content
    begins_paragraph = not first.startswith("#") and rest.partition("\n")[0].strip()
    return content if begins_paragraph else rest.strip("\r\n")


def _comparable(line: str) -> str:
    return collapse_whitespace(line.translate(_WITHOUT_MARKS)).rstrip(" .:")


def without_title_prefix(text: str, title: str) -> str:
    """Return a text of one line without the title that it starts with."""
    prefix = title.rstrip("…")
    return text[len(prefix) :].lstrip(" .…:-") if text.startswith(prefix) else text


def make_title(content: str, chars: int = 80) -> str:
    """A short title from a content that brought none."""
    return shorten(first_line(content), chars)


def make_summary(content: str, limit: int = 20) -> str:
    """The first ``limit`` words on one line; text without spaces is cut at three characters for each word."""
    line = collapse_whitespace(content.lstrip()[: limit * 200])
    found = line.split(" ")
    if len(found) > limit:
        line = " ".join(found[:limit]).rstrip(" ,;:") + "…"
    longest = limit * (3 if CJK.search(line) else 12)
    return shorten(line, longest)


def estimate_tokens(text: str) -> int:
    """About how many tokens a language model reads here; rather too many than too few.

    Five letters of a word are one, and so are a digit, two marks, two letters of another alphabet, a sign of
    CJK and a line's end; an emoji is three. Never fewer than one for four characters. Two texts have together
    no fewer than in one, and what a text begins with has no more than the whole. Beside a tokenizer of 32 000
    pieces it tells 3 to 11 % too many of English, code and JSON; four characters for a token told 40 % too
    few of JSON.
    """
    found = len(_TOKEN_PIECE.findall(text))
    if not text.isascii():
        found += 2 * len(_ASTRAL.findall(text))
    return max(found, (len(text) + 3) // 4)

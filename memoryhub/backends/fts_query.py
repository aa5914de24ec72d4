"""Parse typed queries. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice, product

from memoryhub.core.text import CHINESE_QUESTION_WORDS, CJK, STOP_WORDS, WORD, fold, is_short, stem, words

TRIGRAM_LENGTH = 3  # the shortest text that the trigram index can find
_QUOTED = re.compile(r'(?<!\S)"([^"]+)"(?!\w)')  # f("x") is code
_JOINED_WORDS = re.compile(r"\w[\w\-]*")  # "--name" is code
_POSSESSIVE = re.compile(r"^(\w{2,})['’]s$", re.IGNORECASE)  # the owner's name counts, as a word
_CONTRACTION = re.compile(r"\w+['’](?:t|re|ve|ll|d|m)")
_CAMEL_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
MAX_JOINED_WORDS = 3  # of a name in camel case
_EDGES = "\"'`,;:!?()[]{}<>…“”‘’。，、！？；：（）「」『』؟،؛।"
_CJK_RUN = re.compile(f"(?:{CJK.pattern})+")
# Thai, Lao, Tibetan, Burmese and Khmer have letters, of which a pair occurs in many words.
_LETTERS_WITHOUT_SPACES = re.compile("[\u0e00-\u109f\u1780-\u17ff]")
# Scripts of India, where the tokenizer splits words at vowel signs.
_WITH_VOWEL_SIGNS = re.compile("[\u0900-\u0963\u0966-\u0dff]")
MAX_TERMS = 32  # of one query that are searched for; more would add little
MAX_WORDS = 2 * MAX_TERMS
MAX_CHARS = 2000
MAX_TRIGRAMS = 40  # of one text; the rest is not looked up in the trigram index


class WordStart(str):
    """The beginning of words, where a text counts as a word."""

    __slots__ = ()


@dataclass(frozen=True)
class Term:
    """One search term.

    ``stems``: the stems of its words, empty for a literal without words. ``literal``: the folded text that a
    match must contain, empty for a plain word. ``spelling``: the typed text in lower case. ``at_start``: the
    term matches only the start of a longer word. ``variants``: texts that count as its word: "foreign keys"
    for ``foreignKeys``, and the reverse; the beginning of its other forms in languages with many endings.
    """

    stems: tuple[str, ...]
    words: tuple[str, ...]
    literal: str = ""
    spelling: str = ""
    at_start: bool = False
    variants: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Query:
    """A parsed query. ``text`` is the folded ``typed`` text, both on one line."""

    text: str
    terms: tuple[Term, ...]
    typed: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words of all terms in order, at most :data:`MAX_WORDS`."""
        return tuple(islice(dict.fromkeys(word for term in self.terms for word in term.words), MAX_WORDS))

    @property
    def is_literal(self) -> bool:
        """Whether the query is one name, path, piece of code or quoted phrase."""
        return len(self.terms) == 1 and bool(self.terms[0].literal)

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.literal for term in self.terms if term.literal))

    def spellings(self, texts: Iterable[str]) -> list[str]:
        """Return words or literals folded and as typed, because the trigram index keeps diacritics."""
        typed = {term.literal or term.words[0]: term.spelling for term in self.terms}
        both = (form for text in texts for form in (text, typed.get(text)) if form)
        return list(dict.fromkeys(both))


def parse_query(typed: str) -> Query:
    """Parse a query. Stop words and single characters are ignored unless it contains nothing else."""
    if len(typed) > MAX_CHARS:
        typed = typed[:MAX_CHARS].rpartition(" ")[0] or typed[:MAX_CHARS]  # no part of a word
    typed = typed.replace("\x00", " ").encode("utf-8", "replace").decode()
    typed = unicodedata.normalize("NFC", typed)
    phrases = [_phrase_term(phrase) for phrase in _QUOTED.findall(typed) if phrase.strip()]
    chunks = _split_chunks(_QUOTED.sub(" ", typed))
    terms = _join_words([term for chunk in chunks for term in _chunk_terms(chunk)])
    useful = phrases + [term for term in terms if _is_useful(term)]
    if not phrases and len(chunks) == 1 and not WORD.search(chunks[0]):  # ->
        useful = [_phrase_term(chunks[0])]
    elif not phrases and len(chunks) == 1 and len(useful) < len(terms) > 1:  # node_7, plan-b
        useful = [_phrase_term(chunks[0].strip(_EDGES))]
    line = " ".join(typed.split())
    return Query(fold(line), tuple(dict.fromkeys(useful or terms))[:MAX_TERMS], line)


def _split_chunks(text: str) -> list[str]:
    """Split a query at spaces and Chinese question words ("什么时候部署"), unless it contains nothing else.

    A single character between these words, such as a verb, counts as a part of them.
    """
    if CHINESE_QUESTION_WORDS.search(text):
        chunks = CHINESE_QUESTION_WORDS.sub(" ", text).split()
        subjects = [
            chunk for chunk in chunks if WORD.search(chunk) and not CJK.fullmatch(chunk.strip(_EDGES))
        ]
        if subjects:
            return subjects
    return text.split()


def _join_words(terms: list[Term]) -> list[Term]:
    """Let words next to each other also match their name in camel case."""
    variants: dict[int, list[str]] = defaultdict(list)
    is_name = [not one.literal and len(one.words[0]) > 1 and one.words[0] not in STOP_WORDS for one in terms]
    for start, length in product(range(len(terms)), range(2, MAX_JOINED_WORDS + 1)):
        if all(is_name[start : start + length]) and start + length <= len(terms):
            joined = "".join(one.words[0] for one in terms[start : start + length])
            for number in range(start, start + length):
                variants[number].append(joined)
    return [
        replace(one, variants=(*one.variants, *variants[number])) if number in variants else one
        for number, one in enumerate(terms)
    ]


def _is_useful(term: Term) -> bool:
    """Return whether a term counts next to others: no stop word and no single character but CJK and emoji.

    A contraction such as "don't" is a stop word.
    """
    text = term.literal or term.words[0]
    if len(text) == 1:
        return bool(CJK.match(text)) or unicodedata.category(text) == "So"
    if _CONTRACTION.fullmatch(text):
        return not STOP_WORDS.issuperset(term.words[:1])
    return bool(term.literal) or text not in STOP_WORDS


def _chunk_terms(chunk: str) -> list[Term]:
    """Return the terms of a chunk without white space."""
    bare = chunk.strip(_EDGES).rstrip(".") or chunk
    if CJK.search(bare):
        return _cjk_terms(bare)
    if _WITH_VOWEL_SIGNS.search(bare):
        return [Term((), (), fold(bare), bare.lower())]
    bare = _POSSESSIVE.sub(r"\1", bare)
    found = WORD.findall(bare)
    if found and _JOINED_WORDS.fullmatch(bare):
        return [_word_term(word) for word in found]
    return [_phrase_term(bare)]


def _cjk_terms(chunk: str) -> list[Term]:
    """Return terms for scripts without spaces: overlapping parts of two or three characters replace words."""
    terms: list[Term] = []
    for run in _CJK_RUN.findall(chunk):
        size = TRIGRAM_LENGTH if _LETTERS_WITHOUT_SPACES.match(run) else 2
        parts = [run[i : i + size] for i in range(len(run) - size + 1)] or [run]
        terms += [Term((), (), fold(part), part.lower()) for part in parts]
    for rest in _CJK_RUN.split(chunk):
        if rest.strip(_EDGES):
            terms += _chunk_terms(rest)
    return terms


def _word_term(typed: str) -> Term:
    word = fold(typed)
    parts = () if typed.islower() else _CAMEL_CASE.split(typed)
    variants = (fold(" ".join(parts)),) if len(parts) > 1 and min(map(len, parts)) > 1 else ()
    return Term((stem(word),), (word,), spelling=typed.lower(), variants=variants)


def _phrase_term(chunk: str) -> Term:
    """Return the term of a phrase, or of a name with punctuation such as ``foo.bar`` or ``C++``.

    Its single letters count only as a part of the phrase.
    """
    line = " ".join(chunk.split())
    if WORD.fullmatch(line) and is_short(line):
        return _word_term(line)
    found = [word for word in words(chunk) if len(word) > 1][:MAX_TERMS]
    return Term(tuple(stem(word) for word in found), tuple(found), fold(line), line.lower())


def cjk_trigrams(query_text: str) -> list[str]:
    """Return the trigrams of the CJK parts of a query."""
    found: list[str] = []
    for run in _CJK_RUN.findall(query_text):
        found += [run[i : i + TRIGRAM_LENGTH] for i in range(len(run) - TRIGRAM_LENGTH + 1)]
    return found[: 2 * MAX_TERMS]

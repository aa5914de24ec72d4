"""From what a person or an agent typed to safe index expressions. Pure.

Any input is safe: every word reaches FTS5 inside double quotes, so no operator of its query language is ever
read from the input.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from memoryhub.core.text import CJK, STOP_WORDS, WORD, fold, stem, words

TRIGRAM_LENGTH = 3  # shortest text the trigram index can find
_QUOTED = re.compile(r'"([^"]+)"')
_EDGES = "\"'`,;:!?()[]{}<>…“”‘’。，、！？；：（）「」『』"
_CJK_RUN = re.compile(f"(?:{CJK.pattern})+")
MAX_TERMS = 32  # words of one query that are looked up; the rest of a longer text adds little
MAX_WORDS = 2 * MAX_TERMS
MAX_CHARS = 2000
MAX_TRIGRAMS = 40  # characters of one text that the trigram index is asked for


@dataclass(frozen=True)
class Term:
    """One thing to look for.

    ``stems``: the stems of its words (empty for a literal without words). ``literal``: what must stand in the
    text as it is, folded; empty for a plain word. ``spelling``: as typed, in lower case. ``at_start``: inside
    a longer word it counts only where that begins with it.
    """

    stems: tuple[str, ...]
    words: tuple[str, ...]
    literal: str = ""
    spelling: str = ""
    at_start: bool = False


@dataclass(frozen=True)
class Query:
    """A parsed query; ``text`` is what was ``typed``, folded, both on one line."""

    text: str
    terms: tuple[Term, ...]
    typed: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words of all terms, in order; of many long phrases the first :data:`MAX_WORDS`."""
        return tuple(islice(dict.fromkeys(word for term in self.terms for word in term.words), MAX_WORDS))

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.literal for term in self.terms if term.literal))

    def spellings(self, texts: Iterable[str]) -> list[str]:
        """Words or literals of this query, each folded and as typed: the trigram index keeps diacritics."""
        typed = {term.literal or term.words[0]: term.spelling for term in self.terms}
        both = (form for text in texts for form in (text, typed.get(text)) if form)
        return list(dict.fromkeys(both))


def parse_query(typed: str) -> Query:
    """Read a query. Stop words are left out unless there is nothing else."""
    typed = typed[:MAX_CHARS].replace("\x00", " ").encode("utf-8", "replace").decode()
    typed = unicodedata.normalize("NFC", typed)
    terms = [_phrase_term(phrase) for phrase in _QUOTED.findall(typed) if phrase.strip()]
    for chunk in _QUOTED.sub(" ", typed).split():
        terms += _chunk_terms(chunk)
    useful = [term for term in terms if term.literal or term.words[0] not in STOP_WORDS]
    line = " ".join(typed.split())
    return Query(fold(line), tuple(dict.fromkeys(useful or terms))[:MAX_TERMS], line)


def _chunk_terms(chunk: str) -> list[Term]:
    """The terms of one run without white space."""
    bare = chunk.strip(_EDGES).rstrip(".") or chunk
    if CJK.search(bare):
        return _cjk_terms(bare)
    found = WORD.findall(bare)
    if found and re.fullmatch(r"[\w\-]+", bare):
        return [_word_term(word) for word in found]
    return [_phrase_term(bare)]


def _cjk_terms(chunk: str) -> list[Term]:
    """Scripts without spaces: overlapping pairs of characters stand in for words."""
    terms: list[Term] = []
    for run in _CJK_RUN.findall(chunk):
        pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        terms += [Term((), (), fold(pair), pair.lower()) for pair in pairs]
    for rest in _CJK_RUN.split(chunk):
        if rest.strip(_EDGES):
            terms += _chunk_terms(rest)
    return terms


def _word_term(typed: str) -> Term:
    word = fold(typed)
    return Term((stem(word),), (word,), spelling=typed.lower())


def _phrase_term(chunk: str) -> Term:
    """A phrase, or a name with punctuation (``foo.bar``, ``C++``): its words, and itself as it stands."""
    found = words(chunk)[:MAX_TERMS]
    line = " ".join(chunk.split())
    return Term(tuple(stem(word) for word in found), tuple(found), fold(line), line.lower())


def match_any(texts: Iterable[str]) -> str:
    """An FTS5 expression that matches any of these texts, each quoted; empty when there are none."""
    return " OR ".join('"' + text.replace('"', '""') + '"' for text in texts)


def word_expression(query: Query) -> str:
    """For the word index: any word of the query."""
    return match_any(query.words)


def title_expression(text: str) -> str:
    """For the word index: titles that begin with the words of a text."""
    return f"title : ^ {match_any([text])}" if WORD.search(text) else ""


def title_like_expression(text: str) -> str:
    """For the word index: titles with words that begin like all of these; empty when there are no words."""
    beginnings = [f'"{word}" *' for word in dict.fromkeys(words(text)[:MAX_TERMS])]
    return f"title : ({' AND '.join(beginnings)})" if beginnings else ""


def trigram_expression(texts: Iterable[str]) -> str:
    """For the trigram index: any of the texts that are long enough for it.

    The index keeps no positions (it is six times smaller so), so a text is asked for as all of its trigrams;
    that it really stands there is seen when the match is scored.
    """
    return " OR ".join(f"({_all_trigrams(text)})" for text in texts if len(text) >= TRIGRAM_LENGTH)


def _all_trigrams(text: str) -> str:
    parts = dict.fromkeys(
        text[i : i + TRIGRAM_LENGTH] for i in range(min(len(text), MAX_TRIGRAMS) - TRIGRAM_LENGTH + 1)
    )
    return " AND ".join('"' + part.replace('"', '""') + '"' for part in parts)


def cjk_trigrams(query_text: str) -> list[str]:
    """The trigrams of the query's runs of CJK, for the trigram index."""
    found: list[str] = []
    for run in _CJK_RUN.findall(query_text):
        found += [run[i : i + TRIGRAM_LENGTH] for i in range(len(run) - TRIGRAM_LENGTH + 1)]
    return found[: 2 * MAX_TERMS]

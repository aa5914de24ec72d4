"""What a prompt is about: its telling words and names, and the files it names. Pure.

A prompt may be a word of thanks or ten pages with a traceback in them. A search for all of it would cost
much and find nothing, because no memory covers it. So a few terms are chosen: the rarest, names before words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memoryhub.retrieval.scoring import rarity
from memoryhub.search.query import MAX_CHARS, Query, Term, parse
from memoryhub.text import CJK, STOP_WORDS, fold, stem

MOST_TERMS = 8  # of a query; a normal search has about as many
MOST_UNKNOWN = 1  # of these, words that no memory holds: a prompt that is about something else finds less
MOST_ASKED = 64  # distinct words whose frequencies are looked up
MOST_CLAUSES = 3  # sentences that are answered each by itself
MOST_FILES = 3
MOST_PARTS = 5  # words of a name; a longer one is an address or a line of code
NAME_BONUS = 1.3
# Memories that may share the same words with a prompt by chance; what so many share is what all are about.
CHANCE = 20
CHANCE_OF_ONE = 4
SMALL, SMALL_FOR_ONE = 256, 64  # memories; in a store of no more, what all are about is not held against them
STEEP = 1.9
LONG = 5  # letters of a word that is worth looking for inside others
# What people say to an agent whatever they are working on.
CHATTER = frozenset(
    stem(word)
    for word in """
    add again ahead alright anything aside awesome back bit bug change check code commit could course
    create currently decide decided do done else everything exactly example explain file find fine first
    fix follow following get give go going good got great hello help hey hi idea implement improve
    instead interesting issue just keep know last let like line look looks lot lovely make makes maybe
    mean mind morning need never new next nice ok okay one ones please problem properly push question
    quick quickly quite ready really recall remember remove right run said say see seem seems sense show
    simply something start still sure take tell thank thanks thing things think thought today tomorrow
    try trying understand update use used using want way well without wonder work working works would
    write wrong yeah yep yes yesterday yet
    """.split()
)
_PATH = re.compile(r"(?<![\w./@:+-])(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7}(?![\w/])")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n+|(?<=[。！？；])")
_CONTEXT = re.compile(r"<memory-context\b.*?(?:</memory-context>|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A prompt read: its terms in order, those of each sentence, and the files it names.

    Its last sentence and its first ones count most: between them there may be pages of code.
    """

    terms: tuple[Term, ...]
    clauses: tuple[tuple[Term, ...], ...]
    files: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words whose frequencies say which terms are telling."""
        inwards = [self.clauses[n // 2 if n % 2 == 0 else -(n + 1) // 2] for n in range(len(self.clauses))]
        found = dict.fromkeys(word for clause in inwards for term in clause for word in term.words)
        return tuple(found)[:MOST_ASKED]


@dataclass(frozen=True)
class Sought:
    """The query that stands for a prompt, and the parts of it that stand in one sentence each."""

    query: Query
    clauses: tuple[Query, ...]


def without_context(prompt: str) -> str:
    """What was asked: what was injected before is not part of it."""
    return _CONTEXT.sub(" ", prompt)


def read(prompt: str) -> Asked:
    """The terms of a prompt: of a long one those of its beginning and its end, where the asking is done."""
    text = without_context(prompt).replace('"', " ")
    parts = [text] if len(text) <= MAX_CHARS else [text[:MAX_CHARS], text[-MAX_CHARS:]]
    clauses = [_terms(clause) for part in parts for clause in _SENTENCE_END.split(part) if clause.strip()]
    terms = dict.fromkeys(term for clause in clauses for term in clause)
    return Asked(tuple(terms), tuple(clauses), tuple(_files(prompt)))


def _terms(text: str) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(term for one in parse(text).terms for term in _usable(one)))


def query(asked: Asked, frequencies: Mapping[str, int], total: int) -> Sought | None:
    """The few terms to search for; None when the prompt has none that tells anything."""
    terms = [term for term in asked.terms if not term.stems or any(s in frequencies for s in term.stems)]
    weights = {term: _weight(term, frequencies, total) for term in terms}
    unknown = [term for term in terms if term.stems and not any(frequencies.get(s) for s in term.stems)]
    known = sorted(weights.keys() - set(unknown), key=lambda term: -weights[term])
    # A word that nobody used may stand inside one that somebody did: deploy in deployment.
    others = unknown[:MOST_UNKNOWN] if known else [term for term in unknown if len(term.words[0]) >= LONG]
    chosen = {*known[: MOST_TERMS - MOST_UNKNOWN], *others[:MOST_TERMS]}
    if not chosen:
        return None
    clauses = [[term for term in clause if term in chosen] for clause in asked.clauses]
    parts = {_as_query(clause) for clause in clauses if 1 < len(clause) < len(chosen)}
    return Sought(
        _as_query([term for term in terms if term in chosen]),
        tuple(sorted(parts, key=lambda part: -sum(weights[term] for term in part.terms))[:MOST_CLAUSES]),
    )


def least_weight(total: int, *, lone: bool = False) -> float:
    """The weight of shared terms from which on they are no chance: few of so many memories share them.

    In a small store, where all may be about the same, any term will do. ``lone``: it is one of several terms
    alone, which must be rarer.
    """
    chance, small = (CHANCE_OF_ONE, SMALL_FOR_ONE) if lone else (CHANCE, SMALL)
    return max(min(math.log(max(total, 1) / chance), STEEP * math.log(max(total, 1) / small)), 0.0)


def _as_query(terms: Sequence[Term]) -> Query:
    text = " ".join(term.spelling or " ".join(term.words) for term in terms)
    return Query(fold(text), tuple(terms), text)


def _usable(term: Term) -> Iterable[Term]:
    """The term, if it may tell something; a line of code as its words."""
    if not term.words:
        return [term] if CJK.search(term.literal) else []
    if not term.literal:
        return [replace(term, at_start=True)] if _tells(term.words[0]) else []
    if len(term.words) == 1:
        return [term] if _tells(term.words[0]) else []
    if len(term.words) > MOST_PARTS:
        singles = (Term((stem(word),), (word,), spelling=word, at_start=True) for word in term.words)
        return [one for one in singles if _tells(one.words[0])]
    return [replace(term, spelling=term.spelling or term.literal)]


def _tells(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and stem(word) not in CHATTER and not word.isdecimal()


def _weight(term: Term, frequencies: Mapping[str, int], total: int) -> float:
    if not term.stems:
        return rarity(0, total) / 2
    rarest = max(rarity(frequencies.get(one, 0), total) for one in term.stems)
    return rarest * NAME_BONUS if term.literal else rarest


def _files(prompt: str) -> list[str]:
    """Paths and file names in the text."""
    found = dict.fromkeys(path.removeprefix("./") for path in _PATH.findall(prompt[: 8 * MAX_CHARS]))
    return list(found)[:MOST_FILES]

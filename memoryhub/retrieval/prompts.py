"""What a prompt is about: its telling words and names, and the files it names. Pure.

A prompt may be a word of thanks or ten pages with a traceback in them. A search for all of it would cost
much and find nothing, because no memory covers it. So a few terms are chosen: the rarest, names before words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memoryhub.retrieval.scoring import rarity
from memoryhub.search.query import MAX_CHARS, Query, Term, parse
from memoryhub.text import CJK, STOP_WORDS, fold, stem

MOST_TERMS = 8  # of a query; a normal search has about as many
MOST_UNKNOWN = 2  # of these, words that no memory holds: a prompt that is about them finds less
MOST_ASKED = 64  # distinct words whose frequencies are looked up
MOST_FILES = 4
MOST_PARTS = 5  # words of a name; a longer one is an address or a line of code
COMMON_SHARE = 0.08  # a word in more of the memories than this tells nothing
SMALL = 64  # memories; in fewer a share means little
NAME_BONUS = 1.3
# What people say to an agent whatever they are working on.
CHATTER = frozenset(
    stem(word)
    for word in """
    again ahead alright anything aside awesome back bit check could course currently do done else
    everything exactly example explain find fine first follow following get give go going good got great
    hello help hey hi idea instead interesting issue just keep know last let like line look looks lot
    lovely make makes maybe mean mind morning need never new next nice ok okay one ones please problem
    properly question quick quickly quite ready really right said say see seem seems sense show simply
    something start still sure take tell thank thanks thing things think thought today tomorrow try
    trying understand use used using want way well without wonder work working works would write wrong
    yeah yep yes yesterday yet
    """.split()
)
_PATH = re.compile(r"(?<![\w./@:-])(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z]\w{0,7}(?![\w/])")
_FOLDERS = re.compile(r"/")
_FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_CONTEXT = re.compile(r"<memory-context>.*?(?:</memory-context>|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A prompt read: its terms in order, and the files it names."""

    terms: tuple[Term, ...]
    files: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct words whose frequencies say which terms are telling."""
        found = dict.fromkeys(word for term in self.terms for word in term.words)
        return tuple(found)[:MOST_ASKED]


def read(prompt: str) -> Asked:
    """The terms of a prompt: of a long one those of its beginning and its end, where the asking is done."""
    text = _CONTEXT.sub(" ", prompt).replace('"', " ")
    parts = [text] if len(text) <= MAX_CHARS else [text[:MAX_CHARS], text[-MAX_CHARS:]]
    terms = dict.fromkeys(term for part in parts for one in parse(part).terms for term in _usable(one))
    return Asked(tuple(terms), tuple(_files(prompt)))


def query(asked: Asked, frequencies: Mapping[str, int], total: int) -> Query | None:
    """The few terms to search for; None when the prompt has none that tells anything."""
    weighed = [(_weight(term, frequencies, total), term) for term in asked.terms]
    known = [pair for pair in weighed if _known(pair[1], frequencies, total)]
    if not known:
        return None
    unknown = [pair for pair in weighed if not any(frequencies.get(one) for one in pair[1].stems or ("",))]
    unknown = [pair for pair in unknown if pair[1].stems]
    best = sorted(known, key=lambda pair: -pair[0])[: MOST_TERMS - min(len(unknown), MOST_UNKNOWN)]
    chosen = {term for _, term in [*best, *unknown[:MOST_UNKNOWN]]}
    ordered = tuple(term for term in asked.terms if term in chosen)
    text = " ".join(term.spelling or " ".join(term.words) for term in ordered)
    return Query(fold(text), ordered, text)


def _usable(term: Term) -> Iterable[Term]:
    """The term, if it may tell something; a line of code as its words."""
    if not term.words:
        return [term] if CJK.search(term.literal) else []
    if not term.literal:
        return [term] if _tells(term.words[0]) else []
    if len(term.words) == 1:
        return [term] if _tells(term.words[0]) else []
    if len(term.words) > MOST_PARTS:
        singles = (Term((stem(word),), (word,), spelling=word) for word in term.words)
        return [one for one in singles if _tells(one.words[0])]
    return [replace(term, spelling=term.spelling or term.literal)]


def _tells(word: str) -> bool:
    return len(word) > 1 and word not in STOP_WORDS and stem(word) not in CHATTER and not word.isdecimal()


def _weight(term: Term, frequencies: Mapping[str, int], total: int) -> float:
    if not term.stems:
        return rarity(0, total) / 2
    rarest = max(rarity(frequencies.get(one, 0), total) for one in term.stems)
    return rarest * NAME_BONUS if term.literal else rarest


def _known(term: Term, frequencies: Mapping[str, int], total: int) -> bool:
    """Whether memories hold it, and not so many that it tells nothing."""
    if not term.stems:
        return True
    found = [frequencies.get(one, 0) for one in term.stems]
    if not any(found):
        return False
    return total < SMALL or min(count for count in found if count) <= COMMON_SHARE * total


def _files(prompt: str) -> list[str]:
    """Paths and file names in the text."""
    found = dict.fromkeys(path.removeprefix("./") for path in _PATH.findall(prompt[: 8 * MAX_CHARS]))
    return list(found)[:MOST_FILES]

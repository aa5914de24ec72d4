"""From what a memory and its neighbours hold of a question to ``match``, 0..1. Pure.

Three kinds of evidence, on scales that need no other memory to be read, so that a ``match`` means the same in
every store and for every question (docs/retrieval.md tells what each was worth):

- *coverage*: the share of the question's words, by their rarity, that stands in the memory. What it lacks may
  stand in its neighbours in the session, which lend it at a share: an answer is told beside its question.
- *nearness*: the cosine of its vector and the question's, with part of its neighbours'.
- *speaker*: who asks about somebody means mostly what that person said ("Ada: I moved to Graz"), and who asks
  about herself what the user said, not the assistant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memoryhub.text import STOP_WORDS, fold, words

# What a neighbour lends, by its distance in the session.
LENT_WORDS = (0.6, 0.3)
LENT_NEARNESS = (0.3, 0.15)
ANSWERED = 0.2  # more words for the memory right after one that asks something
NEARNESS = 0.7  # weight of nearness beside coverage, which is at most 1
ALONE = 1.0  # weight of nearness where words are not asked for
OTHER_SPEAKER = 2 / 3  # what the words of somebody else are worth
# Many words stand in a long text by chance.
SHORT = 240  # characters; a longer text's own words count less, slowly
LENDS_WHOLE = 480  # characters; a longer text lends less
CURVE = 1.2  # match = 1 - exp(-CURVE * evidence): half of the coverage and a fair nearness make one half

# A name of one to three words before a colon.
_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]{0,29}(?: [^\W\d_][\w.'’-]{0,29}){0,2}):\s")
_ASKS = re.compile(r"[?？]")
_TAIL = 120  # characters in which a question at the end of a text stands
USERS = frozenset({"user", "human"})
ASSISTANTS = frozenset({"assistant", "ai", "bot", "model", "system", "tool"})


@dataclass(frozen=True)
class Held:
    """What one memory holds by itself: of each term its share, 0..1, and its cosine with the question."""

    terms: tuple[float, ...]
    cosine: float = 0.0
    chars: int = 0
    speaker: str = ""
    asks: bool = False

    @property
    def lends(self) -> float:
        """Which share of its words and its nearness may help its neighbours."""
        return math.sqrt(min(1.0, LENDS_WHOLE / max(self.chars, 1)))


@dataclass(frozen=True)
class Beside:
    """The neighbours of a memory in its session, the nearest first."""

    before: Sequence[int] = ()
    after: Sequence[int] = ()


@dataclass(frozen=True)
class Evidence:
    """What speaks for one memory: coverage 0..1, nearness from 0 up, weighed, and whose words it is."""

    coverage: float
    nearness: float
    voice: float = 1.0

    @property
    def match(self) -> float:
        """How well it answers the question, 0..1."""
        return 1 - math.exp(-CURVE * self.voice * (self.coverage + self.nearness))


@dataclass(frozen=True)
class Asked:
    """The question: the weight of each term, and whom it is about."""

    weights: Sequence[float]
    words: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, typed: str, weights: Sequence[float]) -> Asked:
        return cls(weights, frozenset(words(typed)) - STOP_WORDS)

    def names(self, speaker: str) -> bool:
        """Whether it names this speaker."""
        return not self.words.isdisjoint(speaker.split())


def speaker(text: str) -> str:
    """Who speaks in a text of the form ``Ada: I moved``, folded; empty for any other text."""
    found = _SPEAKER.match(text)
    return fold(found.group(1)) if found else ""


def asks(text: str) -> bool:
    """Whether a text ends with a question, or nearly."""
    return bool(_ASKS.search(text[-_TAIL:]))


def weigh(asked: Asked, held: Mapping[int, Held], beside: Mapping[int, Beside]) -> dict[int, Evidence]:
    """The evidence for each memory of ``held``; ``beside`` names neighbours, which count where held too."""
    speakers = {one.speaker for one in held.values() if one.speaker}
    named = {one for one in speakers if asked.names(one)}
    users = not speakers.isdisjoint(USERS)
    whole = sum(asked.weights)
    nearness = NEARNESS if whole else ALONE
    found = {}
    for key, own in held.items():
        around = list(_around(beside.get(key, Beside()), held))
        terms = _terms(own, around)
        coverage = sum(map(float.__mul__, asked.weights, terms)) / whole if whole else 0.0
        near = max(own.cosine, 0.0) + sum(
            LENT_NEARNESS[far] * one.lends * max(one.cosine, 0.0) for one, far, _ in around
        )
        found[key] = Evidence(coverage, nearness * near, _voice(own.speaker, named, users=users))
    return found


def both_ways(around: Mapping[int, Beside]) -> dict[int, Beside]:
    """Who has a neighbour is its neighbour: of those named here, too."""
    links = {key: (list(one.before), list(one.after)) for key, one in around.items()}
    for key, one in around.items():
        for far, other in enumerate(one.before):
            _fill(links.setdefault(other, ([], []))[1], far, key)
        for far, other in enumerate(one.after):
            _fill(links.setdefault(other, ([], []))[0], far, key)
    return {key: Beside(before, after) for key, (before, after) in links.items()}


def _fill(places: list[int], far: int, key: int) -> None:
    """Put a neighbour at its distance; 0 stands for one that is not known."""
    places.extend([0] * (far + 1 - len(places)))
    places[far] = key


def _around(beside: Beside, held: Mapping[int, Held]) -> Iterable[tuple[Held, int, bool]]:
    """The neighbours that are held, how far away each is, and whether it comes before."""
    for keys, earlier in ((beside.before, True), (beside.after, False)):
        for far, key in enumerate(keys[: len(LENT_WORDS)]):
            if key in held:
                yield held[key], far, earlier


def _terms(own: Held, around: Sequence[tuple[Held, int, bool]]) -> list[float]:
    """Of each term what the memory holds of it, or its neighbours lend, whichever is more."""
    kept = min(1.0, SHORT / max(own.chars, 1)) ** 0.2
    best = [share * kept for share in own.terms]
    for one, far, earlier in around:
        answered = ANSWERED if earlier and far == 0 and one.asks else 0.0
        share = (LENT_WORDS[far] + answered) * one.lends
        best = [max(mine, share * lent) for mine, lent in zip(best, one.terms, strict=True)]
    return best


def _voice(speaking: str, named: set[str], *, users: bool) -> float:
    """What it is worth who speaks; texts that nobody speaks count whole.

    ``users``: there are words of a user, beside which those of an assistant count less.
    """
    if not speaking or speaking in named:
        return 1.0
    if named - USERS - ASSISTANTS:
        return OTHER_SPEAKER
    return OTHER_SPEAKER if users and speaking in ASSISTANTS else 1.0

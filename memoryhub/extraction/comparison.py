"""Whether a text says what another says already, adds to it, or says something else. Pure.

Compared is sentence by sentence, by the stems of the words in their order. That is strict on purpose: what
only looks alike (another number, another name, a "not", two words that changed places) is something else, and
storing it beside the other loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from memoryhub.core.text import CJK, NEGATIONS, STOP_WORDS, jaccard, stem, words

# Small words that turn a sentence into another one.
_CONTRASTING_WORDS = frozenset(
    "off down before after above below under over against only until same more most".split()
)
_MEANINGFUL_STOP_WORDS = NEGATIONS | _CONTRASTING_WORDS
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_SAME_TOPIC_SIMILARITY = 0.5  # of the words of two sentences are shared: they speak of one thing
_MAX_SENTENCES = 200


class Decision(StrEnum):
    """What becomes of a candidate that is like a memory."""

    CREATE = "create"
    MERGE = "merge"
    SKIP = "skip"


@dataclass(frozen=True)
class Verdict:
    """``content``: what the memory says after a merge. ``why``: in words, without any of the texts."""

    decision: Decision
    why: str
    content: str = ""


@dataclass
class _SentenceComparison:
    """What came out of holding each new sentence against the old ones."""

    same: int = 0  # sentences that are there already
    equal: int = 0  # of these, word for word
    added: list[str] = field(default_factory=list)
    longer: dict[int, str] = field(default_factory=dict)  # old sentence to the one that says more
    other: bool = False  # a sentence about the same thing that says something else


def compare_texts(candidate: str, existing: str) -> Verdict:
    """What to do with a candidate beside a memory of its kind that is about the same."""
    new, old = _split_sentences(candidate), _split_sentences(existing)
    if len(new) > _MAX_SENTENCES or len(old) > _MAX_SENTENCES:
        return Verdict(Decision.CREATE, "too long to compare sentence by sentence")
    found = _compare_sentences(new, old)
    if found.other:
        return Verdict(Decision.CREATE, "it says something else about the same")
    if not found.added and not found.longer:
        return Verdict(Decision.SKIP, "all of it is known")
    if not found.same and not found.longer:
        return Verdict(Decision.CREATE, "nothing of it is known")
    return Verdict(Decision.MERGE, "it adds to what is known", _join_texts(existing, old, found))


def merge_texts(candidate: str, existing: str) -> str:
    """Both texts in one, the old one first: for what is always merged. Sentences that are there stay out."""
    new, old = _split_sentences(candidate), _split_sentences(existing)
    found = _compare_sentences(new, old, strict=False)
    return _join_texts(existing, old, found)


def word_overlap(one: str, other: str) -> float:
    """The share of the shorter text's words that the other holds too, 0..1; under three shared: 0."""
    mine, theirs = set(_stems(one)), set(_stems(other))
    shared = len(mine & theirs)
    return shared / min(len(mine), len(theirs)) if shared >= 3 else 0.0


def _compare_sentences(new: Sequence[str], old: Sequence[str], *, strict: bool = True) -> _SentenceComparison:
    """``strict=False``: what says something else is an addition too."""
    keys = [_stems(sentence) for sentence in old]
    found = _SentenceComparison()
    for sentence in new:
        mine = _stems(sentence)
        if not mine:
            continue
        if any(_contains_sentence(theirs, mine) for theirs in keys):
            found.same += 1
            continue
        extended = next(
            (at for at, theirs in enumerate(keys) if theirs and _contains_sentence(mine, theirs)), None
        )
        if extended is not None and extended not in found.longer:
            found.longer[extended] = sentence
            continue
        about_same = any(jaccard(set(mine), set(theirs)) >= _SAME_TOPIC_SIMILARITY for theirs in keys)
        if strict and about_same:
            found.other = True
        found.added.append(sentence)
    return found


def _contains_sentence(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Whether one sentence says all that another says: its words in order, and nothing that turns it."""
    if _contrasting_words(longer) != _contrasting_words(shorter):
        return False
    rest = iter(longer)
    return all(word in rest for word in shorter)


def _contrasting_words(keys: Sequence[str]) -> set[str]:
    """How a sentence is turned; every denial is the same."""
    return {"not" if key in NEGATIONS else key for key in keys if key in _MEANINGFUL_STOP_WORDS}


def _join_texts(existing: str, old: Sequence[str], found: _SentenceComparison) -> str:
    content, place = existing.rstrip(), 0
    for at, sentence in enumerate(old):  # in their order, or one that begins like another would be cut
        place = content.index(sentence, place)
        said = found.longer.get(at, sentence)
        content = content[:place] + said + content[place + len(sentence) :]
        place += len(said)
    if not found.added:
        return content
    gap = "\n" if "\n" in existing.strip() else " "
    if gap == " " and content and content[-1] not in ".!?。！？":
        content += "."
    return gap.join([content, *found.added])


def _split_sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def _stems(text: str) -> list[str]:
    """The stems of a text in order, without the words that change nothing."""
    found = [
        word if word in _MEANINGFUL_STOP_WORDS else stem(word) for word in words(text) if _is_meaningful(word)
    ]
    # Scripts without blanks: letter by letter, or a whole sentence would be one word.
    return [part for word in found for part in (word if CJK.search(word) else [word])]


def _is_meaningful(word: str) -> bool:
    return word in _MEANINGFUL_STOP_WORDS or word not in STOP_WORDS

"""Candidate memories and their comparison with stored texts: known, an addition, or new. No Django."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memoryhub.access.policy import Sensitivity
from memoryhub.capture.classification import make_title
from memoryhub.core.text import CJK, NEGATIONS, STOP_WORDS, collapse_whitespace, jaccard, shorten, stem, words
from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.schemas import MemoryDraft, PersistentDraft

ABSTRACT_CHARS, OVERVIEW_CHARS, CONTENT_CHARS = 200, 1000, 8000
# pigo's categories and the memory type that each one is stored with.
CATEGORIES: dict[str, MemoryType] = {
    "profile": MemoryType.CONTEXT,
    "preferences": MemoryType.PREFERENCE,
    "entities": MemoryType.FACT,
    "events": MemoryType.CONTEXT,
    "cases": MemoryType.BUGFIX,
    "patterns": MemoryType.DISCOVERY,
}
_IMPORTANCE = {"profile": 0.7, "preferences": 0.7, "patterns": 0.65, "cases": 0.6, "events": 0.6}


@dataclass(frozen=True)
class Candidate:
    """A possible memory.

    ``abstract`` is one line, ``overview`` a paragraph, ``content`` the full text. ``why`` is the reason shown
    to people. ``decision`` marks a decision, which has its own memory type. ``confidence`` (0 to 1) rates the
    assertion.
    """

    category: str
    content: str
    abstract: str = ""
    overview: str = ""
    confidence: float = 0.5
    decision: bool = False
    why: str = ""

    def draft(self, destination: Destination) -> MemoryDraft:
        content = _replace_broken_characters(self.content).strip()[:CONTENT_CHARS]
        return PersistentDraft(
            content=content,
            title=make_title(content)[:500],
            abstract=shorten(_replace_broken_characters(self.abstract) or content, ABSTRACT_CHARS),
            overview=shorten(_replace_broken_characters(self.overview), OVERVIEW_CHARS)
            if self.overview
            else "",
            category=self.category,
            type=MemoryType.DECISION if self.decision else CATEGORIES[self.category],
            confidence=round(min(max(self.confidence, 0.0), 1.0), 2),
            importance=_IMPORTANCE.get(self.category, 0.5),
            project=destination.project,
            session_id=destination.session_id,
            scope=Scope(destination.scope),
            sensitivity=Sensitivity(destination.sensitivity),
            tags=["extracted", *destination.tags],
            created_at=destination.created_at,
        )

    @property
    def dedup_key(self) -> str:
        """Key that is equal for candidates with the same content."""
        return collapse_whitespace(self.content).casefold().strip(" .!")


@dataclass(frozen=True)
class Destination:
    """Project, session, scope and level that extracted memories are stored with.

    ``created_at`` is the time of an older conversation; None is now.
    """

    project: str = ""
    session_id: str = ""
    scope: str = Scope.PROJECT.value
    sensitivity: str = Sensitivity.PUBLIC.value
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None


def _replace_broken_characters(text: str) -> str:
    """Remove NULs and replace unpaired surrogates by U+FFFD."""
    return text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Function words that change the meaning of a sentence.
_CONTRASTING_WORDS = frozenset(
    "off down before after above below under over against only until same more most".split()
)
_MEANINGFUL_STOP_WORDS = NEGATIONS | _CONTRASTING_WORDS
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_SAME_TOPIC_SIMILARITY = 0.5  # share of common words from which two sentences have the same topic
_MAX_SENTENCES = 200


class Decision(StrEnum):
    """What to do with a candidate that resembles a memory."""

    CREATE = "create"
    MERGE = "merge"
    SKIP = "skip"


@dataclass(frozen=True)
class Verdict:
    """Result of a comparison.

    ``content`` is the merged text. ``why`` is a reason for people that quotes neither text.
    """

    decision: Decision
    why: str
    content: str = ""


@dataclass
class _SentenceComparison:
    """Result of comparing each new sentence with the old ones."""

    known: int = 0  # number of new sentences that the old text contains
    added: list[str] = field(default_factory=list)
    longer: dict[int, str] = field(default_factory=dict)  # old sentence index: new sentence that extends it
    other: bool = False  # a new sentence has the topic of an old one, but different content


def compare_texts(candidate: str, existing: str) -> Verdict:
    """Decide between create, merge and skip for a candidate and an existing text of the same kind."""
    new, old = _split_sentences(candidate), _split_sentences(existing)
    if len(new) > _MAX_SENTENCES or len(old) > _MAX_SENTENCES:
        return Verdict(Decision.CREATE, "too long to compare sentence by sentence")
    found = _compare_sentences(new, old)
    if found.other:
        return Verdict(Decision.CREATE, "it states something else about the same subject")
    if not found.added and not found.longer:
        return Verdict(Decision.SKIP, "everything in it is known")
    if not found.known and not found.longer:
        return Verdict(Decision.CREATE, "nothing in it is known yet")
    return Verdict(Decision.MERGE, "it adds to what is known", _join_texts(existing, old, found))


def merge_texts(candidate: str, existing: str) -> str:
    """Append the sentences that the existing text does not contain (for categories that always merge)."""
    old = _split_sentences(existing)
    return _join_texts(existing, old, _compare_sentences(_split_sentences(candidate), old, strict=False))


def add_to_summary(candidate: str, existing: str, limit: int) -> str:
    """Return an abstract or overview that covers both texts, in at most ``limit`` characters.

    Where both do not fit, the candidate comes first, because the existing content has the rest. An existing
    summary that covers the candidate stays as it is.
    """
    both = merge_texts(candidate, existing)
    if both == existing or len(both) <= limit:
        return both
    return shorten(merge_texts(existing, candidate), limit)


def word_overlap(one: str, other: str) -> float:
    """Return the share of the shorter text's words that the other contains; 0 below three common words."""
    new_stems, old_stems = set(_stems(one)), set(_stems(other))
    shared = len(new_stems & old_stems)
    return shared / min(len(new_stems), len(old_stems)) if shared >= 3 else 0.0


def _compare_sentences(new: Sequence[str], old: Sequence[str], *, strict: bool = True) -> _SentenceComparison:
    """Compare sentences; without ``strict``, a different sentence on the same topic counts as an addition."""
    old_keys = [_stems(sentence) for sentence in old]
    found = _SentenceComparison()
    for sentence in new:
        new_stems = _stems(sentence)
        if not new_stems:
            continue
        if any(_contains_sentence(old_stems, new_stems) for old_stems in old_keys):
            found.known += 1
            continue
        extended = next(
            (
                index
                for index, old_stems in enumerate(old_keys)
                if old_stems and _contains_sentence(new_stems, old_stems)
            ),
            None,
        )
        if extended is not None and extended not in found.longer:
            found.longer[extended] = sentence
            continue
        found.other |= strict and any(
            jaccard(set(new_stems), set(old_stems)) >= _SAME_TOPIC_SIMILARITY for old_stems in old_keys
        )
        found.added.append(sentence)
    return found


def _contains_sentence(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Return whether one sentence contains the words of the other in order, with equal contrasting words."""
    if _contrasting_words(longer) != _contrasting_words(shorter):
        return False
    rest = iter(longer)
    return all(word in rest for word in shorter)


def _contrasting_words(stems: Sequence[str]) -> set[str]:
    """Return the contrasting words; all negations count as the same one."""
    return {"not" if key in NEGATIONS else key for key in stems if key in _MEANINGFUL_STOP_WORDS}


def _join_texts(existing: str, old: Sequence[str], found: _SentenceComparison) -> str:
    content, position = existing.rstrip(), 0
    for index, sentence in enumerate(old):  # in order, so that a sentence with the same beginning is not cut
        position = content.index(sentence, position)
        sentence_text = found.longer.get(index, sentence)
        content = content[:position] + sentence_text + content[position + len(sentence) :]
        position += len(sentence_text)
    if not found.added:
        return content
    gap = "\n" if "\n" in existing.strip() else " "
    if gap == " " and content and content[-1] not in ".!?。！？":
        content += "."
    return gap.join([content, *found.added])


def _split_sentences(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def _stems(text: str) -> list[str]:
    """Return the stems of a text in order, without meaningless stop words."""
    found = [
        word if word in _MEANINGFUL_STOP_WORDS else stem(word)
        for word in words(text)
        if word in _MEANINGFUL_STOP_WORDS or word not in STOP_WORDS
    ]
    # Split CJK words into characters; otherwise a whole sentence would be one word.
    return [part for word in found for part in (word if CJK.search(word) else [word])]

"""Extractive summaries, and what a summary takes over from its sources."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from statistics import fmean
from typing import TypeVar

from memoryhub.access.policy import Actor, stricter_level
from memoryhub.core.text import (
    CJK,
    NEGATIONS,
    STOP_WORDS,
    collapse_whitespace,
    jaccard,
    shorten,
    stem,
    terms,
    words,
)
from memoryhub.core.vocabulary import MemoryType
from memoryhub.maintenance.operations.base import Pace, undo_in_batches
from memoryhub.memories import maintenance_updates
from memoryhub.memories.maintenance_updates import restore_sources, trash_condensed
from memoryhub.memories.rows import LIST_FIELDS, union_list_values
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Memory

# One summary must stay readable, and its step short (1 ms for each member): larger groups become several.
MAX_SUMMARY_SOURCES = 40
T = TypeVar("T")


def split_evenly(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As few parts of at most :data:`MOST` as there can be, of nearly the same size."""
    number = -(-len(items) // MAX_SUMMARY_SOURCES)
    for n in range(number):
        yield items[n * len(items) // number : (n + 1) * len(items) // number]


def undo_summaries(name: str, run_uid: str, actor: Actor, now: datetime) -> Iterator[int]:
    """Undo what a run condensed: the sources come back, some at a time, then their summary goes."""
    pace = Pace(10, least=4)
    for entry in maintenance_updates.grouped_rows(name, run_uid, actor):

        def back(uids: Sequence[str], entry: JournalEntry = entry) -> int:
            return restore_sources(entry, uids, actor, now)

        yield from undo_in_batches(entry.detail["members"], back, pace)
        trash_condensed(entry, actor, now)


def summary_draft(memories: Sequence[Memory], title: str, content: str, now: datetime) -> MemoryDraft:
    """A summary of memories that share project, scope and owner.

    It is as old as its youngest source, lives as long as the one that would have lived longest, and is as
    secret as the most secret of them.
    """
    sessions = {memory.session_id for memory in memories}
    return MemoryDraft(
        title=shorten(title, 200),
        content=content,
        type=MemoryType.COMPRESSED_SUMMARY,
        category=Counter(memory.category for memory in memories).most_common(1)[0][0],
        project=memories[0].project,
        scope=memories[0].scope,
        session_id=sessions.pop() if len(sessions) == 1 else "",
        sensitivity=reduce(stricter_level, (memory.sensitivity for memory in memories)),
        importance=max(memory.importance for memory in memories),
        trust=fmean(memory.trust for memory in memories),
        confidence=fmean(memory.confidence for memory in memories),
        discovery_tokens=min(sum(memory.discovery_tokens or 0 for memory in memories), 2_000_000_000) or None,
        created_at=max(memory.updated_at for memory in memories),
        ttl_days=_longest_ttl(memories, now),
        **{name: union_list_values(memories, name) for name in LIST_FIELDS},
    )


def _longest_ttl(memories: Iterable[Memory], now: datetime) -> float | None:
    ends = [memory.expires_at for memory in memories]
    known = [end for end in ends if end]
    return (max(known) - now) / timedelta(days=1) if len(known) == len(ends) else None


MAX_SUMMARY_CHARS = 20_000  # characters of one summary: it must stay readable
_MAX_SENTENCE_CHARS = 500
_MIN_SIMILARITY = 0.6  # two sentences that say the same in other words
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"^(?:[-*•>#]+|\d+[.)])\s+")
_CJK_RUN = re.compile(f"(?:{CJK.pattern})+")


@dataclass(frozen=True)
class SourceText:
    """One of the memories."""

    at: datetime
    type: str
    title: str
    content: str


@dataclass(frozen=True)
class TextSummary:
    """``center``: the place of the memory that is most like all others; ``likeness``: how much, 0..1."""

    title: str
    content: str
    center: int
    likeness: float


def comparison_terms(text: str) -> set[str]:
    """What two memories are compared by: stems, and pairs of characters where a script has no spaces."""
    found = terms(_CJK_RUN.sub(" ", text)) if CJK.search(text) else terms(text)
    for run in _CJK_RUN.findall(text):
        found.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
    return found


def summarise_texts(members: Sequence[SourceText]) -> TextSummary:
    """Of at least two memories, in the order of their time."""
    center, likeness = _most_central([comparison_terms(f"{one.title} {one.content}") for one in members])
    title = shorten(f"{members[center].title} ({len(members)} memories, {_date_span(members)})", 200)
    told = [_sentences(one) for one in members]
    writing = _SummaryWriter(title)
    common = _common_sentences(told, center)
    if common:
        writing.part("They say, in these or other words:", common)
    for one, sentences in zip(members, told, strict=True):
        fresh = [sentence for sentence in sentences if writing.is_new(sentence)]
        if fresh:
            writing.part(f"{one.at:%Y-%m-%d}, {one.type}:", fresh)
    return TextSummary(title, writing.text(), center, likeness)


def _most_central(sets: Sequence[set[str]]) -> tuple[int, float]:
    sums = [sum(jaccard(one, other) for other in sets if other is not one) for one in sets]
    center = max(range(len(sets)), key=lambda at: (sums[at], -at))
    return center, sums[center] / max(len(sets) - 1, 1)


def _date_span(members: Sequence[SourceText]) -> str:
    first, last = f"{members[0].at:%Y-%m-%d}", f"{members[-1].at:%Y-%m-%d}"
    return first if first == last else f"{first} to {last}"


def _sentences(one: SourceText) -> list[str]:
    """The title first, unless the content begins with it."""
    lines = (_BULLET.sub("", collapse_whitespace(part)) for part in _SENTENCE_END.split(one.content))
    found = [shorten(line, _MAX_SENTENCE_CHARS) for line in lines if line]
    if one.title and _statement_words(one.title) - _statement_words(" ".join(found[:2])):
        found.insert(0, one.title)
    return list(dict.fromkeys(found))


def _common_sentences(told: Sequence[Sequence[str]], center: int) -> list[str]:
    """The sentences of the central memory that every other one has too, in these or other words."""
    facts = [[_statement_words(sentence) for sentence in sentences] for sentences in told]
    others = [one for at, one in enumerate(facts) if at != center]
    need = math.ceil(len(others) * 0.8)  # a long chain of links has ends that know nothing of each other
    return [
        sentence
        for sentence, words_of in zip(told[center], facts[center], strict=True)
        if words_of
        and sum(any(_is_same_statement(words_of, one) for one in other) for other in others) >= need
    ]


def _is_same_statement(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences say the same: like words, and no number or "not" in which they differ."""
    differing = one ^ other
    decisive = any(word == "not" or any(map(str.isdigit, word)) for word in differing)
    return not decisive and jaccard(set(one), set(other)) >= _MIN_SIMILARITY


def _statement_words(text: str) -> frozenset[str]:
    """The words that carry what a sentence says, "not" in all its forms among them."""
    found = words(text)
    kept = {stem(word) for word in found if word not in STOP_WORDS}
    if not NEGATIONS.isdisjoint(found):
        kept.add("not")
    for run in _CJK_RUN.findall(text):
        kept.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
    return frozenset(kept)


class _SummaryWriter:
    """A text that grows to a limit and knows what it says already."""

    def __init__(self, title: str) -> None:
        self.lines, self.known, self.left_out = [title], list[frozenset[str]](), 0
        self.room = MAX_SUMMARY_CHARS - len(title) - 100

    def is_new(self, sentence: str) -> bool:
        facts = _statement_words(sentence)
        return not any(facts <= known for known in self.known)

    def part(self, heading: str, sentences: Iterable[str]) -> None:
        """A heading and what is new under it, as far as there is room."""
        lines = ["", heading]
        room = self.room - len(heading) - 2
        for sentence in filter(self.is_new, sentences):
            if len(sentence) + 3 > room:
                self.left_out += 1
                continue
            self.known.append(_statement_words(sentence))
            lines.append(f"- {sentence}")
            room -= len(sentence) + 3
        if len(lines) > 2:
            self.lines += lines
            self.room = room

    def text(self) -> str:
        if self.left_out:
            self.lines += ["", f"{self.left_out} more sentences are left out."]
        return "\n".join(self.lines)

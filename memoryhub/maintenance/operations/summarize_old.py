"""Summarize old: replace old memories of one category with one summary. Compress shares parts of it.

The memories of a group share project, scope, owner and category. Summaries are never summarised again, and
memories with a key stay, because agents read them by their key.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from statistics import fmean
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone
from pydantic import Field

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
from memoryhub.core.vocabulary import SUMMARY_TYPES, MemoryType
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.memories import embed_drafts, maintenance_updates
from memoryhub.memories.rows import LIST_FIELDS, union_list_values
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

MAX_SUMMARY_SOURCES = 40  # keeps summaries readable and steps short (1 ms per source)
T = TypeVar("T")


def split_evenly(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split into as few parts of at most :data:`MAX_SUMMARY_SOURCES` as possible, of similar size."""
    parts = math.ceil(len(items) / MAX_SUMMARY_SOURCES)
    for n in range(parts):
        yield items[n * len(items) // parts : (n + 1) * len(items) // parts]


def summarisable_memories(
    params: ProjectParams, actor: Actor, now: datetime, min_age_days: float
) -> MemoryQuerySet:
    """Return old live memories that have no key and are not summaries, if the actor may delete them."""
    if not actor.may_delete:
        return Memory.objects.none()
    old = (
        params.live_memories(actor, now)
        .unpinned()
        .filter(updated_at__lte=now - timedelta(days=min_age_days), key="")
    )
    return old.exclude(type__in=SUMMARY_TYPES)


def summary_step(
    operation: str,
    change: Change,
    draft: MemoryDraft,
    sources: Sequence[Memory],
    eligible: MemoryQuerySet,
    position: dict[str, Any],
    seen: int,
    actor: Actor,
    now: datetime,
) -> Step:
    """Return the step that replaces the sources with a summary, unless they change before it is applied."""
    vectors = embed_drafts([draft])

    def commit(run_uid: str) -> tuple[Change, ...]:
        summary = maintenance_updates.condense_memories(
            eligible, sources, draft, actor, operation, run_uid, now, vectors
        )
        return (replace(change, into=summary.uid),) if summary else ()

    return Step((change,), position, seen, commit)


def summary_draft(memories: Sequence[Memory], title: str, content: str, now: datetime) -> MemoryDraft:
    """Return the draft of a summary of memories that share project, scope and owner.

    It gets the latest date, the latest expiry and the highest level of its sources.
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
    expiries = [memory.expires_at for memory in memories]
    known = [expiry for expiry in expiries if expiry]
    return (max(known) - now) / timedelta(days=1) if len(known) == len(expiries) else None


MAX_SUMMARY_CHARS = 20_000
_MAX_SENTENCE_CHARS = 500
_MIN_SIMILARITY = 0.6  # Jaccard similarity of two sentences that make the same statement
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WRAPPED = re.compile(r"(?<=[^\n]{40})\n(?=[a-z])")  # a line that continues, as in the texts of commits
_BULLET = re.compile(r"^(?:[-*•>#]+|\d+[.)])\s+")
_CJK_RUN = re.compile(f"(?:{CJK.pattern})+")


@dataclass(frozen=True)
class TextSummary:
    """``center``: index of the memory that is most similar to all others; ``likeness``: how similar, 0..1."""

    title: str
    content: str
    center: int
    likeness: float


def comparison_terms(text: str) -> set[str]:
    """Return the stems of a text, and pairs of characters for scripts without spaces."""
    return terms(_CJK_RUN.sub(" ", text)) | _character_pairs(text)


def _character_pairs(text: str) -> set[str]:
    runs = _CJK_RUN.findall(text)
    return {run[start : start + 2] for run in runs for start in range(max(len(run) - 1, 1))}


def summarise_texts(members: Sequence[Memory]) -> TextSummary:
    """Summarise at least two memories in chronological order: common sentences first, then those of each."""
    term_sets = [comparison_terms(f"{member.title} {member.content}") for member in members]
    center, likeness = _most_central(term_sets)
    title = shorten(f"{members[center].title} ({len(members)} memories, {_date_span(members)})", 200)
    sentences = [_sentences(member) for member in members]
    writer = _SummaryWriter(title)
    writer.add_section("What they have in common:", _common_sentences(sentences, center))
    for member, member_sentences in zip(members, sentences, strict=True):
        writer.add_section(f"{member.created_at:%Y-%m-%d}, {member.type}:", member_sentences)
    return TextSummary(title, writer.text(), center, likeness)


def _most_central(sets: Sequence[set[str]]) -> tuple[int, float]:
    """Return the index of the set that is most similar to the others, and its average similarity."""
    sums = [sum(jaccard(own, other) for other in sets if other is not own) for own in sets]
    center = max(range(len(sets)), key=lambda index: (sums[index], -index))
    return center, sums[center] / max(len(sets) - 1, 1)


def _date_span(members: Sequence[Memory]) -> str:
    first, last = f"{members[0].created_at:%Y-%m-%d}", f"{members[-1].created_at:%Y-%m-%d}"
    return first if first == last else f"{first} to {last}"


def _sentences(source: Memory) -> list[str]:
    """Return the sentences of a memory, starting with the title unless the first sentences contain it."""
    parts = _SENTENCE_END.split(_WRAPPED.sub(" ", source.content))
    lines = (_BULLET.sub("", collapse_whitespace(part)) for part in parts)
    sentences = [shorten(line, _MAX_SENTENCE_CHARS) for line in lines if line]
    if source.title and _statement_words(source.title) - _statement_words(" ".join(sentences[:2])):
        sentences.insert(0, source.title)
    return list(dict.fromkeys(sentences))


def _common_sentences(texts: Sequence[Sequence[str]], center: int) -> list[str]:
    """Return the sentences of the central text whose statements most other texts make too."""
    statements = [[_statement_words(sentence) for sentence in text] for text in texts]
    others = [text for index, text in enumerate(statements) if index != center]
    required = math.ceil(len(others) * 0.8)  # the ends of a long chain of links may share nothing
    return [
        sentence
        for sentence, statement in zip(texts[center], statements[center], strict=True)
        if statement
        and sum(any(_is_same_statement(statement, other) for other in text) for text in others) >= required
    ]


def _is_same_statement(statement: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences have similar words and do not differ in a number or a "not"."""
    differing = statement ^ other
    decisive = any(word == "not" or any(map(str.isdigit, word)) for word in differing)
    return not decisive and jaccard(set(statement), set(other)) >= _MIN_SIMILARITY


def _statement_words(text: str) -> frozenset[str]:
    """Return the significant words of a sentence; "not" replaces all negations."""
    all_words = words(text)
    significant = {stem(word) for word in all_words if word not in STOP_WORDS}
    if not NEGATIONS.isdisjoint(all_words):
        significant.add("not")
    return frozenset(significant | _character_pairs(text))


class _SummaryWriter:
    """A text that grows up to a limit and contains each statement once."""

    def __init__(self, title: str) -> None:
        self.lines, self.known, self.left_out = [title], list[frozenset[str]](), 0
        self.room = MAX_SUMMARY_CHARS - len(title) - 100

    def add_section(self, heading: str, sentences: Iterable[str]) -> None:
        """Add a heading and the new sentences that fit. Without any, add nothing."""
        lines = ["", heading]
        room = self.room - len(heading) - 2
        for sentence in sentences:
            statement = _statement_words(sentence)
            if any(statement <= known for known in self.known):
                continue
            if len(sentence) + 3 > room:
                self.left_out += 1
                continue
            self.known.append(statement)
            lines.append(f"- {sentence}")
            room -= len(sentence) + 3
        if len(lines) > 2:
            self.lines += lines
            self.room = room

    def text(self) -> str:
        if self.left_out:
            self.lines += ["", f"{self.left_out} more sentences are left out."]
        return "\n".join(self.lines)


_MAX_LINE_CHARS = 400
_GROUP_COLUMNS = ("project", "scope", "owner", "category")
_EARLIEST = "0001-01-01T00:00:00+00:00"


class SummarizeOldParams(ProjectParams):
    older_than_days: float | None = Field(
        default=None,
        ge=0,
        le=36_500,
        description="Only memories unchanged for this number of days. Default: summarize_older_than_days.",
    )
    min_entries: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description="Memories that a category needs. Default: summarize_min_entries.",
    )

    @property
    def min_age_days(self) -> float:
        days = self.older_than_days
        return settings.MEMORYHUB.summarize_older_than_days if days is None else days

    @property
    def min_memories(self) -> int:
        count = self.min_entries
        return settings.MEMORYHUB.summarize_min_entries if count is None else count


@dataclass(frozen=True)
class SummaryCounts:
    """``summarised`` memories were replaced by ``created`` summaries."""

    summarised: int = 0
    created: int = 0


class SummarizeOld(Operation[SummarizeOldParams]):
    name = "summarize_old"
    label = "Summarise old memories"
    depends_on_age = True
    help = (
        "Replaces old memories of one project and category by one summary. They were not changed for "
        "summarize_older_than_days, and there are at least summarize_min_entries. The sources go to the "
        "trash. Undo restores them and moves the summary to the trash."
    )
    inverse_records = ("summarize_old",)
    Params = SummarizeOldParams

    def total(self, params: SummarizeOldParams, actor: Actor, now: datetime) -> int:
        return sum(group["n"] for group in _eligible_groups(params, actor, now))

    def steps(
        self, params: SummarizeOldParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position, pace = position or {}, Pace()
        reached = tuple(position.get("group", ("",) * len(_GROUP_COLUMNS)))
        for row in _eligible_groups(params, actor, now):
            group = tuple(row[column] for column in _GROUP_COLUMNS)
            if group < reached:
                continue
            group_position = position if group == reached else {}
            for step in _group_steps(group, group_position, params, actor, now):
                yield step
                pace.after(step)


def summarise_old(
    actor: Actor,
    *,
    older_than_days: float | None = None,
    min_entries: int | None = None,
    now: datetime | None = None,
) -> SummaryCounts:
    """Summarise each group of at least ``min_entries`` memories that did not change for ``older_than_days``.

    Both default to the configuration. Each summary has its own transaction. A second run changes nothing.
    """
    params = SummarizeOldParams(older_than_days=older_than_days, min_entries=min_entries)
    changed = created = 0
    for step in SummarizeOld().steps(params, actor, now or timezone.now()):
        changed += step.apply()
        created += len(step.applied)
    return SummaryCounts(changed, created)


def _eligible_groups(params: SummarizeOldParams, actor: Actor, now: datetime) -> list[dict[str, Any]]:
    old = summarisable_memories(params, actor, now, params.min_age_days)
    groups = old.order_by(*_GROUP_COLUMNS).values(*_GROUP_COLUMNS).annotate(n=Count("pk"))
    large = groups.filter(n__gte=params.min_memories)
    return sorted(large, key=lambda group: [group[column] for column in _GROUP_COLUMNS])


def _group_steps(
    group: tuple[str, ...], position: dict[str, Any], params: SummarizeOldParams, actor: Actor, now: datetime
) -> Iterator[Step]:
    """Yield a step for each part of a group, in chronological order."""
    old = summarisable_memories(params, actor, now, params.min_age_days)
    old = old.filter(**dict(zip(_GROUP_COLUMNS, group, strict=True)))
    at, pk = datetime.fromisoformat(position.get("at", _EARLIEST)), position.get("pk", 0)
    remaining = old.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    for part in split_evenly(list(remaining.values_list("pk", flat=True))):
        memories = list(remaining.filter(pk__in=part).with_details())
        if len(memories) < len(part):
            continue  # some have changed; the next run decides again
        title = _make_title(memories)
        content = "\n".join([title, "", *(_format_line(memory) for memory in memories)])
        uids = tuple(memory.uid for memory in memories)
        days = f"{params.min_age_days:g}"
        reason = f"{len(memories)} memories of one category, none changed for {days} days"
        yield summary_step(
            SummarizeOld.name,
            Change("summarise", uids[0], reason=reason, members=uids),
            summary_draft(memories, title, content, now),
            memories,
            old,
            {"group": list(group), "at": memories[-1].created_at.isoformat(), "pk": part[-1]},
            len(memories),
            actor,
            now,
        )


def _make_title(memories: Sequence[Memory]) -> str:
    span = f"{memories[0].created_at:%Y-%m-%d} to {memories[-1].created_at:%Y-%m-%d}"
    return f"{len(memories)} memories of {memories[0].category}, {span}"


def _format_line(memory: Memory) -> str:
    abstract = memory.abstract if memory.abstract not in ("", memory.title) else ""
    text = f"{memory.title}: {abstract}" if abstract else memory.title
    return shorten(f"- {memory.created_at:%Y-%m-%d} {memory.type}: {text}", _MAX_LINE_CHARS)

"""Near-duplicate clusters as cards, and their cache."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends.change_log import LogPosition, current_position
from memoryhub.core.text import decisive_words, words
from memoryhub.core.vocabulary import ALWAYS_MERGED, NEVER_MERGED
from memoryhub.duplicates import (
    Cluster,
    DuplicateClusters,
    choose_kept,
    find_clusters,
    read_rows,
    similarities_to,
)
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories
from memoryhub.search.related import find_related
from memoryhub.search.semantic import similarity_label
from memoryhub.web.base import diffs
from memoryhub.web.base.forms import ListFilter, ProjectFilterField, WordField
from memoryhub.web.base.requests import cached_value, cached_while, store_token, viewer_key

MAX_DIFF_ROWS = 30  # of a comparison of two near-duplicates
MAX_UNITED_LINES = 300  # new lines of the other memories in a united text
MAX_PAGE_BYTES = 60_000  # of the cards on a page, except the first
MAX_MERGE_CANDIDATES = 5  # memories offered for merging with one
MIN_SURE_SIMILARITY = 0.95  # of clusters that are merged without a look at each
MAX_COMPARED_AT_ONCE = 3000  # memories; comparing more takes longer than a page should
_CACHE_NAME, _CACHE_SECONDS = "near-duplicates", 300
_MEMBER_BYTES, _ROW_BYTES = 2_500, 300  # of markup for a memory, and for a row of a comparison
_SIMILARITY_CHOICES = ("0.8", "0.9", "0.95", "0.97")
_COMPARED_FIELDS = {"type": "Type", "sensitivity": "Level", "session_id": "Session", "author": "Stored by"}


class DuplicatesFilter(ListFilter):
    project = ProjectFilterField()
    category = WordField()
    similarity = forms.ChoiceField(required=False, label="Minimum similarity")

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        lowest = settings.MEMORYHUB.near_duplicate_similarity
        steps = [(step, step) for step in _SIMILARITY_CHOICES if float(step) > lowest]
        equal = ("1", "1, the same words")
        self.set_choices("similarity", [("", f"{lowest:g}, as configured"), *steps, equal])

    def min_similarity(self) -> float | None:
        value = self.value("similarity")
        # In half precision, the cosine of two equal texts is a little below 1.
        return min(float(value), 0.998) if value else None


@dataclass(frozen=True)
class ClusterMember:
    """A memory that would be merged into the kept one.

    ``rows``: comparison of its text (left) with the kept one (right). ``figures``: numbers and negations that
    only one of them contains. ``others``: fields in which they differ. ``ticked``: selected for merging.
    """

    memory: Memory
    likeness: float | None
    rows: list[diffs.DiffRow]
    figures: list[str]
    others: list[tuple[str, str, str]]
    ticked: bool

    @property
    def figure(self) -> float | None:
        """The similarity in hundredths; 1 for equal texts only."""
        if self.likeness is None or not self.rows:
            return self.likeness if self.rows else 1.0
        return math.floor(self.likeness * 100) / 100

    @property
    def closeness(self) -> str:
        return similarity_label(self.likeness) if self.likeness is not None else ""


@dataclass(frozen=True)
class CardInput:
    """Input to a card that is shown again.

    ``ticked``: ids to merge; ``warned``: ids that had a warning, so their tick is deliberate. ``text``: the
    submitted text; ``begun``: the digest of the text that the card suggested.
    """

    ticked: frozenset[str]
    warned: frozenset[str]
    text: str
    begun: str

    @property
    def own(self) -> str:
        """The text, if the person changed it."""
        return self.text if self.text.strip() and text_digest(self.text) != self.begun else ""


def text_digest(text: str) -> str:
    """Return a digest that ignores surrounding whitespace: browsers drop a leading line break."""
    return sha256(text.strip().encode()).hexdigest()


@dataclass(frozen=True)
class ClusterCard:
    """A cluster; ``own`` is the text that the person has started to write for it.

    ``by_rule``: parts of one profile, which belong in one text even if they are not similar.
    """

    keep: Memory
    why: str
    members: list[ClusterMember]
    is_profile: bool
    own: str = ""
    by_rule: bool = False

    @cached_property
    def begun(self) -> str:
        """The text of all memories together, suggested as the merged text."""
        return unite_texts(self.keep.content, self._others)

    @property
    def is_cut(self) -> bool:
        """Whether the suggested text omits lines."""
        return len(_new_lines(self.keep.content, self._others)) > MAX_UNITED_LINES

    @property
    def _others(self) -> list[str]:
        return [member.memory.content for member in self.members]

    @property
    def text(self) -> str:
        return self.own or self.begun

    @property
    def mark(self) -> str:
        return text_digest(self.begun)

    @property
    def weight(self) -> int:
        """The approximate size of the card in bytes."""
        rows = sum(len(member.rows) for member in self.members)
        markup = _MEMBER_BYTES * len(self.everyone) + _ROW_BYTES * rows
        return markup + len(self.keep.content) + 2 * sum(map(len, self._others))

    @property
    def everyone(self) -> list[Memory]:
        return [self.keep, *(member.memory for member in self.members)]

    @property
    def versions(self) -> str:
        """The ids and versions of all memories, the kept one first."""
        return " ".join(f"{memory.uid} {memory.updated_at.isoformat()}" for memory in self.everyone)


@dataclass(frozen=True)
class MergePlan:
    """What "Merge all" merges: ``cards``. ``later``: sure clusters above the limit.

    ``differing``: clusters left out because their numbers differ; ``profiles``: profiles in several parts.
    """

    cards: list[ClusterCard]
    later: int
    differing: int
    profiles: int

    @property
    def trashed(self) -> int:
        return sum(len(card.members) for card in self.cards)


def plan_merges(found: DuplicateClusters, memories: MemoryQuerySet, limit: int) -> MergePlan:
    """Plan merges of the first ``limit`` clusters whose whole texts have the same numbers and negations."""
    sure = [one for one in found.near if not one.differs]
    cards = build_cards(sure[:limit], memories)
    equal = [card for card in cards if not any(member.figures for member in card.members)]
    differing = len(found.near) - len(sure) + len(cards) - len(equal)
    return MergePlan(equal, max(len(sure) - limit, 0), differing, len(found.pieces))


def build_cards(clusters: Sequence[Cluster], memories: MemoryQuerySet) -> list[ClusterCard]:
    """Load the memories of the clusters in one query; missing ones are omitted."""
    rows = memories.in_bulk([pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))])
    cards = []
    for one in clusters:
        others = [(rows[pk], likeness) for pk, likeness in one.others if pk in rows]
        if one.keep in rows and others:
            cards.append(replace(_make_card(rows[one.keep], one.why, others), by_rule=one.by_rule))
    return cards


def build_card(memories: MemoryQuerySet, keep: str, entered: CardInput | None) -> ClusterCard | None:
    """Show memories as one cluster that keeps ``keep``, or the best one; None for fewer than two."""
    rows = memories.in_bulk()
    if len(rows) < 2:
        return None
    chosen = next((pk for pk, row in rows.items() if row.uid == keep), None)
    best, others, why = choose_kept(read_rows(memories), chosen)
    near = similarities_to(best.pk, [other.pk for other in others])
    return _make_card(rows[best.pk], why, [(rows[other.pk], near.get(other.pk)) for other in others], entered)


def _make_card(
    keep: Memory, why: str, others: Sequence[tuple[Memory, float | None]], entered: CardInput | None = None
) -> ClusterCard:
    members = [_make_member(keep, other, likeness, entered) for other, likeness in others]
    is_profile = keep.category == ALWAYS_MERGED
    lowest = settings.MEMORYHUB.near_duplicate_similarity
    is_one_profile = is_profile and all(other.category == ALWAYS_MERGED for other, _ in others)
    by_rule = is_one_profile and any((member.figure or 0) < lowest for member in members)
    return ClusterCard(keep, why, members, is_profile, entered.own if entered else "", by_rule)


def _make_member(
    keep: Memory, other: Memory, likeness: float | None, entered: CardInput | None
) -> ClusterMember:
    figures = sorted(decisive_words(keep.titled_content) ^ decisive_words(other.titled_content))
    fields = [
        (label, getattr(other, name), getattr(keep, name))
        for name, label in _COMPARED_FIELDS.items()
        if getattr(other, name) != getattr(keep, name)
    ]
    rows = diffs.compare(other.content, keep.content, most=MAX_DIFF_ROWS)
    return ClusterMember(
        other, likeness, rows, figures, fields, _is_ticked(other.uid, bool(figures), entered)
    )


def _is_ticked(uid: str, warns: bool, entered: CardInput | None) -> bool:
    """Keep the person's choice, but clear a tick that was set before a warning appeared."""
    if entered is None:
        return not warns
    return uid in entered.ticked and (not warns or uid in entered.warned)


def unite_texts(content: str, others: Sequence[str]) -> str:
    """Append to a text the lines of the others whose words are not all in a line above.

    Only the first :data:`MAX_UNITED_LINES` new lines are considered.
    """
    lines = content.rstrip().split("\n")
    known = _WordSets(lines)
    for line in _new_lines(content, others)[:MAX_UNITED_LINES]:
        line_words = set(words(line))
        if line_words and not known.has_superset(line_words):
            lines.append(line)
            known.add(line_words)
    return "\n".join(lines)


def _new_lines(content: str, others: Iterable[str]) -> list[str]:
    """Return the distinct lines of the others that the text does not contain."""
    known = set(content.split("\n"))
    lines = (line.rstrip() for other in others for line in other.split("\n"))
    return [line for line in dict.fromkeys(lines) if line and line not in known]


class _WordSets:
    """Sets of words, indexed by word as bits of a number, so that a lookup does not iterate over the sets."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._count = 0
        self._bits: defaultdict[str, int] = defaultdict(int)
        for line_words in {frozenset(words(line)) for line in lines}:
            self.add(line_words)

    def add(self, line_words: Iterable[str]) -> None:
        for word in line_words:
            self._bits[word] |= 1 << self._count
        self._count += 1

    def has_superset(self, line_words: Iterable[str]) -> bool:
        """Whether one of the sets contains all of these words."""
        sets = -1
        for word in line_words:
            sets &= self._bits.get(word, 0)
            if not sets:
                return False
        return True


@dataclass(frozen=True)
class Comparison:
    """A comparison of memories, cached until a memory, a vector or a decision changes."""

    request: HttpRequest
    project: str = ""
    category: str = ""
    min_similarity: float | None = None

    @property
    def clearance(self) -> Clearance:
        return request_clearance(self.request)

    @property
    def memories(self) -> MemoryQuerySet:
        live = live_memories(self.clearance, self.project)
        return live.filter(category=self.category) if self.category else live

    def clusters(self) -> DuplicateClusters:
        """Compare, unless the result is in the cache and current."""
        return cached_while(self._token, _CACHE_NAME, self._about, self._compare, _CACHE_SECONDS)

    def known_clusters(self) -> DuplicateClusters | None:
        """Return the clusters if they are in the cache and current."""
        found: DuplicateClusters | None = cached_value(_CACHE_NAME, self._about, self._token)
        return found

    def last_count(self) -> int | None:
        """Return the last number of clusters, which may be outdated; None if it is not in the cache."""
        found: DuplicateClusters | None = cached_value(_CACHE_NAME, self._about)
        return None if found is None else len(found.near)

    def is_slow(self) -> bool:
        """Whether there are so many memories that comparing takes a while."""
        return self.memories.order_by()[MAX_COMPARED_AT_ONCE : MAX_COMPARED_AT_ONCE + 1].exists()

    def _compare(self) -> DuplicateClusters:
        return find_clusters(
            self.memories, self.clearance, similarity=self.min_similarity, position=self._position
        )

    @property
    def _about(self) -> str:
        return viewer_key(self.clearance, self.project, self.category, self.min_similarity)

    @cached_property
    def _position(self) -> LogPosition:
        return current_position()

    @property
    def _token(self) -> object:
        return self._position, store_token(self.request).without_events


def build_first_cards(found: DuplicateClusters, clearance: Clearance, most: int) -> list[ClusterCard]:
    """Return cards of the most certain clusters: at most ``most``, and limited in size."""
    cards = build_cards(found.near[:most], live_memories(clearance))
    sizes = accumulate(card.weight for card in cards)
    fitting = [card for card, size in zip(cards, sizes, strict=True) if size <= MAX_PAGE_BYTES]
    return fitting or cards[:1]


def build_merge_card(memory: Memory, clearance: Clearance) -> ClusterCard | None:
    """Show a memory with the most similar ones of its project, scope and owner; None if there are none.

    Those with at least :data:`MIN_SURE_SIMILARITY` are ticked; one of the ticked ones is kept.
    """
    if memory.category in NEVER_MERGED:
        return None
    place = (memory.project, memory.scope, memory.owner)
    related = find_related(memory, clearance, 4 * MAX_MERGE_CANDIDATES).items
    candidates = [
        one
        for one in related
        if (one.memory.project, one.memory.scope, one.memory.owner) == place
        and one.memory.category not in NEVER_MERGED
    ][:MAX_MERGE_CANDIDATES]
    similar = [one.memory for one in candidates if (one.likeness or 0) >= MIN_SURE_SIMILARITY]
    keep, why = memory.uid, "you opened this one"
    if similar:
        pks = [memory.pk, *(one.pk for one in similar)]
        best, _, why = choose_kept(read_rows(live_memories(clearance).filter(pk__in=pks)))
        keep = next(one.uid for one in (memory, *similar) if one.pk == best.pk)
    pks = [memory.pk, *(one.memory.pk for one in candidates)]
    ticked = CardInput(frozenset([memory.uid, *(one.uid for one in similar)]), frozenset(), "", "")
    card = build_card(live_memories(clearance).filter(pk__in=pks), keep, ticked)
    return replace(card, why=why) if card else None

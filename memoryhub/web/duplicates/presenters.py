"""Near-duplicate clusters as their page shows them, cached until the store changes."""

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

from memoryhub.access.policy import Clearance
from memoryhub.core.text import decisive_words, words
from memoryhub.core.vocabulary import ALWAYS_MERGED, NEVER_MERGED
from memoryhub.duplicates.clusters import (
    Cluster,
    DuplicateClusters,
    choose_kept,
    find_clusters,
    read_rows,
    similarities_to,
)
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.related import find_related
from memoryhub.search.semantic import similarity_label
from memoryhub.web.base import diffs
from memoryhub.web.base.caching import cached_until_change, cached_value, clearance_key
from memoryhub.web.base.filters import ListFilter, ProjectField, WordField

MAX_DIFF_ROWS = (
    30  # of a comparison: what two near-duplicates differ in beyond that is read on their own pages
)
MAX_UNITED_LINES = 300  # lines of the others that a text of one's own begins with or is compared for
_MEMBER_BYTES, _ROW_BYTES = 2_500, 300  # bytes of markup of a memory, and of a row of a comparison
_SIMILARITY_CHOICES = ("0.8", "0.9", "0.97")
_COMPARED_FIELDS = {"type": "Type", "sensitivity": "Level", "session_id": "Session", "author": "Stored by"}


class DuplicatesFilter(ListFilter):
    """What the page may be narrowed to."""

    project = ProjectField()
    category = WordField()
    similarity = forms.ChoiceField(required=False, label="At least this alike")

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        least = settings.MEMORYHUB.near_duplicate_similarity
        steps = [(step, step) for step in _SIMILARITY_CHOICES if float(step) > least]
        field: Any = self.fields["similarity"]
        field.choices = [("", f"{least:g}, as configured"), *steps, ("1", "1, the same words")]

    def narrow(self, memories: MemoryQuerySet) -> MemoryQuerySet:
        """Those of the memories that fit; of a valid form."""
        wanted = {name: value for name in ("project", "category") if (value := self.value(name))}
        return memories.filter(**wanted)

    def least(self) -> float | None:
        given = self.value("similarity")
        # Half precision leaves the cosine of two equal texts a little below 1.
        return min(float(given), 0.998) if given else None


@dataclass(frozen=True)
class ClusterMember:
    """One that would go, beside the one that would be kept.

    ``rows``: what it says (left) against what stays (right). ``figures``: numbers, or a "not", that only one
    of the two has: then they hardly say the same. ``others``: fields in which they differ. ``ticked``:
    whether a click merges it, unless the person says otherwise.
    """

    memory: Memory
    likeness: float | None
    rows: list[diffs.DiffRow]
    figures: list[str]
    others: list[tuple[str, str, str]]
    ticked: bool

    @property
    def figure(self) -> float | None:
        """The likeness in hundredths; 1 for equal texts alone."""
        if self.likeness is None or not self.rows:
            return self.likeness if self.rows else 1.0
        return math.floor(self.likeness * 100) / 100

    @property
    def said(self) -> str:
        return similarity_label(self.likeness) if self.likeness is not None else ""


@dataclass(frozen=True)
class CardInput:
    """What the person had entered into a card that is shown again.

    ``ticked``: ids of those to merge; ``warned``: of those that had a warning, so that a tick meant it.
    ``text``: as it was sent; ``begun``: the ``mark`` of the text that the card began with.
    """

    ticked: frozenset[str]
    warned: frozenset[str]
    text: str
    begun: str

    @property
    def own(self) -> str:
        """The text, if the person wrote any of it."""
        return self.text if self.text.strip() and text_digest(self.text) != self.begun else ""


def text_digest(text: str) -> str:
    """Tells texts apart; blanks around them do not count, since a browser drops a line break in front."""
    return sha256(text.strip().encode()).hexdigest()


@dataclass(frozen=True)
class ClusterCard:
    """A cluster; ``own`` is the text that the person had begun to write for it.

    ``by_rule``: they are pieces of one profile, which are to be one text whatever they say.
    """

    keep: Memory
    why: str
    members: list[ClusterMember]
    is_profile: bool
    own: str = ""
    by_rule: bool = False

    @cached_property
    def begun(self) -> str:
        """What all of them say together, to begin a text of one's own with."""
        return unite_texts(self.keep.content, self._others)

    @property
    def is_cut(self) -> bool:
        """Whether the others say more than the text begins with."""
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
        """About how many bytes a page loads for it: its texts, and what stands around them."""
        rows = sum(len(member.rows) for member in self.members)
        around = _MEMBER_BYTES * len(self.everyone) + _ROW_BYTES * rows
        return around + len(self.keep.content) + 2 * sum(map(len, self._others))

    @property
    def everyone(self) -> list[Memory]:
        return [self.keep, *(member.memory for member in self.members)]


def build_cards(clusters: Sequence[Cluster], memories: MemoryQuerySet) -> list[ClusterCard]:
    """With their memories, in one query; what has gone meanwhile is left out."""
    wanted = [pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))]
    rows = memories.in_bulk(wanted)
    made = []
    for one in clusters:
        others = [(rows[pk], likeness) for pk, likeness in one.others if pk in rows]
        if one.keep in rows and others:
            made.append(replace(_make_card(rows[one.keep], one.why, others), by_rule=one.by_rule))
    return made


def build_card(
    memories: MemoryQuerySet, keep: str = "", entered: CardInput | None = None
) -> ClusterCard | None:
    """These memories as one cluster, around the named one or that of most worth; None for fewer than two."""
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
    least = settings.MEMORYHUB.near_duplicate_similarity
    pieces = all(memory.category == ALWAYS_MERGED for memory in (keep, *(other for other, _ in others)))
    by_rule = pieces and any((member.figure or 0) < least for member in members)
    return ClusterCard(keep, why, members, is_profile, entered.own if entered else "", by_rule)


def _make_member(
    keep: Memory, other: Memory, likeness: float | None, entered: CardInput | None
) -> ClusterMember:
    figures = sorted(decisive_words(_title_and_content(keep)) ^ decisive_words(_title_and_content(other)))
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
    """As the person left it; a warning takes the tick away unless it was given in spite of one."""
    if entered is None:
        return not warns
    return uid in entered.ticked and (not warns or uid in entered.warned)


def _title_and_content(memory: Memory) -> str:
    return f"{memory.title}\n{memory.content}"


def unite_texts(content: str, others: Sequence[str]) -> str:
    """A text, and under it the lines of the others whose words no line above has.

    Of the others the first :data:`MOST_UNITED` lines count that do not stand above as they are.
    """
    lines = content.rstrip().split("\n")
    known = _WordSets(lines)
    for line in _new_lines(content, others)[:MAX_UNITED_LINES]:
        told = set(words(line))
        if told and not known.hold(told):
            lines.append(line)
            known.add(told)
    return "\n".join(lines)


def _new_lines(content: str, others: Iterable[str]) -> list[str]:
    """Lines of the others that do not stand in the text as they are, each once."""
    said = set(content.split("\n"))
    new = (line.rstrip() for other in others for line in other.split("\n"))
    return [line for line in dict.fromkeys(new) if line and line not in said]


class _WordSets:
    """Sets of words; each word knows its sets as bits of a number, so that a look takes no walk over them."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._count = 0
        self._bits: defaultdict[str, int] = defaultdict(int)
        for told in {frozenset(words(line)) for line in lines}:
            self.add(told)

    def add(self, told: Iterable[str]) -> None:
        for word in told:
            self._bits[word] |= 1 << self._count
        self._count += 1

    def hold(self, told: Iterable[str]) -> bool:
        """Whether one of the sets has all of these words."""
        left = -1
        for word in told:
            left &= self._bits.get(word, 0)
            if not left:
                return False
        return True


_CACHE_NAME, _CACHE_SECONDS = "near-duplicates", 300
MAX_PAGE_BYTES = 60_000  # bytes of a page's near-duplicates, but for the first
MAX_MERGE_CANDIDATES = 5  # memories that are offered for merging with one


def cached_clusters(clearance: Clearance, project: str = "") -> DuplicateClusters:
    """Return the clusters of one project or of all, found again after every change of the store."""
    live = _live_memories(clearance)
    narrowed = live.filter(project=project) if project else live
    about = repr((clearance_key(clearance), project))
    return cached_until_change(_CACHE_NAME, about, lambda: find_clusters(narrowed, clearance), _CACHE_SECONDS)


def cached_count(clearance: Clearance, project: str = "") -> int | None:
    """Return the last number of clusters, which may be outdated; None if it is not in the cache."""
    found: DuplicateClusters | None = cached_value(_CACHE_NAME, repr((clearance_key(clearance), project)))
    return None if found is None else len(found.near)


def build_first_cards(found: DuplicateClusters, clearance: Clearance, most: int) -> list[ClusterCard]:
    """The surest of them, with their memories: at most so many, and no more than a page can bear."""
    made = build_cards(found.near[:most], _live_memories(clearance))
    weights = accumulate(one.weight for one in made)
    return [
        one for one, weight in zip(made, weights, strict=True) if weight <= MAX_PAGE_BYTES or one is made[0]
    ]


def _live_memories(clearance: Clearance) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    return live


def build_merge_card(memory: Memory, clearance: Clearance, likeness: float) -> ClusterCard | None:
    """A memory and those most like it of its project, scope and owner; None where there is none.

    Only those are ticked that are at least as alike as ``likeness``, a cosine; one of them is kept.
    """
    if memory.category in NEVER_MERGED:
        return None
    near = [
        one
        for one in find_related(memory, clearance, 4 * MAX_MERGE_CANDIDATES).items
        if (one.memory.project, one.memory.scope, one.memory.owner)
        == (memory.project, memory.scope, memory.owner)
        and one.memory.category not in NEVER_MERGED
    ][:MAX_MERGE_CANDIDATES]
    alike = [one.memory for one in near if (one.likeness or 0) >= likeness]
    ticked = frozenset([memory.uid, *(one.uid for one in alike)])
    # What is kept is one of those that are ticked: else the second key would merge it into something else.
    keep, why = memory.uid, "it is the one you were looking at"
    if alike:
        pks = [memory.pk, *(one.pk for one in alike)]
        best, _, why = choose_kept(read_rows(_live_memories(clearance).filter(pk__in=pks)))
        keep = next(one.uid for one in (memory, *alike) if one.pk == best.pk)
    pks = [memory.pk, *(one.memory.pk for one in near)]
    entered = CardInput(ticked, frozenset(), "", "")
    found = build_card(_live_memories(clearance).filter(pk__in=pks), keep, entered)
    return replace(found, why=why) if found else None

"""Clusters of near-duplicates as the page shows them: side by side with the one that would be kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.duplicates import Cluster, arrange, likeness_of, read
from memoryhub.retrieval.likeness import in_words
from memoryhub.text import decisive, words
from memoryhub.vocabulary import ALWAYS_MERGED
from memoryhub.web import diffs
from memoryhub.web.filters import ListFilter, ProjectField, WordField

OPEN = 3  # comparisons of a cluster that are unfolded
_STEPS = ("0.8", "0.9", "0.97")
_FIELDS = {"type": "Type", "sensitivity": "Level", "session_id": "Session", "author": "Stored by"}


class DuplicatesFilter(ListFilter):
    """What the page may be narrowed to."""

    project = ProjectField()
    category = WordField()
    similarity = forms.ChoiceField(required=False, label="At least this alike")

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        least = settings.MEMORYHUB.near_duplicate_similarity
        steps = [(step, step) for step in _STEPS if float(step) > least]
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
class Member:
    """One that would go, beside the one that would be kept.

    ``rows``: what it says (left) against what stays (right). ``figures``: numbers, or a "not", that only one
    of the two has: then they hardly say the same. ``others``: fields in which they differ.
    """

    memory: Memory
    likeness: float | None
    rows: list[diffs.Row]
    figures: list[str]
    others: list[tuple[str, str, str]]

    @property
    def figure(self) -> float | None:
        """The likeness in hundredths; 1 for equal texts alone."""
        if self.likeness is None or not self.rows:
            return self.likeness if self.rows else 1.0
        return math.floor(self.likeness * 100) / 100

    @property
    def said(self) -> str:
        return in_words(self.likeness) if self.likeness is not None else ""


@dataclass(frozen=True)
class Shown:
    """A cluster; ``text`` is what all of them say together, to begin a text of one's own with."""

    keep: Memory
    why: str
    members: list[Member]
    text: str
    is_profile: bool

    @property
    def everyone(self) -> list[Memory]:
        return [self.keep, *(member.memory for member in self.members)]


def shown(clusters: Sequence[Cluster], memories: MemoryQuerySet) -> list[Shown]:
    """With their memories, in one query; what has gone meanwhile is left out."""
    wanted = [pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))]
    rows = memories.in_bulk(wanted)
    made = []
    for one in clusters:
        others = [(rows[pk], likeness) for pk, likeness in one.others if pk in rows]
        if one.keep in rows and others:
            made.append(_beside(rows[one.keep], one.why, others))
    return made


def one_cluster(memories: MemoryQuerySet, keep: str = "") -> Shown | None:
    """These memories as one cluster, around the named one or that of most worth; None for fewer than two."""
    rows = memories.in_bulk()
    if len(rows) < 2:
        return None
    chosen = next((pk for pk, row in rows.items() if row.uid == keep), None)
    best, others, why = arrange(read(memories), chosen)
    near = likeness_of(best.pk, [other.pk for other in others])
    return _beside(rows[best.pk], why, [(rows[other.pk], near.get(other.pk)) for other in others])


def _beside(keep: Memory, why: str, others: Sequence[tuple[Memory, float | None]]) -> Shown:
    members = [_member(keep, other, likeness) for other, likeness in others]
    text = united_text(keep.content, [other.content for other, _ in others])
    return Shown(keep, why, members, text, keep.category == ALWAYS_MERGED)


def _member(keep: Memory, other: Memory, likeness: float | None) -> Member:
    figures = sorted(decisive(_text(keep)) ^ decisive(_text(other)))
    fields = [
        (label, getattr(other, name), getattr(keep, name))
        for name, label in _FIELDS.items()
        if getattr(other, name) != getattr(keep, name)
    ]
    return Member(other, likeness, diffs.compare(other.content, keep.content), figures, fields)


def _text(memory: Memory) -> str:
    return f"{memory.title}\n{memory.content}"


def united_text(content: str, others: Sequence[str]) -> str:
    """A text, and under it the lines of the others whose words no line above has."""
    lines = content.rstrip().split("\n")
    known = [set(words(line)) for line in lines]
    for other in others:
        for line in other.split("\n"):
            told = set(words(line))
            if told and not any(told <= one for one in known):
                lines.append(line.rstrip())
                known.append(told)
    return "\n".join(lines)

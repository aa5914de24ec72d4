"""Memories that have to do with one memory, each with the reasons in words.

The nearest by their vectors, and those that name the same files; labels and entities that are shared count
in favour. Without vectors it goes on with the rarest words that are shared. A thing that many memories
share says little. All of it is read behind the gate, counts too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef

from memoryhub.access.policy import Clearance
from memoryhub.backends import vector_index
from memoryhub.backends.fts_query import match_any
from memoryhub.core.text import STOP_WORDS, jaccard, stem, terms, words
from memoryhub.embeddings import EmbeddingError, text_to_embed
from memoryhub.models import Entity, FileLink, Label, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.semantic import available_embedder, find_nearest, similarity_label
from memoryhub.search.term_frequencies import load_term_frequencies

MAX_RELATED = 6
MIN_SCORE = 0.5  # of what is worth showing, 0..1
_MAX_CANDIDATES = 40  # candidates by vectors, and as many by words
# How much one shared thing tells that few others share.
_FILE_WEIGHT, _LABEL_WEIGHT, _WORD_WEIGHT = 0.5, 0.2, 1.5
_LABEL_KINDS = ("tag", "concept", "entity")
_MAX_FILE_LINKS = 5000  # links to files that are looked at
_MAX_PATHS, _MAX_NAMED = 100, 3  # files of the memory that are looked at; shared things that a reason names
_MAX_RARE_WORDS, _MAX_WORDS = 8, 60  # words that are looked for, of so many whose rarity is asked
_MAX_CHARS = 4000  # of a text whose words are compared


@dataclass(frozen=True)
class RelatedMemory:
    """Another memory. ``score`` 0..1 orders; ``likeness``: the cosine, None where there is none."""

    memory: Memory
    score: float
    likeness: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class RelatedMemories:
    """Best first. ``note``: in words, what could not be asked."""

    items: list[RelatedMemory] = field(default_factory=list)
    note: str = ""


def find_related(memory: Memory, clearance: Clearance, limit: int = MAX_RELATED) -> RelatedMemories:
    """The live memories that have most to do with one that the caller has found behind the gate.

    Nothing counts as an access. About a dozen queries, whatever the store holds.
    """
    others: MemoryQuerySet = Memory.objects.visible_to(clearance).live().exclude(pk=memory.pk)
    likeness, note = _nearest_by_vector(memory, others)
    shared = {} if likeness else _similar_by_words(memory, others)
    evidence = _RelatedEvidence(likeness, shared)
    evidence.files(memory, others)
    evidence.labels(memory)
    best = evidence.best(limit)
    rows = others.in_bulk(best)
    items = [
        RelatedMemory(rows[pk], round(evidence.score(pk), 4), likeness.get(pk), evidence.reasons(pk))
        for pk in best
        if pk in rows
    ]
    return RelatedMemories(items, note)


def _nearest_by_vector(memory: Memory, others: MemoryQuerySet) -> tuple[dict[int, float], str]:
    """The nearest by vectors with their cosines; empty with a note where that cannot be asked."""
    embedder, note = available_embedder()
    if embedder is None:
        return {}, f"compared by words: {note}"
    try:
        own = vector_index.get_index(embedder.name, embedder.dimensions).of([memory.pk]).get(memory.pk)
        if own is None and embedder.in_process:
            texts = (memory.title, memory.subtitle, memory.abstract, memory.overview, memory.content)
            [own] = embedder.documents([text_to_embed(*texts)])
    except EmbeddingError as error:
        return {}, f"compared by words: {error}"
    if own is None:
        return {}, "compared by words: this memory has no vector yet"
    found = find_nearest(others, own, embedder.name, _MAX_CANDIDATES, centred=False)
    return {pk: round(max(cosine, 0.0), 4) for pk, cosine in found}, ""


def _similar_by_words(memory: Memory, others: MemoryQuerySet) -> dict[int, tuple[float, list[str]]]:
    """Memories that share rare words: the share of all words, and the rarest of those that are shared."""
    text = f"{memory.title} {memory.content[:_MAX_CHARS]}"
    useful = [word for word in dict.fromkeys(words(text)) if len(word) > 2 and word not in STOP_WORDS]
    useful = useful[:_MAX_WORDS]
    counted = load_term_frequencies(others, useful)
    rare = sorted(filter(counted.of, useful), key=counted.of)
    own, found = terms(text), {}
    for pk, title, content in others.matching(match_any(rare[:_MAX_RARE_WORDS])).values_list(
        "pk", "title", "content"
    )[:_MAX_CANDIDATES]:
        theirs = terms(f"{title} {content[:_MAX_CHARS]}")
        found[pk] = (jaccard(own, theirs), [word for word in rare if stem(word) in theirs])
    return found


class _RelatedEvidence:
    """What speaks for each candidate; independent reasons add up to no more than certainty."""

    def __init__(self, likeness: Mapping[int, float], shared: Mapping[int, tuple[float, list[str]]]) -> None:
        self.likeness, self.shared = likeness, shared
        self.doubt: dict[int, float] = {pk: 1 - cosine for pk, cosine in likeness.items()}
        for pk, (share, _) in shared.items():
            self.doubt[pk] = 1 - min(_WORD_WEIGHT * share, 1.0)
        self.paths: dict[int, list[str]] = defaultdict(list)
        self.named: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def files(self, memory: Memory, others: MemoryQuerySet) -> None:
        """Who names the same files is a candidate too."""
        paths = sorted({link.path for link in memory.files.all()})[:_MAX_PATHS]
        if not paths:
            return
        links = FileLink.objects.filter(Exists(others.filter(pk=OuterRef("memory"))), path__in=paths)
        found = sorted(set(links.order_by("-memory").values_list("memory", "path")[:_MAX_FILE_LINKS]))
        sharing = Counter(path for _, path in found)
        for pk, path in found:
            self.paths[pk].append(path)
            self._weigh(pk, _FILE_WEIGHT, sharing[path])

    def labels(self, memory: Memory) -> None:
        """Tags, concepts and entities that candidates share with the memory."""
        own = [(label.kind, label.value) for label in memory.labels.all()]
        entities = {entity.entity for entity in memory.entities.all()}
        among = list(self.doubt)
        values = Label.objects.filter(memory__in=among, value__in={value for _, value in own})
        found = [row for row in values.values_list("memory", "kind", "value") if row[1:] in own]
        same = Entity.objects.filter(memory__in=among, entity__in=entities).values_list("memory", "entity")
        found += [(pk, "entity", name) for pk, name in set(same)]
        sharing = Counter((kind, value) for _, kind, value in found)
        for pk, kind, value in sorted(found):
            self.named[pk][kind].append(value)
            self._weigh(pk, _LABEL_WEIGHT, sharing[(kind, value)])

    def _weigh(self, pk: int, weight: float, sharing: int) -> None:
        self.doubt[pk] = self.doubt.get(pk, 1.0) * (1 - weight / (1 + math.log2(sharing)))

    def score(self, pk: int) -> float:
        return 1 - self.doubt[pk]

    def best(self, limit: int) -> list[int]:
        """The keys of those that are worth showing."""
        good = [pk for pk in self.doubt if self.score(pk) >= MIN_SCORE or pk in self.paths]
        return sorted(good, key=lambda pk: (-self.score(pk), -pk))[:limit]

    def reasons(self, pk: int) -> tuple[str, ...]:
        """In words, the strongest kinds first."""
        told = []
        if (cosine := self.likeness.get(pk, 0.0)) >= MIN_SCORE:
            told.append(f"{similarity_label(cosine)} ({cosine:.2f})")
        if pk in self.shared:
            told.append(f"shares {_format_names('word', self.shared[pk][1])}")
        if pk in self.paths:
            told.append(f"shares {_format_names('file', self.paths[pk])}")
        named = self.named.get(pk, {})
        told += [f"shares {_format_names(kind, named[kind])}" for kind in _LABEL_KINDS if kind in named]
        return tuple(told)


def _format_names(noun: str, values: Iterable[str]) -> str:
    """``the file a``, ``the files a, b, c and 2 more``."""
    values = list(values)
    plural = "entities" if noun == "entity" else f"{noun}s"
    more = f" and {len(values) - _MAX_NAMED} more" if len(values) > _MAX_NAMED else ""
    return f"the {noun if len(values) == 1 else plural} {', '.join(values[:_MAX_NAMED])}{more}"

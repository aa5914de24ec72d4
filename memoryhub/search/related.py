"""Memories related to one memory, each with its reasons in words.

Candidates are the nearest by vector and those with the same files. Shared labels and entities raise the
score. Without vectors, shared rare words are used. The more memories share a file or label, the less it
counts. All rows and counts are limited to what the caller can see.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, Value

from memoryhub.access.policy import Clearance
from memoryhub.backends import change_log
from memoryhub.backends.change_log import STORED_TYPE
from memoryhub.backends.vector_view import unit_vectors
from memoryhub.core.text import STOP_WORDS, jaccard, join_first, stem, terms, words
from memoryhub.embeddings import EmbeddingError, text_to_embed
from memoryhub.memories.rows import LABEL_KINDS, list_values
from memoryhub.models import Entity, FileLink, Label, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.lexical import count_terms, rows_sharing_words
from memoryhub.search.semantic import available_embedder, find_nearest, similarity_label
from memoryhub.search.visible_rows import load_visible_rows

MAX_RELATED = 6
MIN_SCORE = 0.5
_MAX_CANDIDATES = 40  # by vectors, or by words
# Weight of one shared file or label that few others share, and of shared words.
_FILE_WEIGHT, _LABEL_WEIGHT, _WORD_WEIGHT = 0.5, 0.2, 1.5
_NAMED_KINDS = ("tag", "concept", "entity")
_MAX_FILE_LINKS = 5000
_MAX_PATHS = 100  # files of the memory
_MAX_NAMED = 3  # shared values that a reason lists
_MAX_WORDS, _MAX_RARE_WORDS = 60, 8  # words whose frequency is counted, and rarest ones that are looked up
_MAX_CHARS = 4000  # of a text whose words are compared


@dataclass(frozen=True)
class RelatedMemory:
    """A related memory. ``likeness``: the cosine, or None without vectors."""

    memory: Memory
    score: float
    likeness: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class RelatedMemories:
    """Related memories, best first. ``note``: why vectors were not compared."""

    items: list[RelatedMemory] = field(default_factory=list)
    note: str = ""


def find_related(memory: Memory, clearance: Clearance, limit: int = MAX_RELATED) -> RelatedMemories:
    """Return the live memories most related to one that the caller can see, without replaced ones.

    Does not count as an access. About a dozen queries for any store.
    """
    visible = Memory.objects.visible_to(clearance).live()
    others = visible.exclude(pk=memory.pk)
    cosines, note = _nearest_by_vector(memory, others)
    evidence = _RelatedEvidence(cosines, {} if cosines else _similar_by_words(memory, others))
    evidence.add_files(memory, others)
    evidence.add_labels(memory)
    best = evidence.best(limit + _MAX_CANDIDATES)  # some may be replaced
    rows = visible.without_replaced().in_bulk(best)
    items = [
        RelatedMemory(rows[pk], round(evidence.score(pk), 4), cosines.get(pk), evidence.reasons(pk))
        for pk in best
        if pk in rows
    ]
    return RelatedMemories(items[:limit], note)


def _nearest_by_vector(memory: Memory, others: MemoryQuerySet) -> tuple[dict[int, float], str]:
    """Return the cosines of the nearest memories, or nothing and the reason."""
    embedder, problem = available_embedder()
    if embedder is None:
        return {}, f"compared by words: {problem}"
    try:
        size = embedder.dimensions * STORED_TYPE.itemsize
        position, stored = change_log.position_and_vector(memory.pk, embedder.name, size)
        vector = next(iter(unit_vectors([stored], embedder.dimensions)[0] if stored else ()), None)
        if vector is None and embedder.in_process:
            texts = (memory.title, memory.subtitle, memory.abstract, memory.overview, memory.content)
            [vector] = embedder.documents([text_to_embed(*texts)])
    except EmbeddingError as error:
        return {}, f"compared by words: {error}"
    if vector is None:
        return {}, "compared by words: this memory has no vector yet"
    found = find_nearest(others, vector, embedder.name, _MAX_CANDIDATES, centred=False, position=position)
    return {pk: round(max(cosine, 0.0), 4) for pk, cosine in found}, ""


def _similar_by_words(memory: Memory, others: MemoryQuerySet) -> dict[int, tuple[float, list[str]]]:
    """Return memories that share rare words: the Jaccard similarity and the shared rare words of each."""
    text = f"{memory.title} {memory.content[:_MAX_CHARS]}"
    useful = [word for word in dict.fromkeys(words(text)) if len(word) > 2 and word not in STOP_WORDS]
    useful = useful[:_MAX_WORDS]
    rows = load_visible_rows(others)
    frequencies = count_terms(rows, useful)
    rare = sorted(filter(frequencies.of, useful), key=frequencies.of)
    keys = rows_sharing_words(rows, rare, max_words=_MAX_RARE_WORDS, limit=_MAX_CANDIDATES)
    own, found = terms(text), {}
    for pk, title, content in others.filter(pk__in=keys).values_list("pk", "title", "content"):
        other = terms(f"{title} {content[:_MAX_CHARS]}")
        found[pk] = (jaccard(own, other), [word for word in rare if stem(word) in other])
    return found


class _RelatedEvidence:
    """The evidence for each candidate. Independent reasons combine like probabilities."""

    def __init__(
        self, cosines: Mapping[int, float], shared_words: Mapping[int, tuple[float, list[str]]]
    ) -> None:
        self.cosines, self.shared_words = cosines, shared_words
        self.doubt: dict[int, float] = {pk: 1 - cosine for pk, cosine in cosines.items()}
        for pk, (share, _) in shared_words.items():
            self.doubt[pk] = 1 - min(_WORD_WEIGHT * share, 1.0)
        self.paths: dict[int, list[str]] = defaultdict(list)
        self.labels: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add_files(self, memory: Memory, others: MemoryQuerySet) -> None:
        """Add the memories with the same files, also those that are no candidates yet."""
        paths = [*list_values(memory, "files_read"), *list_values(memory, "files_modified")]
        paths = sorted(set(paths))[:_MAX_PATHS]
        if not paths:
            return
        links = FileLink.objects.filter(Exists(others.filter(pk=OuterRef("memory"))), path__in=paths)
        found = sorted(set(links.order_by("-memory").values_list("memory", "path")[:_MAX_FILE_LINKS]))
        counts = Counter(path for _, path in found)
        for pk, path in found:
            self.paths[pk].append(path)
            self._reduce_doubt(pk, _FILE_WEIGHT, counts[path])

    def add_labels(self, memory: Memory) -> None:
        """Add the tags, concepts and entities that candidates share with the memory."""
        own = {(kind, value) for name, kind in LABEL_KINDS.items() for value in list_values(memory, name)}
        own |= {("entity", one["entity"]) for one in list_values(memory, "entities")}
        named, candidates = {value for _, value in own}, list(self.doubt)
        labels = Label.objects.filter(memory__in=candidates, value__in=named)
        entities = Entity.objects.filter(memory__in=candidates, entity__in=named)
        rows = labels.values_list("memory", "kind", "value").union(
            entities.values_list("memory", Value("entity"), "entity")
        )
        found = [row for row in rows if row[1:] in own]
        counts = Counter((kind, value) for _, kind, value in found)
        for pk, kind, value in sorted(found):
            self.labels[pk][kind].append(value)
            self._reduce_doubt(pk, _LABEL_WEIGHT, counts[(kind, value)])

    def _reduce_doubt(self, pk: int, weight: float, sharing: int) -> None:
        self.doubt[pk] = self.doubt.get(pk, 1.0) * (1 - weight / (1 + math.log2(sharing)))

    def score(self, pk: int) -> float:
        return 1 - self.doubt[pk]

    def best(self, limit: int) -> list[int]:
        """Return the primary keys of the candidates worth showing, best first."""
        good = [pk for pk in self.doubt if self.score(pk) >= MIN_SCORE or pk in self.paths]
        return sorted(good, key=lambda pk: (-self.score(pk), -pk))[:limit]

    def reasons(self, pk: int) -> tuple[str, ...]:
        """Return the reasons in words, the strongest kind first."""
        reasons = []
        if (cosine := self.cosines.get(pk, 0.0)) >= MIN_SCORE:
            reasons.append(f"{similarity_label(cosine)} ({cosine:.2f})")
        if pk in self.shared_words:
            reasons.append(f"shares {_format_names('word', self.shared_words[pk][1])}")
        if pk in self.paths:
            reasons.append(f"shares {_format_names('file', self.paths[pk])}")
        labels = self.labels.get(pk, {})
        reasons += [f"shares {_format_names(kind, labels[kind])}" for kind in _NAMED_KINDS if kind in labels]
        return tuple(reasons)


def _format_names(noun: str, values: list[str]) -> str:
    """Return text like ``the file a`` or ``the files a, b, c and 2 more``."""
    plural = "entities" if noun == "entity" else f"{noun}s"
    return f"the {noun if len(values) == 1 else plural} {join_first(values, _MAX_NAMED)}"

"""Semantic search: the visible memories nearest to the vector of a query."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from memoryhub import embeddings
from memoryhub.backends import vector_index, vector_log
from memoryhub.backends.fts_query import Query
from memoryhub.backends.statements import key_list
from memoryhub.backends.vector_index import Keys, Scores, Vectors, VectorView
from memoryhub.core.text import words
from memoryhub.embeddings import Embedder, EmbeddingError, configured
from memoryhub.embeddings.provider import log_failure
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.term_frequencies import TermFrequencies, count_memories, queryset_key

logger = logging.getLogger(__name__)

MIN_SAMPLE = 500  # memories of a queryset from which its mean vector is computed, at least
MIN_SAMPLE_VECTORS = 25  # with fewer vectors in the sample, the whole queryset is read
MAX_KEYS_PER_QUERY = 20_000
SAMPLE_SECONDS = 10.0  # lifetime of a sample; a memory that is hidden meanwhile stays in the mean until then
MAX_SAMPLES = 64  # cached samples, one per queryset
# Minimum weight of a word in the query vector; the rest depends on its rarity. Question words and names in
# half of the memories would mislead the search, but a query of common words still needs a direction.
MIN_WORD_WEIGHT = 0.2
LEXICAL_ONLY = "searched by words alone"
MODEL_CHANGING = (
    "another model is taking over: memories that have no vector of it yet are found by words alone"
)
NOT_CONFIGURED = "no embeddings are configured; this was found by words alone"
_NO_SCORES = Scores(np.empty(0, np.int64), np.empty(0, np.float32))
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Descriptions of the similarity of two memories, by minimum cosine.
_SIMILARITY_LABELS = (
    (0.95, "says nearly the same"),
    (0.8, "says much the same"),
    (0.6, "is about much the same"),
    (0.4, "is about something alike"),
)

_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="vectors")  # no database access here


@dataclass(frozen=True)
class NearestMemories:
    """The nearest memories of a queryset with their cosines, nearest first, and all other scores."""

    best: list[tuple[int, float]] = field(default_factory=list)
    scores: Scores = field(default=_NO_SCORES, repr=False)

    def cosines(self, pks: Collection[int]) -> dict[int, float]:
        """Return the cosines of visible memories; those without a vector are left out."""
        positions = self._positions
        return {
            pk: float(self.scores.cosines[positions[pk]])
            for pk in pks
            if pk < len(positions) and positions[pk] >= 0
        }

    @cached_property
    def _positions(self) -> Keys:
        """Position of the cosine of each memory, by primary key; -1 without a vector."""
        positions: Keys = np.full(int(self.scores.pks.max(initial=0)) + 1, -1)
        positions[self.scores.pks] = np.arange(len(self.scores.pks))
        return positions


def find_nearest(
    memories: MemoryQuerySet, query: Vectors, model: str, limit: int, *, centred: bool = True
) -> list[tuple[int, float]]:
    """Return primary keys and cosines of the nearest memories; see :class:`NearestSearch`."""
    return NearestSearch(memories, query, model, limit, centred=centred).result().best


class NearestSearch:
    """Exact search for the nearest memories of a queryset. Vectors are compared in another thread.

    Memories without a vector of the model are left out. ``centred`` subtracts the mean of the visible vectors
    (of a sample if they are many), so hidden memories do not affect the scores. Newer memories come first
    among equals. At most three queries, and those that refresh the index.
    """

    def __init__(
        self, memories: MemoryQuerySet, query: Vectors, model: str, limit: int, *, centred: bool = True
    ) -> None:
        self._memories, self._limit = memories, limit
        vectors = vector_index.get_index(model, len(query)).view()
        pks = vectors.pks
        self._sample: _QuerysetSample | None = None
        self._scores: Scores | Future[Scores] = _NO_SCORES
        if not len(pks) or limit < 1 or not query.any():
            return
        few = len(pks) <= 2 * MIN_SAMPLE
        if few:
            self._sample = _sample_everything(vectors, _filter_keys(memories, pks))
        else:
            self._sample = _load_sample(vectors, memories, pks)
        mean = self._sample.mean if centred else None
        compare = partial(vectors.scores, query, centred=centred, mean=mean)
        self._scores = compare() if few else _executor.submit(compare)

    def result(self) -> NearestMemories:
        """Wait for the comparison and return the nearest visible memories."""
        scores = self._scores.result() if isinstance(self._scores, Future) else self._scores
        if self._sample is None:
            return NearestMemories()
        found = None if self._sample.own is None else _restrict_scores(scores, self._sample.own)
        if found is None:
            top = _top_scores(scores, int(1.5 * self._limit / self._sample.share) + MIN_SAMPLE_VECTORS)
            if len(top.pks) <= MAX_KEYS_PER_QUERY:
                visible = _restrict_scores(top, _filter_keys(self._memories, top.pks))
                if len(visible.pks) >= self._limit or len(top.pks) == len(scores.pks):
                    found = visible
        if found is None:
            found = _restrict_scores(scores, _all_keys(self._memories))
        return NearestMemories(_best_pairs(found, self._limit), scores)


@dataclass(frozen=True)
class _QuerysetSample:
    """The share of the vectors that a queryset contains, and their mean, estimated from a sample.

    ``own``: all keys, if the queryset contains so few vectors that it was read whole.
    """

    share: float
    mean: Vectors
    at: float
    own: Keys | None = None


def _sample_everything(vectors: VectorView, own: Keys) -> _QuerysetSample:
    return _QuerysetSample(1.0, vectors.mean(_select_sample(own, len(own))), 0.0, own)


def _load_sample(vectors: VectorView, memories: MemoryQuerySet, pks: Keys) -> _QuerysetSample:
    """Return the cached sample of a queryset, or a new one.

    A sample expires when vectors were added or removed, and after some seconds.
    """
    key = queryset_key(memories)
    if key is None:
        return _sample_everything(vectors, np.empty(0, np.int64))
    cached: _QuerysetSample | None = vectors.drawn.get(key)
    if cached is not None and time.monotonic() - cached.at < SAMPLE_SECONDS:
        return cached
    total = count_memories(memories)
    drawn = _select_sample(pks, total)
    # The comparison with the whole store affects only the speed: the sample is the same either way.
    sparse = total * MIN_SAMPLE < MIN_SAMPLE_VECTORS * len(pks)
    visible = np.empty(0, np.int64) if sparse else _filter_keys(memories, drawn)
    if len(visible) < MIN_SAMPLE_VECTORS:
        own = _all_keys(memories)
        return _QuerysetSample(1.0, vectors.mean(_select_sample(own, total)), 0.0, own)
    if len(vectors.drawn) >= MAX_SAMPLES:
        vectors.drawn.clear()
    sample = _QuerysetSample(len(visible) / len(drawn), vectors.mean(visible), time.monotonic())
    vectors.drawn[key] = sample
    return sample


def _select_sample(pks: Keys, visible: int) -> Keys:
    """Return the keys that belong to the sample of a queryset with so many rows.

    This depends on nothing else, so hidden rows do not change the mean.
    """
    mixed = (pks.astype(np.uint64) * _HASH_MULTIPLIER) >> np.uint64(32)
    step = 1 << max((visible // MIN_SAMPLE).bit_length() - 1, 0)
    drawn: Keys = pks[mixed % np.uint64(step) == 0]
    return drawn


def _filter_keys(memories: MemoryQuerySet, pks: Keys) -> Keys:
    """Return the keys that are in the queryset."""
    return _to_keys(memories.order_by().filter(pk__in=key_list(pks.tolist())).values_list("pk", flat=True))


def _all_keys(memories: MemoryQuerySet) -> Keys:
    return np.sort(_to_keys(memories.order_by().values_list("pk", flat=True)))


def _to_keys(found: Iterable[int]) -> Keys:
    return np.fromiter(found, np.int64)


def _restrict_scores(scores: Scores, pks: Keys) -> Scores:
    among = np.isin(scores.pks, pks)
    return Scores(scores.pks[among], scores.cosines[among])


def _top_scores(scores: Scores, limit: int) -> Scores:
    """Return the best scores and all that equal the last of them."""
    if limit >= len(scores.pks):
        return scores
    good = scores.cosines >= np.partition(scores.cosines, -limit)[-limit]
    return Scores(scores.pks[good], scores.cosines[good])


def _best_pairs(scores: Scores, limit: int) -> list[tuple[int, float]]:
    top = _top_scores(scores, limit)
    order = np.lexsort((-top.pks, -top.cosines))[:limit]
    return [(int(top.pks[position]), float(top.cosines[position])) for position in order]


@dataclass(frozen=True)
class SemanticSearch:
    """A running search by vectors. ``failure``: why it could not start. ``note``: vectors are incomplete."""

    search: NearestSearch | None = None
    model: str = ""
    failure: str = ""
    note: str = ""

    @cached_property
    def nearest(self) -> NearestMemories:
        return self.search.result() if self.search else NearestMemories()


def start_semantic_search(
    memories: MemoryQuerySet, query: Query, frequencies: TermFrequencies, limit: int
) -> SemanticSearch:
    """Start the search for the nearest memories of a query; it runs in another thread."""
    try:
        embedder = embeddings.configured()
        if embedder is None:
            return SemanticSearch(failure=NOT_CONFIGURED)
        vector = embedder.query(query.typed, word_weights(query, frequencies))
    except EmbeddingError as error:
        log_failure(logger, LEXICAL_ONLY, error)
        return SemanticSearch(failure=f"{LEXICAL_ONLY}: {error}")
    note = MODEL_CHANGING if vector_log.has_other_models(embedder.name) else ""
    return SemanticSearch(NearestSearch(memories, vector, embedder.name, limit), embedder.name, note=note)


def word_weights(query: Query, frequencies: TermFrequencies) -> Mapping[str, float]:
    """Return the weight of each word in the query vector, 0..1. Stop words weigh least."""
    rarest = scoring.idf(0, frequencies.total)
    weights = dict.fromkeys(words(query.typed), MIN_WORD_WEIGHT)
    for word in query.words:
        rarity = scoring.idf(frequencies.of(word), frequencies.total)
        weights[word] = MIN_WORD_WEIGHT + (1 - MIN_WORD_WEIGHT) * rarity / rarest
    return weights


def available_embedder() -> tuple[Embedder | None, str]:
    """Return the embedding provider whose vectors can be compared now, or the reason why there is none."""
    try:
        embedder = configured()
    except EmbeddingError as error:
        return None, str(error)
    if embedder is None:
        return None, "no embeddings are configured"
    if not embedder.dimensions:
        return None, "the provider of embeddings has not answered yet"
    return embedder, ""


def similarity_label(cosine: float) -> str:
    """Describe a cosine in words."""
    return next((label for least, label in _SIMILARITY_LABELS if cosine >= least), "says something else")

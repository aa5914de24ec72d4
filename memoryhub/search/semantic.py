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

MIN_SAMPLE = 500  # memories of a queryset from which its mean is computed, at least
MIN_SAMPLE_VECTORS = 25  # of a sample must have a vector, or the queryset is read whole
MAX_KEYS_PER_QUERY = 20_000  # ids in one question
SAMPLE_SECONDS = 10.0  # a sample is good for; a memory that is hidden meanwhile counts in the mean until then
MAX_SAMPLES = 64  # querysets whose samples are kept
_NO_SCORES = Scores(np.empty(0, np.int64), np.empty(0, np.float32))
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # multiplying by it mixes the bits

_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="vectors")  # for arithmetic alone


@dataclass(frozen=True)
class NearestMemories:
    """The nearest memories of a queryset, the nearest first, and how near others are."""

    best: list[tuple[int, float]] = field(default_factory=list)
    scores: Scores = field(default=_NO_SCORES, repr=False)

    def cosines(self, pks: Collection[int]) -> dict[int, float]:
        """Of memories that the caller found behind the gate; those without a vector are left out."""
        places = self._places
        return {
            pk: float(self.scores.cosines[places[pk]]) for pk in pks if pk < len(places) and places[pk] >= 0
        }

    @cached_property
    def _places(self) -> Keys:
        """Where each memory's cosine lies; -1 where it has none."""
        places: Keys = np.full(int(self.scores.pks.max(initial=0)) + 1, -1)
        places[self.scores.pks] = np.arange(len(self.scores.pks))
        return places


def find_nearest(
    memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True
) -> list[tuple[int, float]]:
    """Primary keys and cosines of the ``most`` nearest of the queryset: see :class:`Approach`."""
    return NearestSearch(memories, query, model, most, centred=centred).end().best


class NearestSearch:
    """The ``most`` nearest of a queryset, exact: begun, it compares all vectors on another processor.

    Memories without a vector of the model are left out. ``centred`` takes the mean of the queryset's vectors
    off (of a sample where they are many), so that what a reader may not see leaves no trace in the scores.
    Of equal ones the newer comes first. Three queries at most, and those that refresh the index.
    """

    def __init__(
        self, memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True
    ) -> None:
        self._memories, self._most = memories, most
        held = vector_index.get_index(model, len(query)).view()
        pks = held.pks
        self._drawn: _QuerysetSample | None = None
        self._scores: Scores | Future[Scores] = _NO_SCORES
        if not len(pks) or most < 1 or not query.any():
            return
        few = len(pks) <= 2 * MIN_SAMPLE
        self._drawn = (
            _sample_everything(held, _filter_keys(memories, pks))
            if few
            else _load_sample(held, memories, pks)
        )
        compare = partial(held.scores, query, centred=centred, mean=self._drawn.mean if centred else None)
        self._scores = compare() if few else _executor.submit(compare)

    def end(self) -> NearestMemories:
        """Wait for the rest of it."""
        scores = self._scores.result() if isinstance(self._scores, Future) else self._scores
        if self._drawn is None:
            return NearestMemories()
        if self._drawn.own is not None:
            return NearestMemories(_best_pairs(_restrict_scores(scores, self._drawn.own), self._most), scores)
        top = _top_scores(scores, int(1.5 * self._most / self._drawn.share) + MIN_SAMPLE_VECTORS)
        if len(top.pks) <= MAX_KEYS_PER_QUERY:
            found = _restrict_scores(top, _filter_keys(self._memories, top.pks))
            if len(found.pks) >= self._most or len(top.pks) == len(scores.pks):
                return NearestMemories(_best_pairs(found, self._most), scores)
        return NearestMemories(
            _best_pairs(_restrict_scores(scores, _all_keys(self._memories)), self._most), scores
        )


@dataclass(frozen=True)
class _QuerysetSample:
    """What a sample tells of a queryset: which share of the vectors it holds, and their mean.

    ``own``: all of a queryset that holds so little that it was read whole.
    """

    share: float
    mean: Vectors
    at: float
    own: Keys | None = None


def _sample_everything(held: VectorView, own: Keys) -> _QuerysetSample:
    return _QuerysetSample(1.0, held.mean(_select_sample(own, len(own))), 0.0, own)


def _load_sample(held: VectorView, memories: MemoryQuerySet, pks: Keys) -> _QuerysetSample:
    """Drawn anew when vectors have come or gone, and every few seconds.

    Kept for every queryset with the same gate and filters: the moment of asking alone may differ.
    """
    key = queryset_key(memories)
    if key is None:
        return _sample_everything(held, np.empty(0, np.int64))
    kept: _QuerysetSample | None = held.drawn.get(key)
    if kept is not None and time.monotonic() - kept.at < SAMPLE_SECONDS:
        return kept
    total = count_memories(memories)
    drawn = _select_sample(pks, total)
    # Only the speed depends on this comparison with the whole store: the sample is the same either way.
    sparse = total * MIN_SAMPLE < MIN_SAMPLE_VECTORS * len(pks)
    among = np.empty(0, np.int64) if sparse else _filter_keys(memories, drawn)
    if len(among) < MIN_SAMPLE_VECTORS:
        own = _all_keys(memories)
        return _QuerysetSample(1.0, held.mean(_select_sample(own, total)), 0.0, own)
    if len(held.drawn) >= MAX_SAMPLES:
        held.drawn.clear()
    found = _QuerysetSample(len(among) / len(drawn), held.mean(among), time.monotonic())
    held.drawn[key] = found
    return found


def _select_sample(pks: Keys, visible: int) -> Keys:
    """Return those keys that are in the sample of a queryset with so many rows.

    Whether a key is in it depends on nothing else, so hidden rows do not change the mean.
    """
    mixed = (pks.astype(np.uint64) * _HASH_MULTIPLIER) >> np.uint64(32)
    step = 1 << max((visible // MIN_SAMPLE).bit_length() - 1, 0)
    drawn: Keys = pks[mixed % np.uint64(step) == 0]
    return drawn


def _filter_keys(memories: MemoryQuerySet, pks: Keys) -> Keys:
    """Those that the queryset holds."""
    return _to_keys(memories.order_by().filter(pk__in=key_list(pks.tolist())).values_list("pk", flat=True))


def _all_keys(memories: MemoryQuerySet) -> Keys:
    return np.sort(_to_keys(memories.order_by().values_list("pk", flat=True)))


def _to_keys(found: Iterable[int]) -> Keys:
    return np.fromiter(found, np.int64)


def _restrict_scores(scores: Scores, pks: Keys) -> Scores:
    among = np.isin(scores.pks, pks)
    return Scores(scores.pks[among], scores.cosines[among])


def _top_scores(scores: Scores, most: int) -> Scores:
    """The best, and all that are as good as the last of them."""
    if most >= len(scores.pks):
        return scores
    least = np.partition(scores.cosines, -most)[-most]
    good = scores.cosines >= least
    return Scores(scores.pks[good], scores.cosines[good])


def _best_pairs(scores: Scores, most: int) -> list[tuple[int, float]]:
    top = _top_scores(scores, most)
    order = np.lexsort((-top.pks, -top.cosines))[:most]
    return [(int(top.pks[at]), float(top.cosines[at])) for at in order]


logger = logging.getLogger(__name__)
# Of a question's vector; the rest goes by how rare a word is. A name that half of the store holds, or a
# question word, says little and would lead astray; a question of common words alone still has a direction.
MIN_WORD_WEIGHT = 0.2
LEXICAL_ONLY = "searched by words alone"
MODEL_CHANGING = (
    "another model is taking over: memories that have no vector of it yet are found by words alone"
)
NOT_CONFIGURED = "no embeddings are configured; this was found by words alone"


@dataclass(frozen=True)
class SemanticSearch:
    """What is near; where nobody could be asked, ``failure`` says why. ``note``: what is not there yet."""

    approach: NearestSearch | None = None
    model: str = ""
    failure: str = ""
    note: str = ""

    @cached_property
    def near(self) -> NearestMemories:
        return self.approach.end() if self.approach else NearestMemories()


def start_semantic_search(
    memories: MemoryQuerySet, query: Query, counted: TermFrequencies, most: int
) -> SemanticSearch:
    """The ``most`` memories of the queryset that are nearest to a question; begun, not waited for."""
    try:
        embedder = embeddings.configured()
        if embedder is None:
            return SemanticSearch(failure=NOT_CONFIGURED)
        vector = embedder.query(query.typed, word_weights(query, counted))
    except EmbeddingError as error:
        log_failure(logger, LEXICAL_ONLY, error)
        return SemanticSearch(failure=f"{LEXICAL_ONLY}: {error}")
    others = MODEL_CHANGING if vector_log.has_other_models(embedder.name) else ""
    return SemanticSearch(NearestSearch(memories, vector, embedder.name, most), embedder.name, note=others)


def word_weights(query: Query, counted: TermFrequencies) -> Mapping[str, float]:
    """What each word of the question weighs in its vector, 0..1; stop words weigh least."""
    rarest = scoring.idf(0, counted.total)
    known = dict.fromkeys(words(query.typed), MIN_WORD_WEIGHT)
    for word in query.words:
        known[word] = (
            MIN_WORD_WEIGHT + (1 - MIN_WORD_WEIGHT) * scoring.idf(counted.of(word), counted.total) / rarest
        )
    return known


# From which cosine on this is said of two memories.
_SIMILARITY_LABELS = (
    (0.95, "says nearly the same"),
    (0.8, "says much the same"),
    (0.6, "is about much the same"),
    (0.4, "is about something alike"),
)


def available_embedder() -> tuple[Embedder | None, str]:
    """The provider whose vectors can be compared now, or why there is none."""
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
    """What a cosine means."""
    return next((said for least, said in _SIMILARITY_LABELS if cosine >= least), "says something else")

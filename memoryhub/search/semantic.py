"""Semantic search: the visible memories nearest to the vector of a query.

The best results are then reordered: by the times in their texts, and by their likeness to the first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryhub.backends import vector_index
from memoryhub.backends.change_log import LogPosition
from memoryhub.backends.fts_query import Query
from memoryhub.backends.statements import read_memories
from memoryhub.backends.vector_index import ModelVectors
from memoryhub.backends.vector_view import Vectors, VisibleMemories, positions_of_highest
from memoryhub.core.text import words
from memoryhub.embeddings import Embedder, EmbeddingError, provider
from memoryhub.embeddings.provider import configured, log_failure
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.lexical import Scores, TermFrequencies, best_positions
from memoryhub.search.query_words import names_time
from memoryhub.search.scoring import add_evidence
from memoryhub.search.visible_rows import Positions, VisibleRows, load_visible_rows

logger = logging.getLogger(__name__)

MIN_LENGTH = 1e-6  # of a centred vector, for the division by it
MIN_SAMPLE = 500  # memories of a queryset from which its mean vector is computed, at least
# Minimum weight of a word in the query vector; the rest depends on its rarity. Question words and names in
# half of the memories would mislead the search, but a query of common words still needs a direction.
MIN_WORD_WEIGHT = 0.2
LEXICAL_ONLY = "searched by words only"
MODEL_CHANGING = "the embedding model changed: memories without a new vector are found by words only"
NOT_CONFIGURED = "no embeddings are configured; found by words only"
ENGLISH_MODEL = "wordllama/"
_LATIN_LETTER = re.compile("[a-z]")
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Descriptions of the similarity of two memories, by minimum cosine.
_SIMILARITY_LABELS = (
    (0.95, "nearly identical"),
    (0.8, "very similar"),
    (0.6, "on the same topic"),
    (0.4, "on a related topic"),
)


def row_cosines(
    memories: MemoryQuerySet,
    rows: VisibleRows,
    query: Vectors,
    model: str,
    *,
    centred: bool = True,
    limit: int = 0,
    others: Callable[[], list[int]] = list,
    vectors: ModelVectors | None = None,
) -> NDArray[np.float32] | None:
    """Return the cosine of every row with a unit vector, NaN without a vector; None if none has one.

    ``rows`` are those of ``memories``; ``vectors`` those of the model, if loaded. If the rows are many, the
    cosines of the nearest (at least ``limit``) are exact and those of the others are estimates; on
    PostgreSQL, only the nearest and the memories with the keys ``others`` have a cosine. ``centred``
    subtracts the mean of the visible vectors (of a sample if they are many), so hidden memories do not affect
    the cosines.
    """
    if vectors is None:
        vectors = vector_index.get_index(model, len(query)).view(rows.position)
    if not len(rows) or not query.any():
        return None
    mean = _visible_mean(rows, vectors, model) if centred else None
    pks, cosines = vectors.cosines(query, mean, VisibleMemories(memories, rows.pks, limit, others))
    if pks is not rows.pks:
        by_key = np.full(max(int(pks.max(initial=0)), int(rows.pks[-1])) + 1, np.nan, np.float32)
        by_key[pks] = cosines
        cosines = by_key[rows.pks]
    return None if np.isnan(cosines).all() else cosines


def find_nearest(
    memories: MemoryQuerySet,
    query: Vectors,
    model: str,
    limit: int,
    *,
    centred: bool = True,
    position: LogPosition | None = None,
) -> list[tuple[int, float]]:
    """Return primary keys and cosines of the nearest memories of a queryset, the newer of equals first.

    Memories without a vector of the model are left out. ``position``: the current position of the change
    log, if the caller has read it.
    """
    rows = load_visible_rows(memories, position)
    cosines = row_cosines(memories, rows, query, model, centred=centred, limit=limit)
    if cosines is None or limit < 1:
        return []
    return [(int(rows.pks[one]), float(cosines[one])) for one in nearest_positions(cosines, limit)]


def nearest_positions(cosines: NDArray[np.float32], limit: int) -> Positions:
    """Return the rows with the highest cosines, best first, without those that have no vector."""
    known = np.flatnonzero(~np.isnan(cosines))
    known = known[positions_of_highest(cosines[known], limit)]
    return known[np.lexsort((-known, -cosines[known]))][:limit]


def _visible_mean(rows: VisibleRows, vectors: ModelVectors, model: str) -> Vectors:
    """Return the mean vector of the rows, or of a sample that depends on nothing but these rows."""
    key = (model, vectors.position.last_vector, vectors.position.last_change)
    known: tuple[object, Vectors] | None = rows.cached.get("mean")
    if known is not None and known[0] == key:
        return known[1]
    step = 1 << max((len(rows) // MIN_SAMPLE).bit_length() - 1, 0)
    # By position: primary keys depend on the number of hidden rows.
    mixed = (np.arange(len(rows), dtype=np.uint64) * _HASH_MULTIPLIER) >> np.uint64(32)
    mean = vectors.mean(rows.pks[mixed % np.uint64(step) == 0])
    rows.cached["mean"] = key, mean
    return mean


@dataclass(frozen=True)
class SemanticMatches:
    """The cosine of each row with ``query``. ``failure``: why there is none. ``note``: some are missing."""

    cosines: NDArray[np.float32] | None = None
    model: str = ""
    failure: str = ""
    note: str = ""
    query: Vectors | None = None
    vectors: ModelVectors | None = None

    def exact(self, rows: VisibleRows, positions: Positions) -> NDArray[np.float32] | None:
        """Return the exact cosines of rows, NaN without a vector; None if ``cosines`` has them."""
        if self.query is None or self.vectors is None or self.cosines is None:
            return None
        mean = _visible_mean(rows, self.vectors, self.model)
        return vector_index.exact_cosines(self.vectors, self.query, mean, rows.pks[positions])

    def compare(self, rows: VisibleRows, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the cosine of each text, computed like those of the rows.

        Zeros without an embedding model, and if another process would have to embed the texts.
        """
        embedder, _ = available_embedder()
        if self.query is None or self.vectors is None or embedder is None or not embedder.in_process:
            return np.zeros(len(texts))
        mean = _visible_mean(rows, self.vectors, self.model)
        vectors, query = embedder.documents(texts) - mean, self.query - mean
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        return np.asarray(vectors @ query / np.maximum(lengths, MIN_LENGTH), np.float64)

    def likeness(self, rows: VisibleRows, positions: Positions, leaders: int) -> NDArray[np.float32]:
        """Return the cosine of each of these rows with the first ``leaders`` of them, together.

        The first count most: each by the square root of its rank.
        """
        if self.vectors is None:
            return np.zeros(len(positions), np.float32)
        vectors, present = self.vectors.in_order(rows.pks[positions])
        vectors = np.where(present[:, None], vectors - _visible_mean(rows, self.vectors, self.model), 0.0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1), MIN_LENGTH)[:, None]
        direction = (vectors[:leaders].T / np.sqrt(np.arange(1, len(vectors[:leaders]) + 1))).sum(axis=1)
        return np.asarray(vectors @ direction / max(float(np.linalg.norm(direction)), MIN_LENGTH), np.float32)


def _is_readable(query: Query, model: str) -> bool:
    """Return whether the model may know words of a query.

    The vectors of a model of English texts consist of letters in other scripts, so any two texts in Arabic
    or Chinese are near.
    """
    return not model.startswith(ENGLISH_MODEL) or bool(_LATIN_LETTER.search(query.text))


def match_meaning(
    memories: MemoryQuerySet,
    rows: VisibleRows,
    query: Query,
    frequencies: TermFrequencies,
    others: Callable[[], list[int]],
    is_known: Callable[[], bool],
) -> SemanticMatches:
    """Compare the vectors of the rows of a queryset with the vector of a query.

    ``others``: the keys of memories that are compared even if many others are nearer. ``is_known``: whether a
    row contains a text of the query. If not, and the model cannot read it, nothing is near.
    """
    try:
        embedder = provider.configured()
        if embedder is None:
            return SemanticMatches(failure=NOT_CONFIGURED)
        if obstacle := vector_index.find_obstacle():
            return SemanticMatches(failure=f"{LEXICAL_ONLY}: {obstacle}")
        vector = embedder.query(query.typed, word_weights(query, frequencies))
    except EmbeddingError as error:
        log_failure(logger, LEXICAL_ONLY, error)
        return SemanticMatches(failure=f"{LEXICAL_ONLY}: {error}")
    if not (_is_readable(query, embedder.name) or is_known()):
        return SemanticMatches(model=embedder.name)
    other_models = set(rows.position.models) - {embedder.name, ""}
    note = MODEL_CHANGING if other_models else ""
    try:
        vectors = vector_index.get_index(embedder.name, len(vector)).view(rows.position)
        cosines = row_cosines(memories, rows, vector, embedder.name, others=others, vectors=vectors)
    except OSError as error:
        logger.warning("%s: the vectors cannot be read: %s", LEXICAL_ONLY, error)
        return SemanticMatches(failure=f"{LEXICAL_ONLY}: the vectors cannot be read")
    return SemanticMatches(cosines, embedder.name, note=note, query=vector, vectors=vectors)


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
    if obstacle := vector_index.find_obstacle():
        return None, obstacle
    return embedder, ""


def similarity_label(cosine: float) -> str:
    """Describe a cosine in words."""
    return next((label for least, label in _SIMILARITY_LABELS if cosine >= least), "says something else")


TIMED_RESULTS = 20  # best results in which a time is looked for
TIME_EVIDENCE = 0.15  # added if there is one
MAX_TEXT_CHARS = 2000  # the part of a content that is read for it
LEADERS = 5  # the first results, which the others are compared with
FIXED_RESULTS = 5  # the first results, which are not reordered
REORDERED_RESULTS = 30  # the last of them is the last one that is reordered
LIKENESS_WEIGHT = 0.6  # of the cosine with the leaders, as evidence


def prefer_times(rows: VisibleRows, match: Scores) -> Scores:
    """Raise the match of the best rows whose text says when something happened. Return all matches."""
    best = best_positions(match, TIMED_RESULTS)
    texts = dict(read_memories(f"id, substr(content, 1, {MAX_TEXT_CHARS})", rows.pks[best]))
    timed = best[[names_time(texts.get(pk, "")) for pk in rows.pks[best].tolist()]]
    match[timed] = add_evidence(match[timed], TIME_EVIDENCE)
    return match


def prefer_similar(rows: VisibleRows, match: Scores, meaning: SemanticMatches) -> Scores:
    """Order the rows behind the first by their likeness to the first, too. Return the match of every row.

    They exchange their values, so about as many rows pass a minimum as before. Rows that match as well as one
    that stays in its place stay, too: equal rows have equal scores.
    """
    best = best_positions(match, REORDERED_RESULTS + 1)
    if len(best) < FIXED_RESULTS + 2:
        return match
    values = match[best]
    least = values[-1] if len(best) > REORDERED_RESULTS else 0.0
    moved = np.flatnonzero((values < values[FIXED_RESULTS - 1]) & (values > least))
    if len(moved) < 2:
        return match
    rest = best[moved]
    likeness = meaning.likeness(rows, best[:REORDERED_RESULTS], LEADERS)[moved]
    raised = np.round(add_evidence(match[rest], LIKENESS_WEIGHT * likeness), 5)
    order = np.argsort(-raised, kind="stable")
    # Each row gets the value at its new rank; equal rows get that of the first of them.
    ranks = np.searchsorted(-raised[order], -raised[order])
    match[rest[order]] = match[rest][ranks]
    return match

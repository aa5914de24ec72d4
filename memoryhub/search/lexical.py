"""Lexical search: where the terms of a query occur among visible rows, and how well they match."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from memoryhub.backends import TEXT_COLUMNS, statements
from memoryhub.backends import fts_query as queries
from memoryhub.backends.fts_query import Query
from memoryhub.backends.statements import read_memories
from memoryhub.backends.vector_view import Keys, positions_of_highest
from memoryhub.backends.word_keys import matching_keys, matching_keys_and_position
from memoryhub.core.text import fold, is_short, stem, words
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.query_words import Period
from memoryhub.search.scoring import FIELD_CREDIT, LOOSE_CREDIT
from memoryhub.search.text_matching import QueryMatcher, TextMatch
from memoryhub.search.visible_rows import Positions, VisibleRows, is_among, julian_day, load_visible_rows

MAX_SCANNED_LITERALS = 12  # literals of one query that are too short for the trigram index; one scan
MAX_SCANS = 3  # further scans, of one literal each, if the first has found only the newest
_MAX_COUNTED_WORDS = 30  # of a text whose rare words are looked for
Scores = NDArray[np.floating[Any]]  # of all rows: 32 bits, which are faster


@dataclass(frozen=True)
class TermFrequencies:
    """Number of visible memories that contain each stem, and their total."""

    of_stems: dict[str, int]
    total: int

    def of(self, word: str) -> int:
        return self.of_stems.get(stem(word), 0)


def count_terms(memories: MemoryQuerySet | VisibleRows, words: Collection[str]) -> TermFrequencies:
    """Count the memories with each word among those that the caller can see."""
    rows = memories if isinstance(memories, VisibleRows) else load_visible_rows(memories)
    by_stem = {stem(word): word for word in words}
    found = matching_keys([statements.match_any([word]) for word in by_stem.values()])
    counts = [len(rows.find(keys)) for keys in found]
    return TermFrequencies(dict(zip(by_stem, counts, strict=True)), len(rows))


def likely_rare(words: Iterable[str]) -> list[str]:
    """Return the words that are probably rare: names with digits, then the longest words."""
    ranked = sorted(dict.fromkeys(words), key=lambda word: (-any(map(str.isdigit, word)), -len(word)))
    return ranked[:_MAX_COUNTED_WORDS]


def rows_sharing_words(
    memories: MemoryQuerySet | VisibleRows, words: Sequence[str], *, max_words: int, limit: int
) -> list[int]:
    """Return the keys of the memories that share most of the rarest ``max_words`` of these words.

    A word counts by its inverse document frequency; the newest of equals come first.
    """
    rows = memories if isinstance(memories, VisibleRows) else load_visible_rows(memories)
    distinct = list({stem(word): word for word in words}.values())
    found = [rows.find(keys) for keys in matching_keys([statements.match_any([word]) for word in distinct])]
    scores = np.zeros(len(rows))
    for positions in sorted(filter(len, found), key=len)[:max_words]:
        scores[positions] += scoring.idf(len(positions), len(rows))
    keys: list[int] = rows.pks[best_positions(scores, limit)].tolist()
    return keys


class TermMatches:
    """Where the terms of a query occur as words among visible rows.

    One statement, or none if ``known``, the matches of another query with the same rows, has all its words
    and phrases, or with ``keys``, the result of that statement. Rows that were created in one of ``periods``
    count as if they contained the words that name it.
    """

    titles: dict[str, Positions]  # rows with each word in title or aliases
    _words: dict[str, Positions]
    _phrases: dict[str, Positions]
    _variants: dict[str, tuple[str, ...]]  # texts that occur and count as a word

    def __init__(
        self,
        rows: VisibleRows,
        query: Query,
        known: TermMatches | None = None,
        keys: Sequence[Keys] | None = None,
        periods: Sequence[Period] = (),
    ) -> None:
        self.rows = rows
        new = [word for word in query.words if known is None or word not in known._words]
        phrases = [text for text in _phrases(query) if known is None or text not in known._phrases]
        variants = _find_variants(query, new)
        if keys is None:
            keys = matching_keys(_expressions(new, phrases, variants))
        found = [rows.find(one) for one in keys]
        count = len(new)
        titles = dict(zip(new, found[:count], strict=True))
        words = dict(zip(new, found[count : 2 * count], strict=True))
        self._phrases = dict(zip(phrases, found[2 * count :], strict=False))
        if known is not None:
            titles, words = known.titles | titles, known._words | words
            self._phrases |= known._phrases
        self.titles = {word: titles[word] for word in query.words}
        self._words = {word: words[word] for word in query.words}
        self._variants = {} if known is None else dict(known._variants)
        if variants and len(found[-1]):
            self._add_variants(query, variants)
        self.query = _with_variants(query, self._variants)
        for period in periods:
            created = rows.created_between(period.start, period.end)
            for word in period.words & self._words.keys():
                self._words[word] = np.union1d(self._words[word], created)
        dated = frozenset[str]().union(*(period.words for period in periods))
        self.is_dated = np.array([not dated.isdisjoint(term.words) for term in query.terms])
        of_stems = {stem(word): len(positions) for word, positions in self._words.items()}
        self.frequencies = TermFrequencies(of_stems, len(rows))

    def _add_variants(self, query: Query, variants: Sequence[str]) -> None:
        """Add the rows with a text that counts as a word, such as ``foreignKeys``. One statement."""
        found = matching_keys(
            [*map(statements.in_titles, variants), *(statements.match_any([one]) for one in variants)]
        )
        positions = [self.rows.find(keys) for keys in found]
        in_titles = dict(zip(variants, positions, strict=False))
        found_anywhere = zip(variants, positions[len(variants) :], strict=True)
        anywhere = {text: rows for text, rows in found_anywhere if len(rows)}
        for term in query.terms:
            for text in anywhere.keys() & set(term.variants):
                word = term.words[0]
                self.titles[word] = np.union1d(self.titles[word], in_titles[text])
                self._words[word] = np.union1d(self._words[word], anywhere[text])
                self._variants[word] = (*self._variants.get(word, ()), text)

    @classmethod
    def load(cls, memories: MemoryQuerySet, query: Query, periods: Sequence[Period] = ()) -> TermMatches:
        """Load the visible rows and the matches in one statement, or in three after changes."""
        expressions = _expressions(query.words, _phrases(query), _find_variants(query, query.words))
        keys, position = matching_keys_and_position(expressions)
        return cls(load_visible_rows(memories, position), query, keys=keys, periods=periods)

    @property
    def phrase_frequencies(self) -> dict[str, int]:
        """Number of visible memories with the words of each literal, which are next to each other."""
        return {text: len(positions) for text, positions in self._phrases.items() if len(words(text)) > 1}

    @property
    def known_words(self) -> list[str]:
        return [word for word, positions in self._words.items() if len(positions)]

    def add_up(self, terms: Sequence[tuple[int, float]]) -> WordScores:
        """Add up the given terms, (number, weight) each, in every row."""
        covered, earned, shared = np.zeros((3, len(self.rows)), np.float32)
        scores = WordScores(covered, earned, shared, sum(weight for _, weight in terms))
        for number, weight in terms:
            term = self.query.terms[number]
            if not term.literal:
                word = term.words[0]
                scores.add(self._words.get(word, _NOWHERE), weight, 1.0)
                scores.earned[self.titles.get(word, _NOWHERE)] += weight * (1 - FIELD_CREDIT["content"])
            elif term.words:
                positions, shares = self._phrase_shares(term)
                scores.add(positions, weight, shares)
        return scores

    def best_titles(self, limit: int) -> Positions:
        """Return the rows whose title contains all words, those of about the length of the query first."""
        found = sorted(self.titles.values(), key=len)
        if not found:
            return _NOWHERE
        titled = found[0]
        for positions in found[1:]:
            titled = titled[is_among(titled, positions)]
        lengths = np.abs(self.rows.columns["title_chars"][titled] - len(self.query.typed))
        near = positions_of_highest(-lengths, limit)
        return titled[near][np.lexsort((-titled[near], lengths[near]))][:limit]

    def shares(self, positions: Positions) -> Scores:
        """Return the share of each term (column) that each of these rows (line) contains, 0..1."""
        shares = np.zeros((len(self.query.terms), len(positions)))
        for number, term in enumerate(self.query.terms):
            if not term.literal:
                shares[number] = is_among(positions, self._words.get(term.words[0], _NOWHERE))
            elif term.words:
                rows, found = self._phrase_shares(term)
                shares[number, is_among(positions, rows)] = found[is_among(rows, positions)]
        return shares.T

    def _phrase_shares(self, term: queries.Term) -> tuple[Positions, Scores]:
        """Return the rows with words of a phrase, and the share of the credit that each earns."""
        shares, count = np.zeros(len(self.rows)), len(words(term.literal))
        for word in term.words:
            shares[self._words.get(word, _NOWHERE)] += LOOSE_CREDIT / count
        if count > 1:  # the index ignores the punctuation of ``C++``
            shares[self._phrases[term.literal]] = 1.0
        positions = np.flatnonzero(shares)
        return positions, shares[positions]


def _expressions(words: Sequence[str], phrases: Sequence[str], variants: Sequence[str]) -> list[str]:
    """Return what to look for: words in titles and aliases, words and phrases anywhere, any variant."""
    in_titles = [statements.in_titles(word) for word in words]
    anywhere = [statements.match_any([one]) for one in (*words, *phrases)]
    return [*in_titles, *anywhere, *([statements.match_any(variants)] if variants else [])]


def _find_variants(query: Query, words: Collection[str]) -> list[str]:
    """Return the distinct texts that count as one of these words."""
    variants = (term.variants for term in query.terms if term.variants and term.words[0] in words)
    return list(dict.fromkeys(chain.from_iterable(variants)))


def _with_variants(query: Query, variants: Mapping[str, tuple[str, ...]]) -> Query:
    """Return the query with those variants of words that occur: others need not be looked for."""
    terms = tuple(
        replace(term, variants=variants.get(term.words[0], ())) if term.variants else term
        for term in query.terms
    )
    return replace(query, terms=terms)


def _phrases(query: Query) -> list[str]:
    return [term.literal for term in query.terms if term.literal and term.words]


_NOWHERE: Positions = np.empty(0, np.int64)


class WordScores(NamedTuple):
    """Sums over terms for every row: weights that occur, weights times credit, weights times share."""

    covered: Scores
    earned: Scores
    shared: Scores
    total: float

    def add(self, positions: Positions, weight: float, shares: Scores | float) -> None:
        self.covered[positions] += weight
        self.earned[positions] += weight * FIELD_CREDIT["content"] * shares
        self.shared[positions] += weight * shares

    @property
    def match(self) -> Scores:
        """The match by words without phrases, repeats and parts of words, 0..1."""
        return scoring.word_match(self.covered, self.earned, self.total)


def match_texts(
    matches: TermMatches, positions: Positions, weights: Sequence[float], clauses: Sequence[Query] = ()
) -> list[TextMatch]:
    """Read the texts of rows (ascending) and match the query with each. One statement."""
    if not len(positions):
        return []
    matcher = QueryMatcher(matches.query, weights, clauses)
    keys = matches.rows.pks[positions].tolist()
    texts = {pk: dict(zip(TEXT_COLUMNS, fields, strict=True)) for pk, *fields in _read_texts(keys)}
    shares = matches.shares(positions).tolist()
    return [
        matcher.match(texts.get(pk, {}), list(map(bool, own)))  # a row may be deleted meanwhile
        for pk, own in zip(keys, shares, strict=True)
    ]


def _read_texts(keys: Iterable[int]) -> list[tuple[Any, ...]]:
    return read_memories(f"id, {', '.join(TEXT_COLUMNS)}", keys)


def find_substrings(
    memories: MemoryQuerySet, matches: TermMatches, limit: int, *, thorough: bool = True
) -> Positions:
    """Return rows that contain literals and unknown words of a query, newest first, up to ``limit`` each.

    They are found in the trigram index. Texts that are too short for it are looked up by a scan. Unless
    ``thorough``, unknown words are looked up only if no word is known.
    """
    query, rows, known = matches.query, matches.rows, matches.known_words
    substrings = query.spellings(_texts_inside_words(query, known, thorough=thorough))
    found = _keys(memories.containing(substrings), limit) if substrings else []
    if not found and not known:
        long = [word for word in query.words if not is_short(word)]
        found = _keys(memories.containing(query.spellings(long)), limit)
    short = [text for text in substrings if len(text) < queries.TRIGRAM_LENGTH]
    if short := short and _literals_to_scan(short, found, is_found=bool(found or known)):
        scanned = _keys(memories.containing_any(short), limit)
        if len(scanned) == limit and len(short) > 1:  # rows with a rare text may be older than these
            scanned += [
                key for one in short[:MAX_SCANS] for key in _keys(memories.containing_any([one]), limit)
            ]
        found += scanned
    return rows.find(np.unique(np.array(found, np.int64)))


def _keys(memories: MemoryQuerySet, limit: int) -> list[int]:
    return list(memories.values_list("pk", flat=True)[:limit])


def _texts_inside_words(query: Query, known: Collection[str], *, thorough: bool) -> list[str]:
    """Return the texts to look for inside words: literals, CJK runs, and longer words that are unknown."""
    runs = queries.cjk_trigrams(query.text)
    if not thorough:
        return [*(term.literal for term in query.terms if term.literal and not term.stems), *runs]
    unknown = (word for word in query.words if word not in known and not is_short(word))
    return [*query.literals, *runs, *unknown]


def _literals_to_scan(short: list[str], found: Sequence[int], *, is_found: bool) -> list[str]:
    """Return those of the short texts that are worth a scan: those in no candidate yet.

    Punctuation (``a -> b``) is not, if other words were found.
    """
    if is_found:
        texts = [fold(" ".join(fields)) for _, *fields in _read_texts(found)]
        short = [
            one for one in short if any(map(str.isalnum, one)) and not any(one in text for text in texts)
        ]
    return short[:MAX_SCANNED_LITERALS]


class RowScorer:
    """Composite scores of visible rows, given their match."""

    def __init__(self, rows: VisibleRows, weights: scoring.Weights, now: datetime) -> None:
        self.rows, self._weights, self.now = rows, weights, now

    @cached_property
    def recency(self) -> Scores:
        return self.rows.recency(julian_day(self.now), settings.MEMORYHUB.recency_half_life_days)

    @cached_property
    def _static_scores(self) -> Scores:
        """The part of the score that does not depend on the query."""
        weights, columns, cached = self._weights, self.rows.columns, self.rows.cached
        if weights not in cached or cached[weights][0] is not self.recency:
            worth = weights.importance * columns["importance"] + weights.trust * columns["trust"]
            cached[weights] = self.recency, worth.astype(np.float32) + weights.recency * self.recency
        return np.asarray(cached[weights][1])

    def scores(self, match: Scores, used: Positions | None = None) -> Scores:
        """Return the score of every row, 0..1, with four decimals.

        The frequency of use counts only for the rows ``used``, whose accesses are read in one statement.
        """
        scores = self._weights.match * match + self._static_scores
        if used is not None and self._weights.frequency:
            counts = dict(read_memories("id, accessed_count", self.rows.pks[used]))
            frequency = [scoring.access_frequency(counts.get(pk, 0)) for pk in self.rows.pks[used].tolist()]
            scores[used] += self._weights.frequency * np.array(frequency)
        return np.round(scores, 4)

    def parts(self, positions: Positions, match: Scores) -> list[scoring.Components]:
        """Return the parts of the scores of these rows, given the match of every row."""
        columns = self.rows.columns
        return [
            scoring.Components(round(own, 4), round(recency, 4), importance, trust)
            for own, recency, importance, trust in zip(
                match[positions].tolist(),
                self.recency[positions].tolist(),
                columns["importance"][positions].tolist(),
                columns["trust"][positions].tolist(),
                strict=True,
            )
        ]


def score_parts(memory: Memory, match: float, now: datetime) -> scoring.Components:
    """Return the parts of the score of a memory with this match."""
    age = (now - memory.updated_at).total_seconds() / 86_400
    return scoring.Components(
        match=round(match, 4),
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=memory.importance,
        trust=memory.trust,
    )


def best_positions(scores: Scores, limit: int) -> Positions:
    """Return the rows with the highest positive scores, best first, the newest of equals first."""
    best = positions_of_highest(scores, limit, float(np.finfo(scores.dtype).smallest_subnormal))
    return best[np.lexsort((-best, -scores[best]))][:limit]


def default_weights() -> scoring.Weights:
    """Return the configured weights of LetsGo's ranking."""
    config = settings.MEMORYHUB
    return scoring.Weights(
        config.match_weight, config.recency_weight, config.importance_weight, config.trust_weight
    )

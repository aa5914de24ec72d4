"""Matching of a query with the texts of one memory.

No Django imports and no database access.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from memoryhub.backends.fts_query import Query, Term
from memoryhub.core.text import WORD, compile_text, fold, stem, words
from memoryhub.search import scoring
from memoryhub.search.scoring import (
    FIELD_CREDIT,
    FOCUS_BONUS,
    LOOSE_CREDIT,
    PHRASE_BONUS,
    PHRASE_MATCH,
    REPEAT_CREDIT,
    REPEATS,
    SUBSTRING_CREDIT,
)


class TextMatch(NamedTuple):
    """Match of a query with the texts of a memory, 0..1.

    ``weight``: sum of the weights of the terms that occur. ``terms``: share of each term, 0..1.
    """

    match: float = 0.0
    weight: float = 0.0
    terms: tuple[float, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether all terms occur exactly."""
        return bool(self.terms) and min(self.terms) == 1

    @property
    def found_terms(self) -> int:
        """Number of terms that occur in the texts."""
        return sum(map(bool, self.terms))


@dataclass(frozen=True)
class _QueryPart:
    """A query or one clause of it. ``terms``: positions of its terms in the query."""

    text: str
    terms: tuple[int, ...]
    weight: float


class QueryMatcher:
    """One query, prepared for matching many memories; each match takes some microseconds.

    ``clauses`` are queries made of some terms of the query. The match is that of the best clause.
    """

    def __init__(self, query: Query, weights: Sequence[float], clauses: Sequence[Query] = ()) -> None:
        self._matchers = [_TermMatcher(term) for term in query.terms]
        self._weights = list(weights)
        self._parts = [self._to_part(part, query.terms) for part in (query, *clauses)]

    def _to_part(self, query: Query, terms: Sequence[Term]) -> _QueryPart:
        positions = tuple(terms.index(term) for term in query.terms)
        text = query.text.strip(" .") or query.text
        return _QueryPart(text, positions, sum(self._weights[position] for position in positions))

    def match(self, fields: Mapping[str, str], present: Sequence[bool] | None = None) -> TextMatch:
        """Match the query with the texts of a memory, by field name.

        ``present``: which terms can occur as words, if known; the others are only looked for inside words.
        """
        if not self._matchers:
            return TextMatch()
        texts = [(name, fold(text)) for name in FIELD_CREDIT if (text := fields.get(name))]
        title = " ".join(texts[0][1].split()) if texts and texts[0][0] == "title" else ""
        if (title.strip(" .") or title) == self._parts[0].text:  # only the exact title scores 1
            return TextMatch(1.0, self._parts[0].weight, (1.0,) * len(self._matchers))
        present = present or (True,) * len(self._matchers)
        credits = [
            matcher.credit(texts, is_word=is_word)
            for matcher, is_word in zip(self._matchers, present, strict=True)
        ]
        found = [weight for weight, (credit, _) in zip(self._weights, credits, strict=True) if credit]
        if not found:
            return TextMatch(terms=(0.0,) * len(self._matchers))
        match = max([self._match_part(part, credits, texts, title) for part in self._parts])
        shares = tuple(min(credit / FIELD_CREDIT["content"], 1.0) for credit, _ in credits)
        return TextMatch(match, sum(found), shares)

    def _match_part(
        self,
        part: _QueryPart,
        credits: Sequence[tuple[float, int]],
        texts: Sequence[tuple[str, str]],
        title: str,
    ) -> float:
        """Combine the credits of the terms of a part into a match, 0..0.99."""
        covered, earned, in_title = 0.0, 0.0, 0
        for number in part.terms:
            credit, hits = credits[number]
            if credit:
                weight = self._weights[number]
                covered += weight
                earned += weight * credit
                in_title += hits
        if not covered:
            return 0.0
        share = covered / part.weight
        value = scoring.word_match(covered, earned, part.weight)
        if len(part.terms) > 1 and any(part.text in text for _, text in texts):
            value = max(value + PHRASE_BONUS, PHRASE_MATCH)
        if in_title:
            value += FOCUS_BONUS * share * min(in_title / max(len(WORD.findall(title)), 1), 1.0)
        return min(value, 0.99)


class _TermMatcher:
    """Find one term in texts. Porter changes a final y to i, so the last letter of a stem is left open."""

    def __init__(self, term: Term) -> None:
        self._literal = term.literal
        self._literal_words = len(words(term.literal))
        self._stems = term.stems
        self._words = term.words
        self._is_at_start = term.at_start
        self._starts = [one[: max(len(one) - 1, 1)] for one in term.stems]

    @cached_property
    def _text(self) -> re.Pattern[str]:
        """The pattern of the term inside words. Most searches do not need it."""
        if self._is_at_start:
            return re.compile(rf"(?<![^\W_]){re.escape(self._words[0])}")
        return compile_text(self._literal or self._words[0])

    def credit(self, texts: Sequence[tuple[str, str]], *, is_word: bool = True) -> tuple[float, int]:
        """Return the credit of the best field, 0..1, and the number of hits in the title.

        ``is_word``: false if the term occurs inside words at most. ``texts`` are ordered by field credit, so
        the loop ends when no later field can earn more.
        """
        best, in_title = 0.0, 0
        for name, text in texts:
            if FIELD_CREDIT[name] + REPEAT_CREDIT * REPEATS <= best:
                break
            hits, share = self._count_hits(text, is_word=is_word)
            if hits:
                credit = FIELD_CREDIT[name] + REPEAT_CREDIT * min(hits - 1, REPEATS)
                best = max(best, min(credit, 1.0) * share)
                in_title += hits if name == "title" else 0
        return best, in_title

    def _count_hits(self, text: str, *, is_word: bool) -> tuple[int, float]:
        """Return the number of hits in a text and the share of credit that this kind of hit earns."""
        if self._literal:
            if self._literal in text and (exact := len(self._text.findall(text))):
                return exact, 1.0
            if not is_word:
                return 0, 0.0
            counts = [self._count_words(number, text) for number in range(len(self._stems))]
            present = [hits for hits in counts if hits]
            return (min(present), LOOSE_CREDIT * len(present) / self._literal_words) if present else (0, 0.0)
        if is_word and (hits := self._count_words(0, text)):
            return hits, 1.0
        if self._words[0] not in text:
            return 0, 0.0
        return len(self._text.findall(text)), SUBSTRING_CREDIT

    def _count_words(self, number: int, text: str) -> int:
        """Count the words of the text with this stem, up to the number that changes the credit."""
        hits, beginning, wanted = 0, self._starts[number], self._stems[number]
        at = text.find(beginning)
        while at >= 0 and hits <= REPEATS:
            word = WORD.match(text, at)
            # A lookbehind in the pattern would be several times slower.
            if word and (not at or not WORD.match(text[at - 1])) and stem(word[0]) == wanted:
                hits += 1
            at = text.find(beginning, word.end() if word else at + 1)
        return hits

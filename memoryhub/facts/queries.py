"""Find facts by names and predicates in any spelling (see :mod:`memoryhub.facts.predicates`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from django.db.models import Count, Q

from memoryhub.core.text import collapse_whitespace
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.models.querysets import FactQuerySet

MAX_SPELLINGS = 50


def most_common_spelling(spellings: Counter[str]) -> str:
    """Return the most common spelling; among equals the first."""
    return spellings.most_common(1)[0][0]


def name_condition(field: str, thing: str, known: Iterable[str] = ()) -> Q:
    """Return the condition on facts with this subject or object in any case.

    ``known``: its other spellings. SQLite compares only ASCII without case. Other letters are found as
    written, in upper, lower and title case, and as in ``known``.
    """
    exact = {thing, collapse_whitespace(thing), *list(known)[:MAX_SPELLINGS]}
    found = Q(**{f"{field}__in": sorted(exact)})
    word = collapse_whitespace(thing)
    for spelling in sorted({word} if word.isascii() else {word, word.upper(), word.lower(), word.title()}):
        found |= Q(**{f"{field}__iexact": spelling})
    return found


def about_condition(thing: str, known: Iterable[str] = ()) -> Q:
    """Return the condition on facts with this subject or object; see :func:`name_condition`."""
    known = list(known)
    return name_condition("subject", thing, known) | name_condition("object", thing, known)


def filter_by_predicate(facts: FactQuerySet, predicate: str) -> FactQuerySet:
    """Return the facts with this predicate in any spelling. Runs one query."""
    wanted = normalise_predicate(predicate)
    written = [name for name, _ in _count_spellings(facts) if normalise_predicate(name) == wanted]
    return facts.filter(predicate__in=written)


def common_predicates(facts: FactQuerySet, limit: int) -> list[str]:
    """Return the most frequent predicates in their most common spelling. One query."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in _count_spellings(facts):
        spellings[normalise_predicate(name)][name] += count
    foremost = sorted(spellings.values(), key=lambda found: (-found.total(), most_common_spelling(found)))
    return [most_common_spelling(found) for found in foremost[:limit]]


def _count_spellings(facts: FactQuerySet) -> list[tuple[str, int]]:
    """Return each spelling with its number of facts, most frequent first."""
    counted = facts.select_related(None).order_by().values_list("predicate").annotate(count=Count("pk"))
    return list(counted.order_by("-count", "predicate"))

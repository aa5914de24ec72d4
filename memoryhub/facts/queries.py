"""The names in facts however they are written: one thing, one predicate, whatever the case and the gaps.

See :mod:`memoryhub.facts.predicates` for what two spellings have in common.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from django.db.models import Count, Q

from memoryhub.core.text import collapse_whitespace
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.models.querysets import FactQuerySet

MAX_SPELLINGS = 50


def most_common_spelling(spellings: Counter[str]) -> str:
    """The commonest spelling; of several the one that was counted first."""
    return spellings.most_common(1)[0][0]


def name_condition(field: str, thing: str, known: Iterable[str] = ()) -> Q:
    """Facts whose ``subject`` or ``object`` is this thing, as it is written or in another case.

    ``known``: other spellings of it. SQLite knows upper and lower case of ASCII alone: of other letters,
    those as written, all large, all small and with the first of each word large are found, and what is known.
    """
    exact = {thing, collapse_whitespace(thing), *list(known)[:MAX_SPELLINGS]}
    found = Q(**{f"{field}__in": sorted(exact)})
    word = collapse_whitespace(thing)
    for spelling in sorted({word} if word.isascii() else {word, word.upper(), word.lower(), word.title()}):
        found |= Q(**{f"{field}__iexact": spelling})
    return found


def about_condition(thing: str, known: Iterable[str] = ()) -> Q:
    """Facts that name this thing on either side; see :func:`named`."""
    known = list(known)
    return name_condition("subject", thing, known) | name_condition("object", thing, known)


def filter_by_predicate(facts: FactQuerySet, predicate: str) -> FactQuerySet:
    """Those of these gated facts that have this predicate, however it is written. One query at once."""
    wanted = normalise_predicate(predicate)
    written = [name for name, _ in _count_spellings(facts) if normalise_predicate(name) == wanted]
    return facts.filter(predicate__in=written)


def common_predicates(facts: FactQuerySet, most: int) -> list[str]:
    """What these gated facts say of things, the commonest first, as it is written as a rule. One query."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in _count_spellings(facts):
        spellings[normalise_predicate(name)][name] += count
    foremost = sorted(spellings.values(), key=lambda found: (-found.total(), most_common_spelling(found)))
    return [most_common_spelling(found) for found in foremost[:most]]


def _count_spellings(facts: FactQuerySet) -> list[tuple[str, int]]:
    """Each spelling with how many facts have it."""
    counted = facts.select_related(None).order_by().values_list("predicate").annotate(count=Count("pk"))
    return list(counted.order_by("-count", "predicate"))

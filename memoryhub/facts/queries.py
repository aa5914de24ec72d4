"""Find facts by names and predicates in any spelling (see :mod:`memoryhub.facts.predicates`)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Q

from memoryhub.access.policy import Clearance
from memoryhub.core.text import collapse_whitespace
from memoryhub.facts.predicates import normalise_name, normalise_predicate
from memoryhub.models import Fact
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


MAX_FACTS = 20_000  # newest facts
_MAX_PLAIN_KEY = 120  # longer names are digested in URLs


class Triple(NamedTuple):
    pk: int
    subject: str
    predicate: str
    object: str
    confidence: float
    sensitivity: str
    project: str


@dataclass
class GraphIndex:
    """Facts by thing. A thing is identified by its name in the form of :func:`normalise_name`.

    ``of``: facts of a thing. ``neighbours``: those of a thing, with the highest confidence. ``ends``:
    subject and object of a fact by primary key. ``written``: spellings of a thing.
    """

    triples: list[Triple]
    is_cut: bool = False
    of: dict[str, list[Triple]] = field(default_factory=lambda: defaultdict(list))
    neighbours: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    ends: dict[int, tuple[str, str]] = field(default_factory=dict)
    written: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        for triple in self.triples:
            one, other = self.ends[triple.pk] = normalise_name(triple.subject), normalise_name(triple.object)
            self.written[one][triple.subject] += 1
            self.written[other][triple.object] += 1
            self.of[one].append(triple)
            self.neighbours[one][other] = max(self.neighbours[one].get(other, 0.0), triple.confidence)
            if one != other:
                self.of[other].append(triple)
                self.neighbours[other][one] = self.neighbours[one][other]

    def text(self, name: str) -> str:
        """Return the most common spelling of a thing; among equals the newest."""
        return most_common_spelling(self.written[name])

    def spellings(self, name: str) -> list[str]:
        """Return all spellings of a thing, most common first."""
        return [spelling for spelling, _ in self.written[name].most_common()]

    def known(self, key: str) -> str | None:
        """Return the thing with this :func:`node_key`."""
        name = normalise_name(key)
        if name in self.of:
            return name
        if not key.startswith("~"):
            return None
        return next((name for name in self.of if not _is_plain(name) and _digest(name) == key), None)

    def degree(self, name: str) -> int:
        return len(self.neighbours[name])

    def ranked(self, names: Iterable[str]) -> list[str]:
        """Return the names, most neighbours first."""
        return sorted(names, key=lambda name: (-self.degree(name), self.text(name)))

    def most_connected(self, limit: int) -> list[str]:
        """Return the things with most neighbours, each with at least one of its neighbours."""
        ranked = self.ranked(self.of)
        chosen: dict[str, None] = {}
        for name in ranked:
            if len(chosen) >= limit:
                break
            others = self.neighbours[name].keys() - {name}
            has_company = not others or not others.isdisjoint(chosen)
            both = [name] if has_company else [name, *self.ranked(others)[:1]]
            if name not in chosen and len(chosen) + len(both) <= limit:
                chosen.update(dict.fromkeys(both))
        return [name for name in ranked if name in chosen]

    def like(self, typed: str, limit: int) -> list[str]:
        """Return the things whose name contains the text: prefixes first, then by number of neighbours."""
        wanted = normalise_name(typed)
        found = [name for name in self.of if wanted in name]
        found.sort(key=lambda name: (not name.startswith(wanted), -self.degree(name), name))
        return found[:limit]


def read_graph(facts: FactQuerySet) -> GraphIndex:
    """Index the newest of these facts, which the caller can see. One query."""
    rows = facts.order_by("-updated_at", "-pk").values_list(*Triple._fields)[: MAX_FACTS + 1]
    triples = list(map(Triple._make, rows))
    return GraphIndex(triples[:MAX_FACTS], len(triples) > MAX_FACTS)


def node_key(name: str) -> str:
    """Return the key of a thing in URLs: its name, or a digest if it is long or looks like one."""
    line = collapse_whitespace(name)
    return line if _is_plain(line) else _digest(normalise_name(name))


def _is_plain(line: str) -> bool:
    return len(line) <= _MAX_PLAIN_KEY and not line.startswith("~")


def _digest(name: str) -> str:
    return "~" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def query_facts(
    clearance: Clearance,
    *,
    subject: str = "",
    predicate: str = "",
    object: str = "",
    min_confidence: float = 0.0,
    project: str = "",
    session_id: str = "",
    ended: bool | None = False,
    as_of: datetime | None = None,
) -> FactQuerySet:
    """Return the visible facts that match all given filters, newest first. Lazy.

    ``ended``: False for current facts, True for ended ones, None for both. ``as_of``: the facts that were
    stored and valid at this moment; ``ended`` is then not used.
    """
    facts = Fact.objects.all()
    if as_of is not None:
        facts = facts.visible_at(clearance, as_of)
    else:
        facts = facts.visible_to(clearance)
        if ended is not None:
            facts = facts.ended() if ended else facts.current()
    wanted = {
        "subject": subject,
        "predicate": predicate,
        "object": object,
        "project": project,
        "session_id": session_id,
    }
    facts = facts.filter(**{name: value for name, value in wanted.items() if value})
    if min_confidence > 0:
        facts = facts.filter(confidence__gte=min_confidence)
    return facts.select_related("memory").order_by("-updated_at", "-pk")

"""Contradicting facts: find them, decide between them, and undo decisions.

Facts contradict each other if they are current, have the same project, subject and predicate, different
objects, and the predicate takes only one object (:mod:`.predicates`). A superseded fact stays in the store:
``valid_until`` is its end, and ``superseded_by`` the fact that replaced it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Any, NamedTuple

from django.db.models import BooleanField, Exists, ExpressionWrapper, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import parse_moment
from memoryhub.facts.predicates import (
    PredicateUse,
    Verdict,
    judge_predicate,
    normalise_name,
    normalise_predicate,
)
from memoryhub.facts.queries import Triple
from memoryhub.facts.services import start_time
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.merge import PairDecisions
from memoryhub.memories.undo import AccessKey
from memoryhub.models import Fact, JournalEntry
from memoryhub.models.querysets import currency_condition

MAX_FACTS = 100  # per decision
SUPERSEDE, REINSTATE = "supersede", "reinstate"
_COMPATIBLE = PairDecisions("facts", "hold_together", "undo_hold_together")

FactKey = tuple[str, str, str]  # normalised project, subject and predicate


class CurrentFact(NamedTuple):
    """The columns of a current fact that the search for contradictions needs."""

    pk: int
    uid: str
    project: str
    subject: str
    predicate: str
    object: str
    since: datetime

    @property
    def key(self) -> FactKey:
        return fact_key(self)


def fact_key(fact: CurrentFact | Fact | Triple) -> FactKey:
    """Return what two facts have in common that are compared."""
    return fact.project, normalise_name(fact.subject), normalise_predicate(fact.predicate)


@dataclass(frozen=True)
class Contradiction:
    """Facts with one subject and predicate and different objects, newest first.

    ``verdict``: whether they contradict each other. ``settled``: a person marked all of them as compatible.
    """

    rows: tuple[CurrentFact, ...]
    verdict: Verdict
    settled: bool = False

    @property
    def newest(self) -> CurrentFact:
        return self.rows[0]

    @property
    def key(self) -> FactKey:
        return self.newest.key

    @property
    def is_open(self) -> bool:
        """Whether a person should decide."""
        return self.verdict.one and not self.settled


@dataclass(frozen=True)
class ContradictionReport:
    """All subjects with several objects, latest change first."""

    groups: tuple[Contradiction, ...]

    @property
    def open(self) -> list[Contradiction]:
        return [group for group in self.groups if group.is_open]

    @property
    def together(self) -> list[Contradiction]:
        """Groups that may be true together, or were marked as compatible."""
        return [group for group in self.groups if not group.is_open]

    def narrowed(self, *, subject: str = "", predicate: str = "") -> ContradictionReport:
        """Return the groups with this subject and predicate, in any spelling."""
        wanted = normalise_name(subject), normalise_predicate(predicate)
        return ContradictionReport(
            tuple(
                group
                for group in self.groups
                if all(not want or want == has for want, has in zip(wanted, group.key[1:], strict=True))
            )
        )


def find_contradictions(
    clearance: Clearance, *, project: str = "", now: datetime | None = None
) -> ContradictionReport:
    """Find contradictions among the current facts that the viewer can see.

    One query reads the facts, a second one the decisions of people, if there are any.
    """
    visible = Fact.objects.visible_to(clearance)
    visible = visible.filter(project=project) if project else visible
    current = currency_condition(now)
    read = visible.filter(current | Q(superseded_by__isnull=False)).order_by()
    read = read.annotate(
        since=Coalesce("valid_from", "created_at"),
        is_current=ExpressionWrapper(current, BooleanField()),
        any_decision=Exists(_COMPATIBLE.recorded(clearance)),
    )
    columns = (*CurrentFact._fields, "is_current", "superseded_by", "any_decision")
    facts = list(read.values_list(*columns, named=True))
    groups: dict[FactKey, list[CurrentFact]] = defaultdict(list)
    for row in (CurrentFact(*fact[: len(CurrentFact._fields)]) for fact in facts if fact.is_current):
        groups[row.key].append(row)
    several = {key: rows for key, rows in groups.items() if len(_distinct_objects(rows)) > 1}
    if not several:
        return ContradictionReport(())
    compatible = _COMPATIBLE.decided(clearance) if facts[0].any_decision else set()
    settled = {key for key, rows in several.items() if compatible and _all_compatible(rows, compatible)}
    superseded = (normalise_predicate(fact.predicate) for fact in facts if fact.superseded_by is not None)
    verdicts = _judge_predicates(groups, settled, superseded)
    found = [
        Contradiction(tuple(sorted(rows, key=_start_key, reverse=True)), verdicts[key[2]], key in settled)
        for key, rows in several.items()
    ]
    return ContradictionReport(tuple(sorted(found, key=lambda one: _start_key(one.newest), reverse=True)))


def _start_key(row: CurrentFact) -> tuple[datetime, int]:
    return row.since, row.pk


def _distinct_objects(rows: Iterable[CurrentFact]) -> set[str]:
    return {normalise_name(row.object) for row in rows}


def _judge_predicates(
    groups: dict[FactKey, list[CurrentFact]], settled: set[FactKey], superseded: Iterable[str]
) -> dict[str, Verdict]:
    """Judge each predicate. Groups of a single fact are evidence too."""
    counts: dict[str, list[int]] = defaultdict(list)
    for key, rows in groups.items():
        counts[key[2]].append(len(_distinct_objects(rows)) if len(rows) > 1 else 1)
    superseded_counts, settled_counts = Counter(superseded), Counter(key[2] for key in settled)
    return {
        predicate: judge_predicate(
            predicate,
            PredicateUse(
                subjects=len(found),
                several=sum(count > 1 for count in found),
                most=max(found),
                superseded=superseded_counts[predicate],
                held=settled_counts[predicate],
            ),
        )
        for predicate, found in counts.items()
    }


def _all_compatible(rows: Sequence[CurrentFact], compatible: set[frozenset[str]]) -> bool:
    """Return whether all facts with different objects were marked as compatible."""
    return all(
        frozenset((one.uid, other.uid)) in compatible
        for one, other in combinations(rows, 2)
        if normalise_name(one.object) != normalise_name(other.object)
    )


def supersede_facts(
    keep: str, others: Iterable[str], actor: Actor, now: datetime | None = None
) -> tuple[Fact, list[Fact]]:
    """Let one fact replace others: they end when it began, or now if they are newer.

    Returns the fact and the replaced ones. Raises :class:`NotFound` if the actor cannot see one of them, and
    :class:`Conflict` for facts with another subject or predicate, and for those that ended or have not begun.
    """
    now = now or timezone.now()
    with write_transaction():
        facts = _load_facts([keep, *others], actor)
        kept, superseded = facts[0], facts[1:]
        _require_same_subject(facts)
        _require_current(facts, now)
        changes = []
        for fact in superseded:
            before = fact.valid_until.isoformat() if fact.valid_until else None
            fact.valid_until, fact.superseded_by = _end_time(fact, kept, now), kept
            fact.save(update_fields=["valid_until", "superseded_by"])
            changes.append(_change_about_both(fact, kept, by=kept.uid, valid_until=before))
        journal.record(actor, changes, now)
    return kept, superseded


def _end_time(fact: Fact, successor: Fact, now: datetime) -> datetime:
    """Return the end of a superseded fact: the start of the other one, unless that began first."""
    return start_time(successor) if start_time(fact) < start_time(successor) <= now else now


def _change_about_both(fact: Fact, other: Fact, **detail: Any) -> journal.Change:
    """Return a change of a fact that names another, with the stricter of both levels."""
    change = journal.fact_change(SUPERSEDE, fact, **detail)
    about_other = journal.fact_change(SUPERSEDE, other)
    level = stricter_level(change.sensitivity, about_other.sensitivity)
    return replace(change, sensitivity=level, owner=change.owner or about_other.owner)


def undo_supersede(uids: Iterable[str], actor: Actor) -> list[Fact]:
    """Undo :func:`supersede_facts`: the facts are valid as before.

    Raises :class:`NotFound` if the actor cannot see one of them, and :class:`Conflict` for a fact that was
    not superseded.
    """
    now = timezone.now()
    with write_transaction():
        facts = _load_facts(uids, actor)
        changes = []
        for fact in facts:
            by = fact.superseded_by
            if by is None:
                raise Conflict(f"fact {fact.uid} is not superseded. Reload the page", "uid")
            fact.valid_until, fact.superseded_by = _previous_end(fact), None
            fact.save(update_fields=["valid_until", "superseded_by"])
            changes.append(replace(_change_about_both(fact, by, by=by.uid), operation=REINSTATE))
        journal.record(actor, changes, now)
    return facts


def _previous_end(fact: Fact) -> datetime | None:
    """Return the end of a fact before it was superseded, usually none."""
    rows = JournalEntry.objects.filter(object_type="fact", object_id=fact.uid, operation=SUPERSEDE)
    last = rows.order_by("-seq").first()
    return parse_moment(last.detail.get("valid_until")) if last else None


def mark_compatible(uids: Iterable[str], actor: Actor) -> str:
    """Record that all of these facts are true. Returns the id of the decision."""
    with write_transaction():
        facts = _load_facts(uids, actor)
        _require_same_subject(facts)
        return _COMPATIBLE.record(map(_pair_decision, combinations(facts, 2)), actor)


def _pair_decision(both: tuple[Fact, Fact]) -> tuple[AccessKey, tuple[str, str]]:
    one, other = both
    change = _change_about_both(one, other)
    return (change.project, change.sensitivity, change.owner), (one.uid, other.uid)


def undo_mark_compatible(decision: str, actor: Actor) -> None:
    """Undo :func:`mark_compatible`. Raises NotFound if there is no such decision."""
    _COMPATIBLE.undo(decision, actor)


def _load_facts(uids: Iterable[str], actor: Actor) -> list[Fact]:
    """Load the facts in this order, each once. Raises NotFound unless the actor can see all of them."""
    wanted = list(dict.fromkeys(uids))
    if not 1 <= len(wanted) <= MAX_FACTS:
        raise Conflict(f"choose 1 to {MAX_FACTS} facts", "uid")
    visible = Fact.objects.visible_to(actor.clearance).select_related("memory", "superseded_by__memory")
    found = {fact.uid: fact for fact in visible.filter(uid__in=wanted)}
    if missing := [uid for uid in wanted if uid not in found]:
        raise NotFound(f"there is no fact {', '.join(missing)}. Reload the page", "uid")
    return [found[uid] for uid in wanted]


def _require_same_subject(facts: Sequence[Fact]) -> None:
    if len(facts) < 2:
        raise Conflict("choose at least two facts", "uid")
    if len({fact_key(fact) for fact in facts}) > 1:
        raise Conflict("choose facts with the same project, subject and predicate", "uid")


def _require_current(facts: Sequence[Fact], now: datetime) -> None:
    if ended := [fact.uid for fact in facts if fact.valid_until and fact.valid_until <= now]:
        raise Conflict(f"fact {', '.join(ended)} ended already. Reload the page", "uid")
    if later := [fact.uid for fact in facts if fact.valid_from and fact.valid_from > now]:
        raise Conflict(f"fact {', '.join(later)} is not valid yet. Decide when it is", "uid")

"""Facts that cannot all be true: found, decided, and the decision taken back.

Facts contradict each other when they hold now, are of one project, say the same of the same subject, name
different objects, and the predicate takes only one (:mod:`.predicates`). A fact that gives way keeps
its row: ``valid_until`` says when it ceased to hold and ``superseded_by`` what holds in its place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Any, NamedTuple

from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.facts.predicates import (
    PredicateUse,
    Verdict,
    judge_predicate,
    normalise_name,
    normalise_predicate,
)
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.pair_decisions import AccessKey, PairDecisions
from memoryhub.models import Fact, JournalEntry
from memoryhub.models.querysets import FactQuerySet

MAX_FACTS = 100  # facts that are decided about at once
SUPERSEDE, REINSTATE = "supersede", "reinstate"
_COMPATIBLE = PairDecisions("facts", "hold_together", "undo_hold_together")

FactKey = tuple[str, str, str]  # project, subject and predicate, in the form in which they are compared


class CurrentFact(NamedTuple):
    """What is read of a fact that holds now."""

    pk: int
    uid: str
    project: str
    subject: str
    predicate: str
    object: str
    since: datetime

    @property
    def key(self) -> FactKey:
        return self.project, normalise_name(self.subject), normalise_predicate(self.predicate)


@dataclass(frozen=True)
class Contradiction:
    """Facts of one subject and predicate with different objects, the newest first.

    ``verdict`` says whether they contradict each other or may well be true together. ``settled``: somebody
    said that all of them hold.
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
        """Whether somebody should decide."""
        return self.verdict.one and not self.settled


@dataclass(frozen=True)
class ContradictionReport:
    """All subjects with several objects, those first that changed last."""

    groups: tuple[Contradiction, ...]

    @property
    def open(self) -> list[Contradiction]:
        return [group for group in self.groups if group.is_open]

    @property
    def together(self) -> list[Contradiction]:
        """What may well be true together, or was said to be."""
        return [group for group in self.groups if not group.is_open]

    def narrowed(self, *, subject: str = "", predicate: str = "") -> ContradictionReport:
        """Those of one subject, one predicate, or both, however they are written."""
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
    """Look through the facts that hold now and may be seen. Three queries."""
    visible: FactQuerySet = Fact.objects.visible_to(clearance)
    visible = visible.filter(project=project) if project else visible
    read = visible.current(now).order_by().annotate(since=Coalesce("valid_from", "created_at"))
    groups: dict[FactKey, list[CurrentFact]] = defaultdict(list)
    for row in map(CurrentFact._make, read.values_list(*CurrentFact._fields)):
        groups[row.key].append(row)
    several = {key: rows for key, rows in groups.items() if len(_distinct_objects(rows)) > 1}
    held = _COMPATIBLE.holding(clearance)
    settled = {key for key, rows in several.items() if held and _all_compatible(rows, held)}
    ended = visible.filter(superseded_by__isnull=False).order_by().values_list("predicate", flat=True)
    verdicts = _judge_predicates(groups, settled, [normalise_predicate(predicate) for predicate in ended])
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
    """For each predicate; groups of one are evidence too."""
    counts: dict[str, list[int]] = defaultdict(list)
    for key, rows in groups.items():
        counts[key[2]].append(len(_distinct_objects(rows)) if len(rows) > 1 else 1)
    gone, held = Counter(superseded), Counter(key[2] for key in settled)
    return {
        predicate: judge_predicate(
            predicate,
            PredicateUse(
                subjects=len(found),
                several=sum(count > 1 for count in found),
                most=max(found),
                superseded=gone[predicate],
                held=held[predicate],
            ),
        )
        for predicate, found in counts.items()
    }


def _all_compatible(rows: Sequence[CurrentFact], held: set[frozenset[str]]) -> bool:
    """Whether all that say different things were said to hold together."""
    return all(
        frozenset((one.uid, other.uid)) in held
        for one, other in combinations(rows, 2)
        if normalise_name(one.object) != normalise_name(other.object)
    )


def supersede_facts(
    keep: str, others: Iterable[str], actor: Actor, now: datetime | None = None
) -> tuple[Fact, list[Fact]]:
    """One fact holds, the others held until it began, or until now if they are newer.

    Returns the fact and those that gave way to it. :class:`NotFound` when the actor may not see one of them;
    :class:`Conflict` for facts that are about something else, that ended already or are yet to begin.
    """
    now = now or timezone.now()
    with write_transaction():
        facts = _load_facts([keep, *others], actor)
        holds, gone = facts[0], facts[1:]
        _require_same_subject(facts)
        _require_current(facts, now)
        changes = []
        for fact in gone:
            before = fact.valid_until
            fact.valid_until, fact.superseded_by = _end_time(fact, holds, now), holds
            fact.save(update_fields=["valid_until", "superseded_by"])
            was = before.isoformat() if before else None
            changes.append(_change_about_both(fact, holds, by=holds.uid, valid_until=was))
        journal.record(actor, changes, now)
    return holds, gone


def _end_time(fact: Fact, holds: Fact, now: datetime) -> datetime:
    """When a fact ceased to hold: as the other began, unless that began first."""
    began, other = _start_time(fact), _start_time(holds)
    return other if began < other <= now else now


def _start_time(fact: Fact) -> datetime:
    return fact.valid_from or fact.created_at


def _change_about_both(fact: Fact, other: Fact, **detail: Any) -> journal.Change:
    """A change of a fact that tells of another: under the stricter of both levels."""
    change, beside = journal.fact_change(SUPERSEDE, fact, **detail), journal.fact_change(SUPERSEDE, other)
    level = stricter_level(change.sensitivity, beside.sensitivity)
    return replace(change, sensitivity=level, owner=change.owner or beside.owner)


def undo_supersede(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> list[Fact]:
    """Take :func:`supersede` back: these facts hold as they did before.

    :class:`NotFound` when the actor may not see one of them; :class:`Conflict` for one that gave way to none.
    """
    now = now or timezone.now()
    with write_transaction():
        facts = _load_facts(uids, actor)
        changes = []
        for fact in facts:
            by = fact.superseded_by
            if by is None:
                raise Conflict(f"fact {fact.uid} was superseded by none; look at it again", "uid")
            fact.valid_until, fact.superseded_by = _previous_end(fact), None
            fact.save(update_fields=["valid_until", "superseded_by"])
            changes.append(replace(_change_about_both(fact, by, by=by.uid), operation=REINSTATE))
        journal.record(actor, changes, now)
    return facts


def _previous_end(fact: Fact) -> datetime | None:
    """The end that a fact had before it was superseded: as a rule none."""
    rows = JournalEntry.objects.filter(object_type="fact", object_id=fact.uid, operation=SUPERSEDE)
    last = rows.order_by("-seq").first()
    text = last.detail.get("valid_until") if last else None
    return datetime.fromisoformat(text) if text else None


def mark_compatible(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> str:
    """Remember that these facts are all true; returns the id of that decision."""
    with write_transaction():
        facts = _load_facts(uids, actor)
        _require_same_subject(facts)
        return _COMPATIBLE.write_down(map(_pair_decision, combinations(facts, 2)), actor, now)


def _pair_decision(both: tuple[Fact, Fact]) -> tuple[AccessKey, tuple[str, str]]:
    one, other = both
    gate = _change_about_both(one, other)
    return (gate.project, gate.sensitivity, gate.owner), (one.uid, other.uid)


def undo_mark_compatible(decision: str, actor: Actor, now: datetime | None = None) -> None:
    """Take back :func:`hold_together`; NotFound when there is no such decision, or it is taken back."""
    _COMPATIBLE.take_back(decision, actor, now)


def _load_facts(uids: Iterable[str], actor: Actor) -> list[Fact]:
    """These facts in this order, each once; NotFound unless the actor may see all of them."""
    wanted = list(dict.fromkeys(uids))
    if not 1 <= len(wanted) <= MAX_FACTS:
        raise Conflict(f"name 1 to {MAX_FACTS} facts", "uid")
    visible = Fact.objects.visible_to(actor.clearance).select_related("memory", "superseded_by__memory")
    found = {fact.uid: fact for fact in visible.filter(uid__in=wanted)}
    if missing := [uid for uid in wanted if uid not in found]:
        raise NotFound(f"there is no fact {', '.join(missing)}; look at them again", "uid")
    return [found[uid] for uid in wanted]


def _require_same_subject(facts: Sequence[Fact]) -> None:
    if len(facts) < 2:
        raise Conflict("name at least two facts", "uid")
    keys = {
        (fact.project, normalise_name(fact.subject), normalise_predicate(fact.predicate)) for fact in facts
    }
    if len(keys) > 1:
        raise Conflict("name facts of one project, subject and predicate", "uid")


def _require_current(facts: Sequence[Fact], now: datetime) -> None:
    if ended := [fact.uid for fact in facts if fact.valid_until and fact.valid_until <= now]:
        raise Conflict(f"fact {', '.join(ended)} ended already; look at them again", "uid")
    if later := [fact.uid for fact in facts if fact.valid_from and fact.valid_from > now]:
        raise Conflict(f"fact {', '.join(later)} is yet to begin; decide when it has", "uid")

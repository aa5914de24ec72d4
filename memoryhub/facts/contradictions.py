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

from memoryhub.access.policy import Actor, Clearance, higher
from memoryhub.audit import journal
from memoryhub.core.transactions import write
from memoryhub.facts.predicates import Evidence, Verdict, judge, plain, same_thing
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.pair_decisions import Decisions, Gate
from memoryhub.models import Fact, JournalEntry
from memoryhub.models.querysets import FactQuerySet

MOST = 100  # facts that are decided about at once
SUPERSEDE, REINSTATE = "supersede", "reinstate"
_TOGETHER = Decisions("facts", "hold_together", "undo_hold_together")

Key = tuple[str, str, str]  # project, subject and predicate, in the form in which they are compared


class Row(NamedTuple):
    """What is read of a fact that holds now."""

    pk: int
    uid: str
    project: str
    subject: str
    predicate: str
    object: str
    since: datetime

    @property
    def key(self) -> Key:
        return self.project, same_thing(self.subject), plain(self.predicate)


@dataclass(frozen=True)
class Contradiction:
    """Facts of one subject and predicate with different objects, the newest first.

    ``verdict`` says whether they contradict each other or may well be true together. ``settled``: somebody
    said that all of them hold.
    """

    rows: tuple[Row, ...]
    verdict: Verdict
    settled: bool = False

    @property
    def newest(self) -> Row:
        return self.rows[0]

    @property
    def key(self) -> Key:
        return self.newest.key

    @property
    def is_open(self) -> bool:
        """Whether somebody should decide."""
        return self.verdict.one and not self.settled


@dataclass(frozen=True)
class Survey:
    """All subjects with several objects, those first that changed last."""

    groups: tuple[Contradiction, ...]

    @property
    def open(self) -> list[Contradiction]:
        return [group for group in self.groups if group.is_open]

    @property
    def together(self) -> list[Contradiction]:
        """What may well be true together, or was said to be."""
        return [group for group in self.groups if not group.is_open]

    def narrowed(self, *, subject: str = "", predicate: str = "") -> Survey:
        """Those of one subject, one predicate, or both, however they are written."""
        wanted = same_thing(subject), plain(predicate)
        return Survey(
            tuple(
                group
                for group in self.groups
                if all(not want or want == has for want, has in zip(wanted, group.key[1:], strict=True))
            )
        )


def survey(clearance: Clearance, *, project: str = "", now: datetime | None = None) -> Survey:
    """Look through the facts that hold now and may be seen. Three queries."""
    visible: FactQuerySet = Fact.objects.visible_to(clearance)
    visible = visible.filter(project=project) if project else visible
    read = visible.current(now).order_by().annotate(since=Coalesce("valid_from", "created_at"))
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in map(Row._make, read.values_list(*Row._fields)):
        groups[row.key].append(row)
    several = {key: rows for key, rows in groups.items() if len(_objects(rows)) > 1}
    held = _TOGETHER.holding(clearance)
    settled = {key for key, rows in several.items() if held and _all_held(rows, held)}
    ended = visible.filter(superseded_by__isnull=False).order_by().values_list("predicate", flat=True)
    verdicts = _verdicts(groups, settled, [plain(predicate) for predicate in ended])
    found = [
        Contradiction(tuple(sorted(rows, key=_age, reverse=True)), verdicts[key[2]], key in settled)
        for key, rows in several.items()
    ]
    return Survey(tuple(sorted(found, key=lambda one: _age(one.newest), reverse=True)))


def _age(row: Row) -> tuple[datetime, int]:
    return row.since, row.pk


def _objects(rows: Iterable[Row]) -> set[str]:
    return {same_thing(row.object) for row in rows}


def _verdicts(
    groups: dict[Key, list[Row]], settled: set[Key], superseded: Iterable[str]
) -> dict[str, Verdict]:
    """For each predicate; groups of one are evidence too."""
    counts: dict[str, list[int]] = defaultdict(list)
    for key, rows in groups.items():
        counts[key[2]].append(len(_objects(rows)) if len(rows) > 1 else 1)
    gone, held = Counter(superseded), Counter(key[2] for key in settled)
    return {
        predicate: judge(
            predicate,
            Evidence(
                subjects=len(found),
                several=sum(count > 1 for count in found),
                most=max(found),
                superseded=gone[predicate],
                held=held[predicate],
            ),
        )
        for predicate, found in counts.items()
    }


def _all_held(rows: Sequence[Row], held: set[frozenset[str]]) -> bool:
    """Whether all that say different things were said to hold together."""
    return all(
        frozenset((one.uid, other.uid)) in held
        for one, other in combinations(rows, 2)
        if same_thing(one.object) != same_thing(other.object)
    )


def supersede(
    keep: str, others: Iterable[str], actor: Actor, now: datetime | None = None
) -> tuple[Fact, list[Fact]]:
    """One fact holds, the others held until it began, or until now if they are newer.

    Returns the fact and those that gave way to it. :class:`NotFound` when the actor may not see one of them;
    :class:`Conflict` for facts that are about something else, that ended already or are yet to begin.
    """
    now = now or timezone.now()
    with write():
        facts = _pick([keep, *others], actor)
        holds, gone = facts[0], facts[1:]
        _refuse_unlike(facts)
        _refuse_not_now(facts, now)
        changes = []
        for fact in gone:
            before = fact.valid_until
            fact.valid_until, fact.superseded_by = _end(fact, holds, now), holds
            fact.save(update_fields=["valid_until", "superseded_by"])
            was = before.isoformat() if before else None
            changes.append(_about_both(fact, holds, by=holds.uid, valid_until=was))
        journal.record(actor, changes, now)
    return holds, gone


def _end(fact: Fact, holds: Fact, now: datetime) -> datetime:
    """When a fact ceased to hold: as the other began, unless that began first."""
    began, other = _began(fact), _began(holds)
    return other if began < other <= now else now


def _began(fact: Fact) -> datetime:
    return fact.valid_from or fact.created_at


def _about_both(fact: Fact, other: Fact, **detail: Any) -> journal.Change:
    """A change of a fact that tells of another: under the stricter of both levels."""
    change, beside = journal.of_fact(SUPERSEDE, fact, **detail), journal.of_fact(SUPERSEDE, other)
    level = higher(change.sensitivity, beside.sensitivity)
    return replace(change, sensitivity=level, owner=change.owner or beside.owner)


def reinstate(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> list[Fact]:
    """Take :func:`supersede` back: these facts hold as they did before.

    :class:`NotFound` when the actor may not see one of them; :class:`Conflict` for one that gave way to none.
    """
    now = now or timezone.now()
    with write():
        facts = _pick(uids, actor)
        changes = []
        for fact in facts:
            by = fact.superseded_by
            if by is None:
                raise Conflict(f"fact {fact.uid} was superseded by none; look at it again", "uid")
            fact.valid_until, fact.superseded_by = _before(fact), None
            fact.save(update_fields=["valid_until", "superseded_by"])
            changes.append(replace(_about_both(fact, by, by=by.uid), operation=REINSTATE))
        journal.record(actor, changes, now)
    return facts


def _before(fact: Fact) -> datetime | None:
    """The end that a fact had before it was superseded: as a rule none."""
    rows = JournalEntry.objects.filter(object_type="fact", object_id=fact.uid, operation=SUPERSEDE)
    last = rows.order_by("-seq").first()
    text = last.detail.get("valid_until") if last else None
    return datetime.fromisoformat(text) if text else None


def hold_together(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> str:
    """Remember that these facts are all true; returns the id of that decision."""
    with write():
        facts = _pick(uids, actor)
        _refuse_unlike(facts)
        return _TOGETHER.write_down(map(_pair, combinations(facts, 2)), actor, now)


def _pair(both: tuple[Fact, Fact]) -> tuple[Gate, tuple[str, str]]:
    one, other = both
    gate = _about_both(one, other)
    return (gate.project, gate.sensitivity, gate.owner), (one.uid, other.uid)


def undo_hold_together(decision: str, actor: Actor, now: datetime | None = None) -> None:
    """Take back :func:`hold_together`; NotFound when there is no such decision, or it is taken back."""
    _TOGETHER.take_back(decision, actor, now)


def _pick(uids: Iterable[str], actor: Actor) -> list[Fact]:
    """These facts in this order, each once; NotFound unless the actor may see all of them."""
    wanted = list(dict.fromkeys(uids))
    if not 1 <= len(wanted) <= MOST:
        raise Conflict(f"name 1 to {MOST} facts", "uid")
    visible = Fact.objects.visible_to(actor.clearance).select_related("memory", "superseded_by__memory")
    found = {fact.uid: fact for fact in visible.filter(uid__in=wanted)}
    if missing := [uid for uid in wanted if uid not in found]:
        raise NotFound(f"there is no fact {', '.join(missing)}; look at them again", "uid")
    return [found[uid] for uid in wanted]


def _refuse_unlike(facts: Sequence[Fact]) -> None:
    if len(facts) < 2:
        raise Conflict("name at least two facts", "uid")
    keys = {(fact.project, same_thing(fact.subject), plain(fact.predicate)) for fact in facts}
    if len(keys) > 1:
        raise Conflict("name facts of one project, subject and predicate", "uid")


def _refuse_not_now(facts: Sequence[Fact], now: datetime) -> None:
    if ended := [fact.uid for fact in facts if fact.valid_until and fact.valid_until <= now]:
        raise Conflict(f"fact {', '.join(ended)} ended already; look at them again", "uid")
    if later := [fact.uid for fact in facts if fact.valid_from and fact.valid_from > now]:
        raise Conflict(f"fact {', '.join(later)} is yet to begin; decide when it has", "uid")

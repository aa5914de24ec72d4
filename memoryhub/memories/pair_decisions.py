"""Decisions about pairs of memories or facts ("not duplicates"): recorded, revoked and listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.core.database import write_transaction
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.maintenance_updates import access_key, grouped_rows, record_grouped
from memoryhub.memories.merge import refuse_different_place
from memoryhub.memories.rows import fetch_by_uids
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.fields import new_uid

AccessKey = tuple[str, str, str]  # project, level, owner


@dataclass(frozen=True)
class PairDecisions:
    """Decisions of one kind, stored in the journal.

    ``about``: the object type of the rows. ``said`` and ``undone``: the operations that record and revoke
    one.
    """

    about: str
    said: str
    undone: str

    def write_down(
        self, pairs: Iterable[tuple[AccessKey, tuple[str, str]]], actor: Actor, now: datetime | None
    ) -> str:
        """Record pairs of ids, each with the access key that its row gets. Return the id of the decision."""
        grouped: dict[AccessKey, list[list[str]]] = defaultdict(list)
        for key, pair in pairs:
            grouped[key].append(list(pair))
        decision = new_uid()
        details = {key: {"pairs": found} for key, found in grouped.items()}
        record_grouped(self.said, decision, details, actor, now or timezone.now(), about=self.about)
        return decision

    def take_back(self, decision: str, actor: Actor, now: datetime | None) -> None:
        """Revoke a decision. Raise NotFound if the actor sees no such decision, or if it was revoked."""
        with write_transaction():
            recorded = {
                access_key(row): row.detail
                for row in grouped_rows(self.said, decision, actor, about=self.about)
            }
            undone = {access_key(row) for row in grouped_rows(self.undone, decision, actor, about=self.about)}
            details = {
                key: {"pairs": detail["pairs"]} for key, detail in recorded.items() if key not in undone
            }
            if not details:
                raise NotFound("there is no such decision")
            record_grouped(self.undone, decision, details, actor, now or timezone.now(), about=self.about)

    def holding(self, clearance: Clearance) -> set[frozenset[str]]:
        """Return the decided pairs of ids, if this clearance may know of both objects."""
        rows = JournalEntry.objects.visible_as_recorded(clearance).filter(object_type=self.about)
        decided = rows.filter(operation__in=(self.said, self.undone)).order_by("seq")
        pairs: dict[tuple[str, frozenset[str]], bool] = {}
        for uid, operation, detail in decided.values_list("object_id", "operation", "detail"):
            for pair in detail["pairs"]:
                pairs[(uid, frozenset(pair))] = operation == self.said
        return {pair for (_, pair), holds in pairs.items() if holds}


MAX_DISMISSED = 100  # memories in one decision, which stores every pair of them
UNDO_NOT_DUPLICATES = "undo_not_duplicates"
_NOT_DUPLICATES = PairDecisions("memories", "not_duplicates", UNDO_NOT_DUPLICATES)


def dismiss_duplicates(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> str:
    """Record that these memories are not duplicates of each other. Return the id of the decision."""
    with write_transaction():
        wanted = list(dict.fromkeys(uids))
        if not 2 <= len(wanted) <= MAX_DISMISSED:
            raise Conflict(f"name 2 to {MAX_DISMISSED} memories", "others")
        memories = fetch_by_uids(Memory.objects.visible_to(actor.clearance), wanted)
        if len(memories) < len(wanted):
            raise NotFound("one of these memories does not exist any more; reload the page", "others")
        refuse_different_place(memories[0], memories[1:])
        pairs = (
            (
                (one.project, stricter_level(one.sensitivity, other.sensitivity), one.owner),
                (one.uid, other.uid),
            )
            for one, other in combinations(memories, 2)
        )
        return _NOT_DUPLICATES.write_down(pairs, actor, now)


def undo_dismissal(decision: str, actor: Actor, now: datetime | None = None) -> None:
    """Revoke :func:`dismiss_duplicates`. Raise NotFound if the actor sees no such decision."""
    _NOT_DUPLICATES.take_back(decision, actor, now)


def dismissed_pairs(clearance: Clearance) -> set[frozenset[str]]:
    """Return the pairs of ids that are not duplicates, if this clearance may know of both memories."""
    return _NOT_DUPLICATES.holding(clearance)

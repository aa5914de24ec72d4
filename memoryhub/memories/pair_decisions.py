"""Decisions about pairs of memories or facts ("not duplicates"): recorded, revoked and listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from django.db.models import QuerySet
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.core.database import write_transaction
from memoryhub.core.text import new_uid
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.merge import refuse_different_place
from memoryhub.memories.rows import fetch_by_uids
from memoryhub.memories.undo import AccessKey, Inverse, Undo, access_key, inverse_of, record_action
from memoryhub.models import JournalEntry, Memory


@dataclass(frozen=True)
class PairDecisions:
    """Decisions of one kind about pairs of ids, stored in the journal.

    ``about``: the object type of the rows. ``operation`` records a decision, ``undo_operation`` its undo.
    """

    about: str
    operation: str
    undo_operation: str

    def __post_init__(self) -> None:
        inverse_of(Inverse(list, self._revoke, self.undo_operation), self.operation, about=self.about)

    def record(self, pairs: Iterable[tuple[AccessKey, tuple[str, str]]], actor: Actor) -> str:
        """Record pairs of ids, each with the access key that its row gets. Return the id of the decision."""
        grouped: dict[AccessKey, list[list[str]]] = defaultdict(list)
        for key, pair in pairs:
            grouped[key].append(list(pair))
        decision = new_uid()
        details = {key: {"pairs": found} for key, found in grouped.items()}
        record_action(self.operation, decision, details, actor, timezone.now(), about=self.about)
        return decision

    def undo(self, decision: str, actor: Actor) -> None:
        """Revoke a decision. Raise NotFound if the actor sees no such decision, or if it was revoked."""
        undo = Undo.of_action(decision, actor, [self.operation], about=self.about)
        if not undo.rows:
            raise NotFound("there is no such decision")
        undo.run()

    def _revoke(self, undo: Undo, rows: Sequence[JournalEntry]) -> int:
        details = {access_key(row): {"pairs": row.detail["pairs"]} for row in rows}
        record_action(self.undo_operation, undo.id, details, undo.actor, undo.now, about=self.about)
        return sum(len(detail["pairs"]) for detail in details.values())

    def recorded(self, clearance: Clearance) -> QuerySet[JournalEntry]:
        """Return the journal rows of decisions and of their undo, if this clearance may see them."""
        rows = JournalEntry.objects.visible_as_recorded(clearance).filter(object_type=self.about)
        return rows.filter(operation__in=(self.operation, self.undo_operation))

    def decided(self, clearance: Clearance) -> set[frozenset[str]]:
        """Return the decided pairs of ids, if this clearance may know of both objects."""
        recorded = self.recorded(clearance).order_by("seq")
        pairs: dict[tuple[str, frozenset[str]], bool] = {}
        for uid, operation, detail in recorded.values_list("object_id", "operation", "detail"):
            for pair in detail["pairs"]:
                pairs[(uid, frozenset(pair))] = operation == self.operation
        return {pair for (_, pair), is_decided in pairs.items() if is_decided}


MAX_DISMISSED = 100  # memories in one decision, which stores every pair of them
UNDO_NOT_DUPLICATES = "undo_not_duplicates"
_NOT_DUPLICATES = PairDecisions("memories", "not_duplicates", UNDO_NOT_DUPLICATES)


def dismiss_duplicates(uids: Iterable[str], actor: Actor) -> str:
    """Record that these memories are not duplicates of each other. Return the id of the decision."""
    with write_transaction():
        wanted = list(dict.fromkeys(uids))
        if not 2 <= len(wanted) <= MAX_DISMISSED:
            raise Conflict(f"name 2 to {MAX_DISMISSED} memories", "others")
        memories = fetch_by_uids(Memory.objects.visible_to(actor.clearance), wanted)
        if len(memories) < len(wanted):
            raise NotFound("one of these memories no longer exists; reload the page", "others")
        refuse_different_place(memories[0], memories[1:])
        pairs = (
            (
                (one.project, stricter_level(one.sensitivity, other.sensitivity), one.owner),
                (one.uid, other.uid),
            )
            for one, other in combinations(memories, 2)
        )
        return _NOT_DUPLICATES.record(pairs, actor)


def undo_dismissal(decision: str, actor: Actor) -> None:
    """Revoke :func:`dismiss_duplicates`. Raise NotFound if the actor sees no such decision."""
    _NOT_DUPLICATES.undo(decision, actor)


def dismissed_pairs(clearance: Clearance) -> set[frozenset[str]]:
    """Return the pairs of ids that are not duplicates, if this clearance may know of both memories."""
    return _NOT_DUPLICATES.decided(clearance)

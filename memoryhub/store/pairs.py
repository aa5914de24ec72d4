"""What people decided about pairs of things: said, taken back, and what holds. The journal keeps it.

Each pair is written down under the stricter of its two levels, where whoever sees both finds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from memoryhub.models import JournalEntry
from memoryhub.models.fields import new_uid
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.store.errors import NotFound
from memoryhub.store.upkeep import note, noted
from memoryhub.transactions import write

Gate = tuple[str, str, str]  # project, level, owner


@dataclass(frozen=True)
class Decisions:
    """Decisions of one kind.

    ``about``: the journal's word for the things; ``said`` and ``undone``: its operations.
    """

    about: str
    said: str
    undone: str

    def write_down(
        self, pairs: Iterable[tuple[Gate, tuple[str, str]]], actor: Actor, now: datetime | None
    ) -> str:
        """Remember these pairs of ids, each under its gate; returns the id of the decision."""
        grouped: dict[Gate, list[list[str]]] = defaultdict(list)
        for gate, pair in pairs:
            grouped[gate].append(list(pair))
        decision = new_uid()
        details = {gate: {"pairs": found} for gate, found in grouped.items()}
        note(self.said, decision, details, actor, now or timezone.now(), about=self.about)
        return decision

    def take_back(self, decision: str, actor: Actor, now: datetime | None) -> None:
        """NotFound when there is no such decision within the actor's reach, or it is taken back."""
        with write():
            held = {_gate(row): row.detail for row in noted(self.said, decision, actor, about=self.about)}
            undone = {_gate(row) for row in noted(self.undone, decision, actor, about=self.about)}
            details = {
                gate: {"pairs": detail["pairs"]} for gate, detail in held.items() if gate not in undone
            }
            if not details:
                raise NotFound("there is no such decision")
            note(self.undone, decision, details, actor, now or timezone.now(), about=self.about)

    def holding(self, clearance: Clearance) -> set[frozenset[str]]:
        """The pairs of ids that are decided, as far as this clearance knows of both."""
        rows = JournalEntry.objects.of_reach(clearance).filter(object_type=self.about)
        decided = rows.filter(operation__in=(self.said, self.undone)).order_by("seq")
        pairs: dict[tuple[str, frozenset[str]], bool] = {}
        for uid, operation, detail in decided.values_list("object_id", "operation", "detail"):
            for pair in detail["pairs"]:
                pairs[(uid, frozenset(pair))] = operation == self.said
        return {pair for (_, pair), holds in pairs.items() if holds}


def _gate(row: JournalEntry) -> Gate:
    return row.project, row.sensitivity, row.owner

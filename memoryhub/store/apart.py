"""What people decided about memories that look like duplicates: these are none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from itertools import combinations

from django.utils import timezone

from memoryhub.models import JournalEntry, Memory
from memoryhub.models.fields import new_uid
from memoryhub.sensitivity import Actor, Clearance, higher
from memoryhub.store.errors import Conflict, NotFound
from memoryhub.store.merging import refuse_elsewhere
from memoryhub.store.rows import pick
from memoryhub.store.upkeep import note, noted
from memoryhub.transactions import write

MOST = 100  # memories that are told apart at once: a row for each pair of them
_APART, _UNDO = "not_duplicates", "undo_not_duplicates"


def not_duplicates(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> str:
    """Remember that these memories are no duplicates of each other; returns the id of that decision.

    Each pair is written down under the higher of its two levels, where whoever sees both finds it.
    """
    with write():
        wanted = list(dict.fromkeys(uids))
        if not 2 <= len(wanted) <= MOST:
            raise Conflict(f"name 2 to {MOST} memories", "others")
        memories = pick(Memory.objects.visible_to(actor.clearance), wanted)
        if len(memories) < len(wanted):
            raise NotFound("one of these memories is not there; look at them again", "others")
        refuse_elsewhere(memories[0], memories[1:])
        pairs: dict[tuple[str, str, str], list[list[str]]] = defaultdict(list)
        for one, other in combinations(memories, 2):
            gate = (one.project, higher(one.sensitivity, other.sensitivity), one.owner)
            pairs[gate].append([one.uid, other.uid])
        decision = new_uid()
        note(
            _APART,
            decision,
            {gate: {"pairs": found} for gate, found in pairs.items()},
            actor,
            now or timezone.now(),
        )
    return decision


def undo_not_duplicates(decision: str, actor: Actor, now: datetime | None = None) -> None:
    """Take back :func:`not_duplicates`; NotFound when there is no such decision, or it is taken back."""
    with write():
        held = {_gate(row): row.detail for row in noted(_APART, decision, actor)}
        undone = {_gate(row) for row in noted(_UNDO, decision, actor)}
        details = {gate: {"pairs": detail["pairs"]} for gate, detail in held.items() if gate not in undone}
        if not details:
            raise NotFound("there is no such decision")
        note(_UNDO, decision, details, actor, now or timezone.now())


def _gate(row: JournalEntry) -> tuple[str, str, str]:
    return row.project, row.sensitivity, row.owner


def apart(clearance: Clearance) -> set[frozenset[str]]:
    """The pairs of ids that somebody said are no duplicates, as far as this clearance knows of both."""
    rows = JournalEntry.objects.of_reach(clearance).filter(object_type="memories")
    decided = rows.filter(operation__in=(_APART, _UNDO)).order_by("seq")
    pairs: dict[tuple[str, frozenset[str]], bool] = {}
    for uid, operation, detail in decided.values_list("object_id", "operation", "detail"):
        for pair in detail["pairs"]:
            pairs[(uid, frozenset(pair))] = operation == _APART
    return {pair for (_, pair), holds in pairs.items() if holds}

"""What people decided about memories that look like duplicates: these are none."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import combinations

from memoryhub.models import Memory
from memoryhub.sensitivity import Actor, Clearance, higher
from memoryhub.store.errors import Conflict, NotFound
from memoryhub.store.merging import refuse_elsewhere
from memoryhub.store.pairs import Decisions
from memoryhub.store.rows import pick
from memoryhub.transactions import write

MOST = 100  # memories that are told apart at once: a row for each pair of them
UNDO_APART = "undo_not_duplicates"
_APART = Decisions("memories", "not_duplicates", UNDO_APART)


def not_duplicates(uids: Iterable[str], actor: Actor, now: datetime | None = None) -> str:
    """Remember that these memories are no duplicates of each other; returns the id of that decision."""
    with write():
        wanted = list(dict.fromkeys(uids))
        if not 2 <= len(wanted) <= MOST:
            raise Conflict(f"name 2 to {MOST} memories", "others")
        memories = pick(Memory.objects.visible_to(actor.clearance), wanted)
        if len(memories) < len(wanted):
            raise NotFound("one of these memories is not there; look at them again", "others")
        refuse_elsewhere(memories[0], memories[1:])
        pairs = (
            ((one.project, higher(one.sensitivity, other.sensitivity), one.owner), (one.uid, other.uid))
            for one, other in combinations(memories, 2)
        )
        return _APART.write_down(pairs, actor, now)


def undo_not_duplicates(decision: str, actor: Actor, now: datetime | None = None) -> None:
    """Take back :func:`not_duplicates`; NotFound when there is no such decision, or it is taken back."""
    _APART.take_back(decision, actor, now)


def apart(clearance: Clearance) -> set[frozenset[str]]:
    """The pairs of ids that somebody said are no duplicates, as far as this clearance knows of both."""
    return _APART.holding(clearance)

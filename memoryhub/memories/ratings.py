"""Ratings: a person says whether a memory helped when it was last shown, and their undo.

The entry of the memory in the injection log has the rating, the id of the action, and the outcome that it
replaced. The counts of the memory always include a rating, because it is about the memory itself.
"""

from __future__ import annotations

from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.memories.errors import Conflict
from memoryhub.memories.update import count_outcomes
from memoryhub.models import Injection, Memory

RATED = "rated"
OUTCOME_FIELDS = ("used", "why", "counted", "rating", "replaced")


def rate_memory(memory: Memory, action: str, actor: Actor, *, useful: bool) -> bool:
    """Rate a memory as shown by the last injection that the actor may see; False if it was rated so.

    Call this inside a transaction. Raise :class:`Conflict` if the memory was never shown.
    """
    row, entry = _find_entry(memory, Injection.objects.visible_to(actor.clearance), memory.uid)
    if row is None:
        raise Conflict("it was not shown to an agent yet, so there is nothing to rate", "useful")
    if entry.get("why") == RATED and entry["used"] == useful:
        return False
    was = {name: entry.pop(name) for name in OUTCOME_FIELDS if name in entry}
    entry |= {"used": useful, "why": RATED, "counted": True, "rating": action, "replaced": was}
    _save(row, memory, was, entry)
    return True


def undo_rating(memory: Memory, action: str) -> None:
    """Restore the outcome from before a rating. Raise :class:`Conflict` if it was rated again since."""
    row, entry = _find_entry(memory, Injection.objects.all(), action)
    if row is None or entry.get("rating") != action:
        raise Conflict("it was rated again since, or the log of that injection was pruned")
    rating = {name: entry.pop(name) for name in OUTCOME_FIELDS if name in entry}
    entry |= rating["replaced"]
    _save(row, memory, rating, entry)


def _find_entry(memory: Memory, rows: Any, text: str) -> tuple[Injection | None, dict[str, Any]]:
    """Return the last of these injections whose log contains the text, and the entry of the memory in it."""
    for row in rows.filter(injected__icontains=text).order_by("-at", "-pk")[:1]:
        for entry in row.injected:
            if entry["id"] == memory.uid:
                return row, entry
    return None, {}


def _save(row: Injection, memory: Memory, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Save the changed entry, and change the counts by the difference of the outcomes."""
    if any("used" not in one for one in row.injected):
        row.helped = None  # the others are decided from the events
    elif row.helped is not None:
        row.helped = any(one["used"] for one in row.injected)
    row.save(update_fields=["injected", "helped"])
    shown = after.get("counted", False) - before.get("counted", False)
    helped = _helps(after) - _helps(before)
    count_outcomes({memory.pk: (shown, helped)})
    memory.refresh_from_db(fields=["shown_count", "helped_count"])


def _helps(outcome: dict[str, Any]) -> int:
    return int(outcome.get("counted", False) and outcome["used"])

"""What a reviewer should look at: flags that the hub itself raises on memories, as short words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.utils import timezone

from memoryhub import journal
from memoryhub.models import Memory
from memoryhub.querysets import unapproved
from memoryhub.sensitivity import Actor
from memoryhub.store.rows import pick
from memoryhub.transactions import write

GOVERNOR = "governor"


def flag(found: Mapping[str, Iterable[str]], actor: Actor, now: datetime | None = None) -> list[Memory]:
    """Raise flags on memories, given by their ids; returns those that did not have them all.

    Not on what lies in the trash, and not on what somebody has approved of and that says the same since: a
    person's word stands. ``updated_at`` stays as it is. One journal row each.
    """
    if not found:
        return []
    changes, flagged = [], []
    with write():
        reachable = Memory.objects.visible_to(actor.clearance).filter(unapproved(), deleted_at__isnull=True)
        for memory in pick(reachable, list(found)):
            raised = memory.flags if isinstance(memory.flags, list) else []
            more = sorted(set(found[memory.uid]) - set(raised))
            if more:
                memory.flags = [*raised, *more]
                memory.save(update_fields=["flags"])
                flagged.append(memory)
                changes.append(journal.of_memory("flag", memory, flags=more))
        journal.record(actor, changes, now or timezone.now())
    return flagged

"""Memories that a person should review: new to them, unsure, flagged by the prompt injection detector, or
perhaps outdated.

A memory waits until someone approves it, and again after a change. One that may be outdated waits until its
mark is gone. All functions narrow a queryset of rows
that the caller can see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from memoryhub.models.querysets import MemoryQuerySet, unapproved_filter
from memoryhub.stats.counts import count_each

NEW, UNSURE, FLAGGED, OUTDATED = "new", "unsure", "flagged", "outdated"
REASONS = (NEW, UNSURE, FLAGGED, OUTDATED)
UNSURE_BELOW = 0.4  # confidence; the default is 0.5
ALL_REASONS = "all"

# New memories are ordered by arrival, not by date of creation.
_ORDERS: Mapping[str, tuple[str, ...]] = {
    NEW: ("-pk",),
    UNSURE: ("confidence", "-pk"),
    FLAGGED: ("-updated_at", "-pk"),
    OUTDATED: ("-outdated_at", "-pk"),
}


@dataclass(frozen=True)
class Reviewer:
    """A reader. ``name``: as stored as author; ``since``: when they last marked everything as seen."""

    name: str
    since: datetime


def reason_condition(reason: str, reader: Reviewer) -> Q:
    """Return the condition on memories that wait for one of :data:`REASONS`; KeyError for other names.

    New memories were stored or imported by others since the reviewer last looked.
    """
    return _CONDITIONS[reason](reader)


def _new_condition(reader: Reviewer) -> Q:
    created, imported = _new_conditions(reader)
    return (created | imported) & ~Q(author=reader.name) & unapproved_filter()


# Each is built only if it is needed: the subquery of unapproved_filter costs more than counting few rows.
_CONDITIONS: Mapping[str, Callable[[Reviewer], Q]] = {
    NEW: _new_condition,
    UNSURE: lambda reader: Q(confidence__lt=UNSURE_BELOW) & unapproved_filter(),
    FLAGGED: lambda reader: ~Q(flags=[]) & unapproved_filter(),
    OUTDATED: lambda reader: Q(outdated_at__isnull=False),
}


def _new_conditions(reader: Reviewer) -> tuple[Q, Q]:
    """Conditions on memories created, and imported, since the reviewer last looked."""
    return Q(created_at__gt=reader.since), Q(imported_at__gt=reader.since)


def select_queue(live: MemoryQuerySet, reason: str, reader: Reviewer) -> MemoryQuerySet:
    """Return the live memories that wait for this reason, in review order. Lazy."""
    return live.filter(reason_condition(reason, reader)).order_by(*_ORDERS[reason])


def count_by_reason(live: MemoryQuerySet, reader: Reviewer) -> dict[str, int]:
    """Count the live memories of each reason, and of any as :data:`ALL_REASONS`, in one statement.

    Each reason alone has a small index; all of them combined have none.
    """
    new, unsure, flagged, outdated = (reason_condition(reason, reader) for reason in REASONS)
    found = count_each(
        new=live.filter(new),
        unsure=live.filter(unsure),
        flagged=live.filter(flagged),
        outdated=live.filter(outdated),
        unsure_only=live.filter(unsure).exclude(new),
        flagged_only=live.filter(flagged).exclude(new | unsure),
        outdated_only=live.filter(outdated).exclude(new | unsure | flagged),
    )
    return {
        **{reason: found[reason] for reason in REASONS},
        ALL_REASONS: found[NEW] + sum(found[f"{one}_only"] for one in REASONS[1:]),
    }


def count_waiting(
    live: MemoryQuerySet, reader: Reviewer, most: int, for_approval: MemoryQuerySet | None = None
) -> int:
    """Count the live memories that wait for any reason, and those for approval, up to ``most``.

    Each condition alone has a small index; all conditions combined have none.
    """
    created, imported = _new_conditions(reader)
    new = live.filter(reason_condition(NEW, reader))
    each = (
        new.filter(created),
        new.filter(imported),
        select_queue(live, UNSURE, reader),
        select_queue(live, FLAGGED, reader),
        select_queue(live, OUTDATED, reader),
        *([] if for_approval is None else [for_approval]),
    )
    pks = [rows.order_by().values_list("pk", flat=True) for rows in each]
    # Each memory occurs at most once per condition, so these rows are at least ``most`` memories.
    rows = pks[0].union(*pks[1:], all=True)[: most * len(pks)]
    return min(len(set(rows)), most)

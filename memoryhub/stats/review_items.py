"""What a person should look at: memories that are new to them, that are unsure, or that the governor flagged.

A memory waits until somebody has approved of it, and again when it was changed since. Every queryset here
narrows one that the caller has gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q

from memoryhub.models.querysets import MemoryQuerySet, unapproved_filter

NEW, UNSURE, FLAGGED = "new", "unsure", "flagged"
REASONS = (NEW, UNSURE, FLAGGED)
UNSURE_BELOW = 0.4  # confidence; what nobody gave one has 0.5
DEFAULT_NEW_DAYS = 14  # what counts as new to somebody who has never looked
ALL_REASONS = "all"

# Within a list; new ones in the order in which they arrived, whenever it was that they were made.
_ORDERS: Mapping[str, tuple[str, ...]] = {
    NEW: ("-pk",),
    UNSURE: ("confidence", "-pk"),
    FLAGGED: ("-updated_at", "-pk"),
}


@dataclass(frozen=True)
class Reviewer:
    """Who looks. ``name``: as the store writes it down as an author; ``since``: when they last looked."""

    name: str
    since: datetime

    @classmethod
    def of(cls, name: str, looked_at: datetime | None, now: datetime) -> Reviewer:
        return cls(name, looked_at or now - timedelta(days=DEFAULT_NEW_DAYS))


def reason_condition(reason: str, reader: Reviewer) -> Q:
    """The condition on memories that wait for one of :data:`REASONS`; KeyError for another word.

    New is what others stored or brought in since the reader looked.
    """
    made, brought = _new_conditions(reader)
    return {
        NEW: (made | brought) & ~Q(author=reader.name) & unapproved_filter(),
        UNSURE: Q(confidence__lt=UNSURE_BELOW) & unapproved_filter(),
        FLAGGED: ~Q(flags=[]) & unapproved_filter(),
    }[reason]


def _new_conditions(reader: Reviewer) -> tuple[Q, Q]:
    """Stored, or brought in, since the reader looked."""
    return Q(created_at__gt=reader.since), Q(imported_at__gt=reader.since)


def select_queue(live: MemoryQuerySet, reason: str, reader: Reviewer) -> MemoryQuerySet:
    """Gated, live memories that wait for this reason, in the order in which they are looked at. Lazy."""
    return live.filter(reason_condition(reason, reader)).order_by(*_ORDERS[reason])


def count_by_reason(live: MemoryQuerySet, reader: Reviewer) -> dict[str, int]:
    """How many wait for each reason, and as :data:`ALL` for any: one pass over gated, live memories."""
    conditions = {reason: reason_condition(reason, reader) for reason in REASONS}
    some = Q()
    for condition in conditions.values():
        some |= condition
    numbers = {reason: Count("pk", filter=condition) for reason, condition in conditions.items()}
    found: dict[str, int] = live.order_by().aggregate(**numbers, **{ALL_REASONS: Count("pk", filter=some)})
    return found


def count_waiting(live: MemoryQuerySet, reader: Reviewer, most: int) -> int:
    """How many of gated, live memories wait for any reason, counted no further than to ``most``.

    Each condition by itself has an index that holds few rows but what waits; all of them together have none.
    """
    made, brought = _new_conditions(reader)
    new = live.filter(reason_condition(NEW, reader))
    each = (
        new.filter(made),
        new.filter(brought),
        select_queue(live, UNSURE, reader),
        select_queue(live, FLAGGED, reader),
    )
    pks = [rows.order_by().values_list("pk", flat=True) for rows in each]
    # A memory is met once for each condition at most: so many rows are ``most`` memories or more.
    rows = pks[0].union(*pks[1:], all=True)[: most * len(pks)]
    return min(len(set(rows)), most)

"""Whether anything happened at all: what stands still in the whole store need not be looked at again."""

from __future__ import annotations

from django.db.models import Max

from memoryhub.models import Event, Injection, JournalEntry, Session


def stamp() -> str:
    """Another text after each change; four look-ups at the ends of indexes.

    It tells of every project and level, so it stays on this side: nothing shown may be made of it.
    """
    ends = (
        JournalEntry.objects.aggregate(end=Max("seq")),
        Event.objects.aggregate(end=Max("pk")),
        Injection.objects.aggregate(end=Max("pk")),
        Session.objects.aggregate(end=Max("last_at")),
    )
    return "/".join(str(one["end"]) for one in ends)

"""A new lease for what is used: access renews the time of an important memory (Memory MCP)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from django.db.models import Case, Value, When
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.store.rows import expiry
from memoryhub.transactions import write


def renew(uids: Iterable[str], least: float, now: datetime | None = None) -> dict[str, datetime]:
    """Let the time of live memories of this importance or more begin anew; returns when each expires now.

    For memories that the caller has found behind the gate. Those that never expire, or would expire sooner,
    are left alone. Not journaled, and ``updated_at`` stays: reading is not writing.
    """
    now = now or timezone.now()
    live = Memory.objects.live(now).filter(uid__in=list(uids), importance__gte=least)
    renewed: dict[str, datetime] = {}
    by_end: dict[datetime, list[int]] = defaultdict(list)
    for memory in live.filter(expires_at__isnull=False).only("pk", "uid", "ttl_days", "expires_at"):
        end = expiry(memory.ttl_days, now.replace(microsecond=0))
        if end and memory.expires_at and end > memory.expires_at:
            by_end[end].append(memory.pk)
            renewed[memory.uid] = end
    if renewed:
        ends = Case(*(When(pk__in=keys, then=Value(end)) for end, keys in by_end.items()))
        with write():
            # Not what ended meanwhile, or was given a later time.
            live.filter(uid__in=list(renewed), expires_at__lt=ends).update(expires_at=ends)
    return renewed

"""``purge_expired``: what is past its time is removed for good, a journal row each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models.functions import Length
from pydantic import Field

from memoryhub.lifecycle.plan import (
    Change,
    OnProject,
    Operation,
    Pace,
    Planned,
    Step,
    count,
    walk,
    weight_of,
)
from memoryhub.querysets import MemoryQuerySet
from memoryhub.sensitivity import Actor
from memoryhub.store import removal


class Purging(OnProject):
    grace_days: float = Field(
        default=0, ge=0, le=36_500, description="Spare what expired more recently than this, days."
    )


class PurgeExpired(Operation[Purging]):
    name = "purge_expired"
    label = "Purge expired"
    help = (
        "Removes memories for good whose time is over. The daily run spares those that expired in the last "
        "days (expiry_grace_days), so that they can still be revived. It cannot be undone."
    )
    Params = Purging

    def total(self, params: Purging, actor: Actor, now: datetime) -> int:
        return _purgeable(params, actor, now).count()

    def steps(
        self, params: Purging, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        purgeable = _purgeable(params, actor, now)

        def plan(page: list[Any]) -> Planned:
            changes = {pk: Change("purge", uid, reason=_reason(end, now)) for pk, uid, end, _ in page}

            def commit(run_uid: str) -> tuple[Change, ...]:
                gone = removal.remove(purgeable.filter(pk__in=list(changes)), actor, "purge", now)
                uids = {memory.uid for memory in gone}
                return tuple(change for change in changes.values() if change.uid in uids)

            return list(changes.values()), commit

        columns = ("pk", "uid", "expires_at", "size")
        sized, pace = purgeable.annotate(size=Length("content")), Pace(20, 500, least=8)
        yield from walk(sized, columns, plan, position or {}, pace, lambda row: weight_of(row[-1]))


def _purgeable(params: Purging, actor: Actor, now: datetime) -> MemoryQuerySet:
    return params.within(removal.purgeable(actor, params.grace_days, now))


def _reason(end: datetime, now: datetime) -> str:
    days = int((now - end) / timedelta(days=1))
    return f"expired {count(days, 'day')} ago" if days else "expired today"

"""Permanently delete expired memories, the trash and old session events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Length
from pydantic import Field

from memoryhub import backends
from memoryhub.access.policy import LEVELS, Actor
from memoryhub.audit import clock
from memoryhub.backends import schema
from memoryhub.core.database import write_transaction
from memoryhub.core.text import format_count
from memoryhub.maintenance.operations.base import (
    CHARS_PER_WEIGHT,
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    chore_steps,
    steps_by_page,
)
from memoryhub.memories import delete
from memoryhub.memories.undo import record_action
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet


class PurgeParams(ProjectParams):
    grace_days: float = Field(
        default=0, ge=0, le=36_500, description="Keep memories that expired within this number of days."
    )


class PurgeExpired(Operation[PurgeParams]):
    name = "purge_expired"
    label = "Purge expired"
    depends_on_age = True
    help = (
        "Permanently deletes expired memories. The daily run keeps those that expired in the last days "
        "(expiry_grace_days), so that they can still be restored. It cannot be undone."
    )
    Params = PurgeParams

    def total(self, params: PurgeParams, actor: Actor, now: datetime) -> int:
        return _purgeable(params, actor, now).count()

    def steps(
        self, params: PurgeParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        def reason(expired_at: datetime) -> str:
            days = (now - expired_at).days
            return f"expired {format_count(days, 'day')} ago" if days else "expired today"

        rows = _purgeable(params, actor, now)
        yield from deletion_steps("purge", rows, ("expires_at",), reason, position or {}, actor, now)


def _purgeable(params: PurgeParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    return params.in_project(delete.purgeable_memories(actor, params.grace_days, now))


def deletion_steps(
    action: str,
    rows: MemoryQuerySet,
    columns: tuple[str, ...],
    reason: Callable[..., str],
    position: dict[str, Any],
    actor: Actor,
    now: datetime,
) -> Iterator[Step]:
    """Yield steps that delete memories permanently. ``reason`` gets the values of ``columns``."""

    def plan(page: list[Any]) -> PagePlan:
        changes = {pk: Change(action, uid, reason=reason(*values)) for pk, uid, _, *values in page}

        def commit(run_uid: str) -> tuple[Change, ...]:
            deleted = delete.delete_memories(rows.filter(pk__in=list(changes)), actor, action, now)
            uids = {memory.uid for memory in deleted}
            return tuple(change for change in changes.values() if change.uid in uids)

        return list(changes.values()), commit

    def weigh(row: Any) -> float:
        return 1 + float(row[2]) / CHARS_PER_WEIGHT

    sized = rows.annotate(size=Length("content"))
    columns = ("pk", "uid", "size", *columns)
    yield from steps_by_page(sized, columns, plan, position, Pace(20, 500, min_size=8), weigh)


class PruneParams(ProjectParams):
    older_than_days: float | None = Field(
        default=None,
        gt=0,
        le=36_500,
        description="Age of the events, in days. Default: event_retention_days.",
    )


class PruneEvents(Operation[PruneParams]):
    name = "prune_events"
    label = "Prune events"
    depends_on_age = True
    help = (
        "Permanently deletes old events and injections, and sessions that are empty then. They are old "
        "after event_retention_days. Memories stay. It cannot be undone."
    )
    Params = PruneParams

    def total(self, params: PruneParams, actor: Actor, now: datetime) -> int:
        return sum(rows.count() for _, rows in _prunable_rows(params, actor, now))

    def steps(
        self, params: PruneParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {}
        kinds = _prunable_rows(params, actor, now)
        names = [name for name, _ in kinds]
        start = names.index(position["kind"]) if position.get("kind") in names else 0
        for name, rows in kinds[start:]:
            after = position.get("after", 0) if position.get("kind") == name else 0
            yield from _prune_steps(name, rows, {"kind": name, "after": after}, actor, now)


def _prunable_rows(params: PruneParams, actor: Actor, now: datetime) -> list[tuple[str, QuerySet[Any]]]:
    days = params.older_than_days
    if days is None:
        days = settings.MEMORYHUB.event_retention_days
    if not days:
        return []
    spared_since = clock.removal_limit(settings.MEMORYHUB.expiry_grace_days, now)
    before, clearance = min(now - timedelta(days=days), spared_since), actor.clearance
    events = Event.objects.visible_to(clearance).filter(at__lt=before)
    if params.project is not None:
        events = events.filter(session__project=params.project)
    injections = params.in_project(Injection.objects.visible_to(clearance).filter(at__lt=before))
    sessions = _old_sessions(params, actor, before).exclude(_still_in_use(events, injections))
    return [("event", events), ("injection", injections), ("session", sessions)]


def _old_sessions(params: PruneParams, actor: Actor, before: datetime) -> QuerySet[Session]:
    sessions = Session.objects.filter(last_at__lt=before)
    if actor.clearance.projects is not None:
        sessions = sessions.filter(project__in=sorted(actor.clearance.projects))
    return params.in_project(sessions)


def _still_in_use(events: QuerySet[Any], injections: QuerySet[Any]) -> Combinable | Q:
    """Whether a session still has events, injections or memories after these rows are deleted."""
    session = OuterRef("pk")
    left_events = Event.objects.filter(session=session).exclude(pk__in=events.values("pk"))
    left_injections = Injection.objects.filter(session=session).exclude(pk__in=injections.values("pk"))
    memories = Memory.objects.in_session(OuterRef("session_id"), project=OuterRef("project"))
    return Exists(left_events) | Exists(left_injections) | Exists(memories)


_COLUMNS = {
    "event": ("pk", "at", "session__project", "sensitivity"),
    "injection": ("pk", "at", "project", "sensitivity"),
    "session": ("pk", "last_at", "project"),
}


def _prune_steps(
    name: str, rows: QuerySet[Any], position: dict[str, Any], actor: Actor, now: datetime
) -> Iterator[Step]:
    def plan(page: list[Any]) -> PagePlan:
        change = _prune_change(name, [at for _, at, *_ in page])

        def commit(run_uid: str) -> tuple[Change, ...]:
            with write_transaction():
                current = list(rows.filter(pk__in=[row[0] for row in page]).values_list(*_COLUMNS[name]))
                rows.model.objects.filter(pk__in=[row[0] for row in current]).delete()
                deleted = Counter((row[2], row[3] if len(row) > 3 else LEVELS[0], "") for row in current)
                details = {access: {f"{name}s": n} for access, n in deleted.items()}
                record_action("prune", run_uid, details, actor, now, about=f"{name}s")
            return (_prune_change(name, [row[1] for row in current]),) if current else ()

        return [change], commit

    yield from steps_by_page(rows, _COLUMNS[name], plan, position)


def _prune_change(name: str, times: list[datetime]) -> Change:
    first, last = f"{min(times):%Y-%m-%d}", f"{max(times):%Y-%m-%d}"
    span = f"of {first}" if first == last else f"from {first} to {last}"
    return Change("prune", reason=f"{format_count(len(times), name)} {span}", count=len(times))


class EmptyTrashParams(ProjectParams):
    older_than_days: float = Field(
        default=0, ge=0, le=36_500, description="Keep memories that were trashed within this number of days."
    )
    compact: bool = Field(
        default=False, description="Rewrite the whole file at the end. Writes wait a few seconds."
    )


class EmptyTrash(Operation[EmptyTrashParams]):
    name = "empty_trash"
    label = "Empty the trash"
    depends_on_age = True
    help = (
        "Permanently deletes the memories in the trash. Rows, words in the indexes and bytes in the file "
        "are gone. It cannot be undone. The file keeps its size; the freed space contains zeros and is "
        "used again. With “compact” the whole file is rewritten at the end. This makes it smaller and "
        "removes copies that an earlier reordering of pages may have left behind, but writers wait for "
        "seconds in a large store."
    )
    Params = EmptyTrashParams

    def total(self, params: EmptyTrashParams, actor: Actor, now: datetime) -> int:
        return _trashed(params, actor, now).count()

    def steps(
        self, params: EmptyTrashParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        def reason(since: datetime, trash_reason: str) -> str:
            days = (now - since).days
            when = f"{format_count(days, 'day')} ago" if days else "today"
            return f"{trash_reason or 'in the trash'}, {when}"

        position = position or {"phase": "erase"}
        if position["phase"] == "erase":
            erased = 0
            rows, columns = _trashed(params, actor, now), ("deleted_at", "trash_reason")
            for step in deletion_steps("erase", rows, columns, reason, position, actor, now):
                yield step
                erased += len(step.applied)
            if not erased and not position.get("after"):
                return
        yield from _cleanup_steps(params)


def _trashed(params: EmptyTrashParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    trashed = Memory.objects.visible_to(actor.clearance).trashed()
    return params.in_project(trashed.filter(deleted_at__lte=now - timedelta(days=params.older_than_days)))


def _cleanup_steps(params: EmptyTrashParams) -> Iterator[Step]:
    """Yield chores. A resumed run repeats them all; finished ones find nothing to do."""
    position = {"phase": "clean"}
    for table in backends.INDEXES:

        def merge(pages: int, is_first: bool, table: str = table) -> bool:
            return schema.merge_step(table, pages, begin=is_first)

        yield from chore_steps(merge, Pace(50, 2000, min_size=16), position)
    if params.compact:
        yield Step((), position, 0, _rewrite_file, chore=True)
    else:
        # After the transaction, or threads of this process would wait until the log is on disk.
        yield Step((), position, 0, chore=True, afterwards=schema.truncate_log)


def _rewrite_file(run_uid: str) -> tuple[Change, ...]:
    with write_transaction():
        schema.begin_erase()
        schema.scrub_erased()
    return ()

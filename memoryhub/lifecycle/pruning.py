"""``prune_events``: what happened in sessions long ago, and what was injected then, is removed for good.

A session goes with its last event, unless memories were stored in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import Combinable
from pydantic import Field

from memoryhub.lifecycle.plan import Change, OnProject, Operation, Planned, Step, count, walk
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.sensitivity import LEVELS, Actor
from memoryhub.store import upkeep
from memoryhub.transactions import write


class Pruning(OnProject):
    older_than_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Of events; event_retention_days when it is absent."
    )


class PruneEvents(Operation[Pruning]):
    name = "prune_events"
    label = "Prune events"
    help = (
        "Removes events and injections older than event_retention_days for good, and sessions of which "
        "nothing is left. Memories stay. It cannot be undone."
    )
    Params = Pruning

    def total(self, params: Pruning, actor: Actor, now: datetime) -> int:
        return sum(rows.count() for _, rows in _kinds(params, actor, now))

    def steps(
        self, params: Pruning, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {}
        names = [name for name, _ in _kinds(params, actor, now)]
        start = names.index(position["kind"]) if position.get("kind") in names else 0
        for name, rows in _kinds(params, actor, now)[start:]:
            after = position.get("after", 0) if position.get("kind") == name else 0
            yield from _steps(name, rows, {"kind": name, "after": after}, actor, now)


def _kinds(params: Pruning, actor: Actor, now: datetime) -> list[tuple[str, QuerySet[Any]]]:
    given = params.older_than_days
    days = settings.MEMORYHUB.event_retention_days if given is None else given
    if not days:
        return []
    before, clearance = now - timedelta(days=days), actor.clearance
    events = Event.objects.visible_to(clearance).filter(at__lt=before)
    if params.project is not None:
        events = events.filter(session__project=params.project)
    injections = params.within(Injection.objects.visible_to(clearance).filter(at__lt=before))
    kept = _sessions(params, actor, before).exclude(_holds(events, injections))
    return [("event", events), ("injection", injections), ("session", kept)]


def _sessions(params: Pruning, actor: Actor, before: datetime) -> QuerySet[Session]:
    sessions = Session.objects.filter(last_at__lt=before)
    if actor.clearance.projects is not None:
        sessions = sessions.filter(project__in=sorted(actor.clearance.projects))
    return params.within(sessions)


def _holds(events: QuerySet[Any], injections: QuerySet[Any]) -> Combinable | Q:
    """Whether something stays in a session, be it visible or not, once these are gone."""
    stored = Memory.objects.in_session(OuterRef("session_id"), project=OuterRef("project"))
    of_session = {"session": OuterRef("pk")}
    event = Event.objects.filter(**of_session).exclude(pk__in=events.values("pk"))
    injection = Injection.objects.filter(**of_session).exclude(pk__in=injections.values("pk"))
    return Exists(event) | Exists(injection) | Exists(stored)


_COLUMNS = {
    "event": ("pk", "at", "session__project", "sensitivity"),
    "injection": ("pk", "at", "project", "sensitivity"),
    "session": ("pk", "last_at", "project"),
}


def _steps(
    name: str, rows: QuerySet[Any], position: dict[str, Any], actor: Actor, now: datetime
) -> Iterator[Step]:
    def plan(page: list[Any]) -> Planned:
        change = _change(name, [at for _, at, *_ in page])

        def commit(run_uid: str) -> tuple[Change, ...]:
            with write():
                there = list(rows.filter(pk__in=[row[0] for row in page]).values_list(*_COLUMNS[name]))
                rows.model.objects.filter(pk__in=[row[0] for row in there]).delete()
                gone = Counter((row[2], row[3] if len(row) > 3 else LEVELS[0], "") for row in there)
                details = {gate: {f"{name}s": n} for gate, n in gone.items()}
                upkeep.note("prune", run_uid, details, actor, now, about=f"{name}s")
            return (_change(name, [row[1] for row in there]),) if there else ()

        return [change], commit

    yield from walk(rows, _COLUMNS[name], plan, position)


def _change(name: str, moments: list[datetime]) -> Change:
    """Events have no ids that anyone knows: they are counted."""
    first, last = f"{min(moments):%Y-%m-%d}", f"{max(moments):%Y-%m-%d}"
    span = f"of {first}" if first == last else f"from {first} to {last}"
    return Change("prune", reason=f"{count(len(moments), name)} {span}", count=len(moments))

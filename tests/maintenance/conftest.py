"""Fixtures for maintenance operations: old memories, dry runs, runs and undo."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.maintenance.operations import OPERATIONS, run_now
from memoryhub.maintenance.operations.base import Change
from memoryhub.models import JournalEntry, Memory

DAY = timedelta(days=1)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def aged(remember: Callable[..., Memory], now: datetime) -> Callable[..., Memory]:
    """``aged("text", days=40, accesses=2)``: a memory with this age and accesses that never expires."""

    def make(content: str, days: float = 0, accesses: int = 0, **fields: Any) -> Memory:
        given = {"created_at": now - days * DAY, "ttl_days": None, **fields}
        memory = remember(content, **given)
        if accesses:
            Memory.objects.filter(pk=memory.pk).update(accessed_count=accesses, last_accessed_at=now)
        return memory

    return make


@pytest.fixture
def planned(actor: Actor, now: datetime) -> Callable[..., list[Change]]:
    """``planned("evict", project="p")``: return the changes that a dry run lists."""

    def plan(
        name: str, *, by: Actor | None = None, at: datetime | None = None, **params: Any
    ) -> list[Change]:
        operation = OPERATIONS[name]
        steps = operation.steps(operation.Params(**params), by or actor, at or now)
        return [change for step in steps for change in step.changes]

    return plan


@pytest.fixture
def run(actor: Actor, now: datetime) -> Callable[..., list[Change]]:
    """``run("evict")`` applies all steps and returns the changes made; the id of the run is ``run``."""

    def go(
        name: str, *, by: Actor | None = None, at: datetime | None = None, uid: str = "run", **params: Any
    ) -> list[Change]:
        operation, done = OPERATIONS[name], []
        for step in operation.steps(operation.Params(**params), by or actor, at or now):
            step.apply(uid)
            done += step.applied
        return done

    return go


@pytest.fixture
def undo(actor: Actor, now: datetime) -> Callable[..., int]:
    """``undo("evict")`` undoes the run with the id ``run`` and returns the number of restored memories."""

    def back(name: str, *, by: Actor | None = None, uid: str = "run") -> int:
        return sum(OPERATIONS[name].undo(uid, by or actor, now))

    return back


def whole_store() -> tuple[list[Any], int]:
    """Return everything that an operation could change."""
    return list(Memory.objects.order_by("pk").values()), JournalEntry.objects.count()


__all__ = ["DAY", "run_now", "whole_store"]

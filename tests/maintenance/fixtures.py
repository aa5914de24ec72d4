"""A test operation that raises the importance of each memory by 0.1 and can be intercepted between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.maintenance import executor, operations
from memoryhub.maintenance.operations.base import Change, Operation, ProjectParams, Refusals, Step
from memoryhub.models import MaintenanceRun, Memory


class Lifting(Operation[ProjectParams]):
    """Calls ``before`` with the number of changed memories before each step."""

    name = "lift"
    label = "Lift"
    help = "Lifts."
    inverse_records = ("lift",)
    Params = ProjectParams

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.before: Callable[[int], Any] = lambda number: None

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return self._reached(params, actor).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        after, number = (position or {}).get("after", 0), 0
        while page := list(
            self._reached(params, actor).filter(pk__gt=after).order_by("pk")[: self.size].values("pk", "uid")
        ):
            after = page[-1]["pk"]
            changes = tuple(Change("boost", row["uid"], 0.5, 0.6, "lifted") for row in page)
            self.before(number)
            yield Step(changes, {"after": after}, len(page), self._commit(page, changes))
            number += len(page)

    def _commit(
        self, page: list[dict[str, Any]], changes: tuple[Change, ...]
    ) -> Callable[[str], tuple[Change, ...]]:
        def commit(run_uid: str) -> tuple[Change, ...]:
            Memory.objects.filter(pk__in=[row["pk"] for row in page]).update(importance=F("importance") + 0.1)
            return changes

        return commit

    def undo(
        self, run_uid: str, actor: Actor, now: datetime | None = None, *, refused: Refusals | None = None
    ) -> Iterator[int]:
        for memory in Memory.objects.visible_to(actor.clearance).filter(importance__gt=0.55):
            Memory.objects.filter(pk=memory.pk).update(importance=0.5)
            yield 1

    def _reached(self, params: ProjectParams, actor: Actor) -> Any:
        live = Memory.objects.visible_to(actor.clearance).live()
        return live if params.project is None else live.filter(project=params.project)


@pytest.fixture
def lifting(monkeypatch: pytest.MonkeyPatch) -> Lifting:
    """The operation, registered under the name ``lift``."""
    operation = Lifting()
    monkeypatch.setitem(operations.OPERATIONS, operation.name, operation)
    return operation


@pytest.fixture
def five(remember: Callable[..., Memory], lifting: Lifting) -> list[Memory]:
    """Five memories for the operation ``lift``."""
    return [remember(f"memory {n}", project="p") for n in range(5)]


def importances() -> list[float]:
    return [round(value, 2) for value in Memory.objects.order_by("pk").values_list("importance", flat=True)]


def execute_run(run: MaintenanceRun) -> MaintenanceRun:
    """Execute a run, which must succeed, and return it."""
    assert executor.execute(run)
    assert run.status == MaintenanceRun.Status.DONE, run.error
    return run


def seconds_ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)

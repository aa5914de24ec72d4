"""The maintenance operation that runs the memory checks: daily, and after runs that changed memories."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor, system_actor
from memoryhub.checks.evaluation import OWNER_LEFT, find_failures, run_clearance, store_result
from memoryhub.checks.services import visible_checks
from memoryhub.maintenance import operations, runs
from memoryhub.maintenance.operations.base import Operation, ProjectParams, Step
from memoryhub.models import MemoryCheck
from memoryhub.models.querysets import AccessQuerySet

CHECKS_ACTOR = system_actor("checks")


class RunChecks(Operation[ProjectParams]):
    name = operations.MEMORY_CHECKS
    label = "Run memory checks"
    help = (
        "Runs the checks of what prompts must bring and must never bring. Failures are listed on the"
        " page of the checks and on Home. Memories do not change, so there is nothing to undo."
    )
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return self._checks(params, actor).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        """Yield a step for each check. It is run here, before the transaction that stores its result."""
        after = (position or {}).get("after", 0)
        for check in self._checks(params, actor).filter(pk__gt=after).order_by("pk"):
            clearance = run_clearance(check)
            failures = [{"rule": OWNER_LEFT}] if clearance is None else find_failures(check, clearance, now)

            def commit(run_uid: str, check: MemoryCheck = check, found: Any = failures) -> tuple[()]:
                store_result(check, found, now)
                return ()

            yield Step((), {"after": check.pk}, 1, commit, chore=True)

    def _checks(self, params: ProjectParams, actor: Actor) -> AccessQuerySet:
        return params.in_project(visible_checks(actor.clearance).filter(enabled=True))


MEMORY_CHECKS = RunChecks()


def enqueue_checks() -> None:
    """Queue a run of all checks, unless one is waiting or there are none."""
    if MemoryCheck.objects.filter(enabled=True).exists():
        runs.enqueue(MEMORY_CHECKS, {}, CHECKS_ACTOR, may_wait=True)

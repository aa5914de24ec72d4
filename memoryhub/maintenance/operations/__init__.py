"""The maintenance operations by their names in the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from memoryhub.access.policy import Actor
from memoryhub.audit import clock
from memoryhub.maintenance.operations.base import Operation
from memoryhub.maintenance.operations.compress import Compress
from memoryhub.maintenance.operations.consolidate import Consolidate
from memoryhub.maintenance.operations.evict import Evict
from memoryhub.maintenance.operations.purge import EmptyTrash, PruneEvents, PurgeExpired
from memoryhub.maintenance.operations.reindex import Embed, Reindex
from memoryhub.maintenance.operations.summarize_old import SummarizeOld
from memoryhub.memories.errors import Conflict

_BUILT_IN: tuple[Operation[Any], ...] = (
    PurgeExpired(),
    PruneEvents(),
    Consolidate(),
    Compress(),
    SummarizeOld(),
    Evict(),
    EmptyTrash(),
    Reindex(),
    Embed(),
)
OPERATIONS: dict[str, Operation[Any]] = {operation.name: operation for operation in _BUILT_IN}
MEMORY_CHECKS, SEND_DIGESTS = "memory_checks", "send_digests"  # registered by higher layers
USES_LOCAL_FILES = frozenset({"import"})
_registered: dict[str, str] = {}  # dotted paths, imported on first use
_after_changes: list[str] = []  # dotted paths, imported on first use


def register(name: str, path: str) -> None:
    """Add an operation of a higher layer by the dotted path of its instance."""
    _registered[name] = path


def call_after_changes(path: str) -> None:
    """Call the function with this dotted path after each run that changed memories."""
    if path not in _after_changes:
        _after_changes.append(path)


def notify_changes() -> None:
    """Call the functions that were registered with :func:`call_after_changes`."""
    for path in _after_changes:
        import_string(path)()


def find_operation(name: str) -> Operation[Any] | None:
    """Return a built-in or registered operation."""
    if name in _registered and name not in OPERATIONS:
        registered: Operation[Any] = import_string(_registered[name])
        return registered
    return OPERATIONS.get(name)


def require_confirmed_clock(operation: Operation[Any]) -> None:
    """Raise Conflict if the operation is paused because the clock is in doubt."""
    pause = clock.check() if operation.depends_on_age else None
    if pause:
        raise Conflict(
            f"{operation.name} is paused because {pause.summary()}; check the time of this machine, then"
            " confirm it on the maintenance page or with manage.py maintain --confirm-clock"
        )


@dataclass
class OperationResult:
    """How many memories an operation looked at, and how many it changed."""

    seen: int = 0
    changed: int = 0


def run_now(
    name: str, params: Mapping[str, Any], actor: Actor, *, run_uid: str = "", now: datetime | None = None
) -> OperationResult:
    """Apply all steps immediately. An operation that is paused changes nothing.

    ``run_uid``: id of the run or session for the journal.

    Raise KeyError if the operation does not exist, and pydantic's ValidationError for invalid parameters.
    """
    operation, result = OPERATIONS[name], OperationResult()
    if operation.depends_on_age and clock.check():
        return result
    for step in operation.steps(operation.Params(**params), actor, now or timezone.now()):
        result.changed += step.apply(run_uid)
        result.seen += step.seen
    return result

"""Maintenance operations by their wire names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from django.utils import timezone
from django.utils.module_loading import import_string

from memoryhub.access.policy import Actor
from memoryhub.maintenance.operations.base import Operation
from memoryhub.maintenance.operations.compress import Compress
from memoryhub.maintenance.operations.consolidate import Consolidate
from memoryhub.maintenance.operations.embed import Embed
from memoryhub.maintenance.operations.empty_trash import EmptyTrash
from memoryhub.maintenance.operations.evict import Evict
from memoryhub.maintenance.operations.purge import PruneEvents, PurgeExpired
from memoryhub.maintenance.operations.reindex import Reindex
from memoryhub.maintenance.operations.summarize_old import SummarizeOld

_dotted_paths: dict[str, str] = {}


def register(name: str, place: str) -> None:
    """Let runs of an operation be worked on; ``place`` is the dotted path of the object."""
    _dotted_paths[name] = place


def find_registered(name: str) -> Any:
    """The operation of this name, or None."""
    return _import_operation(_dotted_paths[name]) if name in _dotted_paths else None


@cache
def _import_operation(place: str) -> Any:
    return import_string(place)


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


def find_operation(name: str) -> Operation[Any] | None:
    """Any operation that a run may be of, those of higher floors too."""
    return OPERATIONS.get(name) or find_registered(name)


@dataclass
class OperationResult:
    """What a whole operation did: things looked at, memories changed, and how many changes of each action."""

    seen: int = 0
    changed: int = 0
    actions: Counter[str] = field(default_factory=Counter)


def run_now(
    name: str,
    params: Mapping[str, Any],
    actor: Actor,
    *,
    run_uid: str = "",
    now: datetime | None = None,
) -> OperationResult:
    """Apply all steps here and now; ``run_uid`` is what the journal calls it (a run's or a session's id).

    KeyError for an operation that is not known, pydantic's ValidationError for parameters that do not fit.
    """
    operation, ran = OPERATIONS[name], OperationResult()
    for step in operation.steps(operation.Params(**params), actor, now or timezone.now()):
        ran.changed += step.apply(run_uid)
        ran.seen += step.seen
        ran.actions.update(change.action for change in step.applied)
    return ran

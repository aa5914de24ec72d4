"""The operations of maintenance by their wire names, and a way to do one at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from memoryhub.lifecycle import guests
from memoryhub.lifecycle.compression import Compress
from memoryhub.lifecycle.consolidation import Consolidation
from memoryhub.lifecycle.embedding import Embed
from memoryhub.lifecycle.emptying import EmptyTrash
from memoryhub.lifecycle.eviction import Evict
from memoryhub.lifecycle.expiry import PurgeExpired
from memoryhub.lifecycle.plan import Change, Operation, Step
from memoryhub.lifecycle.pruning import PruneEvents
from memoryhub.lifecycle.reindex import Reindex
from memoryhub.lifecycle.summarise import Summarise
from memoryhub.sensitivity import Actor

__all__ = ["OPERATIONS", "Change", "Operation", "Ran", "Step", "known", "run_now"]

_ALL: tuple[Operation[Any], ...] = (
    PurgeExpired(),
    PruneEvents(),
    Consolidation(),
    Compress(),
    Summarise(),
    Evict(),
    EmptyTrash(),
    Reindex(),
    Embed(),
)
OPERATIONS: dict[str, Operation[Any]] = {operation.name: operation for operation in _ALL}


def known(name: str) -> Operation[Any] | None:
    """Any operation that a run may be of, those of higher floors too."""
    return OPERATIONS.get(name) or guests.find(name)


@dataclass
class Ran:
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
) -> Ran:
    """Apply all steps here and now; ``run_uid`` is what the journal calls it (a run's or a session's id).

    KeyError for an operation that is not known, pydantic's ValidationError for parameters that do not fit.
    """
    operation, ran = OPERATIONS[name], Ran()
    for step in operation.steps(operation.Params(**params), actor, now or timezone.now()):
        ran.changed += step.apply(run_uid)
        ran.seen += step.seen
        ran.actions.update(change.action for change in step.applied)
    return ran

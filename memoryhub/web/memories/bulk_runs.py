"""A bulk action on more memories than one request may change: a maintenance run with one undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Subquery
from django.http import QueryDict
from django.utils import timezone
from pydantic import BaseModel, ConfigDict

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts.clearance import user_clearance
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations.base import (
    UNCHANGED,
    Change,
    Operation,
    Pace,
    PagePlan,
    Refusals,
    Step,
    steps_by_page,
)
from memoryhub.memories import BulkResult, Forbidden
from memoryhub.memories.bulk_actions import apply_to_chunk, prepare_action
from memoryhub.memories.bulk_undo import UNDO_OPERATIONS
from memoryhub.memories.undo import CHUNK_SIZE, Undo
from memoryhub.models import JournalEntry, MaintenanceRun
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.web.memories.selection import PERMISSIONS, matching_memories

OPERATION_NAME = "bulk_action"


class BulkActionParams(BaseModel):
    """``address``: the URL of the list, whose filters select the memories when the run reads them."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    values: dict[str, Any]
    address: str


class BulkActionOperation(Operation[BulkActionParams]):
    name = OPERATION_NAME
    label = "Bulk action"
    help = "Changes all memories that match the filters of a list. Undo reverts all of its changes."
    inverse_records = UNDO_OPERATIONS
    Params = BulkActionParams

    def total(self, params: BulkActionParams, actor: Actor, now: datetime) -> int:
        return matching_memories(params.address, _current_rights(params, actor).clearance).count()

    def steps(
        self, params: BulkActionParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        actor = _current_rights(params, actor)
        rows = matching_memories(params.address, actor.clearance)

        def plan(page: list[Any]) -> PagePlan:
            def commit(run_uid: str) -> tuple[Change, ...]:
                still = rows.filter(pk__in=[pk for pk, _ in page])
                return _apply(params, still, actor, run_uid, now)

            return [Change("change", uid) for _, uid in page], commit

        pace = Pace(CHUNK_SIZE, max_size=4 * CHUNK_SIZE, min_size=8)
        yield from steps_by_page(rows, ("pk", "uid"), plan, position or {}, pace)

    def undo(
        self, run_uid: str, actor: Actor, now: datetime | None = None, *, refused: Refusals | None = None
    ) -> Iterator[int]:
        run = MaintenanceRun.objects.get(uid=run_uid)
        actor = replace(actor, clearance=_with_new_level(actor.clearance, run.params["values"]))
        start = (
            JournalEntry.objects.filter(object_type="run", object_id=run_uid).order_by("seq").values("seq")
        )
        rows = JournalEntry.objects.filter(
            seq__gt=Subquery(start[:1]), actor=run.actor, object_type="memory", detail__act=run_uid
        )
        seqs = list(rows.exclude(detail__has_key="imported").order_by("-seq").values_list("seq", flat=True))
        for some in Pace(20, min_size=4).batches(seqs):
            batch = list(JournalEntry.objects.filter(seq__in=some).order_by("-seq"))
            undo = Undo(
                run_uid, actor, now or timezone.now(), batch, refused=[] if refused is None else refused
            )
            yield from undo.steps(lambda units: [units])


BULK_ACTION = BulkActionOperation()


def start_bulk_run(kind: str, values: Mapping[str, Any], address: str, actor: Actor) -> MaintenanceRun:
    """Queue an action on all memories that a list shows the actor, except those stored after now.

    StoreError names an invalid value or list.
    """
    prepare_action(kind, actor, values)
    matching_memories(address, actor.clearance)
    path, _, query = address.partition("?")
    parts = QueryDict(query, mutable=True)
    parts.setdefault("as_of", timezone.now().isoformat())
    params = {"kind": kind, "values": dict(values), "address": f"{path}?{parts.urlencode()}"}
    return runs.enqueue(BULK_ACTION, params, actor, may_wait=True)


def _apply(
    params: BulkActionParams, memories: MemoryQuerySet, actor: Actor, run_uid: str, now: datetime
) -> tuple[Change, ...]:
    uids = list(memories.order_by("pk").values_list("uid", flat=True))
    result = BulkResult(run_uid, params.kind)
    apply_to_chunk(prepare_action(params.kind, actor, params.values, act=run_uid, now=now), uids, result)
    left = [Change(UNCHANGED, uid, reason=reason) for uid, reason in result.refused]
    return (*(Change("change", memory.uid) for memory in result.done), *left)


def _current_rights(params: BulkActionParams, actor: Actor) -> Actor:
    """Return the actor without what the person who started the run may no longer see or do."""
    person = User.objects.filter(username=actor.clearance.owner, is_active=True).first()
    if person is None or not any(person.has_perm(name) for name in PERMISSIONS[params.kind]):
        raise Forbidden("the person who started this run may not do it any more")
    return replace(actor, clearance=actor.clearance.within(user_clearance(person)))


def _with_new_level(clearance: Clearance, values: Mapping[str, Any]) -> Clearance:
    """Include the level that the action set: its undo reads the memories that the action moved there."""
    level = {values["sensitivity"]} if "sensitivity" in values else set()
    grants = tuple((project, levels | level) for project, levels in clearance.grants)
    return replace(clearance, levels=clearance.levels | level, grants=grants)

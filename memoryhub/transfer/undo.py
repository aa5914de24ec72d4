"""The memories of an import, and its undo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from memoryhub.core.database import batched
from memoryhub.core.vocabulary import TrashReason
from memoryhub.facts.services import MAX_FACTS, delete_facts
from memoryhub.memories.delete import move_to_trash
from memoryhub.memories.undo import Inverse, Undo, inverse_of
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, Revision

OPERATION_NAME = "import"
_MAX_BATCH_DURATION = timedelta(minutes=1)  # between ``imported_at`` and ``pinned_at`` of an imported pin


def imported_memories(uid: str) -> Q:
    """Return the condition on the memories that an import created."""
    run = MaintenanceRun.objects.filter(uid=uid, operation=OPERATION_NAME, dry_run=False, undoes=None).first()
    if run is None or run.started_at is None:
        return Q(pk__in=())
    condition = Q(imported_at__gte=run.started_at, imported_at__lte=run.finished_at or timezone.now())
    return condition if run.params.get("restores") else condition & Q(author=run.actor)


def _added_items(rows: list[JournalEntry]) -> list[tuple[str, str]]:
    return [(kind, uid) for row in rows for kind in ("facts", "memories") for uid in row.detail.get(kind, ())]


def _remove_added(undo: Undo, units: Sequence[tuple[str, str]]) -> int:
    """Move memories to the trash and delete facts. Memories that someone else changed or pinned stay."""
    facts = [uid for kind, uid in units if kind == "facts"]
    removed = sum(len(delete_facts(some, undo.actor, undo.now)) for some in batched(facts, MAX_FACTS))
    uids = [uid for kind, uid in units if kind == "memories"]
    visible = Memory.objects.visible_to(undo.actor.clearance).filter(uid__in=uids, deleted_at=None)
    changed = Revision.objects.filter(memory=OuterRef("pk")).exclude(actor=undo.actor.name)
    unchanged = visible.exclude(Exists(changed.exclude(actor__startswith="system:")))
    gone = [memory for memory in unchanged if not _was_pinned_later(memory)]
    move_to_trash(gone, undo.actor, TrashReason.UNDONE, undo.now, "delete", why=f"undo of import {undo.id}")
    return len(gone) + removed


def _was_pinned_later(memory: Memory) -> bool:
    pinned_by_import = memory.imported_at and memory.pinned_at and memory.pinned_at - memory.imported_at
    return memory.pinned and (not pinned_by_import or pinned_by_import > _MAX_BATCH_DURATION)


inverse_of(Inverse(_added_items, _remove_added), OPERATION_NAME)

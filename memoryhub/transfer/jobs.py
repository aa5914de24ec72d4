"""Import jobs: run in the background with progress, stop, resume and report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memoryhub.access.policy import Actor
from memoryhub.capture.projects import CONFIGURE, configure_project
from memoryhub.core.database import batched
from memoryhub.core.vocabulary import TrashReason
from memoryhub.facts.services import MAX_FACTS, delete_facts
from memoryhub.maintenance import executor, results, runs
from memoryhub.maintenance.nodes import node_name
from memoryhub.maintenance.operations.base import Change, Operation, Pace, Refusals, Step
from memoryhub.memories.delete import move_to_trash
from memoryhub.memories.errors import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.undo import Inverse, Undo, inverse_of, record_action
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, Revision
from memoryhub.transfer import import_files
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.import_files import IdMap, ImportReader, open_import
from memoryhub.transfer.loader import Batch, LoadOptions
from memoryhub.transfer.records import (
    MAPPING_TARGETS,
    DamagedFile,
    Item,
    Problem,
    ReadOptions,
    UnreadableFile,
)
from memoryhub.transfer.reports import (
    PROJECT,
    RAISED_CAP,
    Tally,
    failure_changes,
    note_changes,
    outcome_changes,
    project_changes,
)

OPERATION_NAME = "import"
_FILE_GONE = "the hub no longer has the file; upload it again"
_UNSUPPORTED = "this hub no longer supports this format; upload the file again in another one"
_RESTORES = "this import restores a store; resume it as a maintainer, or import the file again"
_MAX_BATCH_DURATION = timedelta(minutes=1)  # between ``imported_at`` and ``pinned_at`` of an imported pin


def imported_memories(uid: str) -> Q:
    """Return a condition that matches the memories created by an import."""
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
    removed = sum(len(delete_facts(chunk, undo.actor, undo.now)) for chunk in batched(facts, MAX_FACTS))
    uids = [uid for kind, uid in units if kind == "memories"]
    visible = Memory.objects.visible_to(undo.actor.clearance).filter(uid__in=uids, deleted_at=None)
    changed = Revision.objects.filter(memory=OuterRef("pk")).exclude(actor=undo.actor.name)
    unchanged = visible.exclude(Exists(changed.exclude(actor__startswith="system:")))
    gone = [memory for memory in unchanged if not _was_pinned_later(memory)]
    move_to_trash(gone, undo.actor, TrashReason.UNDONE, undo.now, why=f"undo of import {undo.id}")
    return len(gone) + removed


def _was_pinned_later(memory: Memory) -> bool:
    pinned_by_import = memory.imported_at and memory.pinned_at and memory.pinned_at - memory.imported_at
    return memory.pinned and (not pinned_by_import or pinned_by_import > _MAX_BATCH_DURATION)


inverse_of(Inverse(_added_items, _remove_added), OPERATION_NAME)


_FIRST_BATCH, _MAX_BATCH, _MIN_BATCH = 50, 1000, 20  # items of a step
# Steps are larger than those of other operations, because a person is waiting and a short step is half
# overhead. Other writers write between the steps, while the file is read and vectors are computed.
_BATCH_SECONDS, _PAUSE_SECONDS = 3.0, 0.3


def _new_pace() -> Pace:
    return Pace(_FIRST_BATCH, _MAX_BATCH, _MIN_BATCH, stretch=_BATCH_SECONDS, rest=_PAUSE_SECONDS)


def _check_target(name: str) -> str:
    if name not in MAPPING_TARGETS:
        raise ValueError(f"must be one of: {', '.join(MAPPING_TARGETS)}")
    return name


MappingTarget = Annotated[str, AfterValidator(_check_target)]


class ImportParams(BaseModel):
    """``upload`` is the key of the file. ``restores`` allows restoring the history of a store."""

    model_config = ConfigDict(extra="forbid")

    upload: str
    format: str
    name: str = ""
    project: str | None = None
    ttl_days: float | None = None
    dry_run: bool = False
    restores: bool = False
    mapping: dict[str, MappingTarget] = Field(default_factory=dict)  # by the name of an unknown field
    infer_types: bool = False
    caps: dict[str, int] = Field(default_factory=dict)  # the raised caps of projects


class ImportOperation(Operation[ImportParams]):
    name = OPERATION_NAME
    label = "Import"
    help = "Stores the contents of an uploaded file."
    inverse_records = (OPERATION_NAME,)
    Params = ImportParams

    def total(self, params: ImportParams, actor: Actor, now: datetime) -> int:
        with _open_upload(params, actor) as reader:
            return reader.total or 0

    def steps(
        self, params: ImportParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        id_map, node = import_files.id_map_path(params.upload), node_name()
        if not position or position.get("node", node) != node or not id_map.exists():
            # Another node or container began it and has its id map. Importing an item again changes nothing.
            position = None
            id_map.unlink(missing_ok=True)
        with _open_upload(params, actor) as reader, closing(IdMap(id_map)) as ids:
            if position and not reader.resume(position):
                raise DamagedFile("the file has changed since the import began; upload it again")
            options = LoadOptions(
                actor,
                report=lambda place, problem: None,
                project=params.project or "",
                ttl_days=params.ttl_days,
                dry_run=params.dry_run,
                restores=params.restores,
                mapping=params.mapping,
                infer_types=params.infer_types,
            )
            if params.caps and not position:
                yield _raise_caps(params.caps, reader.mark(), actor)
            yield from _import_steps(reader, options, ids)

    def clean_up(self, params: ImportParams) -> None:
        if not params.dry_run:
            import_files.delete_upload(params.upload)

    def resume_refusal(self, params: Mapping[str, Any]) -> str:
        if params["format"] not in FORMATS:
            return _UNSUPPORTED
        return "" if import_files.is_stored(params["upload"]) else _FILE_GONE

    def undo(
        self, run_uid: str, actor: Actor, now: datetime | None = None, *, refused: Refusals | None = None
    ) -> Iterator[int]:
        yield _restore_caps(run_uid, actor, refused)
        undo = Undo.of_action(run_uid, actor, self.inverse_records, now)
        undo.refused = undo.refused if refused is None else refused
        yield from undo.steps(_new_pace().batches)


IMPORT_OPERATION = ImportOperation()


def start_import(
    chunks: Iterator[bytes],
    name: str,
    actor: Actor,
    *,
    format: str = "",
    project: str = "",
    ttl_days: float | None = None,
    dry_run: bool = False,
    restores: bool = False,
) -> MaintenanceRun:
    """Save a file and queue its import. Raise :class:`import_files.UploadTooLarge` or StoreError.

    An empty ``format`` is detected from the content. ``restores`` states that the actor may restore the
    store; the caller checks that.
    """
    if format and format not in FORMATS:
        raise StoreError(f"must be one of: {', '.join(FORMATS)}", "format")
    key = import_files.save_upload(chunks)
    try:
        if not import_files.upload_path(key).stat().st_size:
            raise StoreError("is empty; send a file with memories", "file")
        chosen = FORMATS[format] if format else detect_format(import_files.upload_path(key))
        params = {
            "upload": key,
            "format": chosen.name,
            "name": Path(name).name[:200],
            "project": project or None,
            "ttl_days": ttl_days,
            "dry_run": dry_run,
            "restores": restores,
        }
        return runs.enqueue(IMPORT_OPERATION, params, actor, dry_run=dry_run, may_wait=True)
    except BaseException:
        import_files.delete_upload(key)
        raise


def import_after_dry_run(
    run: MaintenanceRun, actor: Actor, *, restores: bool, **choices: Any
) -> MaintenanceRun:
    """Import a file after its dry run. Raise Conflict if the file is gone.

    ``choices``: ``ttl_days``, ``mapping``, ``infer_types`` and ``caps`` of :class:`ImportParams`.
    """
    params = {**run.params, "dry_run": False, "restores": restores, **choices}
    if import_files.find_upload(params["upload"]) is None:
        raise Conflict("the file of this dry run no longer exists; upload it again", "upload")
    import_files.id_map_path(params["upload"]).unlink(missing_ok=True)  # ids of the dry run
    return runs.enqueue(IMPORT_OPERATION, params, actor, may_wait=True)


@contextmanager
def _open_upload(params: ImportParams, actor: Actor) -> Iterator[ImportReader]:
    """Open an upload. Errors of the reader become StoreErrors with the original name of the file.

    A damaged file is deleted, because no run can do anything with it.
    """
    path = import_files.find_upload(params.upload)
    if path is None:
        raise StoreError(_FILE_GONE, "upload")
    format = FORMATS.get(params.format)
    if format is None:
        raise StoreError(_UNSUPPORTED, "format")
    try:
        options = ReadOptions(params.name, params.project or "", has_owner=bool(actor.owner))
        with open_import(format, str(path), options) as reader:
            yield reader
    except UnreadableFile as error:
        message = str(error).replace(str(path), params.name or "the file").replace(path.name, params.name)
        if isinstance(error, DamagedFile):
            import_files.delete_upload(params.upload)
        raise StoreError(message, "file") from None


def _raise_caps(caps: Mapping[str, int], mark: dict[str, Any], actor: Actor) -> Step:
    """Make a step that raises the caps of projects. Each change of settings has the id of the run."""

    def commit(run_uid: str) -> tuple[Change, ...]:
        for project, cap in caps.items():
            configure_project(project, actor, max_memories=cap, uid=run_uid)
        return tuple(Change(RAISED_CAP, reason=project, after=float(cap)) for project, cap in caps.items())

    return Step((), {**mark, "node": node_name()}, 0, commit, chore=True)


def _restore_caps(run_uid: str, actor: Actor, refused: Refusals | None) -> int:
    """Restore the caps that an import has raised, unless the settings were changed since."""
    undo = Undo.of_action(run_uid, actor, (CONFIGURE,), about="project").run()
    if undo.refused and refused is not None:
        refused.append(("", "the cap of a project was not restored, because it was changed after the import"))
    return 0


def _import_steps(reader: ImportReader, options: LoadOptions, ids: IdMap) -> Iterator[Step]:
    pace, items, done = _new_pace(), iter(reader), reader.done
    reported: set[str] = set()  # projects
    while batch := list(islice(items, pace.size)):
        mark, progress = {**reader.mark(), "node": node_name()}, reader.done - done
        done += progress
        step = _import_step(batch, options, ids, reported, mark, progress)
        yield step
        reported.update(change.reason for change in step.applied if change.action == PROJECT)
        pace.after(step)


def _import_step(
    items: list[Item],
    options: LoadOptions,
    ids: IdMap,
    reported: Set[str],
    mark: dict[str, Any],
    progress: int,
) -> Step:
    """Make a step that reports counts and reasons, but no texts. A dry run is stored here and rolled back."""
    errors: list[tuple[str, Problem]] = []
    batch = Batch(items, replace(options, report=lambda place, problem: errors.append((place, problem))), ids)
    batch.prepare()

    def store(run_uid: str = "") -> tuple[Change, ...]:
        errors.clear()
        tally = Tally()
        batch.store(tally)
        if tally.added and not options.dry_run:
            record_action(OPERATION_NAME, run_uid, tally.added, options.actor, timezone.now())
        failures = failure_changes(tally, errors)
        projects = project_changes(tally, reported, options.dry_run)
        return (*outcome_changes(tally), *failures, *note_changes(tally), *projects)

    if not options.dry_run:
        return Step((), mark, progress, store, chore=True)
    began = time.perf_counter()
    changes = store()
    return Step(changes, mark, progress, took_ms=(time.perf_counter() - began) * 1000)


def get_import(uid: str, actor: Actor) -> MaintenanceRun:
    """Return an import of this actor, or one within the actor's clearance. Raise NotFound."""
    executor.mark_interrupted()
    run = MaintenanceRun.objects.filter(uid=uid, operation=OPERATION_NAME).first()
    if run is None or not can_see_report(run, actor):
        raise NotFound("there is no such import")
    return run


def can_see_report(run: MaintenanceRun, actor: Actor) -> bool:
    """Return whether an import is the actor's own or within their clearance."""
    return _is_own(run, actor) or results.can_see_all(actor.clearance, run)


def _is_own(run: MaintenanceRun, actor: Actor) -> bool:
    """Return whether the actor requested this import; token names are not unique across owners."""
    return run.actor == actor.name and results.clearance_of(run).owner == actor.owner


def own_imports(actor: Actor) -> QuerySet[MaintenanceRun]:
    """Return the imports that this actor requested, newest first."""
    mine = MaintenanceRun.objects.filter(
        operation=OPERATION_NAME, actor=actor.name, reach__owner=actor.owner, undoes=None
    )
    return mine.order_by("-created_at", "-pk")


def stop_import(run: MaintenanceRun, actor: Actor) -> MaintenanceRun:
    """Stop an import. The actor who requested it may always stop it, even with less clearance now."""
    return runs.stop(run.uid, Actor(run.actor, results.clearance_of(run)) if _is_own(run, actor) else actor)


def resume_refusal(run: MaintenanceRun, actor: Actor, *, restores: bool) -> str:
    """Return why the actor cannot resume an import that ended early, and what to do; empty if they can.

    ``actor`` has their full clearance; ``restores`` states that they may restore the store.
    """
    if run.params.get("restores") and not restores:
        return _RESTORES
    if not results.can_control(actor.clearance, run):
        return "it covers levels or projects that you no longer see; upload the file again"
    return runs.resume_refusal(run)


def resume_import(run: MaintenanceRun, actor: Actor, *, restores: bool) -> MaintenanceRun:
    """Resume an import as requested. Raise Forbidden or NotFound if that exceeds the actor's permissions.

    The arguments are those of :func:`resume_refusal`.
    """
    if run.params.get("restores") and not restores:
        raise Forbidden(_RESTORES)
    return runs.resume(run.uid, actor)


def undo_import(run: MaintenanceRun, actor: Actor) -> MaintenanceRun:
    """Queue the undo of an import. ``actor`` has their full clearance. Raise Conflict or Forbidden."""
    runs.undo(run.uid, actor)
    return run

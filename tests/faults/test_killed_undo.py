"""Merges, imports and undos by a process that is killed at every transaction, rename and flush."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.maintenance import runs
from memoryhub.maintenance.executor import execute
from memoryhub.maintenance.operations.base import Pace
from memoryhub.memories import undo
from memoryhub.models import Fact, JournalEntry, MaintenanceRun, Memory
from memoryhub.transfer import import_files, jobs
from memoryhub.web.memories import bulk_actions
from tests.faults.killing import kill_at_every_point

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
# An undo of maintenance sets these: the memory is not evicted or consolidated again at once.
SET_BY_UNDO = ("updated_at", "consolidated_at", "last_accessed_at")
KINDS = [
    ("trash", {}),
    ("demote_and_approve", {}),
    ("set", {"project": "q"}),
]


def rows(*left_out: str) -> dict[str, dict[str, Any]]:
    """Return the columns of all memories by id."""
    found = {row.pop("uid"): row for row in Memory.objects.order_by("pk").values()}
    return {uid: {name: row[name] for name in row if name not in left_out} for uid, row in found.items()}


def texts() -> Counter[str]:
    return Counter(Memory.objects.live().values_list("content", flat=True))


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction changes one memory."""
    monkeypatch.setattr(undo, "CHUNK_SIZE", 1)
    monkeypatch.setattr(bulk_actions, "CHUNK_SIZE", 1)
    monkeypatch.setattr(bulk_actions, "MAX_MEMORIES", 2)
    monkeypatch.setattr(Pace, "batches", lambda pace, items: ([one] for one in items))
    monkeypatch.setattr(Pace, "page", lambda pace, rows, weigh: rows[:1])


def continue_run(run: MaintenanceRun, point: str) -> None:
    """Do what a worker does at its start, then execute the run to its end."""
    import_files.delete_old_uploads()
    runs.resume_interrupted()
    run.refresh_from_db()
    if run.status != run.Status.DONE:
        assert execute(run), point
    assert run.status == run.Status.DONE, (point, run.error)
    assert journal.verify().ok, point


def kill_undo_at_every_point(run: MaintenanceRun, snapshot: Any, actor: Actor) -> Iterator[str]:
    """Kill the undo of a run at every point. Yield each point when the undo has been continued to its end."""
    undoing = runs.undo(run.uid, actor)
    snapshot()
    for point in kill_at_every_point(lambda: execute(undoing), prepare=snapshot.put_back):
        continue_run(undoing, point)
        yield point


def test_a_killed_merge_is_whole_or_absent(store_home, snapshot, three, actor):
    keep, *others = (memory.uid for memory in three)
    before, left_out = rows(), [*SET_BY_UNDO, "deleted_at"]
    snapshot()

    def merge() -> None:
        memories.merge_memories(keep, others, actor)

    for point in kill_at_every_point(merge, prepare=snapshot.put_back):
        if rows() == before:
            merge()
        assert Memory.objects.live().count() == 1, point
        [merged] = JournalEntry.objects.filter(operation="merge", object_type="memories")
        memories.undo_merge(merged.object_id, actor)
        restored = {
            uid: {name: row[name] for name in row if name not in left_out} for uid, row in before.items()
        }
        assert rows(*left_out) == restored, point
        assert journal.verify().ok, point


def test_a_killed_undo_of_a_merge_can_be_repeated(store_home, snapshot, three, actor):
    keep, *others = (memory.uid for memory in three)
    merge = memories.merge_memories(keep, others, actor).uid
    merged = rows()
    snapshot()
    for point in kill_at_every_point(lambda: memories.undo_merge(merge, actor), prepare=snapshot.put_back):
        if rows() == merged:
            memories.undo_merge(merge, actor)
        assert Memory.objects.live().count() == 3, point
        with pytest.raises(memories.Conflict, match="already undone"):
            memories.undo_merge(merge, actor)
        assert journal.verify().ok, point


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_a_killed_undo_of_a_bulk_action_can_be_repeated(
    store_home, snapshot, remember, actor, small_steps, kind, values
):
    uids = [remember(f"note {number}").uid for number in range(3)]
    before = rows()
    done = memories.apply_bulk_action(kind, uids, actor, **values)
    assert len(done.done) == 3
    snapshot()

    def undo_action() -> None:
        memories.undo_bulk_action(done.id, actor, done.first, done.last)

    for point in kill_at_every_point(undo_action, prepare=snapshot.put_back):
        undo_action()
        assert rows() == before, point
        assert journal.verify().ok, point


@pytest.mark.parametrize(("kind", "values"), KINDS)
def test_a_killed_undo_of_a_bulk_run_restores_every_memory(
    store_home, snapshot, remember, small_steps, kind, values
):
    User.objects.create_superuser("ada", password="x")
    ada = Actor("user:ada", Clearance.up_to("secret", owner="ada"))
    for number in range(3):
        remember(f"note {number}", importance=0.8, project="p")
    before = rows()
    run = bulk_actions.start_bulk_run(kind, values, "/memories/?project=p", ada)
    assert execute(run)
    assert run.result["counts"] == {"change": 3}
    for point in kill_undo_at_every_point(run, snapshot, ada):
        assert rows() == before, point


def age(remember: Callable[..., Memory]) -> None:
    """Store old memories about two topics."""
    created_at = timezone.now() - timedelta(days=80)
    for topic in (
        "the staging server listens on port 8443",
        "releases are signed with the offline key of ada",
    ):
        for name in ("bob", "eve", "joe"):
            remember(f"{topic}, seen by {name}", created_at=created_at, ttl_days=None)


@pytest.mark.parametrize("operation", ["consolidate", "compress", "summarize_old", "evict"])
def test_a_killed_undo_of_maintenance_restores_every_memory(
    store_home, snapshot, remember, actor, configure, small_steps, operation
):
    configure(compression_min_members=2)
    age(remember)
    before = rows(*SET_BY_UNDO)
    configure(max_memories=2)
    run = runs.enqueue(operation, {}, actor)
    assert execute(run)
    assert run.result["changed"]
    configure(max_memories=0)
    for point in kill_undo_at_every_point(run, snapshot, actor):
        assert {uid: row for uid, row in rows(*SET_BY_UNDO).items() if uid in before} == before, point
        assert Memory.objects.live().count() == len(before), point


def start_import(actor: Actor) -> MaintenanceRun:
    """Queue the import of an uploaded file with six memories and a fact."""
    lines: list[dict[str, str]] = [{"content": f"imported {number}"} for number in range(6)]
    lines.append({"kind": "fact", "subject": "a", "predicate": "b", "object": "c"})
    return jobs.start_import(iter([(json.dumps(line) + "\n").encode() for line in lines]), "x.jsonl", actor)


def test_a_killed_import_run_ends_as_done_and_can_be_undone(
    store_home, snapshot, remember, actor, configure, monkeypatch
):
    configure(import_workers=0)
    monkeypatch.setattr(import_files, "_SECONDS_TO_STORE", -1)
    for name, value in {"_FIRST_BATCH": 2, "_MIN_BATCH": 2, "_MAX_BATCH": 2, "_PAUSE_SECONDS": 0}.items():
        monkeypatch.setattr(jobs, name, value)
    remember("own note")
    run = start_import(actor)
    snapshot()
    for point in kill_at_every_point(lambda: execute(run), prepare=snapshot.put_back):
        continue_run(run, point)
        assert texts() == Counter(["own note", *(f"imported {number}" for number in range(6))]), point
        assert not list((store_home / "imports").iterdir()), point
        assert execute(runs.undo(run.uid, actor)), point
        assert texts() == Counter(["own note"]), point
        assert not Fact.objects.exists(), point


def test_a_killed_undo_of_an_import_removes_everything(
    store_home, snapshot, remember, actor, configure, small_steps
):
    configure(import_workers=0)
    remember("own note")
    run = start_import(actor)
    assert execute(run)
    for point in kill_undo_at_every_point(run, snapshot, actor):
        assert texts() == Counter(["own note"]), point
        assert not Fact.objects.exists(), point

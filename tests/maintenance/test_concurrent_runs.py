"""Test runs on a real database file: claims, killed workers, concurrent writers and the server's worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.maintenance import executor, nodes, results, runs, worker
from memoryhub.maintenance.executor import is_lost
from memoryhub.maintenance.nodes import worker_id
from memoryhub.maintenance.operations import base
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.maintenance.fixtures import importances
from tests.memories.test_concurrency import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


def aged(actor, count: int) -> None:
    """Create memories that were not changed for ten days."""
    drafts = [MemoryDraft(content=f"aged {n}") for n in range(count)]
    for start in range(0, count, 500):
        memories.create_memories(drafts[start : start + 500], actor, enforce_cap=False)
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=10))


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition is true; fail after a timeout."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)


def test_one_of_eight_workers_claims_a_run(actor, remember, lifting):
    for n in range(10):
        remember(f"memory {n}")
    for _ in range(5):
        run, got = runs.enqueue("lift", {}, actor), []

        def take(number: int, run: MaintenanceRun = run, got: list[bool] = got) -> None:
            got.append(executor.execute(MaintenanceRun.objects.get(pk=run.pk)))

        assert at_once(take) == []
        assert Counter(got) == {True: 1, False: 7}
    assert importances() == [1.0] * 10


def test_one_of_eight_identical_requests_is_queued(actor, remember, lifting):
    remember("a memory")
    refused = at_once(lambda number: runs.enqueue("lift", {}, actor))
    assert [type(error) for error in refused] == [memories.Conflict] * 7
    assert MaintenanceRun.objects.count() == 1


def test_one_of_eight_schedulers_queues_the_day(configure, monkeypatch):
    configure(maintenance_operations="consolidate", maintenance_at="00:00")
    tomorrow = timezone.now() + timedelta(days=1)
    assert at_once(lambda number: runs.enqueue_due(tomorrow)) == []
    assert MaintenanceRun.objects.filter(operation="consolidate").count() == 1


# It waits near the end: it must not be done before it is killed, however late that is.
WORKER = """
import os, signal
import django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = os.environ["TEST_DB"]
settings.MEMORY_LOG = os.environ["TEST_LOG"]
settings.MEMORYHUB = settings.MEMORYHUB.model_copy(update={"maintenance_step_ms": 1})
from memoryhub.maintenance import executor, results, runs
from memoryhub.models import MaintenanceRun
executor.execute(MaintenanceRun.objects.get(), watcher=lambda run: run.done > 2000 and signal.pause())
"""


@pytest.fixture
def other_process(journal_mirror) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that executes the only run."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DB": str(connection.settings_dict["NAME"]),
        "TEST_LOG": str(journal_mirror),
    }
    process = subprocess.Popen([sys.executable, "-c", WORKER], env=environment, cwd=django_settings.BASE_DIR)
    yield process
    process.kill()
    process.wait()


def test_killed_run_is_marked_and_can_be_resumed(actor, request):
    aged(actor, 3000)
    run = runs.enqueue("consolidate", {}, actor)
    process = request.getfixturevalue("other_process")

    def far_enough() -> bool:
        run.refresh_from_db()
        return run.done > 200

    until(far_enough)
    os.kill(process.pid, signal.SIGKILL)  # stays a zombie, as under some supervisors
    until(lambda: executor.mark_interrupted() == 1)
    run.refresh_from_db()
    assert (run.status, run.cause) == (Status.FAILED, Cause.INTERRUPTED)
    assert "interrupted" in run.error
    assert 200 < run.done < 3000
    untouched = Memory.objects.filter(consolidated_at=None).count()
    assert untouched == 3000 - run.done, "what was counted was done, and what was done was counted"

    run = runs.resume(run.uid, actor)
    assert executor.execute(run)
    assert (run.status, run.done, run.result["changed"]) == (Status.DONE, 3000, 3000)
    noted = JournalEntry.objects.filter(operation="consolidate").values_list("detail", flat=True)
    times = Counter(change[0] for detail in noted for change in detail["changes"])
    assert set(times.values()) == {1}, "nothing was done twice"
    assert len(times) == 3000, "nothing was left out"
    assert {one.change.uid for one in results.list_changes(run, actor.clearance, 0, 3000)} == set(times)
    assert journal.verify().ok


def test_run_of_a_live_worker_is_not_lost(actor, remember, lifting):
    remember("a memory")
    run, inside, go_on = runs.enqueue("lift", {}, actor), threading.Event(), threading.Event()
    lifting.before = lambda number: (inside.set(), go_on.wait(120))
    thread = threading.Thread(target=_work_and_close, args=(run.pk,))
    thread.start()
    assert inside.wait(120)
    later = timezone.now() + timedelta(minutes=5)
    assert executor.mark_interrupted(later) == 0
    go_on.set()
    thread.join()
    run.refresh_from_db()
    assert run.status == Status.DONE


def _work_and_close(pk: int) -> None:
    executor.execute(MaintenanceRun.objects.get(pk=pk))
    connection.close()


@pytest.mark.parametrize(
    ("name", "seconds", "given_up"),
    [
        ("elsewhere/1/1/1", 20, False),
        ("elsewhere/1/1/1", 40, True),
        ("", 40, True),
        ("own", 600, False),
        ("own", 1000, True),
        ("own began earlier", 0, True),
    ],
)
def test_lost_worker_is_detected(name, seconds, given_up):
    own = worker_id()
    host, pid, _, thread = own.split("/")
    names = {"own": own, "own began earlier": f"{host}/{pid}/1/{thread}"}
    now = timezone.now()
    run = MaintenanceRun(worker=names.get(name, name), heartbeat_at=now - timedelta(seconds=seconds))
    assert is_lost(run, now) is given_up


def test_process_check_works_without_proc(monkeypatch):
    monkeypatch.setattr(nodes, "_process_start_time", lambda pid: "")
    now = timezone.now()
    run = MaintenanceRun(worker=worker_id(), heartbeat_at=now - timedelta(minutes=5))
    assert not is_lost(run, now)


def test_agents_can_write_during_a_run(actor):
    """After each step, the run waits until an agent has written, which needs the write lock."""
    aged(actor, 4000)
    run, sizes = runs.enqueue("consolidate", {}, actor), []
    written, ended = threading.Event(), threading.Event()

    def wait_for_an_agent(run: MaintenanceRun) -> None:
        sizes.append(run.done - sum(sizes))
        written.clear()
        assert written.wait(60), "no agent could write"

    def work(number: int) -> None:
        if number == 0:
            try:
                executor.execute(run, watcher=wait_for_an_agent)
            finally:
                ended.set()
            return
        n = 0
        while not ended.is_set():
            memories.create_memory(MemoryDraft(content=f"an agent's {number} {n}"), actor)
            written.set()
            n += 1
            time.sleep(0.01)

    assert at_once(work, times=3) == []
    assert run.status == Status.DONE
    assert sum(sizes) == 4000
    assert max(sizes) < 2000, "a write waits for one step, and that is for half of the run"


def test_a_run_rests_as_long_as_its_step_took_and_shortens_the_next(configure, monkeypatch):
    rests = []
    monkeypatch.setattr(base, "time", SimpleNamespace(sleep=rests.append))
    configure(maintenance_step_ms=20)
    pace = base.Pace(200)
    pace.adjust(100)
    assert (rests, pace.size) == ([0.1], 40)


# The server's own worker


@pytest.fixture
def worker_of() -> Iterator[Callable[..., worker.Worker]]:
    """``worker_of(dry_runs=False)`` runs until the end of the test."""
    started: list[worker.Worker] = []

    def start(**options: bool) -> worker.Worker:
        started.append(worker.Worker(**options))
        started[-1].start()
        return started[-1]

    yield start
    worker.stop_workers(started)
    for one in started:
        one.join(120)
        assert not one.is_alive()


def ended(run: MaintenanceRun) -> Callable[[], bool]:
    def look() -> bool:
        run.refresh_from_db()
        return run.status in (Status.DONE, Status.FAILED)

    return look


def test_worker_executes_a_queued_run_immediately(actor, remember, lifting, worker_of, monkeypatch):
    monkeypatch.setattr(worker, "POLL_SECONDS", 3600)
    remember("a memory")
    one = worker_of(dry_runs=False)
    time.sleep(0.5)  # the worker has polled and found nothing
    run = runs.enqueue("lift", {}, actor)
    until(ended(run))
    assert run.status == Status.DONE
    assert one.is_alive()


def test_worker_executes_a_run_queued_by_another_process(actor, remember, lifting, worker_of, monkeypatch):
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(runs, "_notify_worker", lambda: None)
    remember("a memory")
    worker_of(dry_runs=False)
    run = runs.enqueue("lift", {}, actor)
    until(ended(run))
    assert run.status == Status.DONE


def test_worker_continues_interrupted_runs_at_start(actor, remember, lifting, worker_of):
    remember("a memory")
    run = runs.enqueue("lift", {}, actor)
    lose(run)
    worker_of(dry_runs=False)
    until(lambda: ended(run)() and run.status == Status.DONE)  # it counts as failed until it is resumed
    assert run.cause == ""
    assert JournalEntry.objects.filter(operation="run_resume", actor="system:worker").exists()


def lose(run: MaintenanceRun) -> None:
    """Let a worker of another machine have the run, which has ended."""
    MaintenanceRun.objects.filter(pk=run.pk).update(
        status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=timezone.now() - timedelta(hours=1)
    )


def test_run_that_ends_its_worker_each_time_waits_for_a_person(actor, remember, lifting):
    remember("a memory")
    run = runs.enqueue("lift", {}, actor)
    for _ in range(runs.MAX_RESUMPTIONS):
        lose(run)
        runs.resume_interrupted()
        run.refresh_from_db()
        assert run.status == Status.QUEUED
    lose(run)
    runs.resume_interrupted()
    run.refresh_from_db()
    assert (run.status, run.cause) == (Status.FAILED, Cause.INTERRUPTED)
    assert executor.execute(runs.resume(run.uid, actor))


def test_run_that_makes_steps_between_interruptions_is_always_continued(actor, remember, lifting):
    remember("a memory")
    run = runs.enqueue("lift", {}, actor)
    MaintenanceRun.objects.update(interruptions=runs.MAX_RESUMPTIONS)
    assert executor.execute(run)
    assert MaintenanceRun.objects.get().interruptions == 0


def test_interrupted_run_waits_for_another_on_the_same_memories(actor, remember, lifting):
    remember("a memory")
    lost = runs.enqueue("lift", {}, actor)
    lose(lost)
    runs.enqueue("lift", {}, actor)
    runs.resume_interrupted()
    lost.refresh_from_db()
    assert lost.cause == Cause.INTERRUPTED
    MaintenanceRun.objects.exclude(pk=lost.pk).update(status=Status.DONE)
    runs.resume_interrupted()
    lost.refresh_from_db()
    assert lost.status == Status.QUEUED


def test_a_dry_run_does_not_wait_for_a_long_run(actor, remember, lifting, worker_of):
    remember("a memory")
    inside, go_on = threading.Event(), threading.Event()
    lifting.before = lambda number: (inside.set(), go_on.wait(120))
    long = runs.enqueue("lift", {}, actor)
    worker_of(dry_runs=False)
    assert inside.wait(120)
    worker_of(dry_runs=True)
    dry = runs.enqueue("consolidate", {}, actor, dry_run=True)
    until(ended(dry))
    go_on.set()
    until(ended(long))
    assert (dry.status, long.status) == (Status.DONE, Status.DONE)


def test_one_run_that_writes_waits_for_another(actor, remember, lifting):
    remember("a memory")
    first, second = runs.enqueue("lift", {}, actor), runs.enqueue("consolidate", {}, actor)
    assert worker.next_run(False) == first
    MaintenanceRun.objects.filter(pk=first.pk).update(
        status=Status.RUNNING, worker=worker_id(), heartbeat_at=timezone.now()
    )
    assert worker.next_run(False) is None
    MaintenanceRun.objects.filter(pk=first.pk).update(worker="elsewhere/1/1/1", heartbeat_at=first.created_at)
    MaintenanceRun.objects.filter(pk=first.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert worker.next_run(False) == second


def test_worker_survives_errors(actor, remember, lifting, worker_of, monkeypatch, caplog):
    monkeypatch.setattr(worker, "ERROR_PAUSE", 0.05)
    due = runs.enqueue_due
    monkeypatch.setattr(runs, "enqueue_due", lambda: 1 / 0)
    one = worker_of(dry_runs=False)
    until(lambda: "continues after an error" in caplog.text)
    monkeypatch.setattr(runs, "enqueue_due", due)
    remember("a memory")
    run = runs.enqueue("lift", {}, actor)
    until(ended(run))
    assert one.is_alive()
    assert run.status == Status.DONE


def test_worker_ends_before_its_run_and_requeues_it(actor, remember, lifting, worker_of):
    for n in range(200):
        remember(f"memory {n}")
    lifting.before = lambda number: time.sleep(0.05)
    run = runs.enqueue("lift", {}, actor)
    one = worker_of(dry_runs=False)

    def begun() -> bool:
        run.refresh_from_db()
        return run.done > 0

    until(begun)
    worker.stop_workers([one])
    assert not one.is_alive()
    run.refresh_from_db()
    assert (run.status, run.cause) == (Status.QUEUED, "")
    assert run.done < 200, "it finished the run first"


def test_disabled_worker_is_not_started(configure):
    configure(maintenance_worker=False)
    assert worker.start_workers() == []


def test_worker_follows_the_schedule(configure, remember, worker_of, monkeypatch):
    configure(maintenance_operations="consolidate", maintenance_at="00:00")
    remember("a memory")
    tomorrow = timezone.now() + timedelta(days=1)
    start_due = runs.enqueue_due
    monkeypatch.setattr(runs, "enqueue_due", lambda: start_due(tomorrow))
    worker_of(dry_runs=False)
    until(lambda: MaintenanceRun.objects.filter(status=Status.DONE, actor="system:schedule").exists())


def test_tests_and_commands_start_no_worker():
    assert not [thread for thread in threading.enumerate() if isinstance(thread, worker.Worker)]

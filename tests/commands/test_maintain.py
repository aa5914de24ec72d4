"""``manage.py maintain``: what the daily schedule does, or what is named, here and now."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.maintenance import executor, runs
from memoryhub.maintenance.nodes import worker_id
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.management.commands import maintain
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, Session
from memoryhub.ops import doctor
from memoryhub.ops.doctor import Status as Found
from tests.maintenance.fixtures import lifting  # noqa: F401 a fixture

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


@pytest.fixture
def aged(remember):
    """A public, a secret and a personal memory, ten days old."""
    made = [
        remember("first", title="The first title", project="p"),
        remember("second", title="The hidden title", sensitivity="secret"),
        remember("third", title="A title of my own", scope="personal"),
    ]
    Memory.objects.update(updated_at=timezone.now() - timedelta(days=10))
    return made


def faded() -> int:
    return Memory.objects.filter(importance__lt=0.5).count()


def test_without_names_the_scheduled_operations_run(run, aged, configure):
    configure(maintenance_operations="evict,consolidate")
    ran = run("maintain")
    assert ran.code == 0
    assert [line.split(":")[0] for line in ran.out.splitlines()] == ["evict", "consolidate"]
    assert "consolidate: 3 decay (3 checked, " in ran.out
    assert faded() == 3
    assert set(MaintenanceRun.objects.values_list("day", flat=True)) == {timezone.localdate()}


def test_done_twice_a_day_it_belongs_to_the_day_once(run, aged, configure):
    configure(maintenance_operations="consolidate")
    assert run("maintain").code == run("maintain").code == 0
    assert MaintenanceRun.objects.filter(day=None).count() == 1
    assert MaintenanceRun.objects.filter(status=Status.DONE).count() == 2


def test_it_is_journaled_under_the_persons_name(run, aged):
    run("maintain", "consolidate")
    assert set(JournalEntry.objects.filter(object_type="run").values_list("operation", flat=True)) == {"run"}
    assert JournalEntry.objects.get(object_type="run").actor.startswith("command:")


def test_a_dry_run_prints_what_would_change_and_changes_nothing(run, aged):
    ran = run("maintain", "consolidate", "--dry-run")
    assert ran.code == 0
    assert "consolidate (dry run): 3 decay" in ran.out
    lines = [line for line in ran.out.splitlines() if line.startswith("  decay")]
    assert "The first title" in lines[0]
    assert "not used for 10 days: 0.50 → 0.30" in lines[0]
    assert len({line.index("not used") for line in lines}) == 1, "the columns are aligned"
    assert faded() == 0


def test_only_public_titles_are_printed(run, aged):
    out = run("maintain", "consolidate", "--dry-run").out
    assert "The hidden title" not in out
    assert f"{aged[1].uid} (secret)" in out
    assert "A title of my own" not in out
    assert f"{aged[2].uid} (personal)" in out


def test_a_long_table_is_cut(run, aged, monkeypatch):
    monkeypatch.setattr(maintain, "MAX_CHANGES", 1)
    out = run("maintain", "consolidate", "--dry-run").out
    assert "… and 2 more; see run" in out


def test_a_change_of_several_memories_is_one_line(run, db):
    old = timezone.now() - timedelta(days=1000)
    for name in "abc":
        Session.objects.create(session_id=name, project="p", started_at=old, last_at=old)
    out = run("maintain", "prune_events", "--dry-run").out
    assert "3 sessions of" in out
    assert "more; see run" not in out


def test_a_project_alone(run, aged):
    assert run("maintain", "consolidate", "--project", "p").code == 0
    assert faded() == 1
    assert run("maintain", "--project", "p").code == 0
    assert not MaintenanceRun.objects.exclude(day=None).exists(), "a part is not the day's maintenance"


def test_parameters_are_given_by_name(run, remember):
    remember("expired")
    Memory.objects.update(expires_at=timezone.now() - timedelta(days=3))
    assert "nothing to change" in run("maintain", "purge_expired", "--param", "grace_days=5").out
    assert "1 purge" in run("maintain", "purge_expired", "-p", "grace_days=2").out
    assert not Memory.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dance"], "operation: there is no such operation"),
        (["consolidate", "dance"], "operation: there is no such operation"),
        (["consolidate", "--param", "colour=red"], "colour: consolidate has no such parameter"),
        (["consolidate", "--param", "colour"], "--param must be NAME=VALUE, not colour"),
        (["consolidate", "evict", "--param", "project=p"], "--param belongs to one operation"),
        (["--param", "project=p"], "--param belongs to an operation"),
        (["consolidate", "--waiting"], "--waiting cannot be combined"),
        (["--undo", "x", "--resume", "y"], "cannot be combined"),
        (["--undo", "x"], "there is no such run"),
        (["consolidate", "--project", "a\x00b"], "--project"),
    ],
)
def test_an_impossible_request_is_explained(run, db, arguments, words):
    ran = run("maintain", *arguments)
    assert ran.code == 1
    assert words in ran.err
    assert not MaintenanceRun.objects.exists()


def test_a_misspelt_schedule_is_no_silent_success(run, db, configure):
    configure(maintenance_operations="dance")
    ran = run("maintain")
    assert ran.code == 1
    assert "dance" in ran.err


def test_a_failure_is_reported_and_the_other_runs_continue(run, aged, lifting, configure):  # noqa: F811
    configure(maintenance_operations="lift,consolidate")
    lifting.before = lambda number: 1 / 0
    ran = run("maintain")
    assert ran.code == 1
    assert "failed: lift (ZeroDivisionError; see the log of the hub)" in ran.err
    assert "consolidate: " in ran.out
    assert MaintenanceRun.objects.get(operation="consolidate").status == Status.DONE


def test_the_operations_the_schedule_and_the_latest_runs_are_listed(run, aged, configure):
    configure(maintenance_worker=False, maintenance_at="04:15")
    run("maintain", "consolidate")
    out = run("maintain", "--list").out
    for name, operation in OPERATIONS.items():
        assert name in out
        assert operation.label in out
    assert "at 04:15 UTC, next on " in out
    assert "Its worker is switched off" in out
    assert MaintenanceRun.objects.get().uid in out
    assert "done, 3 changes, by command:" in out


def test_queued_runs_are_executed_and_none_is_started(run, aged, actor):
    runs.enqueue("consolidate", {}, actor)
    assert "consolidate: 3 decay" in run("maintain", "--waiting").out
    assert run("maintain", "--waiting").out == "Nothing to do.\n"


def test_without_names_queued_runs_come_first(run, aged, actor, configure):
    configure(maintenance_operations="evict")
    runs.enqueue("consolidate", {"project": "p"}, actor)
    assert [line.split(":")[0] for line in run("maintain").out.splitlines()] == ["consolidate", "evict"]


def test_a_run_is_undone(run, aged):
    run("maintain", "consolidate")
    uid = MaintenanceRun.objects.get().uid
    assert "3 undone" in run("maintain", "--undo", uid).out
    assert faded() == 0
    assert f"(undoes {uid})" in run("maintain", "--list").out


def test_an_interrupted_run_continues(run, aged, actor):
    one = runs.enqueue("consolidate", {}, actor)
    MaintenanceRun.objects.update(
        status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=one.created_at
    )
    MaintenanceRun.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    assert "consolidate: 3 decay" in run("maintain", "--resume", one.uid).out


def test_ctrl_c_stops_all_of_it(run, aged, lifting, configure):  # noqa: F811
    configure(maintenance_operations="lift,consolidate")

    def press(number: int) -> None:
        raise KeyboardInterrupt

    lifting.before = press
    ran = run("maintain")
    assert ran.code == 130
    assert "--resume" in ran.err
    assert set(MaintenanceRun.objects.values_list("cause", flat=True)) == {Cause.STOPPED}


@pytest.fixture
def go_on(monkeypatch) -> threading.Event:
    """Set when the command sleeps because it waits for a run."""
    event = threading.Event()
    waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: event.set() or time.sleep(0.01))
    monkeypatch.setattr(maintain, "time", waiting)
    return event


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_waits_for_a_run_of_the_server_and_prints_it(run, aged, lifting, actor, go_on):  # noqa: F811
    inside = threading.Event()
    lifting.before = lambda number: (inside.set(), go_on.wait(60))
    other = runs.enqueue("lift", {}, actor)

    def serve() -> None:
        executor.execute(MaintenanceRun.objects.get(pk=other.pk))
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert inside.wait(60)
    refused = run("maintain", "lift")
    assert refused.code == 1
    assert f"run {other.uid} of lift is running on the same memories" in refused.err
    ran = run("maintain", "consolidate")
    thread.join()
    other.refresh_from_db()
    assert MaintenanceRun.objects.get(operation="consolidate").started_at >= other.finished_at
    assert f"waiting for lift (run {other.uid}), which the server or another command is running" in ran.out
    assert "consolidate: 3 " in ran.out


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_command_follows_a_run_that_the_server_claimed(run, aged, lifting, monkeypatch, go_on):  # noqa: F811
    inside = threading.Event()
    servers: list[threading.Thread] = []
    lifting.before = lambda number: (inside.set(), go_on.wait(60))
    work = executor.execute

    def server_is_quicker(run: MaintenanceRun, **options) -> bool:
        def serve() -> None:
            work(MaintenanceRun.objects.get(pk=run.pk))
            connection.close()

        server = threading.Thread(target=serve)
        server.start()
        servers.append(server)
        assert inside.wait(60)
        return work(run, **options)

    monkeypatch.setattr(executor, "execute", server_is_quicker)
    ran = run("maintain", "lift")
    for server in servers:
        server.join()
    assert "lift: the server works on it" in ran.out
    assert "lift: 3 boost" in ran.out


# doctor


def finding(check: doctor.Check) -> doctor.Finding:
    [found] = check.findings()
    return found


def test_doctor_finds_runs_without_a_worker(run, aged, actor):
    assert finding(doctor.content.maintenance_runs).status is Found.OK
    one = runs.enqueue("consolidate", {}, actor)
    hour = timedelta(hours=1)
    MaintenanceRun.objects.update(
        status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=timezone.now() - hour
    )
    found = finding(doctor.content.maintenance_runs)
    assert found.status is Found.WARN
    assert one.uid in found.text
    assert list(doctor.content.maintenance_runs.fix()) == ["marked 1 runs as interrupted"]
    found = finding(doctor.content.maintenance_runs)
    assert f"manage.py maintain --resume {one.uid}" in found.hint
    run("maintain", "--resume", one.uid)
    assert finding(doctor.content.maintenance_runs).status is Found.OK


def test_doctor_leaves_alone_what_lives(aged, actor):
    runs.enqueue("consolidate", {}, actor)
    MaintenanceRun.objects.update(status=Status.RUNNING, worker=worker_id(), heartbeat_at=timezone.now())
    assert finding(doctor.content.maintenance_runs).status is Found.OK


def test_doctor_finds_queued_runs_that_no_worker_claims(aged, actor):
    runs.enqueue("consolidate", {}, actor, now=timezone.now() - timedelta(hours=2))
    assert "manage.py maintain --waiting" in finding(doctor.content.maintenance_runs).hint


def test_doctor_warns_about_a_schedule_without_runs(db, configure):
    configure(maintenance_at="03:30")
    assert finding(doctor.content.daily_maintenance).status is Found.OK
    MigrationRecorder.Migration.objects.update(applied=timezone.now() - timedelta(days=5))
    found = finding(doctor.content.daily_maintenance)
    assert found.text == "has not run since the store was created"
    assert found.hint.startswith("Start the server, or let cron run")
    configure(maintenance_at="03:30", maintenance_worker=False)
    assert finding(doctor.content.daily_maintenance).hint.startswith("Set maintenance_at and")
    today = timezone.localdate()
    for day, status in ((today - timedelta(days=2), Found.WARN), (today - timedelta(days=1), Found.OK)):
        runs.enqueue("consolidate", {}, system_actor("schedule"), day=day, may_wait=True)
        found = finding(doctor.content.daily_maintenance)
        assert found.status is status
        assert f"{day:%Y-%m-%d}" in found.text


def test_doctor_finds_a_misspelt_operation(db, configure):
    configure(maintenance_operations="dance")
    assert finding(doctor.content.daily_maintenance).status is Found.FAIL

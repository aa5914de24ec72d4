"""A clock that jumps ahead removes nothing until a person confirms it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryhub import memories
from memoryhub.audit import clock
from memoryhub.audit.clock import Reading
from memoryhub.core import dates
from memoryhub.maintenance import executor, runs
from memoryhub.maintenance.operations import OPERATIONS, run_now
from memoryhub.maintenance.worker import Worker
from memoryhub.memories import Conflict
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import ClockState, JournalEntry, MaintenanceRun, Memory
from memoryhub.ops import doctor, serving, worker
from memoryhub.ops.doctor import content

DAY = timedelta(days=1)
pytestmark = pytest.mark.django_db


@dataclass
class Machine:
    """A machine whose clock and uptime the test sets."""

    at: datetime
    boot: str = "first"
    uptime: timedelta = timedelta(hours=1)
    is_synchronised: bool = False

    def read(self) -> Reading:
        return Reading(self.at, self.boot, self.uptime.total_seconds())

    def run(self, time: timedelta) -> None:
        """Let time pass while the hub reads the clock now and then."""
        for _ in range(max(time // (DAY / 2), 1)):
            step = min(time, DAY / 2)
            self.at, self.uptime = self.at + step, self.uptime + step
            clock.check()

    def sleep(self, time: timedelta) -> None:
        """Let time pass while the hub is off."""
        self.at, self.uptime = self.at + time, self.uptime + time

    def restart(self, time: timedelta) -> None:
        self.at, self.boot, self.uptime = self.at + time, self.boot + "+", timedelta(minutes=1)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(datetime(2026, 5, 4, 12, tzinfo=UTC))
    monkeypatch.setattr(clock, "read", lambda: machine.read())
    monkeypatch.setattr(clock, "is_synchronised", lambda: machine.is_synchronised)
    monkeypatch.setattr(timezone, "now", lambda: machine.at)
    clock.check()
    return machine


def test_ordinary_time_pauses_nothing(machine):
    machine.run(3 * DAY)
    assert clock.check() is None


def test_a_jump_ahead_is_noticed_while_the_hub_runs(machine):
    machine.at += 135 * DAY
    found = clock.check()
    assert (found.days, found.proven) == (135, True)


def test_a_jump_ahead_is_noticed_after_a_restart_of_the_hub(machine):
    machine.sleep(2 * DAY)
    machine.at += 135 * DAY
    found = clock.check()
    assert (found.days, found.proven) == (135, True)


def test_a_jump_stays_unconfirmed_however_long_the_hub_runs(machine):
    machine.at += 135 * DAY
    machine.run(3 * DAY)
    assert clock.check() is not None


def test_a_corrected_clock_ends_the_pause(machine):
    machine.at += 135 * DAY
    assert clock.check()
    machine.run(DAY / 2)
    machine.at -= 135 * DAY
    assert clock.check() is None
    assert not dates.is_in_doubt()


def test_a_clock_that_was_behind_and_is_corrected_pauses_nothing(machine):
    machine.at -= 5 * DAY
    assert clock.check() is None
    machine.run(DAY / 2)
    machine.at += 5 * DAY
    assert clock.check() is None


def test_a_hub_that_was_not_used_for_a_month_is_not_paused(machine):
    machine.sleep(30 * DAY)
    assert clock.check() is None


def test_a_machine_that_was_off_for_a_month_pauses_for_a_day_of_uptime(machine):
    machine.restart(30 * DAY)
    found = clock.check()
    assert (found.days, found.proven) == (30, False)
    machine.run(DAY)
    assert clock.check() is not None
    machine.run(DAY / 2)
    assert clock.check() is None


def test_a_synchronised_clock_is_trusted(machine):
    machine.is_synchronised = True
    machine.restart(30 * DAY)
    assert clock.check() is None


def test_a_machine_that_was_off_for_a_night_is_not_paused(machine):
    machine.restart(DAY)
    assert clock.check() is None


def test_a_recent_journal_row_proves_the_time(machine, remember):
    machine.restart(30 * DAY)
    remember("written by a command, which does not read the clock")
    assert clock.check() is None


def test_memories_do_not_expire_by_a_jump(machine, remember):
    memory = remember("kept", ttl_days=10)
    machine.at += 135 * DAY
    clock.check()
    assert list(Memory.objects.live()) == [memory]
    assert not memory.is_expired(machine.at)
    machine.run(10 * DAY)
    assert not Memory.objects.live().exists()


def test_restoring_a_live_memory_after_a_jump_changes_nothing(machine, remember, actor):
    memory = remember("kept", ttl_days=10)
    machine.at += 135 * DAY
    clock.check()
    assert memories.restore_memories([memory.uid], actor) == []
    assert not JournalEntry.objects.filter(operation="restore").exists()


def test_a_person_can_expire_a_memory_after_a_jump(machine, remember, actor):
    memory = remember("kept", ttl_days=300)
    machine.at += 135 * DAY
    clock.check()
    acted = memories.apply_bulk_action("expire", [memory.uid], actor)
    assert not Memory.objects.live().exists()
    memories.undo_bulk_action(acted.id, actor, acted.first, acted.last)
    assert Memory.objects.live().exists()


def test_a_jump_purges_and_fades_nothing(machine, remember, actor):
    remember("expires", ttl_days=10)
    remember("fades", ttl_days=None, importance=0.4)
    machine.at += 135 * DAY
    clock.check()
    before = list(Memory.objects.order_by("pk").values())
    assert memories.purge_expired(actor) == 0
    assert run_now("consolidate", {}, actor).changed == 0
    assert list(Memory.objects.order_by("pk").values()) == before


def test_a_jump_pauses_eviction_over_the_cap(machine, remember, actor, configure):
    configure(max_memories=1)
    remember("first")
    machine.at += 135 * DAY
    clock.check()
    stored = memories.create_memory(MemoryDraft(content="second"), actor).memory
    assert stored.over_cap
    assert Memory.objects.live().count() == 2


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.depends_on_age])
def test_operations_that_depend_on_age_are_refused_after_a_jump(machine, actor, name):
    machine.at += 135 * DAY
    with pytest.raises(Conflict, match="the clock jumped 135 days ahead"):
        runs.enqueue(name, {}, actor)
    assert runs.enqueue(name, {}, actor, dry_run=True)


def test_a_queued_run_fails_after_a_jump_and_can_be_resumed(machine, remember, actor):
    remember("fades", importance=0.4)
    run = runs.enqueue("consolidate", {}, actor)
    machine.at += 10 * DAY
    executor.execute(run)
    assert (run.status, runs.is_resumable(run)) == ("failed", True)
    clock.confirm(actor)
    assert executor.execute(runs.resume(run.uid, actor))


def test_the_daily_maintenance_waits_for_confirmation(machine, actor, configure):
    configure(maintenance_at="03:30", maintenance_operations="consolidate,purge_expired")
    MigrationRecorder.Migration.objects.update(applied=machine.at)
    machine.run(DAY)
    machine.at += 135 * DAY
    Worker(dry_runs=False).run_once()
    assert not MaintenanceRun.objects.exists()
    clock.confirm(actor)
    assert [run.operation for run in runs.enqueue_due()] == ["consolidate", "purge_expired"]


def test_the_grace_period_counts_days_of_uptime(machine, remember, actor):
    remember("expires", ttl_days=10)
    machine.at += 135 * DAY
    clock.check()
    clock.confirm(actor)
    assert memories.purge_expired(actor, 30) == 0
    machine.run(28 * DAY)
    assert memories.purge_expired(actor, 30) == 0
    machine.run(2 * DAY)
    assert memories.purge_expired(actor, 30) == 1


def test_time_before_the_first_reading_counts(machine, remember, actor):
    memory = remember("expired long ago", ttl_days=10)
    Memory.objects.filter(pk=memory.pk).update(expires_at=machine.at - 31 * DAY)
    assert memories.purge_expired(actor, 30) == 1


def test_days_of_earlier_maintenance_count(machine, remember, actor):
    ClockState.objects.all().delete()
    for number in range(5):
        MaintenanceRun.objects.create(operation="consolidate", day=(machine.at - number * 9 * DAY).date())
    clock.check()
    memory = remember("expired", ttl_days=10)
    Memory.objects.filter(pk=memory.pk).update(expires_at=machine.at - 26 * DAY)
    assert memories.purge_expired(actor, 4) == 0
    Memory.objects.filter(pk=memory.pk).update(expires_at=machine.at - 28 * DAY)
    assert memories.purge_expired(actor, 4) == 1


def test_confirming_the_clock_is_journaled(machine, actor):
    machine.at += 135 * DAY
    assert clock.confirm(actor).days == 135
    assert clock.check() is None
    row = JournalEntry.objects.get(operation=clock.CONFIRMED)
    assert (row.actor, row.detail) == (actor.name, {"days": 135, "proven": True})
    assert clock.confirm(actor) is None


def test_the_command_confirms_the_clock(machine):
    machine.at += 135 * DAY
    with pytest.raises(CommandError, match="the clock jumped 135 days ahead"):
        call_command("maintain", "consolidate")
    out = StringIO()
    call_command("maintain", "--confirm-clock", stdout=out)
    assert "Confirmed: the clock jumped 135 days ahead" in out.getvalue()
    call_command("maintain", "consolidate")


def test_a_worker_notices_a_jump_before_its_first_request(machine, remember, monkeypatch):
    memory = remember("short", ttl_days=1)
    for name in ("threading", "signal", "worker", "connections", "end_with_main_process", "load"):
        monkeypatch.setattr(worker, name, Mock())
    machine.at += 2 * DAY
    assert memory not in Memory.objects.live()
    worker.create_application()
    assert memory in Memory.objects.live()


def test_the_start_of_the_server_reports_a_jump(machine):
    machine.at += 135 * DAY
    before = list(ClockState.objects.values())
    assert any("the clock jumped 135 days ahead" in sentence for sentence in serving.prepare_store())
    assert list(ClockState.objects.values()) == before


def test_readyz_warns_of_a_jump(machine, client):
    assert client.get("/readyz").json() == {"status": "ok"}
    machine.at += 135 * DAY
    clock.check()
    response = client.get("/readyz")
    assert response.status_code == 200
    [warning] = response.json()["warnings"]
    assert warning["field"] == "clock"
    assert not any(character.isdigit() for character in warning["message"])


def test_doctor_reports_a_jump(machine):
    machine.at += 135 * DAY
    before = list(ClockState.objects.values())
    [report] = doctor.examine([content.clock])
    assert list(ClockState.objects.values()) == before, "doctor also examines stores that cannot be written"
    assert report.status is doctor.Status.FAIL
    assert "the clock jumped 135 days ahead" in report.findings[0].text
    assert "maintain --confirm-clock" in report.findings[0].hint


def test_the_maintenance_page_shows_a_jump_and_confirms_it(machine, request, client: Any):
    machine.at += 135 * DAY
    clock.check()
    admin_client = request.getfixturevalue("admin_client")  # signed in after the jump
    page = admin_client.get("/maintenance/")
    assert b"The clock jumped 135 days ahead." in page.content
    assert client.post("/maintenance/clock/").status_code == 302  # to the login
    assert clock.check() is not None
    assert admin_client.post("/maintenance/clock/").status_code == 302
    assert clock.check() is None
    assert b"jumped" not in admin_client.get("/maintenance/").content


def test_only_administrators_confirm_the_clock(machine, client, django_user_model):
    client.force_login(django_user_model.objects.create_user("ada", is_staff=True))
    assert client.post("/maintenance/clock/").status_code == 403

"""Test when the daily maintenance is due and what it queues."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.core.checks import run_checks
from django.db import IntegrityError
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.maintenance import executor, results, runs
from memoryhub.models import MaintenanceRun, Memory, RunChanges

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def old_store(db, configure):
    """A store created long before :data:`NOON` that is consolidated daily."""
    MigrationRecorder.Migration.objects.update(applied=NOON - 30 * DAY)
    configure(maintenance_at="03:30", maintenance_operations="consolidate")


def test_last_and_next_due_time(configure, settings):
    configure(maintenance_at="03:30")
    assert runs.last_due_time(NOON) == NOON.replace(hour=3, minute=30)
    assert runs.next_due_time(NOON) == (NOON + DAY).replace(hour=3, minute=30)
    before = NOON.replace(hour=3, minute=29)
    assert runs.last_due_time(before) == (NOON - DAY).replace(hour=3, minute=30)
    settings.TIME_ZONE = "Asia/Tokyo"
    assert runs.last_due_time(NOON) == datetime(2026, 5, 9, 18, 30, tzinfo=UTC)


def test_due_time_ignores_clock_changes(configure, settings):
    configure(maintenance_at="03:30")
    settings.TIME_ZONE = "Europe/Berlin"
    winter, summer = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 29, 12, tzinfo=UTC)
    assert runs.last_due_time(winter).astimezone(UTC).hour == 2
    assert runs.last_due_time(summer).astimezone(UTC).hour == 1


def test_without_a_time_there_is_no_schedule(old_store, configure):
    configure(maintenance_at="")
    assert runs.last_due_time(NOON) is runs.next_due_time(NOON) is None
    assert runs.enqueue_due(NOON) == []


def test_missed_maintenance_runs_once(old_store):
    [run] = runs.enqueue_due(NOON)
    assert (run.operation, run.day, run.actor) == ("consolidate", date(2026, 5, 10), "system:schedule")
    assert runs.enqueue_due(NOON) == []
    assert runs.enqueue_due(NOON + DAY / 2) == []
    [following] = runs.enqueue_due(NOON + DAY)
    assert following.day == date(2026, 5, 11)


def test_missed_week_is_one_run(old_store):
    runs.enqueue_due(NOON)
    assert len(runs.enqueue_due(NOON + 7 * DAY)) == 1


def test_maintenance_under_a_clock_that_was_ahead_does_not_delay_the_next(old_store):
    a_year_ahead = NOON + 365 * DAY
    assert len(runs.enqueue_due(a_year_ahead)) == 1
    MaintenanceRun.objects.update(status="done")
    assert runs.is_due(NOON)
    assert len(runs.enqueue_due(NOON)) == 1
    assert not runs.is_due(NOON)


def test_store_that_was_created_under_a_clock_that_was_ahead_has_maintenance(old_store):
    MigrationRecorder.Migration.objects.update(applied=NOON + 365 * DAY)
    assert runs.is_due(NOON)


def test_new_store_waits_for_its_first_due_time(old_store):
    MigrationRecorder.Migration.objects.update(applied=NOON - timedelta(hours=1))
    assert runs.enqueue_due(NOON) == []
    assert len(runs.enqueue_due(NOON + DAY)) == 1


def test_the_operations_run_in_the_order_of_the_configuration(old_store, configure):
    configure(maintenance_operations="evict,consolidate")
    assert [run.operation for run in runs.enqueue_due(NOON)] == ["evict", "consolidate"]


def test_unknown_and_disabled_operations_are_left_out(old_store, configure):
    configure(maintenance_operations="evict,consolidate,dance", capability_consolidation=False)
    assert runs.daily_operations() == ["evict"]
    assert runs.unknown_operations() == ["dance"]


def test_a_run_of_the_same_operation_does_not_cancel_the_day(old_store, actor):
    runs.enqueue("consolidate", {}, actor)
    assert len(runs.enqueue_due(NOON)) == 1


def test_daily_purge_keeps_memories_that_can_be_restored(old_store, configure, remember):
    configure(maintenance_operations="purge_expired", expiry_grace_days=30)
    lately, long_ago = remember("lately expired"), remember("long expired")
    Memory.objects.filter(pk=lately.pk).update(expires_at=timezone.now() - 29 * DAY)
    Memory.objects.filter(pk=long_ago.pk).update(expires_at=timezone.now() - 31 * DAY)
    [run] = runs.enqueue_due(NOON)
    assert executor.execute(run)
    assert list(Memory.objects.all()) == [lately]


def test_daily_runs_cover_all_owners_and_known_levels(old_store, remember, stranger, four_levels):
    personal = remember("of somebody else", by=stranger, scope="personal")
    Memory.objects.update(updated_at=timezone.now() - 10 * DAY)
    [run] = runs.enqueue_due(NOON)
    assert executor.execute(run)
    tended = set(Memory.objects.exclude(consolidated_at=None))
    assert tended == {personal, *(memory for level, memory in four_levels.items() if level != "cosmic")}


def test_a_day_has_one_run_of_each_operation(old_store):
    runs.enqueue_due(NOON)
    with pytest.raises(IntegrityError):
        runs.enqueue("consolidate", {}, system_actor("x"), day=date(2026, 5, 10), may_wait=True)


def test_unknown_operation_is_a_configuration_error(db, configure):
    configure(maintenance_operations="consolidate,compres")
    [message] = [found for found in run_checks() if found.id == "memoryhub.E004"]
    assert "'compres'" in message.msg
    assert "compress" in message.hint


def test_default_operations_exist():
    assert runs.unknown_operations() == []


def test_daily_runs_need_the_system_clearance(old_store, actor):
    [run] = runs.enqueue_due(NOON)
    assert not results.visible_result(run, actor.clearance, counted=False).whole
    assert runs.stop(run.uid, actor)


def test_old_change_lists_and_runs_are_deleted(old_store, remember, actor, configure):
    configure(maintenance_operations="consolidate", event_retention_days=180)
    remember("a memory")
    Memory.objects.update(updated_at=NOON - 400 * DAY)
    made = []
    for days in (200, 40, 10):
        run = runs.enqueue("consolidate", {}, actor, dry_run=True)
        assert executor.execute(run)
        MaintenanceRun.objects.filter(pk=run.pk).update(created_at=NOON - days * DAY)
        made.append(run)
    [daily] = runs.enqueue_due(NOON)
    assert set(MaintenanceRun.objects.all()) == {made[1], made[2], daily}
    assert set(RunChanges.objects.values_list("run", flat=True)) == {made[2].pk}


def test_identical_queued_run_is_not_queued_again(db, actor, low):
    first = runs.enqueue("consolidate", {"project": "p"}, actor, may_wait=True)
    assert runs.enqueue("consolidate", {"project": "p"}, actor, may_wait=True) == first
    others = [
        runs.enqueue("consolidate", {"project": "q"}, actor, may_wait=True),
        runs.enqueue("consolidate", {"project": "p"}, low, may_wait=True),
    ]
    assert first not in others
    MaintenanceRun.objects.update(status=MaintenanceRun.Status.RUNNING, started_at=timezone.now())
    assert runs.enqueue("consolidate", {"project": "p"}, actor, may_wait=True) not in (first, *others)

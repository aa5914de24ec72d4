"""``purge_expired``: what goes for good, and what is spared."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import JournalEntry, Memory

pytestmark = pytest.mark.django_db


@pytest.fixture
def expired(remember):
    """``expired("text", 3, …)`` expired that many days ago."""

    def make(content: str, days: float, **fields: object) -> Memory:
        memory = remember(content, ttl_days=1, **fields)
        Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now() - timedelta(days=days))
        return memory

    return make


def left() -> set[str]:
    return set(Memory.objects.values_list("content", flat=True))


def test_expired_memories_are_deleted_and_the_others_stay(run, remember, expired):
    remember("lives")
    expired("gone", 0.01, project="zoo")
    ran = run("purge_expired")
    assert ran.code == 0
    assert "Purged 1 expired memory" in ran.out
    assert "1  zoo" in ran.out
    assert left() == {"lives"}


def test_each_purged_memory_leaves_a_row_of_the_journal(run, expired):
    gone = expired("gone", 1)
    run("purge_expired")
    row = JournalEntry.objects.get(operation="purge")
    assert row.object_id == gone.uid
    assert row.actor.startswith("command:")


def test_a_grace_period_keeps_recently_expired_memories_and_is_printed(run, expired):
    expired("lately", 3)
    expired("long ago", 8)
    ran = run("purge_expired", "--grace-days", 7)
    assert left() == {"lately"}
    assert "Kept 1 memory that expired in the last 7 days" in ran.out


def test_the_scheduled_job_waits_as_long_as_the_configuration_says(run, expired, configure):
    expired("ten days", 10)
    expired("forty days", 40)
    run("purge_expired", "--scheduled")
    assert left() == {"ten days"}
    configure(expiry_grace_days=5)
    run("purge_expired", "--scheduled")
    assert left() == set()


def test_a_dry_run_counts_and_removes_nothing(run, expired):
    expired("gone", 1)
    before = JournalEntry.objects.count()
    ran = run("purge_expired", "--dry-run")
    assert "Would purge 1 expired memory" in ran.out
    assert left() == {"gone"}
    assert JournalEntry.objects.count() == before


def test_every_known_level_and_everyones_personal_memories_are_purged(run, expired):
    for level in ("public", "private", "secret"):
        expired(level, 1, sensitivity=level)
    expired("personal", 1, scope="personal")
    assert "Purged 4 expired memories" in run("purge_expired").out
    assert left() == set()


def test_a_memory_of_an_unknown_level_is_not_purged(run, expired):
    odd = expired("odd", 1)
    Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
    assert "Purged 0" in run("purge_expired").out
    assert left() == {"odd"}


@pytest.mark.parametrize("days", ["-1", "nan", "99999"])
def test_an_unfit_grace_is_refused(run, expired, days):
    expired("gone", 1)
    ran = run("purge_expired", "--grace-days", days)
    assert ran.code == 1
    assert "--grace-days must be between" in ran.err
    assert left() == {"gone"}


def test_two_graces_at_once_are_refused(run):
    assert "not allowed with" in run("purge_expired", "--scheduled", "--grace-days", "3").err

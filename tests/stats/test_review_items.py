"""The review queue: reasons, order, approval and visibility."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from memoryhub.stats import counts
from memoryhub.stats.counts import (
    FLAGGED,
    NEW,
    OUTDATED,
    REASONS,
    UNSURE,
    Reviewer,
    count_by_reason,
    select_queue,
)
from memoryhub.web.base.navigation import DEFAULT_NEW_DAYS, new_since

APPROVED = (NEW, UNSURE, FLAGGED)  # the reasons that an approval ends
Remember = Callable[..., Memory]
ADA = Actor("user:ada", Clearance.up_to("secret", owner="ada"))


def reader(since_days: float = 1) -> Reviewer:
    return Reviewer("user:ada", timezone.now() - timedelta(days=since_days))


def waiting(reason: str, clearance: Clearance = ADA.clearance, who: Reviewer | None = None) -> list[Memory]:
    return list(select_queue(Memory.objects.visible_to(clearance).live(), reason, who or reader()))


def change(memory: Memory, **values: Any) -> Memory:
    Memory.objects.filter(pk=memory.pk).update(**values)
    memory.refresh_from_db()
    return memory


class TestNew:
    def test_new_memories_of_others_wait_newest_first(self, remember: Remember) -> None:
        one, other = remember("one"), remember("other")
        assert waiting(NEW) == [other, one]

    def test_older_memories_do_not_wait(self, remember: Remember) -> None:
        change(remember("old"), created_at=timezone.now() - timedelta(days=3))
        assert waiting(NEW) == []
        assert len(waiting(NEW, who=reader(4))) == 1

    def test_imported_memories_wait_whatever_their_age(self, remember: Remember) -> None:
        long_ago = timezone.now() - timedelta(days=900)
        old = change(remember("old"), created_at=long_ago, imported_at=timezone.now())
        assert waiting(NEW) == [old]

    def test_own_memories_do_not_wait(self, remember: Remember) -> None:
        remember("mine", by=ADA)
        assert waiting(NEW) == []
        assert len(waiting(NEW, who=Reviewer("user:eve", timezone.now() - timedelta(days=1)))) == 1

    def test_first_visit_shows_two_weeks_and_a_part_of_an_hour(self) -> None:
        now = timezone.now()
        two_weeks = timedelta(days=DEFAULT_NEW_DAYS)
        since = new_since(None, now)
        assert (since.minute, since.second, since.microsecond) == (0, 0, 0)
        assert timedelta() <= now - since - two_weeks < timedelta(hours=1)
        assert new_since(now, now) == now


class TestUnsure:
    def test_unsure_memories_wait_least_sure_first(self, remember: Remember) -> None:
        made = [remember(f"{n}", confidence=n) for n in (0.39, 0.1, 0.4, 0.9)]
        assert waiting(UNSURE) == [made[1], made[0]]

    def test_unsure_memories_wait_whatever_their_age(self, remember: Remember) -> None:
        change(remember("?", confidence=0.1), created_at=timezone.now() - timedelta(days=900))
        assert len(waiting(UNSURE)) == 1


class TestFlagged:
    def test_flagged_memories_wait(self, remember: Remember) -> None:
        remember("harmless")
        flagged = change(remember("harmful"), flags=["governor:override"])
        assert waiting(FLAGGED) == [flagged]


class TestApproval:
    @pytest.fixture
    def every_reason(self, remember: Remember) -> Memory:
        return change(remember("it", confidence=0.1), flags=["governor:leak"])

    def test_approved_memory_does_not_wait(self, every_reason: Memory) -> None:
        assert [waiting(reason) for reason in APPROVED] == [[every_reason]] * 3
        memories.apply_bulk_action("approve", [every_reason.uid], ADA)
        assert [waiting(reason) for reason in APPROVED] == [[]] * 3

    def test_change_by_an_agent_after_approval_waits_again(self, every_reason: Memory, actor: Actor) -> None:
        memories.apply_bulk_action("approve", [every_reason.uid], ADA)
        memories.update_memory(every_reason.uid, MemoryPatch(content="something else"), actor)
        assert waiting(UNSURE) == [every_reason]

    def test_change_by_a_person_after_approval_does_not_wait(self, every_reason: Memory) -> None:
        memories.apply_bulk_action("approve", [every_reason.uid], ADA)
        memories.update_memory(every_reason.uid, MemoryPatch(content="something better"), ADA)
        assert waiting(UNSURE) == []

    def test_undone_approval_waits_again(self, every_reason: Memory) -> None:
        done = memories.apply_bulk_action("approve", [every_reason.uid], ADA)
        memories.undo_bulk_action(done.id, ADA, done.first, done.last)
        assert [waiting(reason) for reason in APPROVED] == [[every_reason]] * 3


class TestVisibility:
    @pytest.mark.parametrize("reason", REASONS)
    @pytest.mark.parametrize(
        ("clearance", "seen"),
        [
            (Clearance(frozenset()), set()),
            (Clearance.up_to("cosmic"), set()),
            (Clearance.up_to("public"), {"public"}),
            (Clearance.up_to("private"), {"public", "private"}),
            (Clearance.up_to("secret"), {"public", "private", "secret"}),
            (Clearance.up_to("secret", projects=["elsewhere"]), set()),
        ],
        ids=["nothing", "unknown", "public", "private", "secret", "confined"],
    )
    def test_only_visible_memories_wait(
        self, four_levels: dict[str, Memory], reason: str, clearance: Clearance, seen: set[str]
    ) -> None:
        Memory.objects.update(confidence=0.1, flags=["governor:leak"], outdated_at=timezone.now())
        assert {memory.sensitivity for memory in waiting(reason, clearance)} == seen
        counted = count_by_reason(Memory.objects.visible_to(clearance).live(), reader())
        assert counted == {**dict.fromkeys(REASONS, len(seen)), "all": len(seen)}
        assert counts.count_waiting(Memory.objects.visible_to(clearance).live(), reader(), 9) == len(seen)

    def test_personal_memory_waits_only_for_its_owner(self, remember: Remember) -> None:
        eve = Actor("token:eve", Clearance.up_to("secret", owner="eve"))
        hers = remember("hers", by=eve, scope="personal", confidence=0.1)
        assert waiting(NEW) == waiting(UNSURE) == []
        assert waiting(UNSURE, eve.clearance) == [hers]

    def test_trashed_and_expired_memories_do_not_wait(self, remember: Remember, actor: Actor) -> None:
        memories.trash_memories([remember("gone", confidence=0.1).uid], actor)
        change(remember("past", confidence=0.1), expires_at=timezone.now() - timedelta(days=1))
        assert waiting(UNSURE) == []


def test_one_memory_counts_once_among_all(remember: Remember) -> None:
    change(remember("one", confidence=0.1), flags=["governor:leak"])
    remember("two")
    found = count_by_reason(Memory.objects.visible_to(ADA.clearance).live(), reader())
    assert found == {NEW: 2, UNSURE: 1, FLAGGED: 1, OUTDATED: 0, "all": 2}


def test_counting_takes_one_query(remember: Remember) -> None:
    for n in range(12):
        remember(f"number {n}", confidence=0.1)
    with CaptureQueriesContext(connection) as queries:
        count_by_reason(Memory.objects.visible_to(ADA.clearance).live(), reader())
    assert len(queries) == 1


class TestBadge:
    def number(self, most: int = 99, since_days: float = 1) -> int:
        return counts.count_waiting(Memory.objects.visible_to(ADA.clearance).live(), reader(since_days), most)

    def test_badge_counts_memories_of_any_reason(self, remember: Remember) -> None:
        long_ago = timezone.now() - timedelta(days=900)
        remember("mine", by=ADA)
        change(remember("every reason", confidence=0.1), flags=["governor:leak"], imported_at=timezone.now())
        change(remember("imported"), created_at=long_ago, imported_at=timezone.now())
        change(remember("unsure", confidence=0.1), created_at=long_ago)
        change(remember("flagged"), created_at=long_ago, flags=["governor:leak"])
        change(remember("old"), created_at=long_ago)
        assert (
            self.number()
            == count_by_reason(Memory.objects.visible_to(ADA.clearance).live(), reader())["all"]
            == 4
        )

    def test_badge_count_is_limited(self, remember: Remember) -> None:
        for n in range(6):
            remember(f"number {n}", confidence=0.1)
        Memory.objects.update(flags=["governor:leak"], imported_at=timezone.now())
        assert [self.number(most) for most in (1, 5, 6, 7)] == [1, 5, 6, 6]

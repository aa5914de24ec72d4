"""A hypothesis state machine: any sequence of store operations by actors with different clearances.

Invariants after each step: only the named memories changed; every memory that disappeared has a journal row;
the full-text indexes equal the table; the journal's chain is valid; stored values can be read.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from memoryhub import memories
from memoryhub.access.policy import LEVELS, Actor, Clearance, level_rank
from memoryhub.audit import journal
from memoryhub.memories import StoreError, StoreResult
from memoryhub.memories.rows import LIST_FIELDS, join_aliases, list_values
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.database import index_is_sound

ACTORS = {
    "full": Actor("user:ada", Clearance.up_to("secret", owner="ada")),
    "low": Actor("token:low", Clearance.up_to("public", owner="lou")),
    "middle": Actor("token:mid", Clearance.up_to("private", owner="ada")),
    "gap": Actor("token:gap", Clearance(frozenset({"public", "secret"}), owner="gap")),
    "confined": Actor("token:zoo", Clearance.up_to("secret", owner="kim", projects=["zoo"])),
}
WHO = st.sampled_from(sorted(ACTORS))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "content": st.sampled_from(["one", "two", "three", "zebra stripes", "検索"]),
    "project": st.sampled_from(["", "zoo"]),
    "scope": st.sampled_from(["project", "project", "team", "personal"]),
    "sensitivity": st.sampled_from(LEVELS),
    "key": st.sampled_from(["", "", "k", "l"]),
    "title": st.sampled_from(["", "A title"]),
    "tags": st.lists(st.sampled_from(["t", "u"]), unique=True, max_size=2),
    "aliases": st.lists(st.sampled_from(["a", "A", "b"]), unique=True, max_size=2),
    "ttl_days": st.sampled_from([None, 1, 30]),
    "session_id": st.sampled_from(["", "s"]),
    "importance": st.sampled_from([0.1, 0.9]),
}
DRAFTS = st.fixed_dictionaries(
    {"content": FIELDS["content"]}, optional={k: v for k, v in FIELDS.items() if k != "content"}
)
PATCHES = st.fixed_dictionaries({}, optional=FIELDS).filter(bool)
COMPARED = (
    "content title project scope owner sensitivity key deleted_at expires_at importance session_id".split()
)


def dump() -> dict[str, dict[str, Any]]:
    found = Memory.objects.with_details()
    assert all(row.alias_text == join_aliases(list_values(row, "aliases")) for row in found)
    return {
        row.uid: {name: getattr(row, name) for name in COMPARED}
        | {name: list_values(row, name) for name in LIST_FIELDS}
        for row in found
    }


class StoreMachine(RuleBasedStateMachine):
    """A state machine. Each rule declares what it may have changed since the previous step."""

    @initialize()
    def begin(self) -> None:
        self.atom = transaction.atomic()
        self.atom.__enter__()
        self.now = timezone.now()
        self.before: dict[str, dict[str, Any]] = {}
        self.after: dict[str, dict[str, Any]] = {}  # the last step: as the invariants found it
        self.touched: set[str] = set()
        self.seen: dict[str, set[str]] = {name: set() for name in ACTORS}
        self.sees = self.seen
        self.last_seq = 0
        self.numbers = count(1000)

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atom.__exit__(None, None, None)

    def step(self, hours: int = 1) -> None:
        self.now += timedelta(hours=hours)
        self.before, self.touched = self.after, set()
        self.last_seq = JournalEntry.objects.count()
        self.seen = self.sees

    def visible(self, actor: Actor) -> list[str]:
        shown = Memory.objects.visible_to(actor.clearance).filter(deleted_at__isnull=True)
        return list(shown.values_list("uid", flat=True))

    def some(self, number: int) -> str:
        rows = Memory.objects.filter(uid__in=self.before).order_by("pk")
        uids = list(rows.values_list("uid", flat=True))
        return uids[number % len(uids)] if uids else "nosuch"

    @rule(who=WHO, fields=DRAFTS)
    def remember(self, who: str, fields: dict[str, Any]) -> None:
        self.step()
        try:
            done = memories.create_memory(MemoryDraft(**fields), ACTORS[who], self.now)
        except StoreError:
            return
        self.touched = {done.memory.uid}
        self.check_outcome(done, fields, ACTORS[who])
        again = memories.create_memory(MemoryDraft(**fields), ACTORS[who], self.now)
        assert again.outcome != "created" or not self.may_know(done.memory.uid, ACTORS[who])
        self.touched.add(again.memory.uid)

    @rule(who=WHO, many=st.lists(DRAFTS, min_size=2, max_size=5))
    def remember_many(self, who: str, many: list[dict[str, Any]]) -> None:
        self.step()
        results = memories.create_memories([MemoryDraft(**fields) for fields in many], ACTORS[who], self.now)
        assert len(results) == len(many)
        done = [(r, fields) for r, fields in zip(results, many, strict=True) if isinstance(r, StoreResult)]
        self.touched = {result.memory.uid for result, _ in done}
        last = {result.memory.uid: fields["content"] for result, fields in done}
        stored = dict(Memory.objects.values_list("uid", "content"))
        assert {uid: stored[uid] for uid in last} == last
        assert {r.memory.uid for r, _ in done if r.outcome == "created"} == self.touched - self.before.keys()

    @rule(who=WHO, number=st.integers(0, 20), fields=PATCHES)
    def update(self, who: str, number: int, fields: dict[str, Any]) -> None:
        self.step()
        uid, allowed = self.some(number), self.visible_uids(who)
        try:
            memory = memories.update_memory(uid, MemoryPatch(**fields), ACTORS[who], self.now)
        except StoreError:
            return
        assert uid in allowed
        self.touched = {uid}
        for name in fields.keys() & {"content", "scope", "sensitivity", "key", "importance", "session_id"}:
            assert getattr(memory, name) == fields[name]

    @rule(who=WHO, number=st.integers(0, 20), what=st.sampled_from(["trash", "restore", "erase", "expire"]))
    def end_or_revive(self, who: str, number: int, what: str) -> None:
        self.step()
        uid = self.some(number)
        allowed = self.visible_uids(who)
        if what == "expire":
            done = memories.apply_bulk_action(what, [uid], ACTORS[who], now=self.now).done
        elif what == "erase":
            done = memories.erase_memories([uid], ACTORS[who])
        else:
            done = getattr(memories, f"{what}_memories")([uid], ACTORS[who], now=self.now)
        assert len(done) <= (uid in allowed)
        self.touched = {uid} if done else set()
        if what == "erase" and done:
            assert not Memory.objects.filter(uid=uid).exists()
        if what == "restore" and done:
            assert Memory.objects.live(self.now).filter(uid=uid).exists()

    @rule(who=WHO, hours=st.integers(1, 60))
    def purge(self, who: str, hours: int) -> None:
        self.step(hours)
        expired = set(Memory.objects.expired(self.now).values_list("uid", flat=True)) & self.visible_uids(who)
        assert memories.purge_expired(ACTORS[who], now=self.now) == len(expired)
        self.touched = expired
        assert not Memory.objects.filter(uid__in=expired).exists()

    @rule(number=st.integers(0, 20))
    def touch(self, number: int) -> None:
        self.step()
        if memory := Memory.objects.filter(uid=self.some(number)).first():
            memories.count_accesses([memory], self.now)

    @rule(number=st.integers(0, 20))
    def corrupt_a_level(self, number: int) -> None:
        """Set an unknown level directly in the database, which hides the memory from everyone."""
        self.step()
        uid = self.some(number)
        Memory.objects.filter(uid=uid).update(sensitivity="cosmic", copy=next(self.numbers))
        self.touched = {uid}
        self.seen = {name: uids - {uid} for name, uids in self.seen.items()}

    def visible_uids(self, who: str) -> set[str]:
        return set(Memory.objects.visible_to(ACTORS[who].clearance).values_list("uid", flat=True))

    def may_know(self, uid: str, actor: Actor) -> bool:
        return Memory.objects.visible_to(actor.clearance).filter(uid=uid).exists()

    def check_outcome(self, done: StoreResult, fields: dict[str, Any], actor: Actor) -> None:
        stored = Memory.objects.get(uid=done.memory.uid)
        was = self.before.get(stored.uid)
        assert stored.content == fields["content"]
        assert stored in Memory.objects.live(self.now)
        assert level_rank(stored.sensitivity) >= level_rank(fields.get("sensitivity", "public"))
        assert (was is None) == (done.outcome == "created")
        if was:
            known = stored.author == actor.name or was["sensitivity"] in actor.clearance.levels
            assert known, "a copy that the writer may not know of was used"
            assert level_rank(stored.sensitivity) >= level_rank(was["sensitivity"])
            assert (stored.project, stored.scope, stored.owner) == (
                was["project"],
                was["scope"],
                was["owner"],
            )
            assert was["content"] == fields["content"] or was["key"] == fields["key"] != ""

    @invariant()
    def nothing_else_changed(self) -> None:
        self.after = dump()
        for uid, was in self.before.items():
            if uid not in self.touched:
                assert self.after.get(uid) == was
        assert self.after.keys() - self.before.keys() <= self.touched

    @invariant()
    def every_disappearance_is_journaled(self) -> None:
        journaled = set(
            JournalEntry.objects.filter(seq__gt=self.last_seq).values_list("object_id", flat=True)
        )
        self.sees = {name: set(self.visible(actor)) for name, actor in ACTORS.items()}
        for name, seen in self.seen.items():
            assert seen - self.sees[name] <= journaled

    @invariant()
    def chain_and_indexes_are_valid(self) -> None:
        assert journal.verify().ok
        assert index_is_sound()

    @invariant()
    def rows_are_unique(self) -> None:
        """Equal rows of one level differ in their copy number, and content hashes are correct."""
        rows = Memory.objects.values_list(
            "content_hash", "project", "scope", "owner", "sensitivity", "key", "copy"
        )
        assert len(set(rows)) == len(rows)
        assert all(
            row.content_hash == memories.rows.hash_content(row.content) for row in Memory.objects.all()
        )


@pytest.mark.django_db
@pytest.mark.slow
def test_store_invariants_are_true_after_any_sequence_of_operations(configure):
    configure(max_memories=0)
    # Without shrinking, which takes minutes here: the steps that failed are printed as they were taken.
    few = settings(max_examples=40, stateful_step_count=25, phases=[Phase.generate])
    run_state_machine_as_test(StoreMachine, settings=few)

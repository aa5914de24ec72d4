"""Dismissed duplicates: pairs that are recorded, visible to those who see both, and undone."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.merge import dismissed_pairs
from memoryhub.models import Memory
from tests.memories.merge_scenarios import public, uids


class TestNotDuplicates:
    def test_every_pair_is_recorded_and_can_be_undone(self, three: list[Memory], actor: Actor) -> None:
        decision = memories.dismiss_duplicates(uids(three), actor)
        a, b, c = uids(three)
        assert dismissed_pairs(actor.clearance) == {frozenset(pair) for pair in ((a, b), (a, c), (b, c))}
        memories.undo_dismissal(decision, actor)
        assert dismissed_pairs(actor.clearance) == set()
        with pytest.raises(memories.NotFound):
            memories.undo_dismissal(decision, actor)

    def test_pair_dismissed_twice_stays_dismissed_after_one_undo(
        self, three: list[Memory], actor: Actor
    ) -> None:
        first = memories.dismiss_duplicates(uids(three[:2]), actor)
        memories.dismiss_duplicates(uids(three[:2]), actor)
        memories.undo_dismissal(first, actor)
        assert dismissed_pairs(actor.clearance) == {frozenset(uids(three[:2]))}

    def test_pairs_are_visible_to_those_who_see_both(self, three: list[Memory], actor: Actor) -> None:
        memories.dismiss_duplicates(uids(three), actor)
        assert dismissed_pairs(Clearance()) == set()
        assert dismissed_pairs(Clearance.up_to("private")) == {frozenset(uids(three[:2]))}

    def test_hidden_and_missing_memories_get_the_same_refusal(self, four_levels: dict[str, Memory]) -> None:
        said = set()
        for uid in ("nothing", four_levels["secret"].uid, four_levels["cosmic"].uid):
            with pytest.raises(memories.NotFound) as caught:
                memories.dismiss_duplicates([four_levels["public"].uid, uid], public())
            said.add(caught.value.message)
        assert len(said) == 1

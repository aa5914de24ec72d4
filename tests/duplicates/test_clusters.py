"""Near-duplicates: clusters around the memory that is worth keeping, of what one reader may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends import bulk
from memoryhub.duplicates import clusters as duplicates_clusters
from memoryhub.duplicates.clusters import DuplicateClusters
from memoryhub.embeddings import EmbeddingError
from memoryhub.models import Memory
from memoryhub.search import semantic
from tests.vectors import MODEL, SIZE, insert_vectors

ALL = Clearance.up_to("secret", owner="ada")


class MadeUp:
    """A provider whose vectors the tests write themselves."""

    name, dimensions, in_process = MODEL, SIZE, True


@pytest.fixture(autouse=True)
def provider(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "configured", MadeUp)


def at(degrees: float, axis: int = 1) -> Any:
    """A vector that far turned away from the first axis: the cosine of two is that of their difference."""
    vector = np.zeros(SIZE, np.float32)
    vector[0], vector[axis] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return vector


def made(degrees: float | None, content: str = "", axis: int = 1, **columns: Any) -> Memory:
    """A memory with such a vector; past the store, which would give it another."""
    content = content or f"turned {degrees} {axis}"
    known = Memory.objects.filter(content=content).count()
    memory = Memory(content=content, content_hash=content.ljust(64, ".")[:64], copy=known, **columns)
    bulk.insert_objects([memory])
    if degrees is not None:
        insert_vectors([(memory, at(degrees, axis))])
    return memory


def found(clearance: Clearance = ALL, **options: Any) -> DuplicateClusters:
    return duplicates_clusters.find_clusters(
        Memory.objects.visible_to(clearance).live(), clearance, **options
    )


def clusters(clearance: Clearance = ALL, **options: Any) -> list[tuple[int, set[int]]]:
    return [(one.keep, {pk for pk, _ in one.others}) for one in found(clearance, **options).clusters]


class TestClusters:
    def test_near_ones_are_a_cluster_and_far_ones_are_not(self) -> None:
        one, near, _far = made(0), made(40, accessed_count=1), made(90)
        assert clusters() == [(near.pk, {one.pk})]
        [cluster] = found().clusters
        assert cluster.others == ((one.pk, pytest.approx(np.cos(np.radians(40)), abs=1e-3)),)

    def test_the_similarity_can_be_asked_for(self) -> None:
        made(0), made(40)
        assert len(clusters(similarity=0.7)) == 1
        assert clusters(similarity=0.8) == []

    def test_the_configured_similarity_is_the_default(self, configure: Callable[..., None]) -> None:
        made(0), made(40)
        configure(near_duplicate_similarity=0.9)
        assert clusters() == []

    def test_a_chain_is_no_cluster(self) -> None:
        first, middle, last = (
            made(0, accessed_count=3),
            made(40, accessed_count=2),
            made(80, accessed_count=1),
        )
        assert clusters() == [(first.pk, {middle.pk})]
        assert last.pk not in {pk for _, others in clusters() for pk in others}

    def test_every_member_is_near_the_one_that_is_kept(self) -> None:
        rng = np.random.default_rng(7)
        held = {
            made(float(angle), axis=int(axis)).pk: at(float(angle), int(axis))
            for angle, axis in zip(rng.uniform(0, 90, 120), rng.integers(1, SIZE, 120), strict=True)
        }
        shown = found()
        assert len(shown.clusters) > 3
        for cluster in shown.clusters:
            for pk, _ in cluster.others:
                assert float(held[cluster.keep] @ held[pk]) >= 0.7 - 1e-3
        members = [pk for one in shown.clusters for pk in (one.keep, *(pk for pk, _ in one.others))]
        assert len(members) == len(set(members))

    def test_a_memory_goes_to_the_one_that_it_is_clearly_nearer_to(self) -> None:
        far, near, one = made(40, accessed_count=9), made(3, accessed_count=5), made(0)
        assert clusters() == [(near.pk, {one.pk})]
        assert far.pk not in {pk for _, others in clusters() for pk in others}

    @pytest.mark.parametrize(
        "columns",
        [{"project": "q"}, {"scope": "team"}, {"category": "other"}, {"owner": "ada", "scope": "personal"}],
    )
    def test_another_place_is_another_cluster(self, columns: dict[str, Any]) -> None:
        made(0), made(1, **columns)
        assert clusters() == []

    @pytest.mark.parametrize("category", ["events", "cases"])
    def test_events_and_cases_never_merge(self, category: str) -> None:
        made(0, "same", category=category), made(0, "same", category=category)
        assert clusters() == []

    def test_profiles_always_do(self) -> None:
        made(0, category="profile"), made(90, category="profile")
        assert len(clusters()) == 1

    def test_pieces_of_a_profile_that_say_different_things_are_no_near_duplicates(self) -> None:
        made(0, category="profile"), made(90, category="profile")
        near = made(0, axis=2, project="p"), made(1, axis=2, project="p")
        apart = found()
        assert [one.keep for one in apart.clusters] == [apart.near[0].keep, apart.pieces[0].keep]
        assert apart.near[0].keep in {memory.pk for memory in near}

    def test_a_profile_said_twice_is_a_near_duplicate(self) -> None:
        made(0, category="profile"), made(1, category="profile")
        assert (len(found().near), found().pieces) == (1, [])

    @pytest.mark.parametrize("kind", ["compressed_summary", "session_summary", "checkpoint"])
    def test_summaries_are_left_alone(self, kind: str) -> None:
        made(0), made(1, type=kind)
        assert clusters() == []

    def test_two_memories_with_keys_are_found_by_them_and_stay(self) -> None:
        made(0, key="a"), made(1, key="b")
        assert clusters() == []

    def test_what_was_told_apart_does_not_come_back(self, actor: Actor) -> None:
        one, other = made(0), made(1)
        decision = memories.dismiss_duplicates([one.uid, other.uid], actor)
        assert clusters() == []
        memories.undo_dismissal(decision, actor)
        assert len(clusters()) == 1

    def test_told_apart_from_one_a_memory_still_finds_the_other(self, actor: Actor) -> None:
        one, two, three = made(0, accessed_count=9), made(1, accessed_count=5), made(2)
        memories.dismiss_duplicates([one.uid, three.uid], actor)
        assert clusters() == [(one.pk, {two.pk})]
        memories.trash_memories([one.uid], actor)
        assert clusters() == [(two.pk, {three.pk})]

    def test_those_most_alike_come_first(self) -> None:
        loose = {made(0, "a").pk, made(40, "b").pk}
        tight = {made(90, "c", axis=2).pk, made(91, "d", axis=2).pk}
        assert [{keep, *others} for keep, others in clusters()] == [tight, loose]

    def test_those_with_other_numbers_come_last(self) -> None:
        bumped = {made(0, "from 1.2 to 1.3").pk, made(1, "from 1.3 to 1.4").pk}
        denied = {made(90, "it is so", axis=3).pk, made(93, "it is not so", axis=3).pk}
        sure = {made(90, "one", axis=2).pk, made(120, "two", axis=2).pk}
        shown = found().clusters
        assert [{one.keep, *(pk for pk, _ in one.others)} for one in shown] == [sure, bumped, denied]
        assert [one.differs for one in shown] == [False, True, True]

    def test_a_cluster_stays_readable(self) -> None:
        for n in range(50):
            made(n / 100)
        assert max(len(others) + 1 for _, others in clusters()) == duplicates_clusters.MAX_MEMBERS


class TestWhichIsKept:
    @pytest.mark.parametrize(
        ("better", "why"),
        [
            ({"key": "k"}, "found by its key"),
            ({"accessed_count": 4}, "read most often: 4 times"),
            ({"content": "the longest words of all"}, "says the most"),
        ],
    )
    def test_by_key_then_use_then_length(self, better: dict[str, Any], why: str) -> None:
        kept = made(0, **{"content": "short1", **better})
        made(1, "short2")
        [cluster] = found().clusters
        assert cluster.keep == kept.pk
        assert why in cluster.why

    def test_else_the_newest(self) -> None:
        made(0, "same long"), (newest := made(1, "same lang"))
        [cluster] = found().clusters
        assert (cluster.keep, cluster.why) == (newest.pk, "it is the newest")


class TestWithoutVectors:
    @pytest.mark.parametrize("fails", [False, True])
    def test_identical_words_are_found_and_it_is_said(
        self, monkeypatch: pytest.MonkeyPatch, fails: bool
    ) -> None:
        def nothing() -> None:
            if fails:
                raise EmbeddingError("the folder is empty")

        monkeypatch.setattr(semantic, "configured", nothing)
        same = {made(0, "same words").pk for _ in range(3)}
        made(0, "others")
        [(keep, others)] = clusters()
        assert {keep, *others} == same
        [note] = found().notes
        assert "only identical words" in note
        assert ("the folder is empty" in note) is fails

    def test_those_that_lack_one_are_counted(self) -> None:
        made(0), made(None, "bare")
        [note] = found().notes
        assert note.startswith("1 memory has no vector yet")
        assert not found().complete


class TestBounds:
    def test_what_is_whole_says_nothing(self) -> None:
        made(0), made(1)
        assert (found().notes, found().complete, found().compared, found().total) == ((), True, 2, 2)

    def test_beyond_the_bound_the_newest_are_compared_and_it_is_said(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pair = {made(0).pk, made(1).pk}
        for n in range(8):
            made(80, f"other {n}", axis=n % 6 + 2)
        newest = {made(90, "x").pk, made(89, "y").pk}
        monkeypatch.setattr(duplicates_clusters, "_MAX_BLOCK_ROWS", 2)
        monkeypatch.setattr(duplicates_clusters, "MAX_PAIRS", 30)
        shown = found()
        assert not shown.complete
        assert shown.compared == 2
        assert "the oldest 10" in shown.notes[0]
        members = [{one.keep, *(pk for pk, _ in one.others)} for one in shown.clusters]
        assert newest in members
        assert pair not in members

    def test_identical_words_are_found_beyond_the_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made(0, "same"), made(0, "same"), made(90, "other")
        monkeypatch.setattr(duplicates_clusters, "MAX_PAIRS", 0)
        assert len(clusters()) == 1

    def test_very_many_alike_do_not_fill_the_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for n in range(40):
            made(n / 100)
        monkeypatch.setattr(duplicates_clusters, "MAX_LINKS", 25)
        shown = found()
        assert any("not all of them were looked at" in note for note in shown.notes)
        assert shown.clusters

    def test_the_number_of_queries_does_not_grow(self) -> None:
        def count() -> int:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                found()
            return len(queries)

        made(0), made(1)
        found()
        few = count()
        for n in range(60):
            made(n)
        found()
        assert count() == few


class TestGate:
    def test_nobody_learns_of_a_level_that_they_do_not_see(self) -> None:
        made(0, "a"), made(0.1, "b")
        before = found(Clearance())
        for level in ("private", "secret", "cosmic"):
            made(0.05, f"hidden {level}", sensitivity=level, accessed_count=99, key=level)
            made(0.06, "a", sensitivity=level)
        made(0.05, "of another", scope="personal", owner="bob")
        after = found(Clearance())
        assert (before.compared, before.total) == (after.compared, after.total) == (2, 2)
        assert before.clusters == after.clusters

    @pytest.mark.parametrize(("level", "seen"), [("public", 1), ("private", 2), ("secret", 3)])
    def test_each_clearance_sees_its_levels(self, level: str, seen: int) -> None:
        for n, one in enumerate(("public", "private", "secret", "cosmic")):
            made(n / 10, sensitivity=one)
        shown = found(Clearance.up_to(level))
        assert shown.total == seen
        assert sum(len(one.others) + 1 for one in shown.clusters) == (seen if seen > 1 else 0)

    def test_hidden_ones_use_up_no_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made(0), made(1)
        for n in range(30):
            made(n, f"hidden {n}", sensitivity="secret")
        monkeypatch.setattr(duplicates_clusters, "MAX_PAIRS", 4)
        assert found(Clearance()).complete
        assert not found().complete

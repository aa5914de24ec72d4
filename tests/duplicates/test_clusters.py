"""Clusters of near-duplicates among the memories that a viewer can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memoryhub import duplicates, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends import bulk
from memoryhub.duplicates import DuplicateClusters
from memoryhub.embeddings import EmbeddingError
from memoryhub.models import Memory
from memoryhub.search import semantic
from tests.vectors import MODEL, SIZE, insert_vectors

ALL = Clearance.up_to("secret", owner="ada")


class FakeProvider:
    """A provider for vectors that the tests store directly."""

    name, dimensions, in_process = MODEL, SIZE, True


@pytest.fixture(autouse=True)
def provider(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "configured", FakeProvider)


def vector_at(degrees: float, axis: int = 1) -> Any:
    """Return a vector at this angle from the first axis."""
    vector = np.zeros(SIZE, np.float32)
    vector[0], vector[axis] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return vector


def insert_memory(degrees: float | None, content: str = "", axis: int = 1, **columns: Any) -> Memory:
    """Insert a memory with this vector directly, because the store would compute another one."""
    content = content or f"turned {degrees} {axis}"
    known = Memory.objects.filter(content=content).count()
    memory = Memory(content=content, content_hash=content.ljust(64, ".")[:64], copy=known, **columns)
    bulk.insert_objects([memory])
    if degrees is not None:
        insert_vectors([(memory, vector_at(degrees, axis))])
    return memory


def found(clearance: Clearance = ALL, **options: Any) -> DuplicateClusters:
    return duplicates.find_clusters(Memory.objects.visible_to(clearance).live(), clearance, **options)


def clusters(clearance: Clearance = ALL, **options: Any) -> list[tuple[int, set[int]]]:
    return [(one.keep, {pk for pk, _ in one.others}) for one in found(clearance, **options).clusters]


class TestClusters:
    def test_near_memories_form_a_cluster(self) -> None:
        one, near, _far = insert_memory(0), insert_memory(40, accessed_count=1), insert_memory(90)
        assert clusters() == [(near.pk, {one.pk})]
        [cluster] = found().clusters
        assert cluster.others == ((one.pk, pytest.approx(np.cos(np.radians(40)), abs=1e-3)),)

    def test_similarity_parameter_is_used(self) -> None:
        insert_memory(0), insert_memory(40)
        assert len(clusters(similarity=0.7)) == 1
        assert clusters(similarity=0.8) == []

    def test_configured_similarity_is_the_default(self, configure: Callable[..., None]) -> None:
        insert_memory(0), insert_memory(40)
        configure(near_duplicate_similarity=0.9)
        assert clusters() == []

    def test_chain_is_not_a_cluster(self) -> None:
        first, middle, last = (
            insert_memory(0, accessed_count=3),
            insert_memory(40, accessed_count=2),
            insert_memory(80, accessed_count=1),
        )
        assert clusters() == [(first.pk, {middle.pk})]
        assert last.pk not in {pk for _, others in clusters() for pk in others}

    def test_every_member_is_near_the_kept_one(self) -> None:
        rng = np.random.default_rng(7)
        held = {
            insert_memory(float(angle), axis=int(axis)).pk: vector_at(float(angle), int(axis))
            for angle, axis in zip(rng.uniform(0, 90, 120), rng.integers(1, SIZE, 120), strict=True)
        }
        shown = found()
        assert len(shown.clusters) > 3
        for cluster in shown.clusters:
            for pk, _ in cluster.others:
                assert float(held[cluster.keep] @ held[pk]) >= 0.7 - 1e-3
        members = [pk for one in shown.clusters for pk in (one.keep, *(pk for pk, _ in one.others))]
        assert len(members) == len(set(members))

    def test_memory_joins_the_clearly_nearer_leader(self) -> None:
        far, near, one = (
            insert_memory(40, accessed_count=9),
            insert_memory(3, accessed_count=5),
            insert_memory(0),
        )
        assert clusters() == [(near.pk, {one.pk})]
        assert far.pk not in {pk for _, others in clusters() for pk in others}

    @pytest.mark.parametrize(
        "columns",
        [{"project": "q"}, {"scope": "team"}, {"category": "other"}, {"owner": "ada", "scope": "personal"}],
    )
    def test_other_project_scope_category_or_owner_is_not_clustered(self, columns: dict[str, Any]) -> None:
        insert_memory(0), insert_memory(1, **columns)
        assert clusters() == []

    @pytest.mark.parametrize("category", ["events", "cases"])
    def test_events_and_cases_never_merge(self, category: str) -> None:
        insert_memory(0, "same", category=category), insert_memory(0, "same", category=category)
        assert clusters() == []

    def test_profile_parts_about_the_same_subject_merge(self) -> None:
        insert_memory(0, category="profile"), insert_memory(70, category="profile")
        assert len(clusters()) == 1

    @pytest.mark.parametrize("degrees", [80, 90, 120])
    def test_profile_parts_that_share_nothing_are_not_proposed(self, degrees: float) -> None:
        insert_memory(0, category="profile"), insert_memory(degrees, category="profile")
        assert clusters() == []

    def test_a_lower_similarity_also_applies_to_profiles(self) -> None:
        insert_memory(0, category="profile"), insert_memory(80, category="profile")
        assert len(found(similarity=0.1).near) == 1

    def test_different_profile_parts_are_not_near_duplicates(self) -> None:
        insert_memory(0, category="profile"), insert_memory(70, category="profile")
        near = insert_memory(0, axis=2, project="p"), insert_memory(1, axis=2, project="p")
        apart = found()
        assert [one.keep for one in apart.clusters] == [apart.near[0].keep, apart.pieces[0].keep]
        assert apart.near[0].keep in {memory.pk for memory in near}

    def test_repeated_profile_is_a_near_duplicate(self) -> None:
        insert_memory(0, category="profile"), insert_memory(1, category="profile")
        assert (len(found().near), found().pieces) == (1, [])

    @pytest.mark.parametrize("kind", ["compressed_summary", "session_summary", "checkpoint"])
    def test_summaries_are_not_clustered(self, kind: str) -> None:
        insert_memory(0), insert_memory(1, type=kind)
        assert clusters() == []

    def test_two_memories_with_keys_are_not_clustered(self) -> None:
        insert_memory(0, key="a"), insert_memory(1, key="b")
        assert clusters() == []

    def test_dismissed_pair_is_not_clustered(self, actor: Actor) -> None:
        one, other = insert_memory(0), insert_memory(1)
        decision = memories.dismiss_duplicates([one.uid, other.uid], actor)
        assert clusters() == []
        memories.undo_dismissal(decision, actor)
        assert len(clusters()) == 1

    def test_memory_of_a_dismissed_pair_joins_another(self, actor: Actor) -> None:
        one, two, three = (
            insert_memory(0, accessed_count=9),
            insert_memory(1, accessed_count=5),
            insert_memory(2),
        )
        memories.dismiss_duplicates([one.uid, three.uid], actor)
        assert clusters() == [(one.pk, {two.pk})]
        memories.trash_memories([one.uid], actor)
        assert clusters() == [(two.pk, {three.pk})]

    def test_most_similar_clusters_come_first(self) -> None:
        loose = {insert_memory(0, "a").pk, insert_memory(40, "b").pk}
        tight = {insert_memory(90, "c", axis=2).pk, insert_memory(91, "d", axis=2).pk}
        assert [{keep, *others} for keep, others in clusters()] == [tight, loose]

    def test_clusters_with_different_numbers_come_last(self) -> None:
        bumped = {insert_memory(0, "from 1.2 to 1.3").pk, insert_memory(1, "from 1.3 to 1.4").pk}
        denied = {insert_memory(90, "it is so", axis=3).pk, insert_memory(93, "it is not so", axis=3).pk}
        sure = {insert_memory(90, "one", axis=2).pk, insert_memory(120, "two", axis=2).pk}
        shown = found().clusters
        assert [{one.keep, *(pk for pk, _ in one.others)} for one in shown] == [sure, bumped, denied]
        assert [one.differs for one in shown] == [False, True, True]

    def test_cluster_size_is_limited(self) -> None:
        for n in range(50):
            insert_memory(n / 100)
        assert max(len(others) + 1 for _, others in clusters()) == duplicates.MAX_MEMBERS


class TestKeptMemory:
    @pytest.mark.parametrize(
        ("better", "why"),
        [
            ({"key": "k"}, "has a key"),
            ({"accessed_count": 4}, "read most often (4 times)"),
            ({"content": "the longest words of all"}, "has the longest text"),
        ],
    )
    def test_by_key_then_use_then_length(self, better: dict[str, Any], why: str) -> None:
        kept = insert_memory(0, **{"content": "short1", **better})
        insert_memory(1, "short2")
        [cluster] = found().clusters
        assert cluster.keep == kept.pk
        assert why in cluster.why

    def test_newest_is_kept_otherwise(self) -> None:
        insert_memory(0, "same long"), (newest := insert_memory(1, "same lang"))
        [cluster] = found().clusters
        assert (cluster.keep, cluster.why) == (newest.pk, "it is the newest")


class TestWithoutVectors:
    @pytest.mark.parametrize("fails", [False, True])
    def test_identical_texts_are_found_with_a_note(
        self, monkeypatch: pytest.MonkeyPatch, fails: bool
    ) -> None:
        def nothing() -> None:
            if fails:
                raise EmbeddingError("the folder is empty")

        monkeypatch.setattr(semantic, "configured", nothing)
        same = {insert_memory(0, "same words").pk for _ in range(3)}
        insert_memory(0, "others")
        [(keep, others)] = clusters()
        assert {keep, *others} == same
        [note] = found().notes
        assert "only identical texts" in note
        assert ("the folder is empty" in note) is fails

    def test_memories_without_vector_are_counted(self) -> None:
        insert_memory(0), insert_memory(None, "bare")
        [note] = found().notes
        assert note.startswith("1 memory has no vector yet")
        assert not found().complete


class TestLimits:
    def test_complete_comparison_has_no_note(self) -> None:
        insert_memory(0), insert_memory(1)
        assert (found().notes, found().complete, found().compared, found().total) == ((), True, 2, 2)

    def test_newest_are_compared_beyond_the_limit_with_a_note(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pair = {insert_memory(0).pk, insert_memory(1).pk}
        for n in range(8):
            insert_memory(80, f"other {n}", axis=n % 6 + 2)
        newest = {insert_memory(90, "x").pk, insert_memory(89, "y").pk}
        monkeypatch.setattr(duplicates, "_MAX_BLOCK_ROWS", 2)
        monkeypatch.setattr(duplicates, "MAX_PAIRS", 30)
        shown = found()
        assert not shown.complete
        assert shown.compared == 2
        assert "the oldest 10" in shown.notes[0]
        members = [{one.keep, *(pk for pk, _ in one.others)} for one in shown.clusters]
        assert newest in members
        assert pair not in members

    def test_identical_texts_are_found_beyond_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        insert_memory(0, "same"), insert_memory(0, "same"), insert_memory(90, "other")
        monkeypatch.setattr(duplicates, "MAX_PAIRS", 0)
        assert len(clusters()) == 1

    def test_number_of_links_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for n in range(40):
            insert_memory(n / 100)
        monkeypatch.setattr(duplicates, "MAX_LINKS", 25)
        shown = found()
        assert any("too many are similar" in note for note in shown.notes)
        assert shown.clusters

    def test_number_of_queries_is_constant(self) -> None:
        def count() -> int:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                found()
            return len(queries)

        insert_memory(0), insert_memory(1)
        found()
        few = count()
        for n in range(60):
            insert_memory(n)
        found()
        assert count() == few


class TestVisibility:
    def test_hidden_levels_are_not_clustered(self) -> None:
        insert_memory(0, "a"), insert_memory(0.1, "b")
        before = found(Clearance())
        for level in ("private", "secret", "cosmic"):
            insert_memory(0.05, f"hidden {level}", sensitivity=level, accessed_count=99, key=level)
            insert_memory(0.06, "a", sensitivity=level)
        insert_memory(0.05, "of another", scope="personal", owner="bob")
        after = found(Clearance())
        assert (before.compared, before.total) == (after.compared, after.total) == (2, 2)
        assert before.clusters == after.clusters

    @pytest.mark.parametrize(("level", "seen"), [("public", 1), ("private", 2), ("secret", 3)])
    def test_each_clearance_clusters_its_levels(self, level: str, seen: int) -> None:
        for n, one in enumerate(("public", "private", "secret", "cosmic")):
            insert_memory(n / 10, sensitivity=one)
        shown = found(Clearance.up_to(level))
        assert shown.total == seen
        assert sum(len(one.others) + 1 for one in shown.clusters) == (seen if seen > 1 else 0)

    def test_hidden_memories_do_not_use_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        insert_memory(0), insert_memory(1)
        for n in range(30):
            insert_memory(n, f"hidden {n}", sensitivity="secret")
        monkeypatch.setattr(duplicates, "MAX_PAIRS", 4)
        assert found(Clearance()).complete
        assert not found().complete

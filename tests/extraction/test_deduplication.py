"""Deduplication: created, merged or skipped, within the visible memories of one destination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.embeddings import Embedder
from memoryhub.extraction.comparison import Decision, Verdict
from memoryhub.extraction.deduplication import DedupDecision, create_deduplicated
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Embedding, JournalEntry, Memory, Revision
from tests.cases import each

Remember = Callable[..., Memory]
TEXT = "Ada leads the billing team"
MORE = "Ada leads the billing team from Lisbon"
OTHER = "Bob leads the billing team"


@pytest.fixture
def again(db: None, actor: Actor) -> Callable[..., memories.StoreResult]:
    def store_one(content: str, by: Actor | None = None, **fields: Any) -> memories.StoreResult:
        return create_deduplicated(MemoryDraft(content=content, **fields), by or actor)

    return store_one


@pytest.fixture(params=["by words", "by vectors"])
def either_way(request: pytest.FixtureRequest, configure: Callable[..., None]) -> None:
    if request.param == "by vectors":
        request.getfixturevalue("embedding")


@pytest.mark.usefixtures("either_way")
class TestEitherWay:
    def test_new_content_is_created(self, again: Any) -> None:
        assert again(TEXT).outcome == "created"

    def test_identical_content_is_refreshed(self, remember: Remember, again: Any) -> None:
        kept = remember(TEXT)
        done = again(TEXT)
        assert (done.outcome, done.memory.pk) == ("refreshed", kept.pk)

    def test_known_content_is_skipped_and_journaled(self, remember: Remember, again: Any) -> None:
        kept = remember(TEXT)
        done = again("ada leads the billing team.")
        assert (done.outcome, done.memory.pk) == ("skipped", kept.pk)
        row = JournalEntry.objects.get(operation="dedup_skip")
        assert row.object_id == kept.uid
        assert "billing" not in str(row.detail)
        assert Memory.objects.count() == 1

    @each("level", ["public", "private", "secret"])
    def test_skip_is_journaled_at_the_stricter_level(
        self, remember: Remember, again: Any, level: str
    ) -> None:
        remember(TEXT)
        assert again("ada leads the billing team.", sensitivity=level).outcome == "skipped"
        row = JournalEntry.objects.get(operation="dedup_skip")
        assert row.sensitivity == level
        assert row.detail["candidate_hash"]

    @pytest.mark.conformance("pigo-7")
    def test_addition_is_merged_with_a_revision(self, remember: Remember, again: Any) -> None:
        kept = remember(TEXT, tags=["people"])
        done = again(MORE, tags=["places"], importance=0.9)
        assert (done.outcome, done.memory.pk) == ("merged", kept.pk)
        now = Memory.objects.get()
        assert (now.content, now.importance) == (MORE, 0.9)
        assert sorted(label.value for label in now.labels.all()) == ["people", "places"]
        revision = Revision.objects.get()
        assert (revision.reason, revision.before["content"]) == ("merge", TEXT)

    def test_different_content_is_created(self, remember: Remember, again: Any) -> None:
        remember(TEXT)
        assert again(OTHER).outcome == "created"

    @each("category", ["events", "cases"])
    def test_events_and_cases_are_never_merged(self, remember: Remember, again: Any, category: str) -> None:
        remember(TEXT, category=category)
        assert again(MORE, category=category).outcome == "created"
        assert again(f"{TEXT}!", category=category).outcome == "created"
        assert again(TEXT, category=category).outcome == "refreshed"

    def test_profile_is_always_merged(self, remember: Remember, again: Any) -> None:
        kept = remember("Maria is a data engineer", category="profile")
        done = again("Maria lives in Porto", category="profile")
        assert (done.outcome, done.memory.pk) == ("merged", kept.pk)
        assert done.memory.content == "Maria is a data engineer. Maria lives in Porto"

    def test_profile_is_merged_without_common_words(self, remember: Remember, again: Any) -> None:
        kept = remember("Maria is a data engineer", category="profile")
        done = again("Allergic to peanuts, drinks tea", category="profile")
        assert (done.outcome, done.memory.pk) == ("merged", kept.pk)

    def test_profiles_of_different_people_are_not_merged(self, remember: Remember, again: Any) -> None:
        remember(TEXT, category="profile")
        assert again(OTHER, category="profile").outcome == "created"

    def test_profile_is_merged_with_the_same_person_behind_others(
        self, remember: Remember, again: Any
    ) -> None:
        kept = remember("José Silva works in Porto", category="profile")
        for name in ("Ada", "Bob", "Cleo", "Dana", "Egon", "Fay"):
            remember(f"{name} plays the cello in an orchestra", category="profile")
        assert again("Jose plays the cello", category="profile").memory.pk == kept.pk

    @pytest.mark.parametrize(
        "elsewhere",
        [{"project": "other"}, {"category": "other"}, {"scope": "personal"}, {"scope": "team"}],
        ids=str,
    )
    def test_only_the_same_destination_and_category_are_compared(
        self, remember: Remember, again: Any, elsewhere: dict[str, str]
    ) -> None:
        remember(TEXT, **elsewhere)
        assert again(MORE).outcome == "created"

    def test_memories_that_the_writer_cannot_see_are_not_compared(
        self, remember: Remember, again: Any
    ) -> None:
        hidden = remember(TEXT, sensitivity="secret")
        low = Actor("token:low", Clearance.up_to("public"))
        done = again(f"{TEXT}!", by=low, sensitivity="secret")
        assert done.outcome == "created"
        assert done.memory.pk != hidden.pk

    def test_public_memory_is_not_skipped_because_of_a_secret(self, remember: Remember, again: Any) -> None:
        remember(TEXT, sensitivity="secret")
        assert again(f"{TEXT}!").outcome == "created"

    def test_secret_is_not_merged_into_a_public_memory(self, remember: Remember, again: Any) -> None:
        kept = remember(TEXT)
        assert again(MORE, sensitivity="secret").outcome == "created"
        kept.refresh_from_db()
        assert (kept.sensitivity, kept.content) == ("public", TEXT)

    def test_personal_memories_of_others_are_not_compared(self, remember: Remember, again: Any) -> None:
        remember(TEXT, by=Actor("token:bob", Clearance.up_to("secret", owner="bob")), scope="personal")
        assert again(f"{TEXT}!", scope="personal").outcome == "created"

    def test_trashed_and_expired_memories_are_not_compared(
        self, remember: Remember, actor: Actor, again: Any
    ) -> None:
        gone = remember(TEXT)
        memories.trash_memories([gone.uid], actor)
        assert again(f"{TEXT}!").outcome == "created"

    def test_memory_with_unknown_level_is_not_compared(self, remember: Remember, again: Any) -> None:
        odd = remember(TEXT)
        Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
        assert again(f"{TEXT}!").outcome == "created"

    def test_summaries_are_not_compared(self, remember: Remember, again: Any) -> None:
        remember(TEXT, type="session_summary")
        assert again(f"{TEXT}!").outcome == "created"


def test_key_updates_the_memory(remember: Remember, again: Any) -> None:
    kept = remember("The port is 80", key="port")
    done = again("The port is 81", key="port")
    assert (done.outcome, done.memory.pk) == ("updated", kept.pk)


def test_credential_is_refused_before_the_comparison(remember: Remember, again: Any) -> None:
    remember("The password of the billing database is kept elsewhere")
    with pytest.raises(memories.SecretDetected):
        again("password = " + "Xk3vQ9" + "zP1mLw8")
    assert JournalEntry.objects.filter(operation="dedup_skip").count() == 0


def test_inaccessible_project_is_refused(db: None) -> None:
    confined = Actor("token:kim", Clearance.up_to("public", projects=["zoo"]))
    with pytest.raises(memories.Forbidden):
        create_deduplicated(MemoryDraft(content=TEXT, project="bank"), confined)


def test_merged_memory_gets_a_new_vector(embedding: Embedder, remember: Remember, again: Any) -> None:
    kept = remember(TEXT)
    before = bytes(Embedding.objects.get(memory=kept).vector)
    again(MORE)
    assert bytes(Embedding.objects.get(memory=kept).vector) != before


@pytest.mark.conformance("pigo-31")
def test_memories_below_the_threshold_are_no_neighbours(
    embedding: Embedder, configure: Any, remember: Remember, again: Any
) -> None:
    configure(embeddings="wordllama", near_duplicate_similarity=0.99)
    remember(TEXT)
    assert again(MORE).outcome == "created"


def test_memory_without_a_vector_is_compared_by_words(
    embedding: Embedder, remember: Remember, again: Any
) -> None:
    kept = remember(TEXT)
    Embedding.objects.all().delete()
    assert again(f"{TEXT}!").memory.pk == kept.pk


def test_too_long_merge_is_stored_separately(remember: Remember, again: Any) -> None:
    remember("Ada leads billing today. " + "x" * 99_970)
    assert again("Ada leads billing today. She lives in a house by the sea near Lisbon.").outcome == "created"


def test_merge_that_equals_a_third_memory_is_stored_separately(remember: Remember, again: Any) -> None:
    remember(f"{TEXT}. She lives in Lisbon.", tags=["a"])
    remember(TEXT)
    done = again(f"{TEXT}. She lives in Lisbon!")
    assert done.outcome == "skipped"


class TestGivenDecision:
    """A given decision (of a language model) is applied unless the rules of the category forbid it."""

    def choosing(self, decision: Decision, content: str = "") -> Any:
        return lambda draft, found: DedupDecision(Verdict(decision, "said so", content), found[0].memory)

    def test_given_merge_is_applied(self, remember: Remember, actor: Actor) -> None:
        kept = remember(TEXT)
        done = create_deduplicated(
            MemoryDraft(content=MORE), actor, choose=self.choosing(Decision.MERGE, "Both in one")
        )
        assert (done.outcome, done.memory.pk, done.memory.content) == ("merged", kept.pk, "Both in one")

    def test_given_skip_is_applied(self, remember: Remember, actor: Actor) -> None:
        remember(TEXT)
        done = create_deduplicated(MemoryDraft(content=MORE), actor, choose=self.choosing(Decision.SKIP))
        assert done.outcome == "skipped"

    def test_given_create_is_applied(self, remember: Remember, actor: Actor) -> None:
        remember(TEXT)
        done = create_deduplicated(MemoryDraft(content=MORE), actor, choose=self.choosing(Decision.CREATE))
        assert done.outcome == "created"

    def test_profile_is_merged_despite_the_decision(self, remember: Remember, actor: Actor) -> None:
        remember(TEXT, category="profile")
        for decision in (Decision.CREATE, Decision.SKIP):
            done = create_deduplicated(
                MemoryDraft(content=f"{MORE} {decision}", category="profile"),
                actor,
                choose=self.choosing(decision),
            )
            assert done.outcome == "merged"

    @pytest.mark.conformance("pigo-48")
    def test_events_are_not_merged_despite_the_decision(self, remember: Remember, actor: Actor) -> None:
        remember(TEXT, category="events")
        for decision in (Decision.MERGE, Decision.SKIP):
            done = create_deduplicated(
                MemoryDraft(content=f"{MORE} {decision}", category="events"),
                actor,
                choose=self.choosing(decision, "x"),
            )
            assert done.outcome == "created"

    def test_concurrently_changed_memory_is_decided_by_rules(self, remember: Remember, actor: Actor) -> None:
        kept = remember(TEXT)

        def slow(draft: MemoryDraft, found: Any) -> DedupDecision:
            memories.update_memory(
                kept.uid, store_patch("Ada leads the billing team and knows the ledger"), actor
            )
            return DedupDecision(
                Verdict(Decision.MERGE, "said so", "What no one knows any more"), found[0].memory
            )

        done = create_deduplicated(MemoryDraft(content=MORE), actor, choose=slow)
        kept.refresh_from_db()
        assert done.memory.content != "What no one knows any more"
        assert "ledger" in kept.content

    def test_no_decision_is_requested_without_neighbours(self, actor: Actor, db: None) -> None:
        def never(draft: MemoryDraft, found: Any) -> DedupDecision:
            raise AssertionError

        assert create_deduplicated(MemoryDraft(content=TEXT), actor, choose=never).outcome == "created"


def store_patch(content: str) -> Any:
    from memoryhub.memories.schemas import MemoryPatch

    return MemoryPatch(content=content)

"""Deduplication: the same content again refreshes the stored memory."""

from __future__ import annotations

import unicodedata
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import backends, memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.duplicates import find_clusters
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.cases import each


def store(actor, content="same words", **fields):
    return memories.create_memory(MemoryDraft(content=content, **fields), actor)


@pytest.mark.conformance("guide-58", "store-14")
def test_same_content_is_the_same_memory(remember, actor):
    first = remember("same words")
    again = store(actor)
    assert (again.outcome, again.memory.uid) == ("refreshed", first.uid)
    assert Memory.objects.count() == 1


@each(
    "one, other",
    [
        ({"project": "a"}, {"project": "b"}),
        ({"scope": "project"}, {"scope": "team"}),
        ({"scope": "project"}, {"scope": "personal"}),
    ],
)
def test_same_content_in_another_place_is_another_memory(remember, one, other):
    assert remember("same words", **one).uid != remember("same words", **other).uid


def test_two_owners_can_store_the_same_personal_content(remember, stranger):
    mine = remember("same words", scope="personal")
    theirs = remember("same words", by=stranger, scope="personal")
    assert (mine.owner, theirs.owner) == ("ada", "bob")
    assert mine.uid != theirs.uid


def test_trailing_space_makes_different_content(remember):
    assert remember("same words").uid != remember("same words ").uid


@pytest.mark.conformance("guide-59", "store-15")
def test_repeat_changes_only_the_date(remember, actor):
    first = remember("same words", title="Mine", importance=0.9, tags=["t"])
    later = timezone.now() + timedelta(hours=1)
    again = memories.create_memory(
        MemoryDraft(content="same words", title="Other", importance=0.1), actor, later
    ).memory
    assert again.updated_at == later
    assert again.created_at == first.created_at
    assert (again.title, again.importance) == ("Mine", 0.9)


def test_repeat_with_old_date_does_not_make_a_memory_older(remember, actor):
    first = remember("same words")
    again = store(actor, created_at="2020-01-01T00:00:00Z").memory
    assert again.updated_at == first.updated_at


@each("was, comes", [("public", "private"), ("private", "public"), ("public", "secret")])
def test_repeat_keeps_the_stricter_level(remember, was, comes):
    first = remember("same words", sensitivity=was)
    again = remember("same words", sensitivity=comes)
    assert again.uid == first.uid
    assert Memory.objects.get().sensitivity == max(was, comes, key=["public", "private", "secret"].index)


def test_repeat_revives_a_trashed_memory(remember, actor):
    memory = remember("same words")
    memories.trash_memories([memory.uid], actor)
    again = remember("same words")
    assert (again.uid, again.deleted_at, again.trash_reason) == (memory.uid, None, "")
    assert JournalEntry.objects.get(operation="dedup_refresh").detail["revived"] is True


def test_repeat_revives_an_expired_memory(remember, actor):
    memory = remember("same words", ttl_days=10)
    later = timezone.now() + timedelta(days=30)
    again = memories.create_memory(MemoryDraft(content="same words"), actor, later).memory
    assert again.uid == memory.uid
    assert again.expires_at == later + timedelta(days=10)


def test_repeat_with_ttl_sets_the_ttl(remember, actor):
    remember("same words", ttl_days=10)
    assert store(actor, ttl_days=0).memory.expires_at is None
    assert Memory.objects.get().ttl_days is None


@pytest.mark.conformance("store-32")
def test_repeat_is_journaled(remember):
    memory = remember("same words")
    remember("same words")
    operations = JournalEntry.objects.filter(object_id=memory.uid).order_by("seq")
    assert list(operations.values_list("operation", flat=True)) == ["insert", "dedup_refresh"]


def test_copy_above_the_clearance_is_not_revealed(remember, low):
    hidden = remember("same words", sensitivity="secret")
    own = store(low)
    assert (own.outcome, own.memory.sensitivity) == ("created", "public")
    assert own.memory.uid != hidden.uid
    assert Memory.objects.get(uid=hidden.uid).updated_at == hidden.updated_at


def test_hidden_copy_at_the_level_of_the_draft_is_not_revealed(remember, low):
    hidden = remember("same words", sensitivity="secret")
    own = store(low, sensitivity="secret")
    assert (own.outcome, own.memory.sensitivity) == ("created", "secret")
    assert own.memory.uid != hidden.uid


def test_repeat_above_clearance_finds_the_authors_own_row(remember, low):
    remember("same words", sensitivity="secret")
    own = store(low, sensitivity="secret")
    again = store(low, sensitivity="secret")
    assert (again.outcome, again.memory.uid) == ("refreshed", own.memory.uid)
    assert Memory.objects.count() == 2


def test_own_row_changed_by_another_is_not_found(low, actor, db):
    own = store(low, sensitivity="secret").memory
    memories.update_memory(own.uid, MemoryPatch(overview="what the board decided"), actor)
    again = store(low, sensitivity="secret")
    assert (again.outcome, again.memory.overview) == ("created", "")


def test_copy_with_unknown_level_is_not_found(remember, actor):
    odd = remember("same words")
    Memory.objects.update(sensitivity="cosmic")
    assert remember("same words").uid != odd.uid


def test_hidden_copy_in_the_trash_stays_there(remember, low, actor):
    hidden = remember("same words", sensitivity="secret")
    memories.trash_memories([hidden.uid], actor)
    assert store(low).outcome == "created"
    assert Memory.objects.get(uid=hidden.uid).deleted_at


def test_repeat_refreshes_the_stricter_of_two_copies(remember, low, actor):
    hidden = remember("same words", sensitivity="secret")
    store(low)
    assert store(actor).memory.uid == hidden.uid


def test_raising_the_level_to_that_of_a_hidden_copy_keeps_both(remember, low, stranger):
    hidden = remember("same words", sensitivity="private")
    own = store(low).memory
    raised = store(low, sensitivity="private")
    assert (raised.outcome, raised.memory.uid) == ("refreshed", own.uid)
    assert set(Memory.objects.values_list("uid", "sensitivity")) == {
        (hidden.uid, "private"),
        (own.uid, "private"),
    }


@pytest.mark.conformance("store-16")
def test_database_refuses_a_second_copy(remember):
    memory = remember("same words")
    with pytest.raises(IntegrityError), transaction.atomic():
        Memory.objects.create(content="same words", content_hash=memory.content_hash)


def test_token_of_other_projects_writes_its_own_copy(remember, confined):
    remember("same words", project="shop")
    own = store(confined, project="zoo")
    assert (own.outcome, own.memory.project) == ("created", "zoo")


def test_clearance_with_a_gap_does_not_find_the_level_between(remember, db):
    odd = Actor("user:gap", Clearance(frozenset({"public", "secret"}), owner="gap"))
    hidden = remember("same words", sensitivity="private")
    assert store(odd, sensitivity="secret").memory.uid != hidden.uid


def test_refresh_writes_no_text_columns(remember):
    remember("the same words")
    with CaptureQueriesContext(
        connection,
    ) as captured:
        remember("the same words")
    [update] = [q["sql"] for q in captured if q["sql"].startswith('UPDATE "memoryhub_memory"')]
    assert not any(f'"{column}" =' in update for column in backends.TEXT_COLUMNS)


def test_refresh_keeps_other_fields(remember, actor):
    first = remember("the same words", ttl_days=1)
    memories.trash_memories([first.uid], actor)
    second = remember("the same words", ttl_days=9, sensitivity="private", key="k")
    stored = Memory.objects.get(pk=first.pk)
    assert (stored.ttl_days, stored.sensitivity, stored.key) == (9, "private", "k")
    assert (stored.deleted_at, stored.trash_reason) == (None, "")
    assert (stored.updated_at, stored.expires_at) == (second.updated_at, second.expires_at)


@pytest.mark.parametrize(
    "text", ["Die Größe der Überprüfung für Zürich", "배포는 금요일에 하지 않습니다", "デプロイは金曜日だけ"]
)
def test_text_with_decomposed_letters_is_a_near_duplicate(embedding, remember, text):
    """The hash is of the text as sent, so both are stored; macOS decomposes the letters of file names."""
    composed, decomposed = remember(text), remember(unicodedata.normalize("NFD", text))
    assert composed.content_hash != decomposed.content_hash
    clearance = Clearance.up_to("secret")
    [cluster] = find_clusters(Memory.objects.visible_to(clearance).live(), clearance).clusters
    assert {cluster.keep, *(pk for pk, _ in cluster.others)} == {composed.pk, decomposed.pk}
    assert cluster.likeness > 0.99

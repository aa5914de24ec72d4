"""Merge all sure duplicates: the dry run, the merges, one undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.web.duplicates_page import CURATOR_PERMISSIONS, DUPLICATE_TEXT, trashed_uids
from tests.web.markup import Page, main

Remember = Callable[..., Memory]
URL = "/duplicates/all/"
pytestmark = pytest.mark.usefixtures("embedding")


@pytest.fixture
def sure(remember: Remember) -> list[Memory]:
    """Two clusters of two memories with the same words."""
    texts = (DUPLICATE_TEXT, "Trains run late in winter")
    return [remember(f"{text}{end}", project="p") for text in texts for end in ("", "!")]


def fields(response: Any, name: str) -> list[str]:
    inputs = Page(response.content.decode()).all("input")
    return [field["value"] for field in inputs if field.get("name") == name]


def confirm(client: Client, shown: Any) -> Any:
    return client.post(URL, {"cluster": fields(shown, "cluster")}, follow=True)


def test_dry_run_changes_nothing(curator: Client, sure: list[Memory]) -> None:
    page = main(curator.get(URL)).words
    assert "2 clusters: 2 memories will move to the trash." in page
    assert "At most 25 clusters" in page
    assert trashed_uids() == set()


def test_confirmation_merges_and_one_undo_restores_all(curator: Client, sure: list[Memory]) -> None:
    assert f'href="{URL}"' in curator.get("/duplicates/").content.decode()
    done = confirm(curator, curator.get(URL))
    assert len(trashed_uids()) == 2
    assert "Merged 2 clusters; 2 memories moved to the trash." in main(done).words
    assert "No duplicates" in main(done).words
    undo = {"merges": fields(done, "merges")[0], "next": "/duplicates/"}
    back = main(curator.post("/duplicates/undo/", undo, follow=True)).words
    assert trashed_uids() == set()
    assert "Undone: 2 merges." in back
    assert "2 clusters among 4 memories" in back


def test_changed_cluster_is_skipped(curator: Client, sure: list[Memory], actor: Actor) -> None:
    shown = curator.get(URL)
    memories.update_memory(sure[0].uid, memories.schemas.MemoryPatch(content="Something else"), actor)
    assert "Skipped 1 cluster" in main(confirm(curator, shown)).words
    assert trashed_uids() < {sure[2].uid, sure[3].uid}


def test_dismissed_cluster_is_skipped(curator: Client, sure: list[Memory], actor: Actor) -> None:
    shown = curator.get(URL)
    memories.dismiss_duplicates([sure[0].uid, sure[1].uid], actor)
    confirm(curator, shown)
    assert trashed_uids() < {sure[2].uid, sure[3].uid}


def test_different_numbers_and_profiles_are_left_out(curator: Client, remember: Remember) -> None:
    remember("Upgrade the parser to 1.2"), remember("Upgrade the parser to 1.2, not 1.3")
    long = "word " * 1000
    remember(f"{long} 7"), remember(f"{long} 8")
    remember("I work in a terminal with large letters", category="profile")
    remember("Prefers a terminal with a large font", category="profile")
    page = main(curator.get(URL)).words
    assert "with different numbers or negations" in page
    assert "Left out: 1 profile in several parts." in page
    assert "Nothing to merge" in page


def test_filter_and_limit_apply(curator: Client, sure: list[Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing to merge" in main(curator.get(f"{URL}?project=q")).words
    assert curator.get(f"{URL}?similarity=5").status_code == 422
    monkeypatch.setattr("memoryhub.web.duplicates.views.MAX_MERGED_CLUSTERS", 1)
    shown = curator.get(URL)
    assert "1 more cluster for the next time" in main(shown).words
    confirm(curator, shown)
    assert len(trashed_uids()) == 1


@each("permissions", [(), CURATOR_PERMISSIONS[:1], CURATOR_PERMISSIONS[1:]])
def test_both_permissions_are_needed(sign_in: Any, sure: list[Memory], permissions: tuple[str, ...]) -> None:
    client = sign_in(*permissions)
    assert URL not in client.get("/duplicates/").content.decode()
    assert client.get(URL).status_code == client.post(URL).status_code == 403


@each("level", ["private", "secret", "cosmic"])
def test_hidden_memories_are_not_listed_or_merged(curator: Client, sure: list[Memory], level: str) -> None:
    Memory.objects.filter(pk__in=[sure[0].pk, sure[1].pk]).update(sensitivity=level)
    shown = curator.get(URL)
    assert sure[0].uid not in shown.content.decode()
    versions = " ".join(f"{one.uid} {one.updated_at.isoformat()}" for one in sure[:2])
    curator.post(URL, {"cluster": [versions, "junk"]})
    assert trashed_uids() == set()
    assert not JournalEntry.objects.filter(object_type="memories").exists()

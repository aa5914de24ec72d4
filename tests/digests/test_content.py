"""What a digest contains: only what its recipient may see, and only what is new."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts import people
from memoryhub.digests import collect_content, html_text, plain_text, slack_text
from memoryhub.models import Digest, Fact, Membership, Memory
from tests.digests.conftest import confine

LEVELS = ("public", "private", "secret", "unheard-of")
Subscribe = Callable[..., Digest]
WEBHOOK = {"channel": "webhook", "url": "https://hooks.example.org/x"}


@pytest.fixture(autouse=True)
def _mail_is_configured(settings: Any) -> None:
    settings.EMAIL_HOST = "127.0.0.1"


def text_of(digest: Digest) -> str:
    fresh = Digest.objects.select_related("user__profile").get(pk=digest.pk)
    content = collect_content(fresh, timezone.now())
    return plain_text(fresh, content) + slack_text(fresh, content)


def words_in(digest: Digest) -> set[str]:
    text = text_of(digest)
    return {f"{name}{n}" for name in ("shed", "barn") for n in range(4) if f"{name}{n}" in text}


@pytest.fixture
def world(remember: Callable[..., Memory]) -> None:
    """Memories and facts of all levels in two projects; flagged, expiring, and contradicting each other."""
    for project in ("shed", "barn"):
        for number, level in enumerate(LEVELS):
            word = f"{project}{number}"
            memory = remember(f"The lantern {word}", title=word, project=project, ttl_days=3)
            shared = {"project": project, "sensitivity": level}
            Memory.objects.filter(pk=memory.pk).update(sensitivity=level, flags=["odd"])
            for place in ("hall", "attic"):
                Fact.objects.create(subject=word, predicate="is located in", object=place, **shared)


def test_email_has_public_and_chosen_private_memories_of_all_kinds(world: None, subscribe: Subscribe) -> None:
    public = subscribe()
    assert words_in(public) == {"shed0", "barn0"}
    content = collect_content(public, timezone.now())
    assert [one.name for one in content.sections] == ["new", "flagged", "expiring", "contradicting"]
    assert [one.count for one in content.sections] == [2, 2, 2, 2]
    private = subscribe(level="private", project="shed")
    assert words_in(private) == {"shed0", "shed1"}


def test_email_without_permission_for_the_level_has_public_memories(
    world: None, subscribe: Subscribe, ada: User
) -> None:
    digest = subscribe(level="private")
    ada.user_permissions.clear()
    assert words_in(digest) == {"shed0", "barn0"}


def test_webhook_has_public_memories_only(world: None, subscribe: Subscribe) -> None:
    digest = subscribe(**WEBHOOK, level="private")
    assert digest.level == "public"
    Digest.objects.filter(pk=digest.pk).update(level="secret")
    assert words_in(digest) == {"shed0", "barn0"}


def test_no_digest_has_secrets_whatever_its_row_says(world: None, subscribe: Subscribe, ada: User) -> None:
    ada.is_superuser = True
    ada.save()
    digest = subscribe()
    Digest.objects.filter(pk=digest.pk).update(level="secret")
    assert words_in(digest) == {"shed0", "barn0", "shed1", "barn1"}


def test_personal_memories_go_to_their_owner_by_email_only(
    remember: Callable[..., Memory], subscribe: Subscribe
) -> None:
    for owner in ("ada", "bob"):
        by = Actor(f"token:{owner}", Clearance(owner=owner))
        remember(f"the diary of {owner}", by, title=f"diary-{owner}", scope="personal")
    assert "diary-ada" in text_of(subscribe())
    assert "diary-bob" not in text_of(subscribe(period="weekly", project="", **WEBHOOK))
    assert "diary-ada" not in text_of(Digest.objects.get(channel="webhook"))
    assert "diary-bob" not in text_of(Digest.objects.get(channel="email"))


def test_members_get_their_projects_at_their_level_there(
    world: None, subscribe: Subscribe, ada: User
) -> None:
    confine(ada, shed="public", barn="private")
    ada = User.objects.get(pk=ada.pk)
    assert words_in(subscribe(ada, level="private")) == {"shed0", "barn0", "barn1"}
    Membership.objects.filter(project="barn").delete()
    assert words_in(Digest.objects.get()) == {"shed0"}


def test_lost_access_to_a_project_empties_its_digest(world: None, subscribe: Subscribe, ada: User) -> None:
    confine(ada, shed="", barn="")
    digest = subscribe(User.objects.get(pk=ada.pk), project="barn")
    assert words_in(digest) == {"barn0"}
    Membership.objects.filter(project="barn").delete()
    content = collect_content(Digest.objects.get(pk=digest.pk), timezone.now())
    assert (content.sections, content.is_open) == ((), False)


def test_old_own_and_announced_memories_are_left_out(
    remember: Callable[..., Memory], subscribe: Subscribe
) -> None:
    now = timezone.now()
    old = remember("stored long ago", title="old-one")
    late = remember("expires in a while", title="late-one")
    announced = remember("was announced", title="announced-one")
    remember("typed by ada", Actor("user:ada", Clearance(owner="ada")), title="own-one")
    Memory.objects.exclude(title="own-one").update(created_at=now - timedelta(days=30))
    Memory.objects.filter(pk=old.pk).update(expires_at=None)
    Memory.objects.filter(pk=late.pk).update(expires_at=now + timedelta(days=6.5))
    Memory.objects.filter(pk=announced.pk).update(expires_at=now + timedelta(days=2))
    text = text_of(subscribe())
    assert [name for name in ("old", "late", "announced", "own") if f"{name}-one" in text] == ["late"]


def test_a_contradiction_is_reported_once(subscribe: Subscribe) -> None:
    for place in ("hall", "attic"):
        Fact.objects.create(subject="lantern", predicate="is located in", object=place)
    digest = subscribe()
    assert "hall" in text_of(digest)
    Digest.objects.update(since=timezone.now())
    assert collect_content(Digest.objects.get(), timezone.now()).sections == ()


def test_period_and_project_are_named_in_the_time_zone_of_the_person(
    ada: User, remember: Callable[..., Memory], subscribe: Subscribe
) -> None:
    people.save_preferences(ada, language="en-gb", time_zone="Pacific/Auckland", theme="")
    for place in ("hall", "attic"):
        Fact.objects.create(subject="lantern", predicate="is_kept_in", object=place)
    subscribe()
    Digest.objects.update(since=datetime(2026, 11, 22, 18, 5, tzinfo=UTC), project="shed")
    digest = Digest.objects.select_related("user__profile").get()
    start = "since Monday 23 November 2026"
    empty = collect_content(digest, timezone.now())
    assert plain_text(digest, empty).startswith(f"Nothing new in shed {start}\n")
    assert slack_text(digest, empty) == f"*Memories in shed* {start}: nothing new"
    digest.project = ""
    content = collect_content(digest, timezone.now())
    assert plain_text(digest, content).startswith(f"Changes in all your projects {start}\n")
    assert f"Changes in all your projects {start}" in html_text(digest, content)
    assert "lantern is kept in: " in slack_text(digest, content)


def test_long_lists_are_cut_and_counted(remember: Callable[..., Memory], subscribe: Subscribe) -> None:
    for number in range(13):
        remember(f"lantern number {number} burns with {number * 7} drops of oil")
    assert "and 3 more: https://hub.example.org/memories/?order=-created_at" in text_of(subscribe())

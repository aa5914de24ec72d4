"""The demo: what it shows, and where it may not go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import LEVELS
from memoryhub.audit import journal
from memoryhub.core.text import CJK
from memoryhub.core.vocabulary import CONCEPTS, SCOPES, TYPES, TrashReason
from memoryhub.facts import services
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import (
    Entity,
    Event,
    Fact,
    FileLink,
    Injection,
    JournalEntry,
    Label,
    MaintenanceRun,
    Memory,
    Revision,
    Session,
)
from memoryhub.ops import demo
from memoryhub.security.secrets import find_secrets
from tests.cases import each

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]  # quickstart stays on SQLite


@pytest.fixture
def home(db: None, settings: Any) -> Iterator[Path]:
    """The tests' home, where the demo may be made."""
    home = Path(settings.HOME)
    settings.MEMORY_LOG = home / "logs/memory-journal.jsonl"
    yield home
    (home / demo.MARKER).unlink(missing_ok=True)


@pytest.fixture
def loaded(home: Path) -> Path:
    demo.mark()
    assert demo.load()
    return home


def test_it_loads_once_and_is_kept(loaded):
    before = Memory.objects.count(), Fact.objects.count(), JournalEntry.objects.count()
    assert not demo.load()
    assert (Memory.objects.count(), Fact.objects.count(), JournalEntry.objects.count()) == before


def check_features():
    now = timezone.now()
    live = Memory.objects.live(now)
    assert 150 <= Memory.objects.count() <= 250
    assert set(live.values_list("type", flat=True)) == set(TYPES)
    assert set(live.values_list("sensitivity", flat=True)) == set(LEVELS)
    assert set(live.values_list("scope", flat=True)) == set(SCOPES)
    assert live.values("category").distinct().count() > 20
    assert live.values("project").distinct().count() == 4, "three projects and none"
    assert live.filter(scope="personal", owner=demo.OWNER).count() > 3
    assert live.filter(expires_at__lt=now + timedelta(days=7)).count() > 3
    assert Memory.objects.expired(now).count() > 2
    assert set(Memory.objects.trashed().values_list("trash_reason", flat=True)) == set(TrashReason)
    assert Memory.objects.filter(merged_into__isnull=False).count() > 3
    assert live.exclude(key="").count() > 5
    assert live.filter(accessed_count__gt=5).exists()
    assert set(Label.objects.filter(kind="concept").values_list("value", flat=True)) >= set(CONCEPTS)
    assert Label.objects.filter(kind="tag").count() > 100
    assert {*FileLink.objects.values_list("access", flat=True)} == {"read", "modified"}
    assert Entity.objects.values("entity_type").distinct().count() > 4
    assert {*Revision.objects.values_list("reason", flat=True)} >= {"update", "upsert"}
    assert live.filter(content__contains="```go").exists()
    assert live.filter(content__contains="|---").exists()
    assert live.filter(title__contains="<script>", content__contains="onerror=").exists()
    assert live.filter(content__contains="IGNORE ALL PREVIOUS INSTRUCTIONS", trust__lt=0.1).exists()
    assert sum(bool(CJK.search(memory.title)) for memory in live) >= 3
    assert MaintenanceRun.objects.values("operation").distinct().count() > 3


def check_credentials():
    refused = JournalEntry.objects.filter(
        operation=SECRET_BLOCKED, at__gte=timezone.now() - timedelta(days=30)
    )
    assert len({entry.at.date() for entry in refused}) >= 3
    assert len({entry.detail["kind"] for entry in refused}) == 2
    assert {entry.project for entry in refused} <= set(Memory.objects.values_list("project", flat=True))
    assert not any(find_secrets(memory.content) for memory in Memory.objects.all())


def test_demo_contains_no_credentials_if_they_are_not_refused(home, settings):
    settings.MEMORYHUB = settings.MEMORYHUB.model_copy(update={"block_secrets": False})
    demo.mark()
    demo.load()
    assert not JournalEntry.objects.filter(operation=SECRET_BLOCKED).exists()
    assert not any(find_secrets(memory.content) for memory in Memory.objects.all())


def check_sessions():
    assert Session.objects.filter(ended_at__isnull=True).count() == 1, "one is still open"
    assert Session.objects.filter(summary__isnull=False).count() > 15
    assert not Session.objects.filter(events__isnull=True).exists()
    assert (
        Event.objects.filter(boundary=True).count()
        == Fact.objects.filter(predicate="boundary_at").count()
        > 10
    )
    assert Event.objects.exclude(skip_reason="").exists()
    kept = Event.objects.filter(memory__isnull=False).first()
    assert kept.memorability == kept.memorability_parts["total"] > 0
    assert {handler["name"] for handler in kept.handlers} == {"boundaries", "capture"}
    uids = set(Memory.objects.values_list("uid", flat=True))
    for injection in Injection.objects.all():
        assert {entry["id"] for entry in (*injection.injected, *injection.withheld)} <= uids
    assert Injection.objects.filter(withheld__icontains="governor").exists()


def check_contradictions():
    versions = Fact.objects.filter(subject="harbor-board", predicate="uses_database")
    assert versions.count() == 2
    assert versions.values("confidence").distinct().count() == 2


def check_times():
    now = timezone.now()
    moments = list(JournalEntry.objects.order_by("seq").values_list("at", flat=True))
    assert moments == sorted(moments)
    assert moments[-1] < now
    assert now - moments[0] < timedelta(days=100)
    assert now - moments[-1] < timedelta(hours=1)
    assert journal.verify().ok


@each(
    "check",
    [
        check_features,
        check_credentials,
        check_sessions,
        check_contradictions,
        check_times,
    ],
)
def test_the_loaded_demo(loaded, check):
    """To load it takes longer than all of these, which change nothing."""
    check()


@pytest.mark.parametrize("hour", [0, 23])
def test_it_can_be_loaded_at_any_hour(home, hour):
    demo.mark()
    now = timezone.now().replace(hour=hour, minute=59 if hour else 1)
    assert demo.load(now)
    assert not Memory.objects.filter(created_at__gt=now).exists()
    assert not Event.objects.filter(at__gt=now).exists()


def test_an_unmarked_folder_is_refused(home):
    with pytest.raises(demo.NotADemo, match="is not marked as a demo's folder"):
        demo.load()
    assert not Memory.objects.exists()


def test_a_real_store_is_not_marked(home, remember):
    remember("something real")
    with pytest.raises(demo.NotADemo, match="contains a real store"):
        demo.mark()
    assert not (home / demo.MARKER).exists()


def test_a_store_that_was_emptied_is_not_marked(home, remember, actor):
    memories.erase_memories([remember("something real").uid], actor)
    with pytest.raises(demo.NotADemo, match="contains a real store"):
        demo.mark()


def test_a_marked_folder_with_memories_is_not_changed(home, remember):
    demo.mark()
    remember("the first of mine")
    assert not demo.load()
    assert Memory.objects.count() == 1


def test_a_database_outside_of_the_folder_is_refused(home, monkeypatch, tmp_path):
    demo.mark()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "memory.db"))
    with pytest.raises(demo.NotADemo, match="is outside of the demo"):
        demo.load()


def test_a_journal_outside_of_the_folder_is_refused(home, settings, tmp_path):
    demo.mark()
    settings.MEMORY_LOG = tmp_path / "memory-journal.jsonl"
    with pytest.raises(demo.NotADemo, match="is outside of the demo"):
        demo.load()


def test_a_load_that_fails_leaves_nothing_behind(home, monkeypatch):
    def fail(*args: object) -> None:
        raise OSError("disk full")

    demo.mark()
    monkeypatch.setattr(services, "create_fact", fail)
    with pytest.raises(OSError, match="disk full"):
        demo.load()
    assert not Memory.objects.exists()
    assert not JournalEntry.objects.exists()


def test_every_field_of_the_fixtures_is_known():
    """A misspelt field would be left out without a word."""
    planned = {"ref", "by", "when", "minute", "hits", "then"}
    for row in demo._read("memories"):
        assert set(row) <= planned | set(MemoryDraft.model_fields), row["ref"]

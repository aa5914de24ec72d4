"""Replay recorded sessions, each once per module into an empty store."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from memoryhub.core.vocabulary import MemoryType
from memoryhub.models import Event, Fact, Memory, Session

SESSIONS = Path(__file__).resolve().parents[2] / "fixtures" / "sessions"
_MADE = (MemoryType.SESSION_SUMMARY, MemoryType.CHECKPOINT)


@dataclass(frozen=True)
class Expected:
    """A memory that capture is expected to create.

    ``title``: words that its title holds; ``says``: words of its content; ``files``: those it is about.
    """

    type: str
    title: str
    says: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def matches(self, memory: Memory) -> bool:
        content = " ".join(memory.content.split())
        return (
            memory.type == self.type
            and self.title in memory.title
            and all(words in content for words in self.says)
            and set(self.files) == files_of(memory)
        )


@dataclass
class Replayed:
    """The content of the store after a replay."""

    session: Session
    kept: list[Memory] = field(default_factory=list)
    summaries: list[Memory] = field(default_factory=list)
    checkpoints: list[Memory] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        return list(Event.objects.filter(session=self.session).order_by("at", "pk"))

    @property
    def boundaries(self) -> list[Fact]:
        about = f"session:{self.session.session_id}"
        return list(Fact.objects.filter(subject=about, predicate="boundary_at").order_by("pk"))

    def everything(self) -> str:
        """Return the content of all tables."""
        with connection.cursor() as cursor:
            found = []
            for table in connection.introspection.table_names(cursor):
                cursor.execute(f'SELECT * FROM "{table}"')
                found += [str(row) for row in cursor.fetchall()]
        return "\n".join(found)


def files_of(memory: Memory) -> set[str]:
    """Return the files that a memory lists as changed."""
    return set(memory.files.filter(access="modified").values_list("path", flat=True))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[None]:
    """Use an empty store in its own file as the default database of the module."""
    home = tmp_path_factory.mktemp("recorded")
    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = str(home / "memory.db")
    # Injections may be slow while other tests run.
    patient = settings.MEMORYHUB.model_copy(
        update={"injection_deadline_ms": 60_000, "tool_deadline_ms": 60_000}
    )
    mirror = home / "memory-journal.jsonl"
    with django_db_blocker.unblock(), override_settings(MEMORY_LOG=mirror, MEMORYHUB=patient):
        call_command("migrate", verbosity=0)
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict["NAME"] = before


@pytest.fixture(scope="module")
def replay(store: None) -> Callable[[str], Replayed]:
    """``replay("debugging")`` replays a transcript into the module's store."""

    def play(name: str) -> Replayed:
        call_command("replay", str(SESSIONS / f"{name}.jsonl"), stdout=io.StringIO())
        memories = Memory.objects.live().order_by("created_at", "pk")
        return Replayed(
            Session.objects.get(),
            [one for one in memories if one.type not in _MADE],
            [one for one in memories if one.type == MemoryType.SESSION_SUMMARY],
            # The summary has moved them to the trash.
            list(Memory.objects.filter(type=MemoryType.CHECKPOINT).order_by("created_at", "pk")),
        )

    return play


def unmatched(kept: list[Memory], expected: tuple[Expected, ...]) -> tuple[list[str], list[Expected]]:
    """Return the titles of unexpected memories and the expectations without a match."""
    extra = [f"{one.type}: {one.title}" for one in kept if not any(exp.matches(one) for exp in expected)]
    missing = [exp for exp in expected if not any(exp.matches(one) for one in kept)]
    return extra, missing

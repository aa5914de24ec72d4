"""Imports and exports, and a store with every kind of row."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from memoryhub import capture, memories
from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.checks import CheckDraft, create_check
from memoryhub.facts import services
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import (
    CodeReference,
    EventCount,
    Evidence,
    Fact,
    JournalEntry,
    Memory,
    MemoryCheck,
    Project,
    ProjectIdentity,
    Session,
)
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, OWN_FORMAT
from memoryhub.transfer.import_files import IdMap, open_import
from memoryhub.transfer.loader import LoadOptions, load_items
from memoryhub.transfer.records import ReadOptions
from memoryhub.transfer.reports import Tally
from tests.commands.conftest import home, jsonl, run
from tests.database import without_journal_triggers

__all__ = ["home", "jsonl", "run"]

OPERATOR = Actor("command:operator", Clearance(frozenset(LEVELS), every_owner=True))
ADA = Actor("user:ada", Clearance.up_to("secret", owner="ada"))
BOB = Actor("token:bob", Clearance(owner="bob"))


class Loaded:
    """Result of an import: the tally and the errors, each as "place: problem"."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.errors: list[str] = []


@pytest.fixture
def bring_in(tmp_path: Path) -> Callable[..., Loaded]:
    """``bring_in(raw)`` imports bytes (or JSON lines) as an operator with the right to restore."""

    def bring(content: bytes | list[dict[str, Any]], by: Actor = OPERATOR, **how: Any) -> Loaded:
        raw = content if isinstance(content, bytes) else b"".join(map(as_line, content))
        path = tmp_path / how.pop("name", "file.jsonl")
        path.write_bytes(raw)
        loaded, workers = Loaded(), how.pop("workers", None)
        order = LoadOptions(
            by,
            lambda place, problem: loaded.errors.append(f"{place}: {problem}"),
            **{"restores": by is OPERATOR, **how},
        )
        with open_import(FORMATS[OWN_FORMAT], str(path), ReadOptions()) as reading, closing(IdMap()) as ids:
            list(load_items(reading, order, loaded.tally, ids, workers))
        return loaded

    return bring


def as_line(shape: dict[str, Any]) -> bytes:
    return json.dumps(shape).encode() + b"\n"


def out(by: Actor = OPERATOR, *, whole: bool = True, **narrowed: Any) -> list[dict[str, Any]]:
    """Return the exported lines."""
    selection = ExportSelection(by, MemoryFilter(**narrowed), whole)
    return [json.loads(line) for line in selection.lines()]


def raw_out(by: Actor = OPERATOR) -> bytes:
    return b"".join(ExportSelection(by, MemoryFilter(), whole=True).lines())


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def wipe() -> None:
    """Empty the store, as after migrate."""
    with without_journal_triggers():
        for model in (MemoryCheck, Fact, Session, Memory, JournalEntry, Project):
            model.objects.all().delete()


@pytest.fixture
def full_store(db: None) -> None:
    """A store with every kind of row."""

    def put(content: str, by: Actor = ADA, **fields: Any) -> Memory:
        return memories.create_memory(MemoryDraft(content=content, **fields), by).memory

    kept = put("The build runs on two machines", project="shop", tags=["ci"], files_read=["ci.yml"])
    other = put("The build runs on two machines now", project="shop", concepts=["gotcha"], session_id="s1")
    memories.update_memory(
        kept.uid, MemoryPatch(content="The build runs on four machines", importance=0.9), ADA
    )
    memories.update_memory(kept.uid, MemoryPatch(title="Build farm", tags=["ci", "farm"]), ADA)
    memories.merge_memories(kept.uid, [other.uid], ADA)
    memories.trash_memories([put("thrown away", sensitivity="private").uid], ADA)
    expired = put("long gone", ttl_days=1)
    Memory.objects.filter(pk=expired.pk).update(expires_at=datetime(2021, 1, 1, tzinfo=UTC))
    put("for ada's eyes", scope="personal", sensitivity="secret", key="diary")
    put("for bob's eyes", by=BOB, scope="personal", entities=[{"entity": "Bob", "entity_type": "person"}])
    replaced = put("we deploy by hand", aliases=["k8s", "Kube"], project="shop")
    deploys = put("we deploy by script", project="shop", pinned=True)
    memories.update_memory(replaced.uid, MemoryPatch(superseded_by=deploys.uid, aliases=["k8s"]), ADA)
    put("said at two levels", sensitivity="secret", project="shop")
    put("said at two levels", by=BOB, project="shop")  # by an author who cannot see the other one
    keyed = put("colour = blue", key="colour", project="shop", created_at="2020-02-03T04:05:06Z")
    put("colour = green", key="colour", project="shop")
    memories.count_accesses([keyed])
    Evidence.objects.create(memory=keyed, session_id="s1")
    services.create_fact(
        FactDraft(subject="build", predicate="runs on", object="4 machines", project="shop"), ADA
    )
    hanging = FactDraft(subject="ada", predicate="likes", object="blue", project="shop", memory_id=keyed.uid)
    services.create_fact(hanging.model_copy(update={"confidence": 0.25}), ADA)
    ended, _ = services.create_fact(FactDraft(subject="build", predicate="runs on", object="2 machines"), ADA)
    holds, _ = services.create_fact(FactDraft(subject="build", predicate="runs on", object="8 machines"), ADA)
    Fact.objects.filter(pk=ended.pk).update(valid_until=holds.valid_from, superseded_by=holds)
    _work(datetime.now(UTC) - timedelta(hours=1))
    _observe(keyed, deploys)


def _observe(gone: Memory, cited: Memory) -> None:
    """Store identities and counts of projects, a check, lines of code, and a time in the trash."""
    memories.trash_memories([gone.uid], ADA)
    memories.restore_memories([gone.uid], ADA)
    at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    for name in ("shop", "mall"):
        project = Project.objects.create(name=name)
        values = {"key": f"remote:example.org/ada/{name}", "created_at": at}
        ProjectIdentity.objects.create(project=project, **values)
        ProjectIdentity.objects.create(project=project, owner="bob", **values)
        EventCount.objects.create(project=project, day=at.date(), event="tool:post", count=7)
    CodeReference.objects.create(
        memory=cited, path="src/a.py", basename="a.py", lines=["ab12", "cd34"], gone=["ab12"], as_of=at
    )
    User.objects.create_user("ada")
    rules = {"must_bring": [cited.uid], "never_bring": [gone.uid], "never_words": ["x"]}
    create_check(CheckDraft(prompt="How do we deploy?", project="shop", level="secret", **rules), ADA)


def _work(at: datetime) -> None:
    """Create a session with events, one of which became a memory."""

    def happen(event: str, minutes: int, **data: Any) -> None:
        happening = capture.HookEvent(
            event, "s2", "shop", cwd="/srv/shop", at=at + timedelta(minutes=minutes), data=data
        )
        capture.dispatch(happening, ADA)

    happen("session:start", 0)
    happen("prompt:submit", 1, prompt="Why does the importer read every file twice?")
    message = "fix(importer): read each file once\n\nThe cache key ignored the encoding of the path."
    command = {"command": f'git commit -m "{message}"'}
    happen("tool:post", 2, tool_name="Bash", tool_input=command, tool_response={"stdout": "1 file"})
    happen("session:end", 3, reason="exit")

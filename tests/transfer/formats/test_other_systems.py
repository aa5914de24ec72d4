"""Files of basic-memory, mem0, Engram, agentmemory and Hindsight."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models import Event, Fact, Memory, Revision, Session
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.records import ReadOptions, UnreadableFile
from tests.transfer.formats.foreign import ENGRAM, MEM0, Read, sqlite_file
from tests.transfer.formats.test_foreign_imports import ImportOutcome

T = "2026-03-01T10:00:00+00:00"
WHEN = datetime(2026, 3, 1, 10, tzinfo=UTC)
NOTE = """---
title: Deploys
type: note
permalink: ops/deploys
tags:
- deploy
status: active
---

# Deploys

## Observations
- [decision] Deploy before noon #habit

## Relations
- part_of [[Shop]]
- relates to [[Payments|payment webhook]]
"""


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def write_zip(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


def notes_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "basic"
    (folder / "ops").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "hidden.md").write_text("no note")
    (folder / "ops" / "deploys.md").write_text(NOTE)
    return folder


def notes_zip(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "notes.zip", {"ops/deploys.md": NOTE, "__MACOSX/ops/._deploys.md": "x"})


def mem0_export(tmp_path: Path) -> Path:
    memory = {"id": "m1", "memory": "Ada prefers tea", "hash": "h", "created_at": T, "updated_at": T}
    metadata = {"category": "preferences", "project": "shop", "mood": "good"}
    more = {"user_id": "ada", "run_id": "run-1", "role": "user", "metadata": metadata}
    return write_json(tmp_path / "mem0.json", {"results": [memory | more]})


def mem0_history(tmp_path: Path) -> Path:
    def row(number: int, memory_id: str, event: str, old: str | None, new: str | None) -> dict[str, Any]:
        values = {"old_memory": old, "new_memory": new, "created_at": T, "updated_at": T}
        return {"id": str(number), "memory_id": memory_id, "event": event, "is_deleted": 0, **values}

    rows = [
        row(1, "m1", "ADD", None, "Ada prefers coffee"),
        row(2, "m2", "ADD", None, "Wrong note"),
        row(3, "m1", "UPDATE", "Ada prefers coffee", "Ada prefers tea"),
        row(4, "m2", "DELETE", "Wrong note", None),
    ]
    return sqlite_file(tmp_path / "history.db", MEM0, {"history": rows})


SESSION = {"id": "s1", "project": "shop", "directory": "/srv/shop", "started_at": "2026-03-01 10:00:00"}


def observation(number: int, **values: Any) -> dict[str, Any]:
    times = dict.fromkeys(("created_at", "updated_at"), "2026-03-01 10:00:00")
    return (
        {
            "id": number,
            "sync_id": f"obs-{number}",
            "session_id": "s1",
            "type": "decision",
            "title": f"Title {number}",
            "content": f"Content {number}",
            "project": "shop",
            "scope": "project",
            "topic_key": f"decision/{number}",
        }
        | times
        | values
    )


def engram_database(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    relation = {"sync_id": "rel-1", "source_id": "obs-2", "target_id": "obs-1", "relation": "supersedes"}
    tables = {
        "sessions": [SESSION | {"summary": "Made the deploy safe", "ended_at": "2026-03-01 11:00:00"}],
        "observations": rows or [observation(1), observation(2, scope="global", type="architecture")],
        "user_prompts": [{"session_id": "s1", "content": "Why noon?", "created_at": "2026-03-01 10:01:00"}],
        "memory_relations": [] if rows else [relation | {"judgment_status": "judged"}],
    }
    return sqlite_file(tmp_path / "engram.db", ENGRAM, tables)


def engram_export(tmp_path: Path) -> Path:
    prompt = {"id": 1, "session_id": "s1", "content": "Why noon?", "created_at": "2026-03-01 10:01:00"}
    found = {"version": "0.1.0", "exported_at": T, "sessions": [SESSION], "observations": [observation(1)]}
    return write_json(tmp_path / "engram.json", found | {"prompts": [prompt]})


NPM_MEMORY = {
    "id": "mem_1",
    "type": "workflow",
    "title": "Deploys",
    "content": "Deploy before noon",
    "concepts": ["deploy"],
    "files": ["deploy.sh"],
    "createdAt": T,
    "updatedAt": T,
    "strength": 7,
    "version": 1,
    "isLatest": True,
    "sessionIds": ["s1"],
}


def agentmemory_export(tmp_path: Path) -> Path:
    newer = NPM_MEMORY | {"id": "mem_2", "content": "Deploy before ten", "supersedes": ["mem_1"]}
    observation = {"id": "o1", "sessionId": "s1", "timestamp": T, "type": "decision", "title": "Noon"}
    more = {
        "facts": ["It is safe"],
        "narrative": "We chose noon",
        "concepts": [],
        "files": [],
        "importance": 8,
    }
    return write_json(
        tmp_path / "agentmemory.json",
        {
            "version": "0.9.29",
            "exportedAt": T,
            "sessions": [{"id": "s1", "project": "shop", "cwd": "/srv/shop", "startedAt": T}],
            "observations": {"s1": [observation | more]},
            "memories": [newer, NPM_MEMORY],
            "summaries": [],
            "graphNodes": [{"id": "n1"}],
        },
    )


def agentmemory_standalone(tmp_path: Path) -> Path:
    return write_json(tmp_path / "standalone.json", {"mem:memories": {"mem_1": NPM_MEMORY}})


def agentmemory_python(tmp_path: Path) -> Path:
    """The export of the Python package; ids count within a collection."""
    metadata = {"created_at": WHEN.timestamp(), "updated_at": WHEN.timestamp(), "confidence": 0.8}
    row = {"id": "0000000000000000", "metadata": metadata}
    found = {
        "facts": [row | {"document": "Deploy before noon"}],
        "people": [row | {"document": "Ada likes tea"}],
    }
    return write_json(tmp_path / "memory.json", found)


def hindsight_archive(tmp_path: Path) -> Path:
    fact = {"text": "Ada works on the shop", "source_id": "f1", "fact_type": "world", "mentioned_at": T}
    more = {"context": "work", "entities": ["Ada", "shop"], "tags": ["team"], "metadata": {"mood": "good"}}
    document = {"id": "doc/1", "original_text": "A long text", "tags": [], "facts": [fact | more]}
    observed = {"text": "Ada prefers short answers", "source_id": "o1", "created_at": T, "proof_count": 3}
    members = {
        "documents/000000.json": document,
        "observations.json": [observed],
        "mental_models.json": [],
        "manifest.json": {"schema_version": 1, "source_bank_id": "assistant", "archive_type": "bank"},
    }
    return write_zip(tmp_path / "bank.zip", members)


FILES: dict[Callable[[Path], Path], tuple[str, int]] = {  # format, memories
    notes_folder: ("basic-memory", 1),
    notes_zip: ("basic-memory", 1),
    mem0_export: ("mem0", 1),
    mem0_history: ("mem0", 2),
    engram_database: ("engram", 3),
    engram_export: ("engram", 1),
    agentmemory_export: ("agentmemory", 3),
    agentmemory_standalone: ("agentmemory", 1),
    agentmemory_python: ("agentmemory", 2),
    hindsight_archive: ("hindsight", 2),
}
each_file = pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)


@each_file
def test_file_is_recognised_by_its_content(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    path = write(tmp_path)
    renamed = path.rename(tmp_path / "upload") if path.is_file() else path
    assert detect_format(renamed).name == FILES[write][0]


@each_file
@pytest.mark.django_db
def test_same_file_again_changes_nothing(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    path = write(tmp_path)
    first = ImportOutcome(path)
    assert first.errors == []
    assert first.tally.outcomes == {"created": FILES[write][1]}
    models = (Memory, Fact, Revision, Session, Event)
    before = [list(model.objects.order_by("pk").values()) for model in models]  # type: ignore[attr-defined]
    assert ImportOutcome(path).tally.outcomes == {"unchanged": FILES[write][1]}
    assert [list(model.objects.order_by("pk").values()) for model in models] == before  # type: ignore[attr-defined]


BROKEN = [b"", b"{", b"[1, 2", b"SQLite format 3\x00broken", b"PK\x03\x04broken", b"\xff\xfe"]


def test_database_with_a_statement_that_is_not_utf8_is_refused_with_a_message(tmp_path: Path) -> None:
    path = engram_database(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"CREATE TABLE ") + 2] |= 0x80  # SQLite's message quotes it
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="cannot be read as an SQLite file"):
        list(FORMATS["engram"].read(path, ReadOptions(name="broken")))


@pytest.mark.parametrize("name", sorted({name for name, _ in FILES.values()} - {"basic-memory"}))
@pytest.mark.parametrize("raw", BROKEN)
def test_damaged_file_is_refused_with_a_message(tmp_path: Path, name: str, raw: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(raw)
    with pytest.raises(UnreadableFile, match="broken"):
        list(FORMATS[name].read(path, ReadOptions(name="broken")))


class TestBasicMemory:
    def test_note_becomes_a_memory_with_its_relations_as_facts(self, tmp_path: Path) -> None:
        found = Read("basic-memory", notes_folder(tmp_path))
        note, *facts = found.drafts
        assert (note.title, note.type, note.category) == ("Deploys", "general", "ops")
        assert note.tags == ["deploy", "habit"]
        assert note.content.startswith("# Deploys\n\n## Observations")
        named = [(fact.subject, fact.predicate, fact.object) for fact in facts]
        assert named == [("Deploys", "part of", "Shop"), ("Deploys", "relates to", "Payments")]
        assert found.unmapped == {"field status": 1}

    @pytest.mark.django_db
    def test_command_imports_a_folder(self, tmp_path: Path, home: Path, run: Callable[..., Any]) -> None:
        assert run("import_memories", notes_folder(tmp_path), "--project", "wiki").code == 0
        assert Memory.objects.get().project == "wiki"

    def test_front_matter_that_is_nonsense_is_reported_with_its_line(self, tmp_path: Path) -> None:
        folder = notes_folder(tmp_path)
        (folder / "bad.md").write_text("---\ntitle: a\ntags: [a\n---\ntext")
        found = Read("basic-memory", folder)
        assert found.bad == {"bad.md": ["line 3: the front matter is not YAML here"]}
        assert len(found.records) == 3

    def test_link_out_of_the_folder_is_not_followed(self, tmp_path: Path) -> None:
        folder = notes_folder(tmp_path)
        (tmp_path / "outside.md").write_text("outside")
        (folder / "link.md").symlink_to(tmp_path / "outside.md")
        assert len(Read("basic-memory", folder).records) == 3


class TestMem0:
    def test_fields_are_kept(self, tmp_path: Path) -> None:
        found = Read("mem0", mem0_export(tmp_path))
        [draft] = found.drafts
        assert (draft.content, draft.category, draft.project) == ("Ada prefers tea", "preferences", "shop")
        assert (draft.tags, draft.session_id, draft.created_at) == (["user:ada"], "run-1", WHEN)
        assert found.unmapped == {"metadata mood": 1}

    @pytest.mark.django_db
    def test_history_has_the_last_state_and_the_versions(self, tmp_path: Path) -> None:
        ImportOutcome(mem0_history(tmp_path))
        memory = Memory.objects.get(content="Ada prefers tea")
        assert [one.before["content"] for one in Revision.objects.filter(memory=memory)] == [
            "Ada prefers coffee"
        ]
        assert Memory.objects.get(content="Wrong note").deleted_at == WHEN

    @pytest.mark.django_db
    def test_export_and_history_of_a_store_are_the_same_memories(self, tmp_path: Path) -> None:
        ImportOutcome(mem0_export(tmp_path))
        assert ImportOutcome(mem0_history(tmp_path)).tally.outcomes == {"unchanged": 1, "created": 1}


class TestEngram:
    @pytest.mark.django_db
    def test_memories_sessions_prompts_and_replacements_are_imported(self, tmp_path: Path) -> None:
        ImportOutcome(engram_database(tmp_path))
        old, new = Memory.objects.get(content="Content 1"), Memory.objects.get(content="Content 2")
        assert (old.superseded_by, old.key, old.type) == (new, "decision/1", "decision")
        assert (new.scope, new.type) == ("team", "general")
        assert Memory.objects.get(type="session_summary").session_id == "s1"
        assert Session.objects.get().cwd == "/srv/shop"
        assert Event.objects.get().preview == "Why noon?"

    def test_unknown_scope_is_refused(self, tmp_path: Path) -> None:
        found = Read("engram", engram_database(tmp_path, observation(1, scope="everyone")))
        assert found.bad == {"observations row 1": ["scope: is unknown; use project, personal or global"]}

    def test_uncertain_relations_are_counted(self, tmp_path: Path) -> None:
        path = engram_database(tmp_path, observation(1))
        relation = {"sync_id": "r", "source_id": "obs-1", "target_id": "obs-1", "relation": "related"}
        sqlite_file(path, "", {"memory_relations": [relation]})
        assert Read("engram", path).unmapped["relations other than a judged supersedes"] == 1


class TestAgentMemory:
    @pytest.mark.django_db
    def test_memories_of_the_npm_package_are_imported(self, tmp_path: Path) -> None:
        brought = ImportOutcome(agentmemory_export(tmp_path))
        old, new = (
            Memory.objects.get(content="Deploy before noon"),
            Memory.objects.get(content="Deploy before ten"),
        )
        assert old.superseded_by == new
        assert (old.title, old.importance, old.session_id) == ("Deploys", 0.7, "s1")
        observed = Memory.objects.get(type="decision")
        assert observed.content == "We chose noon\n\n- It is safe"
        assert Session.objects.get(session_id="s1", project="shop").agent == "agentmemory"
        assert brought.tally.unmapped["graphNodes"] == 1

    def test_collections_of_the_python_package_are_categories(self, tmp_path: Path) -> None:
        found = Read("agentmemory", agentmemory_python(tmp_path))
        assert [(one.content, one.category) for one in found.drafts] == [
            ("Deploy before noon", "facts"),
            ("Ada likes tea", "people"),
        ]
        assert found.drafts[0].confidence == 0.8


class TestHindsight:
    def test_facts_and_observations_become_memories(self, tmp_path: Path) -> None:
        found = Read("hindsight", hindsight_archive(tmp_path))
        fact, observed = found.drafts
        assert (fact.content, fact.type, fact.project) == ("Ada works on the shop", "fact", "assistant")
        assert (fact.subtitle, fact.tags) == ("work", ["team", "document:doc/1"])
        assert [one.entity for one in fact.entities] == ["Ada", "shop"]
        assert (observed.type, observed.created_at) == ("discovery", WHEN)
        assert {"metadata mood", "original_text", "file mental_models.json"} <= set(found.unmapped)

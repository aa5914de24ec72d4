"""Mira's SQLite file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models import Evidence, Memory
from memoryhub.transfer.formats import detect_format
from tests.transfer.formats.foreign import MIRA, MIRA_FIRST, Read, sqlite_file
from tests.transfer.formats.test_foreign_imports import ImportOutcome

PROJECTS = [{"id": 1, "path": "/home/ada/tide-board", "name": "Tide Board"}, {"id": 2, "path": "/srv/shop"}]


def fact(**values: Any) -> dict[str, Any]:
    return {
        "id": 42,
        "project_id": 1,
        "content": "Sign-in uses JWT with a lifetime of one hour",
        "fact_type": "decision",
        "created_at": "2026-03-01 10:00:00",
        "updated_at": "2026-03-02 10:00:00",
    } | values


def file(tmp_path: Path, **tables: list[dict[str, Any]]) -> Path:
    return sqlite_file(tmp_path / "mira.db", MIRA, {"projects": PROJECTS} | tables)


def read(tmp_path: Path, **tables: list[dict[str, Any]]) -> Read:
    return Read("mira", file(tmp_path, **tables))


def test_file_is_recognised(tmp_path: Path) -> None:
    assert detect_format(file(tmp_path)).name == "mira"


def test_fields_are_kept_and_memories_do_not_expire(tmp_path: Path) -> None:
    row = fact(key="auth", category="security", confidence=0.7, scope="team", first_session_id="s1")
    found = read(tmp_path, memory_facts=[row])
    [draft] = found.drafts
    assert (draft.content, draft.key, draft.category) == (row["content"], "auth", "security")
    assert (draft.type, draft.scope, draft.confidence, draft.ttl_days) == ("decision", "team", 0.7, 0)
    assert (draft.project, draft.session_id) == ("Tide Board", "s1")
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert found.records[0].past.updated_at == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_project_without_a_name_is_named_after_its_folder(tmp_path: Path) -> None:
    [draft] = read(tmp_path, memory_facts=[fact(project_id=2)]).drafts
    assert draft.project == "shop"


def test_memory_without_a_project_has_none(tmp_path: Path) -> None:
    [draft] = read(tmp_path, memory_facts=[fact(project_id=None)]).drafts
    assert draft.project == ""


def test_unknown_type_is_general_with_a_tag(tmp_path: Path) -> None:
    found = read(tmp_path, memory_facts=[fact(fact_type="convention")])
    assert (found.drafts[0].type, found.drafts[0].tags) == ("general", ["convention"])
    assert found.unmapped["type convention (stored as general, with the type as a tag)"] == 1


def test_entities_are_read_with_their_types(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        memory_facts=[fact()],
        memory_entities=[
            {"id": 1, "canonical_name": "jwt", "entity_type": "technology", "display_name": "JWT"},
            {"id": 2, "canonical_name": "oauth", "entity_type": "technology"},
        ],
        memory_entity_links=[{"fact_id": 42, "entity_id": 1}, {"fact_id": 42, "entity_id": 2}],
    )
    named = [(one.entity, one.entity_type) for one in found.drafts[0].entities]
    assert named == [("JWT", "technology"), ("oauth", "technology")]


@pytest.mark.parametrize(
    ("values", "sessions"),
    [
        ({"session_count": 1, "first_session_id": "a", "last_session_id": "a"}, ["a"]),
        ({"session_count": 2, "first_session_id": "a", "last_session_id": "b"}, ["a", "b"]),
        ({"session_count": 3, "first_session_id": "a", "last_session_id": "b"}, ["a", "b", "mira-42-0"]),
        ({"session_count": 1}, []),
    ],
)
def test_sessions_are_read_as_evidence(tmp_path: Path, values: dict[str, Any], sessions: list[str]) -> None:
    found = read(tmp_path, memory_facts=[fact(**values)]).history("evidence")
    assert [one.session_id for one in found] == sessions


def test_damaged_session_count_makes_at_most_100_rows(tmp_path: Path) -> None:
    row = fact(session_count=10**15, first_session_id="a")
    assert len(read(tmp_path, memory_facts=[row]).history("evidence")) == 100


def test_archived_memory_is_in_the_trash(tmp_path: Path) -> None:
    [record] = read(tmp_path, memory_facts=[fact(status="archived")]).records
    assert record.past.deleted_at == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_stale_memory_has_a_tag(tmp_path: Path) -> None:
    [draft] = read(tmp_path, memory_facts=[fact(stale_since="2026-03-02 10:00:00")]).drafts
    assert draft.tags == ["stale"]


def test_values_and_tables_without_a_place_are_reported(tmp_path: Path) -> None:
    row = fact(branch="main", team_id=3, user_id="ada", suspicious=1)
    found = read(tmp_path, memory_facts=[row], goals=[{"title": "Ship"}])
    assert {"branch", "team_id", "user_id"} <= found.unmapped.keys()
    assert any("goals" in what for what in found.unmapped)


def test_unknown_scope_is_refused(tmp_path: Path) -> None:
    found = read(tmp_path, memory_facts=[fact(scope="galaxy")])
    assert found.drafts == []
    assert found.bad == {"memory_facts row 42": ["scope: is unknown; use personal, project or team"]}


def test_first_versions_are_read(tmp_path: Path) -> None:
    row = {"id": 1, "content": "We use TypeScript strict mode", "fact_type": "decision"}
    found = Read("mira", sqlite_file(tmp_path / "mira.db", MIRA_FIRST, {"memory_facts": [row]}))
    assert [draft.content for draft in found.drafts] == [row["content"]]
    assert found.bad == {}


@pytest.mark.django_db
def test_imported_memory_has_its_sessions_and_a_second_import_adds_nothing(tmp_path: Path) -> None:
    values = {"session_count": 3, "first_session_id": "a", "last_session_id": "b"}
    path = file(tmp_path, memory_facts=[fact(**values), fact(id=43, content="Deploy on weekdays")])
    assert ImportOutcome(path).errors == []
    ImportOutcome(path)
    memory = Memory.objects.get(content=fact()["content"])
    assert Evidence.objects.filter(memory=memory).count() == 3
    assert (Memory.objects.count(), memory.expires_at) == (2, None)

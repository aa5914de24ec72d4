"""Mira's SQLite file."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryhub import memories
from memoryhub.models import Memory
from memoryhub.transfer.formats import detect_format
from tests.transfer.formats.foreign import MIRA, MIRA_OLD, Read, sqlite_file

SHOP = {"id": 3, "path": "/home/grace/code/shop", "name": "shop"}


def fact(**values: Any) -> dict[str, Any]:
    return {
        "id": 42,
        "project_id": 3,
        "key": "auth",
        "content": "We sign requests with JWT",
        "fact_type": "decision",
        "category": "security",
        "confidence": 0.8,
        "created_at": "2026-03-01 10:00:00",
        "updated_at": "2026-03-05 10:00:00",
        "first_session_id": "s1",
        "last_session_id": "s2",
        "session_count": 2,
    } | values


def mira(tmp_path: Path, *facts: dict[str, Any], **tables: list[dict[str, Any]]) -> Read:
    return Read("mira", store(tmp_path, *facts, **tables))


def store(tmp_path: Path, *facts: dict[str, Any], **tables: list[dict[str, Any]]) -> Path:
    rows = {"projects": [SHOP], "memory_facts": list(facts), **tables}
    return sqlite_file(tmp_path / "mira.db", MIRA, rows)


def test_memory_fact_becomes_a_memory(tmp_path: Path) -> None:
    [draft] = mira(tmp_path, fact()).drafts
    assert (draft.content, draft.key, draft.type) == ("We sign requests with JWT", "auth", "decision")
    assert (draft.category, draft.confidence, draft.project) == ("security", 0.8, "shop")
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_memory_fact_does_not_expire(tmp_path: Path) -> None:
    [draft] = mira(tmp_path, fact()).drafts
    assert "ttl_days" in draft.given
    assert not draft.ttl_days


@pytest.mark.parametrize("scope", ["personal", "project", "team"])
def test_scope_is_kept(tmp_path: Path, scope: str) -> None:
    [draft] = mira(tmp_path, fact(scope=scope)).drafts
    assert draft.scope == scope


def test_unknown_scope_is_refused(tmp_path: Path) -> None:
    read = mira(tmp_path, fact(scope="galaxy"))
    assert read.drafts == []
    assert "is no known scope" in read.bad["memory_facts row 42"][0]


def test_project_without_a_name_is_named_by_its_path(tmp_path: Path) -> None:
    [draft] = mira(tmp_path, fact(), projects=[SHOP | {"name": None}]).drafts
    assert draft.project == "shop"


def test_unknown_type_becomes_general_and_is_reported(tmp_path: Path) -> None:
    read = mira(tmp_path, fact(fact_type="health"))
    assert read.drafts[0].type == "general"
    assert read.unmapped == {"type health (stored as general)": 1}


def test_branch_becomes_a_tag(tmp_path: Path) -> None:
    [draft] = mira(tmp_path, fact(branch="main")).drafts
    assert draft.tags == ["branch:main"]


def test_first_and_last_session_become_evidence(tmp_path: Path) -> None:
    found = mira(tmp_path, fact()).history("evidence")
    assert [(one.memory_id, one.session_id) for one in found] == [("mira-42", "s1"), ("mira-42", "s2")]


def test_values_without_a_place_are_reported(tmp_path: Path) -> None:
    read = mira(tmp_path, fact(session_count=5, user_id="grace", team_id=1, suspicious=1))
    assert read.unmapped == {
        "sessions between the first and the last": 3,
        "user_id (personal memories belong to the person who imports them)": 1,
        "team_id (team memories belong to the whole team)": 1,
        "suspicious (the hub inspects memories itself)": 1,
    }


def test_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    row = {name: value for name, value in fact().items() if name in "id project_id key content".split()}
    path = sqlite_file(tmp_path / "old.db", MIRA_OLD, {"projects": [SHOP], "memory_facts": [row]})
    assert detect_format(path).name == "mira"
    [draft] = Read("mira", path).drafts
    assert (draft.content, draft.project, draft.scope) == ("We sign requests with JWT", "shop", "project")


def test_binary_content_is_refused_by_row(tmp_path: Path) -> None:
    read = mira(tmp_path, fact(content=b"\xff\xfe"), fact(id=43, key="b", content="Fine"))
    assert [draft.content for draft in read.drafts] == ["Fine"]
    assert "memory_facts row 42" in read.bad


@pytest.mark.django_db
def test_command_imports_memories_with_their_sessions_once(tmp_path: Path) -> None:
    path = store(tmp_path, fact(), fact(id=43, key=None, content="Stripe takes the payments"))
    for _ in range(2):
        call_command("import_memories", str(path), verbosity=0, stdout=StringIO())
    assert Memory.objects.count() == 2
    found = Memory.objects.get(key="auth")
    assert memories.count_sessions([found]) == {found.pk: 2}
    assert found.expires_at is None

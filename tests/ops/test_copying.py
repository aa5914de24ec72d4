"""``copy_store``: the copy has the same rows, ids and journal, also after an interruption."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.audit import journal
from memoryhub.backends.dialect import sql
from memoryhub.backends.release import COPY_MARK
from memoryhub.core.database import is_postgres
from memoryhub.maintenance import nodes
from memoryhub.models import JournalEntry, Lease, Memory, ServerProcess
from memoryhub.ops import checks, copying
from tests.commands.conftest import Ran, home, run
from tests.transfer.conftest import full_store
from tools.cluster import postgres

__all__ = ["full_store", "home", "run"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("full_store"), pytest.mark.slow]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a store that does not exist yet. Child processes use the settings of production."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    monkeypatch.setenv("LETSGO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMORYHUB_EMBEDDINGS", "none")
    return tmp_path / "copy.db"


@pytest.fixture
def migrated_target(target: Path, migrated_store: Path) -> Path:
    """A target with empty tables, so that the child process needs no time to make them.

    Only tests on SQLite make the copied store.
    """
    if migrated_store.exists():
        shutil.copyfile(migrated_store, target)
    return target


def rows_of(path: Path | None) -> dict[str, list[Any]]:
    """Return the stored values of all copied tables: of a file, or of the store in use."""
    if path is None:
        with connection.cursor() as cursor:
            return _read_tables(cursor, *sql.JOURNAL_COPIES)
    with closing(sqlite3.connect(path)) as file:
        return _read_tables(file.cursor())


def _read_tables(cursor: Any, text_of_detail: str = "detail") -> dict[str, list[Any]]:
    """``text_of_detail``: the column with the exact text of a detail of the journal."""
    found = {}
    for model in copying.find_models():
        columns = [str(field.column) for field in model._meta.concrete_fields]
        if model is JournalEntry:
            columns[columns.index("detail")] = text_of_detail
        names = ", ".join(f'"{column}"' for column in columns)
        cursor.execute(f"SELECT {names} FROM {model._meta.db_table}")
        found[model._meta.db_table] = sorted((tuple(map(_as_sqlite, row)) for row in cursor), key=repr)
    return found


def _as_sqlite(value: Any) -> Any:
    """Return a value as SQLite stores it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None))
    return str(value) if isinstance(value, date) else value


def differences(first: dict[str, list[Any]], second: dict[str, list[Any]]) -> list[Any]:
    """Return the rows that only one of the two has."""
    if is_postgres():
        first, second = sort_documents(first), sort_documents(second)
    return [
        (name, set(map(repr, first[name])) ^ set(map(repr, second[name])))
        for name in first
        if repr(first[name]) != repr(second[name])
    ]


def test_copy_has_the_same_rows_and_goes_back(run: Callable[..., Ran], target: Path, tmp_path: Path) -> None:
    ran = run("copy_store", "--to", f"sqlite:///{target}")
    assert ran.code == 0, ran.err
    assert "Both stores are equal" in ran.out
    assert Memory.objects.exclude(superseded_by=None).exists(), "a row refers to another one of its table"
    stored = rows_of(None)
    assert differences(rows_of(target), stored) == []
    command = [sys.executable, "-m", "memoryhub", "copy_store", "--to", f"sqlite:///{tmp_path / 'back.db'}"]
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{target}"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert differences(rows_of(tmp_path / "back.db"), stored) == []


def sort_documents(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the rows with the names in documents in order: PostgreSQL stores no order."""
    return {
        name: sorted(
            ([_sort(cell) if isinstance(cell, str) else cell for cell in row] for row in table), key=repr
        )
        for name, table in rows.items()
    }


def _sort(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True) if text[:1] in ("{", "[") else text
    except ValueError:
        return text


def test_copy_to_postgres_and_back_is_equal(run: Callable[..., Ran], target: Path) -> None:
    odd = {"name": "half of a pair \ud800, NUL \x00, both halves 😀"}
    with transaction.atomic():
        journal.record(system_actor("tests"), [journal.Change("test", "store", "", odd)])
    stored = rows_of(None)
    with postgres.started() as server:
        url = server.create_database("hub")
        ran = run("copy_store", "--to", url)
        assert ran.code == 0, ran.err
        command = [sys.executable, "-m", "memoryhub", "copy_store", "--to", f"sqlite:///{target}"]
        subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=True, capture_output=True)
    back = rows_of(target)
    assert differences(sort_documents(back), sort_documents(stored)) == []
    assert back["memoryhub_journalentry"] == stored["memoryhub_journalentry"], "the journal is the same text"


@pytest.fixture
def unfinished_copy(run: Callable[..., Ran], migrated_target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target that lacks rows, because the copy was interrupted."""
    ask, asked = copying.Target._ask, []

    def ask_some(self: copying.Target, name: str, *arguments: Any) -> Any:
        asked.append(name)
        if asked.count("insert") > 40:
            raise KeyboardInterrupt
        return ask(self, name, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(copying, "BATCH_SIZE", 2)
        patched.setattr(copying.Target, "_ask", ask_some)
        with pytest.raises(KeyboardInterrupt):
            run("copy_store", "--to", f"sqlite:///{migrated_target}")
    return migrated_target


def test_copy_continues_after_an_interruption(run: Callable[..., Ran], unfinished_copy: Path) -> None:
    assert 0 < sum(map(len, rows_of(unfinished_copy).values())) < sum(map(len, rows_of(None).values()))
    assert run("copy_store", "--to", f"sqlite:///{unfinished_copy}").code == 0
    assert differences(rows_of(unfinished_copy), rows_of(None)) == []


@pytest.mark.parametrize("command", [["maintain"], ["copy_store", "--to", "sqlite:////elsewhere.db"]])
def test_unfinished_copy_is_not_used(unfinished_copy: Path, command: list[str]) -> None:
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{unfinished_copy}"}
    arguments = [sys.executable, "-m", "memoryhub", *command]
    refused = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "memoryhub.E013" in refused.stderr


def test_servers_refuse_an_unfinished_copy(transactional_db: None) -> None:
    Lease.objects.create(name=COPY_MARK)
    with pytest.raises(ImproperlyConfigured, match="copy_store was interrupted"):
        checks.require_usable_store()


def test_new_rows_get_higher_keys_than_copied_ones(run: Callable[..., Ran], migrated_target: Path) -> None:
    run("copy_store", "--to", f"sqlite:///{migrated_target}")
    last = JournalEntry.objects.latest("seq").seq
    code = (
        "import django; django.setup(); from memoryhub import memories;"
        " from memoryhub.memories.schemas import MemoryDraft; from memoryhub.access.policy import *;"
        " print(memories.create_memory(MemoryDraft(content='new'), Actor('token:t', Clearance())).memory.pk)"
    )
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{migrated_target}"}
    made = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert int(made.stdout) > Memory.objects.latest("pk").pk
    with closing(sqlite3.connect(migrated_target)) as file:
        assert file.execute("SELECT max(seq) FROM memoryhub_journalentry").fetchone() == (last + 1,)


def test_target_with_a_store_is_refused(run: Callable[..., Ran], migrated_target: Path) -> None:
    run("copy_store", "--to", f"sqlite:///{migrated_target}")
    before = migrated_target.read_bytes()
    ran = run("copy_store", "--to", f"sqlite:///{migrated_target}")
    assert ran.code == 1
    assert "use an empty database" in ran.err
    assert migrated_target.read_bytes() == before


def test_difference_between_the_stores_is_reported(
    run: Callable[..., Ran], migrated_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = copying._compare

    def tamper(*arguments: Any) -> None:
        with closing(sqlite3.connect(migrated_target)) as file:
            first = "SELECT min(id) FROM memoryhub_memory"
            file.execute(f"UPDATE memoryhub_memory SET importance = 0.123 WHERE id = ({first})")
            file.execute("DELETE FROM memoryhub_label WHERE id = (SELECT max(id) FROM memoryhub_label)")
            file.commit()
        compare(*arguments)

    monkeypatch.setattr(copying, "_compare", tamper)
    ran = run("copy_store", "--to", f"sqlite:///{migrated_target}")
    assert ran.code == 1
    assert "memoryhub_memory (" in ran.err
    assert "memoryhub_label (" in ran.err


def test_served_store_is_not_copied(run: Callable[..., Ran], target: Path) -> None:
    ServerProcess.objects.create(
        process="elsewhere/7/1",
        node="web-2",
        pid=7,
        started_at=Now(),
        heartbeat_at=Now(),
        clock_at=timezone.now(),
        key_digest=nodes.key_digest(),
    )
    ran = run("copy_store", "--to", f"sqlite:///{target}")
    assert ran.err == "node web-2 serves the store; stop all servers first"
    assert not target.exists()


def test_replica_of_the_source_is_not_used_for_the_target(
    run: Callable[..., Ran], migrated_target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_REPLICA_URL", "postgres://replica.example.org/hub")
    ran = run("copy_store", "--to", f"sqlite:///{migrated_target}")
    assert (ran.code, ran.err) == (0, "")


def test_unusable_target_is_refused_with_a_reason(run: Callable[..., Ran], target: Path) -> None:
    ran = run("copy_store", "--to", "mysql://somewhere/else")
    assert ran.code == 1
    assert "its messages are above" in ran.err


def test_killed_process_that_was_sending_leaves_no_stack_trace(tmp_path):
    message = pickle.dumps(("position", ("memoryhub.memory" * 1000,)))[:-10]
    environment = {**os.environ, "LETSGO_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
    command = [sys.executable, "-c", copying._CHILD]
    child = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, input=message, capture_output=True
    )
    assert (child.returncode, child.stderr) == (0, b"")
    parent = SimpleNamespace(_requests=io.BytesIO(), _answers=io.BytesIO(message))
    with pytest.raises(copying.CopyError, match="the process with the target ended"):
        copying.Target._ask(parent, "finish")

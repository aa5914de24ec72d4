"""An upload that one node received is imported by another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryhub.access.policy import Actor
from memoryhub.maintenance import executor, worker
from memoryhub.models import Fact, MaintenanceRun, Memory, UploadPart
from memoryhub.transfer import import_files, jobs
from tests.transfer.conftest import as_line

pytestmark = pytest.mark.django_db


@pytest.fixture
def enter_node(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Continue as another node, with a home of its own and the same database."""
    monkeypatch.setattr(import_files, "is_postgres", lambda: True)
    monkeypatch.setattr(import_files, "_PART_BYTES", 100)

    def enter(name: str, home: str = "") -> None:
        settings.NODE_NAME, settings.HOME = name, tmp_path / (home or name)

    enter("a")
    return enter


def lines(count: int) -> bytes:
    return b"".join(as_line({"content": f"text {n}"}) for n in range(count))


def test_another_node_imports_the_upload(enter_node: Callable[[str], None], actor: Actor) -> None:
    run = jobs.start_import(iter([lines(20)]), "notes.jsonl", actor)
    assert UploadPart.objects.count() > 1
    enter_node("b")
    assert executor.execute(run)
    assert (run.status, Memory.objects.count()) == ("done", 20)
    assert not UploadPart.objects.exists(), "the file is not needed any more"


@pytest.mark.parametrize("node", [["b"], ["a", "an empty home"]], ids=["another node", "new container"])
def test_import_begun_with_another_home_finds_its_ids(
    enter_node: Callable[..., None], actor: Actor, monkeypatch: pytest.MonkeyPatch, node: list[str]
) -> None:
    """The fact at the end refers to a memory that the first node imported."""
    monkeypatch.setattr(jobs, "_FIRST_BATCH", 2)
    monkeypatch.setattr(jobs, "_MAX_BATCH", 2)
    memory = {"kind": "memory", "id": "first", "content": "the attic is dry"}
    fact = {"kind": "fact", "subject": "attic", "predicate": "is", "object": "dry", "memory_id": "first"}
    raw = as_line(memory) + lines(5) + as_line(fact)
    run = jobs.start_import(iter([raw]), "notes.jsonl", actor)

    def die(run: MaintenanceRun) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        executor.execute(run, watcher=die)
    assert Memory.objects.exists()
    MaintenanceRun.objects.update(status="queued")
    enter_node(*node)
    run.refresh_from_db()
    assert executor.execute(run)
    assert run.status == "done"
    assert Memory.objects.count() == 6, "nothing is there twice"
    assert Fact.objects.get().memory.content == "the attic is dry"


def test_node_deletes_its_file_once_another_node_has_imported_it(
    enter_node: Callable[[str], None], actor: Actor
) -> None:
    imported = jobs.start_import(iter([lines(2)]), "notes.jsonl", actor)
    waiting = jobs.start_import(iter([lines(3)]), "notes.jsonl", actor)
    kept, gone = (import_files.upload_path(run.params["upload"]) for run in (waiting, imported))
    enter_node("b")
    assert executor.execute(imported)
    enter_node("a")
    import_files.delete_old_uploads()
    assert gone.exists(), "its copy in the database might not be stored yet"
    for path in (kept, gone):
        os.utime(path, (0, time.time() - import_files._SECONDS_TO_STORE - 1))
    import_files.delete_old_uploads()
    assert (kept.exists(), gone.exists()) == (True, False)


def test_node_with_a_full_disk_leaves_imports_to_others(
    enter_node: Callable[[str], None], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, full = jobs.start_import(iter([lines(2)]), "notes.jsonl", actor), [Path("/")]
    monkeypatch.setattr(worker, "is_postgres", lambda: True)
    monkeypatch.setattr(worker, "find_full_folders", lambda: full)
    assert worker.next_run(False) is None
    full.clear()
    assert worker.next_run(False) == run


def test_upload_stays_on_the_only_node(home: Path, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_files, "is_postgres", lambda: False)
    jobs.start_import(iter([lines(2)]), "notes.jsonl", actor)
    assert not UploadPart.objects.exists()

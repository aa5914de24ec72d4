"""The file of vectors that processes share: it is always that of the table, or is made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from django.db import connection, transaction

from memoryhub.backends import change_log, vector_index
from memoryhub.backends.vector_index import VectorIndex
from memoryhub.models import Embedding, Memory
from memoryhub.ops import backup
from tests.vectors import MODEL, SIZE, insert_vectors, make_memories, random_units, stored_vectors, unit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]
RECORD = 16 + 4 * SIZE


@pytest.fixture
def path() -> Path:
    path = vector_index.path_of(connection.settings_dict["NAME"], MODEL)
    path.unlink(missing_ok=True)
    return path


@pytest.fixture
def rows(path: Path) -> list[Memory]:
    """Ten memories with vectors, which are in the file."""
    rows = make_memories(10)
    insert_vectors(zip(rows, random_units(10), strict=True))
    assert len(new_index()) == 10
    return rows


def new_index() -> VectorIndex:
    """Return an index such as another process would have."""
    return VectorIndex(MODEL, SIZE)


def fits_table(index: VectorIndex) -> bool:
    found, wanted = index.of(index.view().pks), stored_vectors()
    return found.keys() == wanted.keys() and all(
        np.allclose(found[pk], vector, atol=1e-6) for pk, vector in wanted.items()
    )


def place_of(path: Path, number: int) -> slice:
    """Return where the vector of a record is in the file."""
    start = 1024 + number * RECORD + 16
    return slice(start, start + 4 * SIZE)


def test_file_is_next_to_the_database_and_only_its_owner_can_read_it(rows, path):
    assert path.parent == Path(connection.settings_dict["NAME"]).parent
    assert path.stat().st_mode & 0o777 == 0o600
    os.umask(0o022)
    try:
        path.unlink()
        assert len(new_index()) == 10
    finally:
        os.umask(0o077)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_vector_is_read_from_the_table_again(rows, monkeypatch):
    first, second = new_index(), new_index()
    assert fits_table(first)
    read = []
    monkeypatch.setattr(change_log, "vectors_between", lambda *one: read.append(one) or [])
    assert fits_table(second)
    assert read == []


def test_vectors_that_one_process_appends_are_in_the_views_of_all(rows, path):
    first, second = new_index(), new_index()
    assert len(first) == len(second) == 10
    inode = path.stat().st_ino
    added = make_memories(5, project="more")
    insert_vectors(zip(added, random_units(5, seed=2), strict=True))
    assert fits_table(first)
    assert fits_table(second)
    Embedding.objects.filter(memory__in=[rows[3], added[0]]).delete()
    assert fits_table(second)
    assert fits_table(first)
    assert path.stat().st_ino == inode


def test_process_that_is_behind_reads_appended_and_deleted_vectors(rows):
    behind, ahead = new_index(), new_index()
    assert len(behind) == 10
    added = make_memories(3, project="more")
    insert_vectors(zip(added, random_units(3, seed=2), strict=True))
    assert len(ahead) == 13
    Embedding.objects.filter(memory=added[1]).delete()
    assert len(ahead) == 12
    assert fits_table(behind)


def test_vectors_of_a_process_that_is_ahead_count_at_their_position(rows):
    behind, ahead = new_index(), new_index()
    position = change_log.current_position()
    added = make_memories(1, project="more")
    insert_vectors([(added[0], unit(0, 1))])
    assert len(ahead) == 11
    assert len(behind.view(position)) == 10
    with transaction.atomic():
        assert len(behind) == 11
        assert fits_table(behind)
    assert fits_table(behind)


def test_processes_that_start_together_use_one_file(rows, path, monkeypatch):
    path.unlink()
    first, second = new_index(), new_index()
    create = vector_index._create

    def create_too_late(*args: object) -> object:
        monkeypatch.setattr(vector_index, "_create", create)
        assert len(second) == 10
        return create(*args)

    monkeypatch.setattr(vector_index, "_create", create_too_late)
    assert len(first) == len(second) == 10
    assert first._file._inode == second._file._inode == path.stat().st_ino


def test_file_grows(rows):
    first, second = new_index(), new_index()
    assert len(first) == 10
    added = make_memories(1500, project="more")
    insert_vectors(zip(added, random_units(1500), strict=True))
    assert len(first) == len(second) == 1510
    assert fits_table(first)
    assert fits_table(second)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:300],
        lambda content: b"x" * len(content),
        lambda content: content[: 1024 + 5 * RECORD],
        lambda content: content[:1024] + bytes(len(content) - 1024),
        lambda content: content[:1040] + b"\xff" * 40 + content[1080:],
        lambda content: (
            content[:1024] + content[1024 + RECORD : 1024 + 2 * RECORD] + content[1024 + RECORD :]
        ),
    ],
    ids=["empty", "cut in the header", "no header", "cut", "zeros", "wrong number", "record twice"],
)
def test_damaged_file_is_made_again(rows, path, damage):
    path.write_bytes(damage(path.read_bytes()))
    assert fits_table(new_index())
    assert fits_table(new_index())


def test_missing_file_is_made_again(rows, path):
    known = new_index()
    assert len(known) == 10
    path.unlink()
    assert fits_table(new_index())
    Embedding.objects.filter(memory=rows[0]).delete()
    assert fits_table(known)
    assert fits_table(new_index())


def test_records_that_a_killed_process_did_not_count_are_ignored(rows, path):
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(1024 + 10 * RECORD)
        file.write(b"\x01" * (RECORD + 7))
    assert fits_table(new_index())
    insert_vectors([(make_memories(1, project="more")[0], unit(0, 1))])
    assert fits_table(new_index())
    assert len(path.read_bytes()) == len(content)


def test_file_of_another_store_is_replaced(rows, path):
    with connection.cursor() as cursor:
        change_log.start_tracking(cursor, restart=True)
    identity = path.read_bytes()[:48]
    Embedding.objects.filter(memory=rows[0]).delete()
    assert fits_table(new_index())
    assert path.read_bytes()[:48] != identity


def test_file_of_an_earlier_boot_is_replaced(rows, path, monkeypatch, tmp_path):
    identity = path.read_bytes()[:48]
    boot = tmp_path / "boot_id"
    boot.write_text("another")
    monkeypatch.setattr(vector_index, "_BOOT_ID", boot)
    assert fits_table(new_index())
    assert path.read_bytes()[:48] != identity


def test_deleted_vector_is_overwritten_by_the_next_process_that_opens_the_file(rows, path):
    vector = path.read_bytes()[place_of(path, 4)]
    Embedding.objects.filter(memory=rows[4]).delete()
    assert vector in path.read_bytes()
    vector_index.overwrite_deleted()
    assert vector not in path.read_bytes()
    assert fits_table(new_index())


def test_half_overwritten_vector_is_overwritten_again(rows, path):
    Embedding.objects.filter(memory=rows[4]).delete()
    content = bytearray(path.read_bytes())
    vector = bytes(content[place_of(path, 4)])
    content[1024 + 4 * RECORD + 8 : 1024 + 4 * RECORD + 20] = bytes(12)  # killed after the first bytes
    path.write_bytes(content)
    assert fits_table(new_index())
    assert vector[8:] not in path.read_bytes()


def test_file_of_a_model_that_was_replaced_is_removed(rows, path):
    Embedding.objects.all().delete()
    vector_index.overwrite_deleted()
    assert path.exists()
    insert_vectors([(rows[0], unit(1))], "another")
    vector_index.overwrite_deleted()
    assert not path.exists()


def test_process_without_a_file_has_its_own_vectors(rows, path, monkeypatch, caplog):
    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    path.unlink()
    monkeypatch.setattr(vector_index, "_create", refuse)
    index = new_index()
    assert fits_table(index)
    insert_vectors([(make_memories(1, project="more")[0], unit(0, 1))])
    assert fits_table(index)
    assert not path.exists()
    assert "its own copy of the vectors: [Errno 28] No space left on device" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory")
def test_vectors_are_read_when_no_disk_has_space(rows, path, monkeypatch):
    def refuse(*args: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    path.unlink()
    for name in ("TemporaryFile", "NamedTemporaryFile"):
        monkeypatch.setattr(vector_index.tempfile, name, refuse)
    assert fits_table(new_index())


def test_link_in_the_place_of_the_file_is_not_followed(rows, path, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(target)
    Embedding.objects.filter(memory=rows[0]).delete()
    before = target.read_bytes()
    assert fits_table(new_index())
    assert target.read_bytes() == before


def test_backup_leaves_the_file_out(rows, path, tmp_path):
    vector = path.read_bytes()[place_of(path, 4)]
    backup.back_up(tmp_path / "saved" / "memoryhub.db")
    saved = list((tmp_path / "saved").iterdir())
    assert saved
    assert not any("vectors" in one.name or vector in one.read_bytes() for one in saved)


def test_file_of_a_new_model_without_vectors_is_kept(rows):
    VectorIndex("new-model", SIZE).view()
    vector_index.overwrite_deleted("new-model")
    assert vector_index.path_of(connection.settings_dict["NAME"], "new-model").exists()


def test_file_with_a_similar_name_is_not_removed(rows, path):
    own = path.with_name(f"{path.name}.old")
    own.write_bytes(b"not a file of vectors")
    vector_index.overwrite_deleted()
    assert own.exists()


def test_forked_process_opens_the_file_itself(rows):
    vector_index.get_index(MODEL, SIZE).view()
    child = os.fork()
    if not child:
        os._exit(len(vector_index._indexes))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert vector_index._indexes


def test_file_that_another_user_made_is_replaced(rows, path, monkeypatch):
    before, opened = path.stat().st_ino, os.open

    def refuse_the_first(name: object, *args: int) -> int:
        if name == path and path.stat().st_ino == before:
            raise PermissionError(13, "Permission denied")
        return opened(name, *args)

    monkeypatch.setattr(vector_index.os, "open", refuse_the_first)
    assert fits_table(new_index())
    assert path.stat().st_mode & 0o777 == 0o600

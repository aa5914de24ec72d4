"""The tools of PostgreSQL back up a store: a dump, and a base backup with its log for any point in time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.cluster import until
from tools.bench.hub import manage
from tools.cluster import mixed, postgres
from tools.cluster.nodes import node_environment

pytestmark = pytest.mark.slow
_STORE = """
from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.memories.schemas import MemoryDraft
for text in {texts!r}:
    memories.create_memory(MemoryDraft(content=text), system_actor("tests"))
"""
_SERVE = "from memoryhub.ops import serving; print(*serving.prepare_store())"
BEFORE, AFTER, LATER = ([f"stored {when} {n}" for n in range(5)] for when in ("before", "after", "later"))


@pytest.fixture
def server() -> Iterator[postgres.Postgres]:
    with postgres.started() as started:
        yield started


@pytest.fixture
def environment(server: postgres.Postgres, tmp_path: Path) -> dict[str, str]:
    """The environment of a migrated store with some memories."""
    home = tmp_path / "home"
    home.mkdir()
    environment = node_environment(home, server.create_database("hub"), "web")
    manage(environment, "migrate", "--verbosity", "0")
    store(environment, BEFORE)
    return environment


@pytest.fixture
def folder(server: postgres.Postgres) -> Iterator[Path]:
    """A folder of the server's user."""
    made = server.folder.with_name(f"{server.folder.name}-backups")
    made.mkdir()
    owner = server.folder.stat()
    shutil.chown(made, owner.st_uid, owner.st_gid)
    yield made
    shutil.rmtree(made)


def store(environment: dict[str, str], texts: list[str]) -> None:
    manage(environment, "shell", "--no-imports", "-c", _STORE.format(texts=texts))


def contents(environment: dict[str, str]) -> dict[str, Any]:
    found = mixed.read_store(environment)
    return found | {key: sorted(found[key]) for key in ("memories", "journal")}


def texts(environment: dict[str, str]) -> set[str]:
    return {content for _, content, *_ in contents(environment)["memories"]}


def test_restored_dump_has_the_same_memories_and_journal(
    server: postgres.Postgres, environment: dict[str, str], folder: Path
) -> None:
    dump, dumped = str(folder / "hub.dump"), contents(environment)
    server.run("pg_dump", "-U", "postgres", "--format", "custom", "--file", dump, "hub")
    restored = environment | {"DATABASE_URL": server.create_database("restored")}
    server.run("pg_restore", "-U", "postgres", "--exit-on-error", "--dbname", "restored", dump)
    assert contents(restored) == dumped
    assert "5 rows" in manage(restored, "verify_journal")
    manage(restored, "doctor")
    store(restored, AFTER)
    assert texts(restored) == {*BEFORE, *AFTER}
    assert contents(restored)["intact"]


def test_store_is_recovered_at_a_point_in_time(
    server: postgres.Postgres, environment: dict[str, str], folder: Path
) -> None:
    archive = folder / "archive"
    archive.mkdir()
    shutil.chown(archive, folder.owner(), folder.group())
    server.query("postgres", "ALTER SYSTEM SET archive_mode = on")
    copy = f"cp %p {archive}/.%f && mv {archive}/.%f {archive}/%f"  # a file in the archive is whole
    server.query("postgres", f"ALTER SYSTEM SET archive_command = '{copy}'")
    server.kill()
    server.start()
    data = server.back_up(folder / "base")
    store(environment, AFTER)
    wanted, moment = contents(environment), server.query("postgres", "SELECT clock_timestamp()")
    store(environment, LATER)
    last = server.query("postgres", "SELECT pg_walfile_name(pg_switch_wal())")
    until((archive / last).exists)
    server.kill()
    recovered = environment | {"DATABASE_URL": recover(data, archive, moment).url("hub")}
    assert contents(recovered) == wanted
    with pytest.raises(SystemExit, match="lines without a row in the database: 5"):
        manage(recovered, "verify_journal")
    assert "verify_journal --acknowledge-loss" in manage(recovered, "shell", "--no-imports", "-c", _SERVE)
    manage(recovered, "verify_journal", "--acknowledge-loss")
    manage(recovered, "doctor")


def recover(data: Path, archive: Path, moment: str) -> postgres.Postgres:
    """Start a server from a base backup, which replays the log up to a moment."""
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = 'cp {archive}/%f %p'\n")
        settings.write(f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n")
    (data / "recovery.signal").touch()
    recovered = postgres.Postgres(data)
    until(lambda: recovered.query("postgres", "SELECT pg_is_in_recovery()") == "False")
    return recovered

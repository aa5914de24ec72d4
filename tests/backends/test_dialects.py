"""SQLite and PostgreSQL: the same interface, and what is different on PostgreSQL."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import NotSupportedError, OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from psycopg_pool.base import AttemptWithBackoff

from memoryhub import config
from memoryhub.audit import journal
from memoryhub.backends import release, schema
from memoryhub.backends.dialect import IS_POSTGRES, sql
from memoryhub.backends.postgres import rates, server
from memoryhub.backends.statements import in_titles, match_any
from memoryhub.backends.word_keys import matching_keys
from memoryhub.core.text import stem, words
from memoryhub.http import authentication
from memoryhub.models import Memory
from memoryhub.ops import checks
from memoryhub.ops.doctor import Status, store
from memoryhub.settings import _postgres
from tests.database import run_sql

ROOT = Path(__file__).parents[2]
ABLE = server.ServerFacts(18, "UTF8", True, "0.8.0", "0.8.0", True)
only_postgres = pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL")


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return what a module of a dialect defines, with the parameters of functions."""
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    functions = {
        name: list(inspect.signature(value).parameters)
        for name, value in own.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return functions | {name: None for name, value in own.items() if isinstance(value, str | int | tuple)}


def test_sqlite_and_postgres_have_the_same_names() -> None:
    sqlite, postgres = (
        public_names(importlib.import_module(f"memoryhub.backends.dialect.{name}"))
        for name in ("sqlite", "postgres")
    )
    # SQLite's templates are functions or texts: only the names of these must agree.
    functions = [name for name in sqlite if name in postgres and sqlite[name] and postgres[name]]
    assert {name: sqlite[name] for name in functions} == {name: postgres[name] for name in functions}
    missing = {name for name, parameters in sqlite.items() if parameters is not None} - set(postgres)
    assert not missing


def test_functions_of_the_schema_have_the_same_parameters_on_both_databases() -> None:
    sqlite, postgres = (
        public_names(importlib.import_module(f"memoryhub.backends.{name}.schema"))
        for name in ("sqlite", "postgres")
    )
    chosen = {name for name, value in vars(schema).items() if inspect.isfunction(value)} & set(sqlite)
    chosen.remove("truncate_log")  # SQLite's own modules pass the record of an erase
    assert {"begin_rebuild", "copy_rows", "install"} <= chosen
    assert {name: sqlite[name] for name in chosen} == {name: postgres.get(name) for name in chosen}


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({"version": 14}, "memoryhub.E008"),
        ({"encoding": "LATIN1"}, "memoryhub.E009"),
        ({"may_create": False}, "memoryhub.E010"),
        ({"vector": "0.7.4"}, "memoryhub.E011"),
    ],
)
def test_server_that_the_hub_cannot_use_is_refused(change: dict[str, Any], id: str) -> None:
    assert [one.id for one in server.find_problems(ABLE._replace(**change))] == [id]


@pytest.mark.parametrize(("available", "fix"), [("", "Install pgvector"), ("0.8.0", "As an administrator")])
def test_missing_extension_is_reported_with_the_way_to_add_it(available: str, fix: str) -> None:
    [found] = server.find_problems(ABLE._replace(vector="", available=available))
    assert found.id == "memoryhub.W011"
    assert not found.is_serious
    assert found.fix.startswith(fix)
    assert "CREATE EXTENSION vector" in found.fix


def test_extension_that_the_first_migrate_creates_is_not_reported() -> None:
    assert list(server.find_problems(ABLE._replace(vector="", is_migrated=False))) == []


def test_able_server_has_no_problems() -> None:
    assert list(server.find_problems(ABLE)) == []


def test_version_that_django_refuses_is_refused_like_other_old_ones() -> None:
    error = NotSupportedError("PostgreSQL 14 or later is required (found 13.4).")
    found = server.find_connection_problem(error)
    assert (found.id, found.text) == ("memoryhub.E008", "PostgreSQL 14 or later is required (found 13.4)")
    assert found.fix == "Upgrade the server to PostgreSQL 15 or newer."


@only_postgres
@pytest.mark.django_db
def test_reason_is_reported_when_the_pool_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "no_such_database")
    found = server.find_connection_problem(OperationalError("couldn't get a connection after 10.00 sec"))
    assert 'database "no_such_database" does not exist' in found.text


@pytest.mark.django_db
def test_read_that_compares_nul_finds_nothing() -> None:
    Memory.objects.create(content="is stored")
    for text in ("\x00", "is stored\x00"):
        assert not Memory.objects.filter(content=text).exists()
        assert not Memory.objects.filter(content__in=[text]).exists()


# Without the ten seconds that the pool waits for a server which starts.
CHECK = """
from django.conf import settings
from django.core.management import execute_from_command_line
settings.DATABASES["default"]["OPTIONS"]["pool"]["timeout"] = 0.1
execute_from_command_line(["manage.py", "check", "--tag", "installation"])
"""


def test_unreachable_server_is_reported_with_the_fix(tmp_path: Path) -> None:
    """And no password is shown."""
    environment = {
        "PATH": os.environ["PATH"],
        "LETSGO_HOME": str(tmp_path),
        "DATABASE_URL": "postgres://ada:swordfish@127.0.0.1:1/hub",
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
    }
    found = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    text = found.stdout + found.stderr
    assert found.returncode == 1
    assert "memoryhub.E007" in text
    assert "Start it, or correct DATABASE_URL" in text
    assert "swordfish" not in text


def test_home_is_made_for_a_store_that_is_elsewhere(migrated_home: Path) -> None:
    home = migrated_home / "new" / "home"
    environment = {
        "PATH": os.environ["PATH"],
        "LETSGO_HOME": str(home),
        "DATABASE_URL": f"sqlite:///{migrated_home}/memory.db",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert home.stat().st_mode & 0o777 == 0o700


@only_postgres
@pytest.mark.django_db
@pytest.mark.parametrize("command", [("backup",), ("restore_backup", "x.db"), ("salvage", "x.db")])
def test_commands_for_files_name_pg_dump(command: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="pg_dump"):
        call_command(*command)


@only_postgres
@pytest.mark.django_db
@pytest.mark.parametrize(
    "written",
    [
        "technology technologies methodologies psychology biology apology logy",
        "possibly possible incredibly probably ably doubly assembly assemblies assembled nobly bible",
        "relational conditional rational valency digitizer conformably radically vilely happy sky",
        "Überraschung naïve café файл Йод ΣΊΣΥΦΟΣ σίσυφος 検索 한국어 3.11",
    ],
)
def test_index_contains_the_stems_of_the_hub(written: str) -> None:
    [[found]] = run_sql("SELECT tsvector_to_array(memoryhub_word_vector(%s, '', '', '', '', ''))", written)
    assert set(found) == {stem(word) for word in words(written)}


def test_file_with_the_url_of_the_database_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "url"
    file.write_text("postgres://hub@db/hub\n")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL_FILE", str(file))
    assert config.load_operator().database_url == "postgres://hub@db/hub"


@only_postgres
@pytest.mark.django_db
def test_node_serves_a_store_that_a_newer_release_has_migrated(remember: Callable[..., Any]) -> None:
    """With additive migrations, which leave the record as it is."""
    MigrationRecorder(connection).record_applied("memoryhub", "9999_later")
    run_sql("COMMENT ON FUNCTION memoryhub_endings(text) IS 'of the newer release'")
    checks.require_usable_store()
    assert Client().get("/readyz").status_code == 200
    remember("stored by the older node")
    assert journal.verify_chain().ok
    found = [one.text for one in store.migrations.run() if one.status is Status.WARN]
    assert found == ["a newer version has added memoryhub.9999_later"]
    call_command("migrate", verbosity=0)
    [[comment]] = run_sql("SELECT obj_description('memoryhub_endings(text)'::regprocedure)")
    assert comment == "of the newer release", "the older node leaves it as it is"


@only_postgres
@pytest.mark.django_db
def test_node_older_than_the_record_is_refused() -> None:
    sql.write_release(release.to_number("99.1.2"))
    with pytest.raises(ImproperlyConfigured, match=r"needs 99\.1\.2 or newer"):
        checks.require_usable_store()
    assert Client().get("/readyz").status_code == 503


@only_postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("create", "id", "fix"),
    [
        ("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", "memoryhub.E009", "ENCODING 'UTF8'"),
        ("TEMPLATE template0", "memoryhub.E010", "GRANT CREATE, USAGE ON SCHEMA public"),
    ],
)
def test_database_that_the_hub_cannot_use_is_refused_with_the_fix(
    create: str, id: str, fix: str, tmp_path: Path
) -> None:
    name, guest = f"refused_{os.getpid()}", f"guest_{os.getpid()}"  # other processes test on the same server
    run_sql(f"CREATE DATABASE {name} {create}")
    run_sql(f"CREATE ROLE {guest} LOGIN")
    try:
        user = guest if id == "memoryhub.E010" else connection.settings_dict["USER"]
        host = connection.settings_dict["HOST"] or connection.settings_dict["OPTIONS"]["host"]
        port = connection.settings_dict["PORT"] or 5432
        environment = {
            "PATH": os.environ["PATH"],
            "LETSGO_HOME": str(tmp_path),
            "DATABASE_URL": f"postgres://{user}@/{name}?host={host}&port={port}",
        }
        for command in (["check", "--tag", "installation"], ["migrate"]):
            found = subprocess.run(
                [sys.executable, "manage.py", *command],
                cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert found.returncode == 1
            assert id in found.stdout + found.stderr
            assert fix in found.stdout + found.stderr
    finally:
        run_sql(f"DROP DATABASE {name} WITH (FORCE)")
        run_sql(f"DROP ROLE {guest}")


HEALTHY = server.BackupFacts(True, True, datetime(2026, 11, 28, 9, 30, tzinfo=UTC), False)


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({}, Status.OK, "archived (last: 2026-11-28 09:30)"),
        ({"archives": False}, Status.OK, "pg_dump"),
        ({"failing": True}, Status.WARN, "in no backup"),
    ],
)
def test_doctor_reports_the_backups_of_the_server(change: dict[str, Any], status: Status, text: str) -> None:
    found = store._backup_of_server(HEALTHY._replace(**change))
    assert found.status is status
    assert text in found.text


@only_postgres
@pytest.mark.django_db
@pytest.mark.parametrize("has_checksums", [True, False])
def test_doctor_reports_missing_checksums(has_checksums: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = server.read_backup_facts()._replace(has_checksums=has_checksums)
    monkeypatch.setattr(server, "read_backup_facts", lambda: facts)
    [found] = store.integrity.run()
    assert (found.status is Status.OK) == has_checksums


@only_postgres
@pytest.mark.django_db
def test_oldest_listed_change_is_found_in_the_index(remember: Callable[..., Any]) -> None:
    """With a volatile function in its condition, each write would read the whole log."""
    remember("a change")
    run_sql("SET LOCAL enable_seqscan = off")
    plan = run_sql(f"EXPLAIN DELETE FROM memoryhub_change WHERE id <= {sql.LAST_KEY} - 5")
    assert "Index" in str(plan)
    assert "Seq Scan" not in str(plan)


@only_postgres
@pytest.mark.django_db
def test_search_for_words_starts_no_parallel_workers(remember: Callable[..., Any]) -> None:
    remember("a harbour")
    settings = ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size")
    for name in (*settings, "min_parallel_index_scan_size"):
        run_sql(f"SET LOCAL {name} = 0")
    query = " UNION ALL ".join([sql.KEYS_BY_EXPRESSION] * 6)
    plan = run_sql(f"EXPLAIN {query}", *[json.dumps({0: "'harbour'"})] * 6)
    assert "Parallel" not in str(plan)


@only_postgres
@pytest.mark.django_db
def test_search_for_words_reads_indexes_and_never_the_whole_table(remember: Callable[..., Any]) -> None:
    """PostgreSQL would read the whole table if a word is common, or the table small."""
    remember("In the harbour", title="A lighthouse")

    def scans() -> dict[str, int]:
        names = ["memoryhub_text", "memoryhub_text_terms", "memoryhub_text_titles"]
        return {one: run_sql("SELECT pg_stat_get_xact_numscans(%s::regclass)", one)[0][0] for one in names}

    before = scans()
    found = matching_keys([match_any(["harbour"]), in_titles("harbour"), in_titles("lighthouse")])
    assert [len(keys) for keys in found] == [1, 0, 1]
    after = scans()
    assert after == {
        "memoryhub_text": before["memoryhub_text"],
        "memoryhub_text_terms": before["memoryhub_text_terms"] + 1,
        "memoryhub_text_titles": before["memoryhub_text_titles"] + 2,
    }


@only_postgres
@pytest.mark.django_db(transaction=True)
def test_nodes_share_the_limit_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of several threads take from one bucket, no more than there is in it."""
    taken = []

    def work() -> None:
        buckets = authentication.TokenBuckets(shared_as="token")  # as in another process
        taken.extend(buckets.take("one", 0.001, 50) == 0 for _ in range(20))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 50
    assert 0 < authentication.TokenBuckets(shared_as="token").take("one", 0.001, 50) <= 1000
    assert authentication.TokenBuckets(shared_as="token").take("other", 0.001, 50) == 0


@only_postgres
@pytest.mark.django_db
def test_rounding_does_not_refuse_the_only_token_of_a_full_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_TAKE_SQL", rates._TAKE_SQL.replace("clock_timestamp", "now"))  # stands still
    per_second = range(3, 100, 2)
    assert {rates.take(f"{number}", number, 1, 1) for number in per_second} == {0}
    run_sql("UPDATE memoryhub_rate SET full_at = full_at - 1")
    assert {rates.take(f"{number}", number, 1, 1) for number in per_second} == {0}


@only_postgres
@pytest.mark.django_db
def test_shared_bucket_fills_again_and_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rates.take("one", 1, 1, 1) == 0
    assert 0 < rates.take("one", 1, 1, 1) <= 1
    run_sql("UPDATE memoryhub_rate SET full_at = full_at - 1")
    assert rates.take("one", 1, 1, 1) == 0
    assert rates.take("one", 1, 1, 2) == 1, "more than a full bucket"
    run_sql("UPDATE memoryhub_rate SET full_at = full_at - 10")
    monkeypatch.setattr(rates, "_SHARE_CLEANED", 1)
    rates.take("two", 1, 1, 1)
    assert run_sql("SELECT name FROM memoryhub_rate") == [("two",)]


def test_server_that_was_lost_for_long_is_tried_again_within_ten_seconds():
    """By default, the pauses of a pool become minutes, and requests fail although the server is back."""
    pool = _postgres({"ENGINE": "django.db.backends.postgresql", "NAME": "hub"})["OPTIONS"]["pool"]
    attempt, now = AttemptWithBackoff(timeout=pool["reconnect_timeout"]), 0.0
    for _ in range(20):
        attempt.update_delay(now)
        now += attempt.delay
        assert attempt.delay < 10


def test_command_for_missing_packages_works_in_a_clone(monkeypatch):
    """The package index does not have memoryhub, and a clone may run in its own environment."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured) as refused:
        _postgres({"ENGINE": "django.db.backends.postgresql", "NAME": "hub"})
    assert f"{sys.executable} -m pip install 'psycopg[binary,pool]' pgvector" in str(refused.value)


def test_numbers_in_the_address_of_the_database_are_checked():
    address = {"ENGINE": "django.db.backends.postgresql", "NAME": "hub"}
    options = _postgres(address | {"OPTIONS": {"prepare_threshold": "3", "pool_size": "2"}})["OPTIONS"]
    assert (options["prepare_threshold"], options["pool"]["max_size"]) == (3, 2)
    with pytest.raises(ImproperlyConfigured, match="prepare_threshold must be a whole number"):
        _postgres(address | {"OPTIONS": {"prepare_threshold": "often"}})

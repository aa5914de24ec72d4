"""What a start of the server checks, repairs and refuses."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

import memoryhub
from memoryhub.audit import journal
from memoryhub.backends import release, schema
from memoryhub.core import database
from memoryhub.models import JournalEntry
from memoryhub.ops import backup, bootstrap, checks, serving
from tests.api.conftest import Agent, is_problem
from tests.commands.conftest import home, own_store  # noqa: F401 fixtures
from tests.commands.examining import named, remember
from tests.database import cut_journal
from tests.transfer.formats import foreign

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]


def test_sound_store_is_served_without_a_word():
    assert list(serving.prepare_store()) == []


@pytest.mark.parametrize("name", ["memoryhub_journal_no_update", "memoryhub_text_insert"])
def test_missing_trigger_is_repaired_and_reported(name):
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}")
    remember("not in the index")
    [sentence] = serving.prepare_store()
    assert f"trigger {name} is missing" in sentence
    assert schema.find_problems(deep=True) == []
    row = JournalEntry.objects.latest("seq")
    assert (row.operation, row.actor) == ("repair_schema", "system:serve")
    assert name in str(row.detail["problems"])


def test_missing_text_index_is_repaired():
    remember("words")
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE memoryhub_trigram")
    assert "memoryhub_trigram is missing" in next(serving.prepare_store())
    assert schema.find_problems(deep=True) == []


def test_missing_table_is_refused():
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE memoryhub_fact")
    with pytest.raises(serving.CannotServe, match="table memoryhub_fact is missing"):
        list(serving.prepare_store())


def test_lost_journal_rows_are_recorded_at_the_start():
    for n in range(3):
        remember(f"memory {n}")
    cut_journal(1)
    [sentence] = serving.prepare_store()
    assert "2 journal rows lost (2 to 3)" in sentence
    assert journal.pending().rows == 2
    assert list(serving.prepare_store()) == [sentence]


@pytest.mark.parametrize("recorded", [True, False])
def test_readyz_warns_of_lost_journal_rows(recorded):
    remember("a")
    remember("b")
    cut_journal(1)
    if recorded:
        remember("the next")
    response = Agent().http.get("/readyz")
    assert response.status_code == 200
    [warning] = response.json()["warnings"]
    assert warning["field"] == "journal"
    assert not any(character.isdigit() for character in warning["message"])


def test_earlier_damage_is_reported_at_the_start():
    database.record_damage(OSError("malformed"))
    assert "manage.py doctor" in next(serving.prepare_store())


# The file of another program


@pytest.fixture
def live_file(tmp_path, monkeypatch):
    """The path that the settings name as the store."""
    path = tmp_path / "app.db"
    monkeypatch.setattr(backup, "live_path", lambda: path)
    return path


def make_tables(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(script)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_database_of_another_program_is_refused_and_not_changed(mode, live_file):
    make_tables(
        live_file, f"PRAGMA journal_mode={mode}; CREATE TABLE orders (id); INSERT INTO orders VALUES (1)"
    )
    before = live_file.read_bytes()
    run = [sys.executable, "manage.py", "migrate"]
    environment = {**os.environ, "LETSGO_MEMORY_DB": str(live_file), "LETSGO_HOME": str(live_file.parent)}
    environment["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
    environment.pop("DATABASE_URL", None)
    done = subprocess.run(run, env=environment, cwd=bootstrap.ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{live_file} belongs to another program: it has its tables (orders)" in done.stderr
    assert "LETSGO_MEMORY_DB" in done.stderr
    assert live_file.read_bytes() == before
    assert list(live_file.parent.glob("app.db*")) == [live_file]


@pytest.mark.parametrize(
    "tables", ["CREATE TABLE a (x)", "CREATE TABLE django_migrations (x); CREATE TABLE shop (x)"]
)
@pytest.mark.parametrize(
    "command", [["serve", "--port", "8765"], ["migrate"], ["quickstart", "--no-demo", "--prepare-only"]]
)
def test_database_of_another_program_stops_commands(tables, command, live_file):
    make_tables(live_file, tables)
    with pytest.raises(SystemCheckError, match="E012"):
        call_command(*command, skip_checks=False)


def test_servers_and_doctor_refuse_the_database_of_another_program(live_file):
    make_tables(live_file, "CREATE TABLE a (x)")
    with pytest.raises(ImproperlyConfigured, match="belongs to another program"):
        checks.require_usable_store()
    [finding] = named("store").findings()
    assert "belongs to another program" in finding.text


@pytest.mark.parametrize(
    "tables",
    [
        "",  # empty
        "CREATE TABLE django_migrations (x); CREATE TABLE auth_user (x)",  # a first migrate that was killed
        "CREATE TABLE memoryhub_memory (x); CREATE TABLE notes (x)",
        *(foreign.LETSGO, foreign.LETSGO_OLD, foreign.LETSGO_OLDEST),
    ],
)
def test_own_file_empty_file_and_file_of_letsgo_are_accepted(tables, live_file):
    make_tables(live_file, tables)
    assert checks.store_is_not_foreign() == []


# A store of a newer version


@pytest.fixture(params=["migration", "release"])
def newer(request):
    """A store that this version may not serve."""
    if request.param == "migration":
        MigrationRecorder(connection).record_applied("memoryhub", "9999_later")
    else:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA user_version = {release.to_number('99.1.2')}")
    return request.param


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--port", "8765"],
        ["migrate"],
        ["maintain"],
        ["quickstart", "--no-demo", "--prepare-only"],
        ["purge_expired"],
    ],
)
def test_newer_store_is_refused(newer, command):
    with pytest.raises(SystemCheckError) as refused:
        call_command(*command, skip_checks=False)
    assert "memoryhub.E006" in str(refused.value)
    assert "a newer version of memoryhub wrote it" in str(refused.value)


def test_servers_without_system_checks_refuse_a_newer_store(newer):
    with pytest.raises(ImproperlyConfigured, match="a newer version"):
        checks.require_usable_store()


@pytest.mark.parametrize("name", ["0001_initial", "0026_other_help_texts"])
def test_store_of_an_early_version_is_not_called_newer(name):
    MigrationRecorder(connection).record_applied("memoryhub", name)
    [error] = checks.store_is_not_newer()
    assert f"an unknown early version of memoryhub wrote it (memoryhub.{name})" in error.msg
    assert "newer" not in error.msg


def test_readyz_is_503_for_a_newer_store(newer):
    [error] = is_problem(Agent().http.get("/readyz"), 503, "not_ready")["errors"]
    assert error["field"] == "release"
    assert "a newer version" in error["message"]


def test_doctor_names_the_release_that_is_needed():
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA user_version = {release.to_number('99.1.2')}")
    assert "it needs 99.1.2 or newer" in named("migrations").findings()[0].text


def test_migrate_records_the_oldest_release():
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA user_version = 0")
        call_command("migrate", verbosity=0)
        assert cursor.execute("PRAGMA user_version").fetchone() == (
            release.to_number(release.OLDEST_RELEASE),
        )


def test_this_release_may_serve_its_own_stores():
    assert release.to_number(release.OLDEST_RELEASE) <= release.to_number(memoryhub.__version__)


@pytest.mark.parametrize(("text", "number"), [("0.1.0", 1000), ("1.2", 1_002_000), ("2.0.3.dev4", 2_000_003)])
def test_release_is_ordered_as_a_number(text, number):
    assert release.to_number(text) == number

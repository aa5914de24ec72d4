"""``/healthz`` and ``/readyz``, at the root and under the API, without a token."""

import threading
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from memoryhub import backends
from memoryhub.api import health
from memoryhub.backends import schema
from memoryhub.backends.dialect import IS_POSTGRES
from tests.api.conftest import Agent, is_problem
from tests.cases import each

BOTH = ["/healthz", "/readyz", "/api/v1/healthz", "/api/v1/readyz"]


@each("path", BOTH)
def test_working_store_is_200(db, path):
    response = Agent().http.get(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_check_executes_few_statements(remember, django_assert_max_num_queries):
    remember("zebra")
    health._written_at.clear()  # the check includes a write
    with django_assert_max_num_queries(24 if IS_POSTGRES else 14):
        assert Agent().http.get("/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/readyz", "/api/v1/readyz"])
class TestUnsound:
    def test_missing_trigger_is_named(self, db, path):
        with connection.cursor() as cursor:
            table = " ON memoryhub_journalentry" if IS_POSTGRES else ""
            cursor.execute(f"DROP TRIGGER memoryhub_journal_no_update{table}")
        problem = is_problem(Agent().http.get(path), 503, "not_ready")
        assert "memoryhub_journal_no_update" in problem["errors"][0]["message"]
        assert Agent().http.get(path)["Retry-After"]
        schema.install()

    @each("table", ["memoryhub_fact", "memoryhub_label", "memoryhub_session"])
    def test_missing_table_is_named(self, db, path, table):
        with connection.cursor() as cursor:
            if not IS_POSTGRES:
                cursor.execute("PRAGMA legacy_alter_table = ON")  # references to it stay
            cursor.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
            problem = is_problem(Agent().http.get(path), 503, "not_ready")
            cursor.execute(f"ALTER TABLE elsewhere RENAME TO {table}")
            if not IS_POSTGRES:
                cursor.execute("PRAGMA legacy_alter_table = OFF")
        assert f"table {table} is missing" in problem["errors"][0]["message"]

    @each("table", backends.INDEXES)
    def test_index_without_its_rows_is_named(self, remember, path, table):
        remember("zebra")
        with connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {table}"
                if IS_POSTGRES
                else f"INSERT INTO {table}({table}) VALUES ('delete-all')"
            )
        problem = is_problem(Agent().http.get(path), 503, "not_ready")
        assert f"index {table}" in problem["errors"][0]["message"]

    def test_pending_migration_is_named(self, db, path):
        (newest,) = MigrationLoader(connection).graph.leaf_nodes("memoryhub")
        MigrationRecorder(connection).record_unapplied(*newest)
        problem = is_problem(Agent().http.get(path), 503, "not_ready")
        assert "migrations" in {error["field"] for error in problem["errors"]}

    def test_unavailable_database_is_named(self, db, path, monkeypatch):
        def broken(*args, **kwargs):
            raise OperationalError("unable to open database file")

        monkeypatch.setattr(schema, "find_problems", broken)
        problem = is_problem(Agent().http.get(path), 503, "not_ready")
        assert [error["field"] for error in problem["errors"]] == ["database"]


def test_healthz_works_without_a_database(monkeypatch):
    monkeypatch.setattr(connection, "connect", None)
    assert Agent().http.get("/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_other_methods_are_405(db, path):
    is_problem(Client(enforce_csrf_checks=True).post(path), 405)


class TestDatabaseWithoutAnswer:
    """One request checks the database. Others must not occupy the threads of the process meanwhile."""

    @pytest.fixture
    def check(self):
        check = health._Check()
        check.found = health._Findings([], [])
        return check

    @pytest.fixture
    def wait(self, monkeypatch, check):
        """Start a request that gets no answer from the database; ``wait(s)`` lets time pass."""
        began, ending, now = threading.Event(), threading.Event(), [1000.0]
        monkeypatch.setattr(health, "_last_check", check)
        monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(health, "_find_warnings", list)
        monkeypatch.setattr(health, "find_store_errors", lambda: [began.set(), ending.wait(60)][:0])
        thread = threading.Thread(target=health._check_store)
        thread.start()
        began.wait(60)

        def wait(seconds):
            now[0] += seconds

        yield wait
        ending.set()
        thread.join()

    def test_next_request_is_answered_at_once(self, wait):
        wait(20)
        problem = is_problem(Agent().http.get("/readyz"), 503, "not_ready")
        assert problem["errors"] == [
            {"field": "database", "message": "the database has not answered for 20 seconds"}
        ]

    def test_slow_check_is_no_error_and_is_not_repeated(self, wait):
        wait(2)
        assert Agent().http.get("/readyz").status_code == 200

    def test_node_is_not_ready_before_its_first_check(self, check, wait):
        check.found = health._Check().found
        problem = is_problem(Agent().http.get("/readyz"), 503, "not_ready")
        assert problem["errors"][0]["message"] == "the store is being checked for the first time"

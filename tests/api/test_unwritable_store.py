"""A store that cannot be written to: reads work, and ``/readyz`` says what is wrong."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing

import pytest
from django.db import connection

from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.core import database
from memoryhub.models import Memory
from memoryhub.ops.doctor import Status
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import Agent, is_problem, stored
from tests.commands.examining import look, named

pytestmark = pytest.mark.django_db(transaction=True)
READ_CALLS = {
    "letsgo/get_memory": lambda uid: {"id": uid},
    "letsgo/search_memories": lambda uid: {"query": "zebra"},
    "letsgo/list_memories": lambda uid: {},
    "letsgo/get_timeline": lambda uid: {},
    "memory-mcp/memory_recall": lambda uid: {"query": "zebra"},
    "mira/memory": lambda uid: {"action": "recall", "query": "zebra"},
    "pigo/memory_recall": lambda uid: {"query": "zebra"},
}


READ_ONLY = "SET default_transaction_read_only =" if IS_POSTGRES else "PRAGMA query_only ="
REFUSAL = "cannot execute" if IS_POSTGRES else "attempt to write a readonly database"


@pytest.fixture
def zebra(agent):
    """An agent, and the id of its memory. The store is read-only from now on."""
    bot = agent()
    uid = stored(bot, content="The zebra eats grass in the zoo", ttl_days=3, importance=0.9)["id"]
    with connection.cursor() as cursor:
        cursor.execute(f"{READ_ONLY} ON")
    yield bot, uid
    with connection.cursor() as cursor:
        cursor.execute(f"{READ_ONLY} OFF")


def test_memory_is_read_when_its_access_cannot_be_counted(zebra):
    bot, uid = zebra
    response = bot.get(f"/memories/{uid}")
    assert (response.status_code, response.json()["id"]) == (200, uid)
    assert Memory.objects.get(uid=uid).accessed_count == 0


def test_recall_works_when_accesses_cannot_be_counted(zebra):
    bot, uid = zebra
    response = bot.post("/recall", {"query": "zebra"})
    assert [one["id"] for one in response.json()["details"]] == [uid]


def test_injection_that_cannot_be_logged_is_empty(zebra, configure):
    configure(injection_deadline_ms=60_000)
    bot, _ = zebra
    response = bot.post("/inject", {"prompt": "What does the zebra eat?"})
    assert (response.status_code, response.json()["context"]) == (200, "")
    assert "could not be logged" in response.json()["skipped"][-1]


@pytest.mark.parametrize("tool", READ_CALLS)
def test_reading_tools_work(zebra, tool):
    bot, uid = zebra
    response = bot.post(f"/tools/{tool}", READ_CALLS[tool](uid))
    assert response.status_code == 200, response.content
    assert "zebra" in response.content.decode()


def test_every_toolset_is_covered():
    assert {tool.partition("/")[0] for tool in READ_CALLS} == set(TOOLSETS)


def test_page_of_a_memory_is_shown(zebra, client, django_user_model):
    with connection.cursor() as cursor:
        cursor.execute(f"{READ_ONLY} OFF")
        django_user_model.objects.create_superuser("grace", password="x")
        assert client.login(username="grace", password="x")
        session = client.session
        session["device"], session["seen"] = "x", "2020-01-01T00:00:00+00:00"
        session.save()
        cursor.execute(f"{READ_ONLY} ON")
    assert client.get(f"/memories/{zebra[1]}/").status_code == 200


def test_write_is_503(zebra):
    is_problem(zebra[0].post("/memories", {"content": "x"}), 503, "database_unavailable")


def test_write_of_a_page_is_503(zebra, client, django_user_model):
    client.raise_request_exception = False
    response = client.post("/login/", {"username": "grace", "password": "x"})
    assert response.status_code == 503
    assert "cannot be written" in response.content.decode()


def test_doctor_fails(zebra):
    found = look(named("writing"))
    assert found.status is Status.FAIL
    assert REFUSAL in found.text


def test_readyz_is_503(zebra):
    [error] = is_problem(Agent().http.get("/readyz"), 503, "not_ready")["errors"]
    assert error["field"] == "database"
    assert f"nothing can be written: {REFUSAL}" in error["message"]


@pytest.mark.sqlite  # on PostgreSQL, it is a warning: tests/faults/test_full_node_disk.py
def test_readyz_is_503_on_a_full_disk(db, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 0))
    [error] = is_problem(Agent().http.get("/readyz"), 503, "not_ready")["errors"]
    assert "the disk is full" in error["message"]


@pytest.mark.sqlite
def test_readyz_is_200_while_another_process_writes(db):
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert Agent().http.get("/readyz").status_code == 200


def test_readyz_is_503_while_a_write_of_this_process_hangs(db, monkeypatch):
    with database.write_transaction():
        assert Agent().http.get("/readyz").status_code == 200
        monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.0)
        [error] = is_problem(Agent().http.get("/readyz"), 503, "not_ready")["errors"]
        assert "a write of this process has lasted" in error["message"]
    assert Agent().http.get("/readyz").status_code == 200

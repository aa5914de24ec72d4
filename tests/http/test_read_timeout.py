"""A read that takes too long is cancelled and reported; writes are never cancelled."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections
from django.test import Client

from memoryhub.core.database import Deadline, DeadlinePassed, read_timeout, write_transaction
from memoryhub.core.database_errors import is_interrupted
from memoryhub.models import Memory
from tests.http.url_walk import enter

pytestmark = pytest.mark.django_db(transaction=True)
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
LONG = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300000) SELECT count(*) FROM n"
)


def read(sql):
    with connection.cursor() as cursor:
        return cursor.execute(sql).fetchone()


def endless(*args, **kwargs):
    return read(ENDLESS)


def test_endless_read_is_cancelled():
    with read_timeout(0.05), pytest.raises(OperationalError) as broken:
        read(ENDLESS)
    assert is_interrupted(broken.value)
    assert read("SELECT 1") == (1,)


def test_read_without_a_limit_is_not_cancelled():
    assert read(LONG) == (300_000,)
    with read_timeout(0):
        assert read(LONG) == (300_000,)


def test_each_read_has_its_own_time():
    with read_timeout(60):
        for _ in range(3):
            assert read(LONG) == (300_000,)


def test_write_is_not_cancelled():
    with read_timeout(0.000001), write_transaction():
        assert read(LONG) == (300_000,)


def test_limit_applies_again_after_a_shorter_deadline():
    with read_timeout(0.05):
        with pytest.raises(DeadlinePassed), Deadline(1).reading():
            read(ENDLESS)
        with pytest.raises(OperationalError):
            read(ENDLESS)


def test_limit_applies_to_a_new_connection():
    connection.close()
    with read_timeout(0.05), pytest.raises(OperationalError):
        read(ENDLESS)


def test_limit_applies_to_connections_opened_while_statements_are_measured(monkeypatch):
    """As those of ``/metrics`` and of JSON logs are. They left their wrapper, and took that of the limit."""
    monkeypatch.setattr(connections["default"], "execute_wrappers", [])
    for _ in range(2):
        connection.close()
        with connection.execute_wrapper(lambda execute, *arguments: execute(*arguments)):
            assert read("SELECT 1") == (1,)
    assert len(connection.execute_wrappers) == 1, "the limit"
    with read_timeout(0.05), pytest.raises(OperationalError):
        read(ENDLESS)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/memories", None),
        ("/api/v1/tools/letsgo/list_memories", {}),
    ],
)
def test_api_reports_the_timeout(token, configure, monkeypatch, path, body):
    raw = token()
    configure(request_seconds=0.5)  # enough for the other reads of the request, on a busy machine too
    monkeypatch.setattr("memoryhub.models.querysets.MemoryQuerySet.visible_to", endless)
    client = Client(headers={"Authorization": f"Bearer {raw}"})
    response = (
        client.post(path, json.dumps(body), "application/json") if body is not None else client.get(path)
    )
    assert response.status_code == 503, response.content
    assert response.json()["code"] == "took_too_long"
    assert int(response["Retry-After"]) >= 1


def test_page_reports_the_timeout(configure, monkeypatch):
    client = enter(User.objects.create_superuser("boss", password="a good password"))
    configure(request_seconds=0.5)  # enough for the other reads of the request, on a busy machine too
    monkeypatch.setattr("memoryhub.models.querysets.MemoryQuerySet.visible_to", endless)
    response = client.get("/memories/")
    assert response.status_code == 503
    assert b"This took too long" in response.content
    assert "no-store" in response["Cache-Control"]


def test_store_with_a_tiny_limit_still_writes(configure, token):
    raw = token()
    configure(request_seconds=0.0001)
    client = Client(headers={"Authorization": f"Bearer {raw}"})
    response = client.post("/api/v1/memories", json.dumps({"content": "hay"}), "application/json")
    assert response.status_code in (201, 503)
    assert Memory.objects.count() == (response.status_code == 201)

"""A database that somebody else holds for too long."""

import pytest
from django.db import OperationalError
from django.test import Client

from memoryhub import memories

pytestmark = pytest.mark.django_db


def fails(message):
    def raise_it(*args, **kwargs):
        raise OperationalError(message)

    return raise_it


@pytest.fixture
def curator(sign_in) -> Client:
    client = sign_in("add_memory", "change_memory", "delete_memory")
    client.raise_request_exception = False
    return client


def test_a_page_says_that_the_store_is_busy(curator, remember, monkeypatch):
    memory = remember("words")
    monkeypatch.setattr(memories, "trash", fails("database is locked"))
    answer = curator.post(f"/memories/{memory.uid}/trash/")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "The store is busy" in answer.content.decode()


def test_another_failure_of_the_database_is_not_called_busy(curator, remember, monkeypatch):
    memory = remember("words")
    monkeypatch.setattr(memories, "trash", fails("no such table"))
    assert curator.post(f"/memories/{memory.uid}/trash/").status_code == 500

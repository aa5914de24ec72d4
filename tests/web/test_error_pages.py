"""Error pages: bad requests, wrong methods, a busy database."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from memoryhub import memories
from tests.csp import parse_policy

pytestmark = pytest.mark.django_db

STRANGE = {"Host": "hub.example.org"}


def test_an_unknown_name_is_answered_with_the_policy_of_pages():
    answer = Client().get("/", headers=STRANGE)
    assert answer.status_code == 400
    assert parse_policy(answer) == parse_policy(Client().get("/login/"))


def test_an_unknown_name_is_told_where_names_are_put_and_not_which_there_are():
    told = Client().get("/", headers=STRANGE).content.decode()
    assert "MEMORYHUB_ALLOWED_HOSTS" in told
    for name in (*settings.ALLOWED_HOSTS, STRANGE["Host"]):
        assert name not in told


def test_another_bad_request_tells_of_no_names(visitor):
    told = visitor.get("/facts/", {"cursor": "zzz"})
    assert told.status_code == 400
    assert b"ALLOWED_HOSTS" not in told.content


def test_a_failure_before_the_policy_of_pages_is_set_has_it_too(monkeypatch):
    def fail(*args: object) -> None:
        raise RuntimeError("out of paint")

    monkeypatch.setattr("django.contrib.sessions.middleware.SessionMiddleware.process_request", fail)
    answer = Client(raise_request_exception=False).get("/login/")
    assert answer.status_code == 500
    assert parse_policy(answer)["style-src"] == ["'self'"]


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/acts/", "POST"),
        ("/switch/", "POST"),
        ("/logout/", "POST, OPTIONS"),
        ("/maintenance/start/", "POST"),
    ],
)
def test_an_address_that_only_takes_forms_shows_a_page_to_who_opens_it(visitor, address, allowed):
    answer = visitor.get(address)
    assert answer.status_code == 405
    assert answer["Allow"] == allowed
    assert '<a class="button" href="/">To the first page</a>' in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]


def test_a_page_that_is_sent_a_form_is_not_silent_either(visitor):
    answer = visitor.post("/glance/")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert b"<h1>" in answer.content


def test_nor_is_the_admin(admin_client):
    assert b"<h1>" in admin_client.get("/admin/logout/").content


def test_an_agent_is_told_of_a_wrong_method_as_of_any_problem():
    answer = Client().put("/api/v1/docs")
    assert answer.status_code == 405
    assert json.loads(answer.content)["code"] == "method_not_allowed"


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
    monkeypatch.setattr(memories, "trash_memories", fails("database is locked"))
    answer = curator.post(f"/memories/{memory.uid}/trash/")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "The store is busy" in answer.content.decode()


def test_another_failure_of_the_database_is_not_called_busy(curator, remember, monkeypatch):
    memory = remember("words")
    monkeypatch.setattr(memories, "trash_memories", fails("no such table"))
    assert curator.post(f"/memories/{memory.uid}/trash/").status_code == 500

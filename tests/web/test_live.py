"""Pages that poll for changes: 304 while nothing changed for this person, else the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.models import Event, Session
from memoryhub.web.base import middleware
from tests.cases import each

PAGES = ["/", "/sessions/", "/sessions/night/?project=zoo"]


@pytest.fixture
def night(remember: Any) -> Session:
    remember("fed the zebra", session_id="night", project="zoo")
    return Session.objects.get()


def mark(response: Any) -> str:
    found = re.search(r'data-mark="(\w+)"', response.content.decode())
    assert found
    return found[1]


def ask(client: Client, path: str, known: str) -> Any:
    return client.get(path, headers={"If-None-Match": f'"{known}"'})


@pytest.mark.parametrize("path", PAGES)
class TestEachPage:
    def test_unchanged_page_responds_304(self, visitor: Client, night: Session, path: str) -> None:
        known = mark(visitor.get(path))
        for _ in range(3):
            answer = ask(visitor, path, known)
            assert answer.status_code == 304
            assert answer.content == b""
            assert "no-store" in answer["Cache-Control"]

    def test_changed_page_responds_with_a_new_etag(
        self, visitor: Client, night: Session, remember: Any, path: str
    ) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        remember("fed the lion", session_id="night", project="zoo")
        answer = ask(visitor, path, known)
        assert answer.status_code == 200
        assert answer["ETag"] == f'"{mark(answer)}"' != f'"{known}"'
        assert ask(visitor, path, mark(answer)).status_code == 304

    def test_hidden_change_is_no_change(
        self, visitor: Client, night: Session, remember: Any, path: str
    ) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        remember("the lion's name", session_id="night", project="zoo", sensitivity="secret")
        assert ask(visitor, path, known).status_code == 304

    def test_switched_on_level_is_another_page(
        self, sign_in: Any, night: Session, remember: Any, path: str
    ) -> None:
        remember("the zebra's name", session_id="night", project="zoo", sensitivity="private")
        client = sign_in("view_private")
        known = mark(client.get(path))
        assert ask(client, path, known).status_code == 304
        client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
        assert ask(client, path, known).status_code == 200

    def test_poll_without_changes_costs_few_cheap_queries(
        self, visitor: Client, night: Session, path: str
    ) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            ask(visitor, path, known)
        queried = [
            one["sql"] for one in queries if "memoryhub" in one["sql"] and "membership" not in one["sql"]
        ]
        [token] = [sql for sql in queried if "max(" in sql]
        assert token.count("max(") == 3
        assert not [sql for sql in queried if "memoryhub_memory" in sql and sql != token]


def test_new_event_changes_its_session_and_the_list(visitor: Client, night: Session) -> None:
    known = {path: mark(visitor.get(path)) for path in PAGES[1:]}
    Event.objects.create(session=night, event="tool:post", tool_name="Read")
    for path, before in known.items():
        assert ask(visitor, path, before).status_code == 200


def test_trashed_memory_changes_the_page(visitor: Client, night: Session, actor: Any, remember: Any) -> None:
    gone = remember("fed no one")
    known = mark(visitor.get("/"))
    memories.trash_memories([gone.uid], actor)
    assert ask(visitor, "/", known).status_code == 200


def test_etag_of_one_list_does_not_match_a_filtered_one(visitor: Client, night: Session) -> None:
    known = mark(visitor.get("/sessions/"))
    assert ask(visitor, "/sessions/?q=nothing", known).status_code == 200


@each("sent", ["", "*", '"', "W/", "x" * 5000, "'; drop", "\u00e9"])
def test_any_etag_is_answered(visitor: Client, night: Session, sent: str) -> None:
    assert visitor.get("/", headers={"If-None-Match": sent}).status_code == 200


def test_signed_out_person_is_redirected_to_the_login(client: Client, night: Session) -> None:
    assert ask(client, "/", "0" * 32).status_code == 302


def test_poll_does_not_count_as_activity(
    visitor: Client, night: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[str] = []
    monkeypatch.setattr(middleware, "touch_session", lambda request: touched.append(request.path))
    known = mark(visitor.get("/"))
    ask(visitor, "/", known)
    assert touched == ["/"]


def test_other_pages_have_no_etag(visitor: Client, night: Session) -> None:
    answer = ask(visitor, "/memories/", "0" * 32)
    assert answer.status_code == 200
    assert "ETag" not in answer


def test_failed_page_has_no_etag(visitor: Client) -> None:
    assert ask(visitor, "/sessions/none/", "0" * 32).status_code == 404

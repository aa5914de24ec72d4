"""Pages that ask whether they are still true: 304 while nothing changed for this person, else the page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.accounts import browser_sessions
from memoryhub.models import Event, Session

PAGES = ["/", "/sessions/", "/sessions/night/?project=zoo"]


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    cache.clear()


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
    def test_it_answers_304_while_nothing_happened(self, visitor: Client, night: Session, path: str) -> None:
        known = mark(visitor.get(path))
        for _ in range(3):
            answer = ask(visitor, path, known)
            assert answer.status_code == 304
            assert answer.content == b""
            assert "no-store" in answer["Cache-Control"]

    def test_it_comes_with_its_mark_when_something_happened(
        self, visitor: Client, night: Session, remember: Any, path: str
    ) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        remember("fed the lion", session_id="night", project="zoo")
        answer = ask(visitor, path, known)
        assert answer.status_code == 200
        assert answer["ETag"] == f'"{mark(answer)}"' != f'"{known}"'
        assert ask(visitor, path, mark(answer)).status_code == 304

    def test_what_one_may_not_see_is_no_news(
        self, visitor: Client, night: Session, remember: Any, path: str
    ) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        remember("the lion's name", session_id="night", project="zoo", sensitivity="secret")
        assert ask(visitor, path, known).status_code == 304

    def test_a_level_that_is_switched_on_is_another_page(
        self, sign_in: Any, night: Session, remember: Any, path: str
    ) -> None:
        remember("the zebra's name", session_id="night", project="zoo", sensitivity="private")
        client = sign_in("view_private")
        known = mark(client.get(path))
        assert ask(client, path, known).status_code == 304
        client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
        assert ask(client, path, known).status_code == 200

    def test_nothing_new_costs_a_few_cheap_queries(self, visitor: Client, night: Session, path: str) -> None:
        known = mark(visitor.get(path))
        ask(visitor, path, known)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            ask(visitor, path, known)
        looked = [
            one["sql"] for one in queries if "memoryhub" in one["sql"] and "membership" not in one["sql"]
        ]
        assert [sql.count("max(") for sql in looked if "max(" in sql] == [3]
        assert not [sql for sql in looked if "memoryhub_memory" in sql]


def test_an_event_is_news_for_its_session_and_the_list(visitor: Client, night: Session) -> None:
    known = {path: mark(visitor.get(path)) for path in PAGES[1:]}
    Event.objects.create(session=night, event="tool:post", tool_name="Read")
    for path, before in known.items():
        assert ask(visitor, path, before).status_code == 200


def test_a_memory_thrown_away_is_news(visitor: Client, night: Session, actor: Any, remember: Any) -> None:
    gone = remember("fed nobody")
    known = mark(visitor.get("/"))
    memories.trash_memories([gone.uid], actor)
    assert ask(visitor, "/", known).status_code == 200


def test_a_mark_of_one_list_is_not_that_of_a_narrower_one(visitor: Client, night: Session) -> None:
    known = mark(visitor.get("/sessions/"))
    assert ask(visitor, "/sessions/?q=nothing", known).status_code == 200


@pytest.mark.parametrize("sent", ["", "*", '"', "W/", "x" * 5000, "'; drop", "\u00e9"])
def test_any_mark_is_answered(visitor: Client, night: Session, sent: str) -> None:
    assert visitor.get("/", headers={"If-None-Match": sent}).status_code == 200


def test_who_is_signed_out_is_led_to_the_login(client: Client, night: Session) -> None:
    assert ask(client, "/", "0" * 32).status_code == 302


def test_asking_is_no_sign_that_somebody_is_there(
    visitor: Client, night: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[str] = []
    monkeypatch.setattr(browser_sessions, "touch_session", lambda request: touched.append(request.path))
    known = mark(visitor.get("/"))
    ask(visitor, "/", known)
    assert touched == ["/"]


def test_pages_that_are_not_live_know_of_no_mark(visitor: Client, night: Session) -> None:
    answer = ask(visitor, "/memories/", "0" * 32)
    assert answer.status_code == 200
    assert "ETag" not in answer


def test_a_page_that_failed_has_no_mark(visitor: Client) -> None:
    assert ask(visitor, "/sessions/none/", "0" * 32).status_code == 404

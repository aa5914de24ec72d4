"""Sign-in and sign-out, and rules that apply to every page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.cases import each

PAGES = [
    "home",
    "journal-health",
    "memories",
    "trash",
    "sessions",
    "timeline",
    "timeline-entries",
    "injections",
    "facts",
    "journal",
]
HTMX = {"HX-Request": "true", "HX-Current-URL": "http://testserver/memories/?q=zebra"}


@each("name", PAGES)
def test_every_page_requires_a_login_and_returns_after_it(db: None, client: Client, name: str) -> None:
    response = client.get(reverse(name), {"q": "zebra"})
    assert response.status_code == 302
    assert response["Location"] == f"/login/?next={reverse(name)}%3Fq%3Dzebra"


def test_a_fragment_redirects_the_page_to_the_login_and_back(db: None, client: Client) -> None:
    response = client.get("/memories/?q=zeb", headers=HTMX)
    assert response.status_code == 200
    assert response["HX-Redirect"] == "/login/?next=/memories/%3Fq%3Dzebra"
    assert response.content == b""


def test_a_form_sent_without_a_login_does_not_come_back_to_an_address_that_only_takes_forms(
    db: None, client: Client
) -> None:
    assert client.post("/switch/", {"level": "private"})["Location"] == "/login/?next=/"


def test_the_right_password_opens_the_page_that_was_asked_for(person: Any, client: Client) -> None:
    person("ada")
    form = {"username": "ada", "password": "a good password", "next": "/trash/"}
    assert client.post("/login/", form)["Location"] == "/trash/"


def test_a_wrong_password_is_shown_and_the_name_is_kept(person: Any, client: Client) -> None:
    person("ada")
    page = client.post("/login/", {"username": "ada", "password": "guess", "next": ""}).content.decode()
    assert "incorrect" in page
    assert 'value="ada"' in page


def test_a_login_does_not_redirect_to_another_site(person: Any, client: Client) -> None:
    person("ada")
    form = {"username": "ada", "password": "a good password", "next": "https://elsewhere.example/"}
    assert client.post("/login/", form)["Location"] == "/"


def test_signing_out_takes_a_form(visitor: Client) -> None:
    assert visitor.get("/logout/").status_code == 405
    assert visitor.post("/logout/")["Location"] == "/login/"
    assert visitor.get("/").status_code == 302


@each("path", ["/", "/memories/", "/trash/", "/nowhere/", "/login/"])
def test_no_cache_keeps_a_page(visitor: Client, path: str) -> None:
    response = visitor.get(path)
    assert {"private", "no-store"} <= set(response["Cache-Control"].split(", "))
    assert "HX-Request" in response["Vary"]


def test_a_page_names_no_other_host_and_carries_nothing_inline(insider: Client, four_levels: Any) -> None:
    for path in ("/", "/memories/?q=zebra", "/memories/", "/trash/", "/nowhere/"):
        response = insider.get(path)
        page = response.content.decode()
        assert "//" not in page.replace("http://testserver/", "").replace("http://www.w3.org", ""), path
        assert "style=" not in page, path
        assert "onclick" not in page, path
        assert "<script>" not in page, path
        assert "'unsafe" not in response["Content-Security-Policy"]


def test_the_page_one_is_on_is_marked_in_the_navigation(visitor: Client) -> None:
    assert '<a href="/memories/" aria-current="page">' in visitor.get("/memories/").content.decode()
    assert '<a href="/memories/" aria-current' not in visitor.get("/sessions/").content.decode()
    project_page = visitor.get("/project-page/zoo/").content.decode()
    assert '<a href="/" aria-current="true">' in project_page
    assert '<a href="/" aria-current' not in visitor.get("/trash/").content.decode()


class TestErrorPages:
    def test_an_address_without_its_last_slash_redirects(self, visitor: Client) -> None:
        assert visitor.get("/memories?q=zebra")["Location"] == "/memories/?q=zebra"
        assert visitor.get("/nowhere").status_code == 404
        assert visitor.get("/api/v1/nothing").status_code == 404

    def test_an_unknown_address_answers_with_the_same_words_as_a_hidden_memory(
        self, visitor: Client, four_levels: Any
    ) -> None:
        unknown = visitor.get("/memories/aaaaaaaaaaaaaaaa/")
        hidden = visitor.get(f"/memories/{four_levels['secret'].uid}/")
        nowhere = visitor.get("/nowhere/")
        assert [unknown.status_code, hidden.status_code, nowhere.status_code] == [404, 404, 404]
        words = {_main(response) for response in (unknown, hidden, nowhere)}
        assert len(words) == 1

    def test_an_expired_form_is_shown_in_words(self, person: Any) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(person())
        response = client.post("/switch/", {"level": "private", "on": "1"})
        assert response.status_code == 403
        assert "This form has expired" in response.content.decode()

    def test_an_error_page_shows_no_traceback_and_needs_no_request_data(
        self, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("zebra in the works")

        monkeypatch.setattr("memoryhub.web.memories.views._page_context", fail)
        visitor.raise_request_exception = False
        response = visitor.get("/memories/")
        assert response.status_code == 500
        assert "Something went wrong" in response.content.decode()
        assert "zebra" not in response.content.decode()
        assert "no-store" in response["Cache-Control"]


def _main(response: Any) -> str:
    """Return the markup between the header and the footer."""
    return str(response.content.decode().partition("<main")[2])

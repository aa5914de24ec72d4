"""Levels above public require the permission and the switch."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.clients import turn_on_levels
from tests.web.markup import list_title

WORDS = {
    "public": "publicwords",
    "private": "privatewords",
    "secret": "secretwords",
    "cosmic": "unknownwords",
}
PATHS = ["/memories/", "/memories/?q=zebra&min_score=0", "/"]


def shown(client: Client, path: str) -> set[str]:
    """Return the levels of the memories on a page."""
    response = client.get(path)
    assert response.status_code == 200
    page = response.content.decode()
    return {level for level, word in WORDS.items() if word in page}


@pytest.mark.parametrize("path", PATHS)
class TestVisibility:
    def test_only_public_shows_without_switches(self, sign_in: Any, four_levels: Any, path: str) -> None:
        assert shown(sign_in("view_private", "view_secret"), path) == {"public"}

    def test_private_switch_shows_private_only(self, sign_in: Any, four_levels: Any, path: str) -> None:
        client = sign_in("view_private", "view_secret", on=["private"])
        assert shown(client, path) == {"public", "private"}

    def test_unknown_level_is_hidden_with_both_switches(
        self, insider: Client, four_levels: Any, path: str
    ) -> None:
        """Accept the redacted secret as shown: its content is on its own page only."""
        assert shown(insider, path) == {"public", "private"}
        page = insider.get(path).content.decode()
        there = {level for level, memory in four_levels.items() if memory.uid in page}
        assert there == {"public", "private", "secret"}
        assert list_title(four_levels["secret"]) in page

    def test_switch_without_permission_shows_nothing(self, sign_in: Any, four_levels: Any, path: str) -> None:
        client = sign_in()
        turn_on_levels(client, "private", "secret")
        assert shown(client, path) == {"public"}


def test_turning_a_switch_requires_its_permission(sign_in: Any) -> None:
    client = sign_in("view_private")
    assert client.post("/switch/", {"level": "secret", "on": "1"}).status_code == 403
    assert client.post("/switch/", {"level": "private", "on": "1"}).status_code == 302


def test_unknown_level_has_no_switch(insider: Client) -> None:
    assert insider.post("/switch/", {"level": "cosmic", "on": "1"}).status_code == 404
    assert insider.post("/switch/", {"level": "public", "on": "1"}).status_code == 404


def test_switch_requires_a_post(insider: Client) -> None:
    assert insider.get("/switch/").status_code == 405


@pytest.mark.parametrize("wanted", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:x", ""])
def test_redirect_stays_on_this_host(insider: Client, wanted: str) -> None:
    response = insider.post("/switch/", {"level": "private", "on": "0", "next": wanted})
    assert response["Location"] == "/"


def test_switch_returns_to_its_page(insider: Client) -> None:
    response = insider.post("/switch/", {"level": "private", "on": "0", "next": "/memories/?q=zebra"})
    assert response["Location"] == "/memories/?q=zebra"


def test_active_switch_is_shown_on_every_page(sign_in: Any) -> None:
    client = sign_in("view_private", "view_secret", on=["secret"])
    for path in ("/", "/memories/", "/trash/", "/nowhere/"):
        page = client.get(path).content.decode()
        assert 'aria-label="Visibility: secret shown"' in page, path
        assert '<span class="tool-text only-wide">Secret shown</span>' in page, path
        assert page.count('aria-pressed="true"') == 1, path


def test_person_without_permissions_has_no_switch(visitor: Client) -> None:
    assert "aria-pressed" not in visitor.get("/").content.decode()


def test_switches_end_with_the_session(sign_in: Any, four_levels: Any) -> None:
    client = sign_in("view_private", on=["private"])
    assert "private" in shown(client, "/memories/")
    client.post("/logout/")
    client.login(username="ada", password="a good password")
    assert shown(client, "/memories/") == {"public"}


def test_personal_memories_of_others_stay_hidden(sign_in: Any, remember: Any) -> None:
    remember("ada's diary", scope="personal")
    assert "diary" in sign_in(name="ada").get("/memories/").content.decode()
    assert "diary" not in sign_in(name="bob").get("/memories/").content.decode()

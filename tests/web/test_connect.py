"""The connect page: settings with a new token, the latest event, and revoking."""

from __future__ import annotations

import html as markup
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub.access.policy import Actor
from memoryhub.accounts import tokens
from memoryhub.models import AgentToken, Event, JournalEntry, Memory, Session
from memoryhub.web.connect import snippets
from memoryhub.web.connect.snippets import HubConnection
from tests.web.markup import PAYLOAD, find_dangers, main

PAGE, ARRIVED, REVOKE = (f"/connect/{end}" for end in ("", "arrived/", "revoke/"))
FORM = {"name": "claude-code", "project": "", "clearance": "public"}
BOSS = Actor("user:boss")


@pytest.fixture
def manager(sign_in: Any) -> Client:
    client: Client = sign_in("add_agenttoken", "change_agenttoken", "add_memory")
    return client


def settings_in(response: Any) -> dict[str, Any]:
    """The settings that the page shows, as Claude Code would read them."""
    [text] = re.findall(r'<code id="settings">(.*?)</code>', response.content.decode(), re.S)
    found: dict[str, Any] = json.loads(markup.unescape(text))
    return found


class TestSettings:
    def test_they_name_the_hubs_own_address(self, visitor: Client) -> None:
        shown = settings_in(visitor.get(PAGE, HTTP_HOST="localhost:8765"))
        [prompt] = shown["hooks"]["UserPromptSubmit"][0]["hooks"]
        assert prompt["url"] == "http://localhost:8765/api/v1/hooks/claude-code"
        assert "http://localhost:8765/api/v1/hooks/claude-code" in json.dumps(shown["hooks"]["SessionStart"])
        assert "env" not in shown

    def test_a_new_token_is_in_them_and_works(self, manager: Client) -> None:
        response = manager.post(PAGE, FORM)
        assert response.status_code == 200
        raw = settings_in(response)["env"]["MEMORYHUB_TOKEN"]
        [token] = AgentToken.objects.all()
        assert tokens.authenticate_token(raw) == token
        assert (token.owner, token.name, token.clearance) == ("ada", "claude-code", "public")
        assert (token.rights, token.projects) == (["read", "write"], [])

    @pytest.mark.parametrize(
        ("level", "asked"),
        [
            ("public", ""),
            ("private", "?allow_private=true"),
            ("secret", "?allow_private=true&allow_secret=true"),
        ],
    )
    def test_they_ask_for_the_levels_that_the_token_was_made_for(
        self, sign_in: Any, level: str, asked: str
    ) -> None:
        boss = sign_in("add_agenttoken", "view_private", "view_secret")
        shown = settings_in(boss.post(PAGE, FORM | {"clearance": level}, HTTP_HOST="localhost:8765"))
        address = f"http://localhost:8765/api/v1/hooks/claude-code{asked}"
        assert shown["hooks"]["UserPromptSubmit"][0]["hooks"][0]["url"] == address
        assert f"'{address}'" in shown["hooks"]["SessionStart"][0]["hooks"][0]["command"]

    def test_it_is_shown_this_once_and_kept_in_no_cache(self, manager: Client) -> None:
        response = manager.post(PAGE, FORM)
        raw = settings_in(response)["env"]["MEMORYHUB_TOKEN"]
        assert "no-store" in response["Cache-Control"]
        assert raw not in manager.get(PAGE).content.decode()
        assert raw not in manager.get("/journal/").content.decode()

    def form(self, client: Client) -> dict[str, str]:
        """The form as the page shows it."""
        [once] = re.findall(r'name="once" value="([^"]+)"', client.get(PAGE).content.decode())
        return {**FORM, "once": once}

    def test_reloading_the_answer_makes_no_second_token(self, manager: Client) -> None:
        form = self.form(manager)
        raw = settings_in(manager.post(PAGE, form))["env"]["MEMORYHUB_TOKEN"]
        again = manager.post(PAGE, form)
        assert again.status_code == 409
        assert "This form has created its token already" in main(again).words
        assert raw not in again.content.decode()
        assert "env" not in settings_in(again)
        assert AgentToken.objects.count() == 1

    def test_after_a_refusal_the_same_form_makes_its_token(self, manager: Client) -> None:
        form = self.form(manager)
        assert manager.post(PAGE, form | {"name": ""}).status_code == 422
        assert manager.post(PAGE, form).status_code == 200

    def test_two_forms_make_two_tokens(self, manager: Client) -> None:
        forms = [self.form(manager), self.form(manager)]
        assert [manager.post(PAGE, form).status_code for form in forms] == [200, 200]
        assert AgentToken.objects.count() == 2

    def test_what_is_sent_a_second_time_can_be_sent_anew(self, manager: Client) -> None:
        form = self.form(manager)
        manager.post(PAGE, form)
        [once] = re.findall(r'name="once" value="([^"]+)"', manager.post(PAGE, form).content.decode())
        assert once != form["once"]

    def test_the_token_is_nowhere_in_the_session(self, manager: Client) -> None:
        raw = settings_in(manager.post(PAGE, self.form(manager)))["env"]["MEMORYHUB_TOKEN"]
        assert raw not in json.dumps(dict(manager.session))

    def test_the_journal_names_who_made_it(self, manager: Client) -> None:
        manager.post(PAGE, FORM)
        [row] = JournalEntry.objects.all()
        assert (row.actor, row.operation, row.object_type) == ("user:ada", "issue", "token")

    def test_it_can_be_confined_to_a_project(self, manager: Client) -> None:
        manager.post(PAGE, FORM | {"project": "zoo"})
        assert AgentToken.objects.get().projects == ["zoo"]

    @pytest.mark.parametrize(
        ("held", "offered"),
        [
            ((), ["public"]),
            (("view_private",), ["public", "private"]),
            (("view_secret",), ["public"]),
            (("view_private", "view_secret"), ["public", "private", "secret"]),
        ],
    )
    def test_no_one_grants_a_clearance_they_lack(
        self, sign_in: Any, held: tuple[str, ...], offered: list[str]
    ) -> None:
        client = sign_in("add_agenttoken", *held)
        for level in ("public", "private", "secret", "cosmic"):
            status = client.post(PAGE, FORM | {"clearance": level}).status_code
            assert status == (200 if level in offered else 422)
        assert sorted(AgentToken.objects.values_list("clearance", flat=True)) == sorted(offered)

    def test_users_without_the_permission_see_whom_to_ask(self, visitor: Client) -> None:
        assert "Ask an administrator" in main(visitor.get(PAGE)).words
        assert visitor.post(PAGE, FORM).status_code == 403
        assert not AgentToken.objects.exists()

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"name": ""}, "name"),
            ({"name": "x" * 101}, "name"),
            ({"name": "a\u202eb"}, "name"),
            ({"project": "x" * 201}, "project"),
            ({"project": "a\tb"}, "project"),
            ({"clearance": ""}, "clearance"),
        ],
    )
    def test_a_wrong_value_is_shown_at_its_field(
        self, manager: Client, change: dict[str, str], field: str
    ) -> None:
        response = manager.post(PAGE, FORM | change)
        assert response.status_code == 422
        assert list(response.context["form"].errors) == [field]
        assert not AgentToken.objects.exists()

    def test_a_post_from_elsewhere_is_refused(self, manager: Client) -> None:
        manager.handler.enforce_csrf_checks = True
        assert manager.post(PAGE, FORM).status_code == 403
        assert manager.post(REVOKE, {"uid": "x"}).status_code == 403


class TestTexts:
    """What the page shows of MCP configuration and programs; tests/mcp/test_connect.py runs them."""

    def shown(self, response: Any) -> dict[str, str]:
        found = re.findall(r'<code id="snippet-([\w-]+)">(.*?)</code>', response.content.decode(), re.S)
        return {key: markup.unescape(text) for key, text in found}

    def wanted(self, place: HubConnection) -> dict[str, str]:
        return {
            one.key: one.text for one in (*snippets.client_snippets(place), *snippets.program_snippets(place))
        }

    def here(self, **more: Any) -> HubConnection:
        return HubConnection("http://localhost:8765/", **more)

    def test_they_name_the_hubs_own_address(self, visitor: Client) -> None:
        response = visitor.get(PAGE, HTTP_HOST="localhost:8765")
        assert self.shown(response) == self.wanted(self.here())

    def test_the_tools_can_be_chosen(self, visitor: Client) -> None:
        for toolset in snippets.TOOLSETS:
            response = visitor.get(PAGE, {"toolset": toolset}, HTTP_HOST="localhost:8765")
            assert self.shown(response) == self.wanted(self.here(toolset=toolset))
        unknown = visitor.get(PAGE, {"toolset": "<script>"}, HTTP_HOST="localhost:8765")
        assert self.shown(unknown) == self.wanted(self.here())

    def test_a_new_token_is_shown_where_a_client_takes_none_from_the_environment(
        self, manager: Client
    ) -> None:
        response = manager.post(PAGE, FORM | {"toolset": "mira"}, HTTP_HOST="localhost:8765")
        raw = settings_in(response)["env"]["MEMORYHUB_TOKEN"]
        shown = self.shown(response)
        assert shown == self.wanted(self.here(token=raw, toolset="mira"))
        assert {key for key, text in shown.items() if raw in text} == {"claude-desktop", "stdio"}
        assert f"export MEMORYHUB_TOKEN={raw}" in main(response).words

    @pytest.mark.parametrize("host", ["hub.example.org", "127.0.0.1:8000", "localhost"])
    def test_no_path_of_the_machine_is_shown(self, manager: Client, settings: Any, host: str) -> None:
        settings.ALLOWED_HOSTS = ["hub.example.org", "127.0.0.1", "localhost"]
        for response in (manager.get(PAGE, HTTP_HOST=host), manager.post(PAGE, FORM, HTTP_HOST=host)):
            assert response.status_code == 200
            page = response.content.decode()
            assert str(settings.HOME) not in page
            assert str(settings.BASE_DIR) not in page
            assert "/path/to/memoryhub/manage.py" in page

    def test_a_toolset_that_is_none_is_shown_at_its_field(self, manager: Client) -> None:
        response = manager.post(PAGE, FORM | {"toolset": "cosmic"})
        assert response.status_code == 422
        assert list(response.context["form"].errors) == ["toolset"]

    def test_the_page_is_found_where_it_was_before(self, visitor: Client) -> None:
        response = visitor.get("/connect/claude-code/")
        assert (response.status_code, response["Location"]) == (301, PAGE)


class TestArrived:
    def test_before_anything_came_it_says_so(self, visitor: Client) -> None:
        assert "No event has been received yet" in main(visitor.get(PAGE)).words
        assert "No event has been received yet" in visitor.get(ARRIVED).content.decode()

    def test_it_shows_the_newest_visible_event(
        self, visitor: Client, remember: Callable[..., Memory]
    ) -> None:
        remember("open", session_id="s-1", project="zoo")
        session = Session.objects.get()
        for name, level in (("Read", "public"), ("Edit", "public"), ("Bash", "secret"), ("Grep", "cosmic")):
            Event.objects.create(session=session, event="tool:post", tool_name=name, sensitivity=level)
        said = visitor.get(ARRIVED).content.decode()
        assert "<strong>Edit</strong>" in said
        assert "s-1" in said
        assert "Bash" not in said
        assert "Grep" not in said

    def test_it_shows_when_the_new_token_was_used(self, manager: Client) -> None:
        raw = settings_in(manager.post(PAGE, FORM))["env"]["MEMORYHUB_TOKEN"]
        token = AgentToken.objects.get()
        assert "has not reported anything yet" in manager.get(ARRIVED, {"token": token.uid}).content.decode()
        tokens.authenticate_token(raw)
        assert "was heard" in manager.get(ARRIVED, {"token": token.uid}).content.decode()

    def test_it_shows_nothing_about_the_token_of_someone_else(self, visitor: Client) -> None:
        token, _ = tokens.issue_token("bob-bot", "bob", actor=BOSS)
        assert "bob-bot" not in visitor.get(ARRIVED, {"token": token.uid}).content.decode()
        assert "bob-bot" not in visitor.get(PAGE).content.decode()

    def test_a_stranger_is_asked_to_sign_in(self, client: Client, db: None) -> None:
        for path in (PAGE, ARRIVED):
            assert client.get(path)["Location"].startswith("/login/?next=")
        assert client.post(REVOKE, {"uid": "x"})["Location"].startswith("/login/")


class TestRevoking:
    def test_ones_own_token_ends_at_once_and_for_good(self, manager: Client) -> None:
        token, raw = tokens.issue_token("bot", "ada", actor=BOSS)
        assert "bot" in main(manager.get(PAGE)).words
        response = manager.post(REVOKE, {"uid": token.uid}, follow=True)
        assert "bot is revoked" in main(response).words
        assert tokens.authenticate_token(raw) is None
        assert JournalEntry.objects.filter(operation="revoke", actor="user:ada").count() == 1

    def test_someone_elses_is_not_found(self, manager: Client) -> None:
        token, raw = tokens.issue_token("bot", "bob", actor=BOSS)
        assert manager.post(REVOKE, {"uid": token.uid}).status_code == 404
        assert manager.post(REVOKE, {"uid": "nothing"}).status_code == 404
        assert tokens.authenticate_token(raw) == token

    def test_ending_what_is_ones_own_takes_no_permission(self, sign_in: Any) -> None:
        """As on the page *You*."""
        token, raw = tokens.issue_token("bot", "ada", actor=BOSS)
        client = sign_in("add_agenttoken")
        assert "Revoke permanently" in main(client.get(PAGE)).words
        assert client.post(REVOKE, {"uid": token.uid}, follow=True).status_code == 200
        assert tokens.authenticate_token(raw) is None


def test_nothing_typed_is_rendered_as_markup(manager: Client) -> None:
    for fields in ({"name": PAYLOAD[:100]}, {"project": PAYLOAD[:200]}, {"clearance": PAYLOAD}):
        assert find_dangers(manager.post(PAGE, FORM | fields).content.decode()) == []
    assert find_dangers(manager.get(PAGE).content.decode()) == []

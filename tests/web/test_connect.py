"""Connecting an agent: the tiles, the form, the snippet with a new token, and the first event."""

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
from memoryhub.web import connect_snippets
from memoryhub.web.connect_snippets import HubConnection
from tests.cases import each
from tests.web.markup import PAYLOAD, find_dangers, main

TILES, FORM_PAGE, PAGE, ARRIVED = (
    f"/connect/{end}" for end in ("", "claude-code/", "claude-code/snippet/", "arrived/")
)
FORM = {"name": "claude-code", "project": "", "clearance": "public"}
BOSS = Actor("user:boss")


@pytest.fixture
def manager(sign_in: Any) -> Client:
    client: Client = sign_in("add_agenttoken", "change_agenttoken", "add_memory")
    return client


def texts(response: Any) -> dict[str, str]:
    """The snippets on the page by key; the first is the one to paste."""
    found = re.findall(r'<code id="snippet-([\w-]+)">(.*?)</code>', response.content.decode(), re.S)
    return {key: markup.unescape(text) for key, text in found}


def settings_in(response: Any) -> dict[str, Any]:
    """The hooks that the page shows, as Claude Code would read them."""
    found: dict[str, Any] = json.loads(texts(response)["hooks"])
    return found


class TestSteps:
    def test_every_tile_opens_a_form_that_gives_one_snippet(self, manager: Client) -> None:
        links = [link for link in main(manager.get(TILES)).links() if link.startswith("/connect/")]
        assert links[0] == FORM_PAGE
        assert links == [f"/connect/{key}/" for key in connect_snippets.choices() if key != "hosted"]
        for number, link in enumerate(links):
            form = FORM | {"name": f"bot {number}"}
            shown = manager.post(f"{link}snippet/", form, HTTP_HOST="localhost:8765")
            first = next(iter(texts(shown).values()))
            token = AgentToken.objects.get(name=f"bot {number}")
            assert token.prefix in first
            assert "localhost:8765" in first or link in ("/connect/claude-desktop/", "/connect/stdio/")

    def test_the_defaults_suffice(self, manager: Client) -> None:
        page = manager.get("/connect/gemini/")
        form = page.context["form"]
        sent = {field.html_name: field.value() or "" for field in form if field.name != "clearance"}
        sent["clearance"] = form.fields["clearance"].choices[0][0]
        assert manager.post("/connect/gemini/snippet/", sent).status_code == 200
        token = AgentToken.objects.get()
        assert (token.name, token.projects, token.clearance) == ("gemini-cli", [], "public")

    def test_the_project_of_the_switcher_is_the_default(self, manager: Client, remember: Any) -> None:
        remember("open", project="zoo")
        manager.post("/projects/choose/", {"chosen": "zoo", "next": "/"})
        assert manager.get(FORM_PAGE).context["form"]["project"].value() == "zoo"

    def test_the_access_is_in_plain_words(self, sign_in: Any) -> None:
        words = main(sign_in("add_agenttoken", "add_memory", "view_private").get(FORM_PAGE)).words
        assert "Can read public memories" in words
        assert "Can read public and private memories" in words
        assert "secret" not in words
        assert "The agent can also store and change memories." in words

    @pytest.mark.parametrize(("key", "named"), [("claude-code", True), ("codex", True), ("gemini", False)])
    def test_backfill_is_named_for_agents_with_transcripts(
        self, manager: Client, key: str, named: bool
    ) -> None:
        page = manager.post(f"/connect/{key}/snippet/", FORM, follow=True).content.decode()
        assert ("memoryhub backfill --server" in page) is named

    def test_an_unknown_client_is_not_found(self, manager: Client) -> None:
        assert manager.get("/connect/nothing/").status_code == 404
        assert manager.get("/connect/nothing/snippet/").status_code == 404
        assert manager.post("/connect/nothing/snippet/", FORM).status_code == 404

    def test_a_viewer_sees_whom_to_ask_and_can_use_a_token(self, visitor: Client) -> None:
        page = visitor.get(FORM_PAGE)
        assert "Ask an administrator" in main(page).words
        assert PAGE in main(page).links()
        shown = visitor.get(PAGE)
        assert "MEMORYHUB_TOKEN" in main(shown).words
        assert "env" not in settings_in(shown)


class TestSettings:
    def test_snippets_contain_the_address_of_the_hub(self, visitor: Client) -> None:
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

    @each(
        "level, asked",
        [
            ("public", ""),
            ("private", "?allow_private=true"),
            ("secret", "?allow_private=true&allow_secret=true"),
        ],
    )
    def test_snippets_request_the_levels_of_the_token(self, sign_in: Any, level: str, asked: str) -> None:
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
        [once] = re.findall(r'name="once" value="([^"]+)"', client.get(FORM_PAGE).content.decode())
        return {**FORM, "once": once}

    def test_reloading_the_answer_makes_no_second_token(self, manager: Client) -> None:
        form = self.form(manager)
        raw = settings_in(manager.post(PAGE, form))["env"]["MEMORYHUB_TOKEN"]
        again = manager.post(PAGE, form | {"toolset": "mira"}, follow=True)
        uid = AgentToken.objects.get().uid
        assert again.redirect_chain == [(f"{PAGE}?token={uid}&toolset=mira", 302)]
        assert "The token is shown only once" in again.content.decode()
        assert "Waiting for the first event" in main(again).words
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

    @each(
        "held, offered",
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

    def test_users_without_the_permission_get_no_token(self, visitor: Client) -> None:
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


class TestTexts:
    """The snippets on the page; tests/mcp/test_connect.py runs them."""

    def wanted(self, key: str, **hub: Any) -> dict[str, str]:
        found = connect_snippets.choice_snippets(
            connect_snippets.choices()[key], HubConnection("http://localhost:8765/", **hub)
        )
        return {one.key: one.text for one in found}

    @each("key", ["claude-code", "cursor", "python"])
    def test_texts_contain_the_address_of_the_hub_and_the_chosen_tools(
        self, visitor: Client, key: str
    ) -> None:
        for toolset in connect_snippets.TOOLSETS:
            query = {"toolset": toolset}
            shown = texts(visitor.get(f"/connect/{key}/snippet/", query, HTTP_HOST="localhost:8765"))
            assert shown == self.wanted(key, toolset=toolset)
        unknown = visitor.get(f"/connect/{key}/snippet/", {"toolset": "<script>"}, HTTP_HOST="localhost:8765")
        assert texts(unknown) == self.wanted(key)

    def test_the_command_connects_one_agent_with_the_chosen_tools(self) -> None:
        assert "--agent codex" in self.wanted("codex")["connect"]
        assert "--agent" not in self.wanted("machine")["connect"]
        assert "--toolset" not in self.wanted("codex")["connect"]
        assert self.wanted("codex", toolset="mira")["connect"].endswith(" --toolset mira")

    @pytest.mark.parametrize("key", ["codex", "vscode", "curl", "python", "stdio"])
    def test_a_new_token_is_in_the_first_text(self, manager: Client, key: str) -> None:
        response = manager.post(
            f"/connect/{key}/snippet/", FORM | {"toolset": "mira"}, HTTP_HOST="localhost:8765"
        )
        shown = texts(response)
        [raw] = set(re.findall(r"mh_[\w-]{20,}", next(iter(shown.values()))))
        assert tokens.authenticate_token(raw) == AgentToken.objects.get()
        assert shown == self.wanted(key, token=raw, toolset="mira")
        assert "${" not in next(iter(shown.values()))

    @pytest.mark.parametrize("host", ["hub.example.org", "127.0.0.1:8000", "localhost"])
    def test_no_path_of_the_machine_is_shown(self, manager: Client, settings: Any, host: str) -> None:
        settings.ALLOWED_HOSTS = ["hub.example.org", "127.0.0.1", "localhost"]
        page = "/connect/stdio/snippet/"
        for response in (manager.get(page, HTTP_HOST=host), manager.post(page, FORM, HTTP_HOST=host)):
            assert response.status_code == 200
            text = response.content.decode()
            assert str(settings.HOME) not in text
            assert str(settings.BASE_DIR) not in text
            assert "/path/to/memoryhub/manage.py" in text

    def test_a_toolset_that_is_none_is_shown_at_its_field(self, manager: Client) -> None:
        response = manager.post(PAGE, FORM | {"toolset": "cosmic"})
        assert response.status_code == 422
        assert list(response.context["form"].errors) == ["toolset"]


class TestArrived:
    def test_without_a_token_it_waits_for_any_event(self, visitor: Client) -> None:
        for path in (PAGE, ARRIVED):
            assert "Waiting for the first event" in visitor.get(path).content.decode()

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

    def connected(self, manager: Client) -> tuple[AgentToken, str]:
        """Create a token on the page and use it."""
        raw = settings_in(manager.post(PAGE, FORM))["env"]["MEMORYHUB_TOKEN"]
        tokens.authenticate_token(raw)
        return AgentToken.objects.get(), raw

    def test_waiting_turns_into_connected_with_a_link_to_the_agent(self, manager: Client) -> None:
        raw = settings_in(manager.post(PAGE, FORM))["env"]["MEMORYHUB_TOKEN"]
        token = {"token": AgentToken.objects.get().uid}
        waiting = manager.get(ARRIVED, token).content.decode()
        assert "Waiting for the first event" in waiting
        assert "hx-trigger" in waiting
        tokens.authenticate_token(raw)
        arrived = manager.get(ARRIVED, token).content.decode()
        assert "Connected." in arrived
        assert 'href="/agents/claude-code/"' in arrived
        assert "hx-trigger" not in arrived
        assert "Connected." in main(manager.get(PAGE, token)).words

    def test_an_event_of_the_agent_is_named_if_it_is_visible(self, manager: Client) -> None:
        token, _ = self.connected(manager)
        for agent, name in (
            ("token:claude-code", "Read"),
            ("token:other", "Edit"),
            ("token:claude-code", "Bash"),
        ):
            session = Session.objects.create(session_id=name, project="zoo", agent=agent)
            level = "secret" if name == "Bash" else "public"
            Event.objects.create(session=session, event="tool:post", tool_name=name, sensitivity=level)
        said = manager.get(ARRIVED, {"token": token.uid}).content.decode()
        assert "Read in" in said
        assert "Edit" not in said
        assert "Bash" not in said

    def test_it_shows_nothing_about_the_token_of_someone_else(self, visitor: Client) -> None:
        token, _ = tokens.issue_token("bob-bot", "bob", actor=BOSS)
        for path in (ARRIVED, PAGE):
            assert "bob-bot" not in visitor.get(path, {"token": token.uid}).content.decode()

    def test_a_stranger_is_asked_to_sign_in(self, client: Client, db: None) -> None:
        for path in (TILES, FORM_PAGE, PAGE, ARRIVED):
            assert client.get(path)["Location"].startswith("/login/?next=")


def test_typed_text_is_not_rendered_as_markup(manager: Client) -> None:
    for fields in ({"name": PAYLOAD[:100]}, {"project": PAYLOAD[:200]}, {"clearance": PAYLOAD}):
        assert find_dangers(manager.post(PAGE, FORM | fields).content.decode()) == []
    assert find_dangers(manager.get(PAGE).content.decode()) == []

"""The pages of agents."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance
from memoryhub.accounts.tokens import actor_label
from memoryhub.audit import journal
from memoryhub.models import AgentToken, Event, Injection, Memory, Session
from memoryhub.web import agents
from tests.cases import each
from tests.web.markup import PAYLOAD, find_dangers, main

Remember = Callable[..., Memory]
AGENT = "token:claude-code"
PAGE = "/agents/claude-code/"


@pytest.fixture
def agent() -> Actor:
    return Actor(AGENT, Clearance.up_to("secret", "mara"))


@pytest.fixture
def session(db: None) -> Session:
    return Session.objects.create(session_id="9f1c", project="p", agent=AGENT)


def make_token(owner: str = "mara", **fields: Any) -> AgentToken:
    digest = f"{owner}{AgentToken.objects.count()}"
    return AgentToken.objects.create(
        name="claude-code", owner=owner, prefix="mh_abc", digest=digest, **fields
    )


@pytest.mark.parametrize(
    ("actor", "label"),
    [
        (AGENT, "Claude Code"),
        ("token:my agent", "my agent"),
        ("user:mara", "mara"),
        ("system:session-end", "memoryhub (session end)"),
        ("command:root", "root (command line)"),
        ("imported", "imported"),
        ("token:", "token:"),
        ("other:thing", "other:thing"),
    ],
)
def test_actors_have_names_for_people(actor: str, label: str) -> None:
    assert actor_label(actor) == label


class TestAgent:
    def test_written_memories_and_sessions_are_shown(
        self, visitor: Client, remember: Remember, agent: Actor, session: Session
    ) -> None:
        remember("retries use a fixed delay", by=agent, type="decision")
        remember("not by this agent")
        Event.objects.create(session=session, event="prompt:submit", preview="Why do retries fail?")
        words = main(visitor.get(PAGE)).words
        assert "retries use a fixed delay" in words
        assert "Why do retries fail?" in words
        assert "not by this agent" not in words
        assert "1 memory" in words

    def test_received_memories_tokens_and_outcomes_are_counted(
        self, visitor: Client, remember: Remember, session: Session
    ) -> None:
        Event.objects.create(session=session, event="tool:post")
        memory = remember()
        for helped in (True, False, None):
            Injection.objects.create(
                session=session, project="p", injected=[{"id": memory.uid}], tokens_used=700, helped=helped
            )
        Injection.objects.create(session=session, project="p", prompt_preview="a question without an answer")
        words = main(visitor.get(PAGE)).words
        assert "4 prompts: 3 received memories, which helped in 1 of 2 cases. 2,100 tokens." in words
        assert "a question without an answer" in words

    def test_one_case_is_counted_in_the_singular(
        self, visitor: Client, remember: Remember, session: Session
    ) -> None:
        Event.objects.create(session=session, event="tool:post")
        shown = [{"id": remember().uid}]
        Injection.objects.create(session=session, project="p", injected=shown, helped=True)
        assert "which helped in 1 of 1 case." in main(visitor.get(PAGE)).words

    def test_failed_handlers_and_refused_secrets_are_errors(
        self, visitor: Client, agent: Actor, session: Session
    ) -> None:
        failed = {"name": "distil", "status": "failed", "detail": "the model did not answer"}
        Event.objects.create(session=session, event="tool:post", tool_name="Edit", handlers=[failed])
        ok = {"name": "capture", "status": "ok", "detail": "all is well"}
        Event.objects.create(session=session, event="tool:post", tool_name="Read", handlers=[ok])
        change = journal.Change("secret_blocked", "memory", detail={"kind": "aws_key"}, project="p")
        journal.record(agent, [change])
        words = main(visitor.get(PAGE)).words.partition("Errors")[2]
        assert "distil: the model did not answer" in words
        assert "contained a secret (aws_key)" in words
        assert "all is well" not in words

    def test_agent_without_visible_rows_is_not_found(
        self, visitor: Client, remember: Remember, agent: Actor, session: Session
    ) -> None:
        make_token()
        remember("hidden", by=agent, sensitivity="private")
        Event.objects.create(session=session, event="tool:post", sensitivity="secret")
        for page in (PAGE, "/agents/nobody/"):
            assert visitor.get(page).status_code == 404
        assert "Claude Code" not in main(visitor.get("/agents/")).words

    @each("on", [(), ("private",), ("private", "secret")])
    def test_each_level_needs_its_switch(
        self, sign_in: Any, remember: Remember, agent: Actor, session: Session, on: tuple[str, ...]
    ) -> None:
        for level in ("public", "private", "secret"):
            remember(f"{level} words", by=agent, sensitivity=level, title=f"{level} words")
            Event.objects.create(
                session=session, event="prompt:submit", sensitivity=level, tool_name=f"{level} tool"
            )
        Memory.objects.filter(pk=remember("lost words", by=agent).pk).update(sensitivity="classified")
        client = sign_in("view_private", "view_secret", on=on)
        words = main(client.get(PAGE)).words
        shown = {"public", *on}
        assert f"{len(shown)} memor" in words
        for level in ("public", "private"):
            assert (f"{level} words" in words) == (level in shown)
        assert "lost words" not in words

    def test_hidden_sessions_injections_and_errors_are_not_shown(
        self, visitor: Client, remember: Remember, agent: Actor
    ) -> None:
        remember("visible", by=agent)
        secret = Session.objects.create(session_id="vault", project="p", agent=AGENT)
        failed = [{"name": "distil", "status": "failed", "detail": "vault"}]
        Event.objects.create(session=secret, event="tool:post", sensitivity="secret", handlers=failed)
        Injection.objects.create(session=secret, project="p", prompt_preview="the code of the vault")
        assert "vault" not in main(visitor.get(PAGE)).words

    def test_tokens_of_a_prompt_with_a_hidden_memory_are_not_counted(
        self, visitor: Client, remember: Remember, session: Session
    ) -> None:
        Event.objects.create(session=session, event="tool:post")
        hidden = remember(sensitivity="private")
        Injection.objects.create(
            session=session, project="p", injected=[{"id": hidden.uid}], tokens_used=4321
        )
        words = main(visitor.get(PAGE)).words
        assert "4,321" not in words
        assert "0 tokens, counting only prompts whose memories you can all see" in words

    def test_markup_is_escaped(self, visitor: Client, remember: Remember) -> None:
        remember(by=Actor(f"token:{PAYLOAD}", Clearance()))
        listed = visitor.get("/agents/")
        href = next(link for link in main(listed).links() if link.startswith("/agents/"))
        for response in (listed, visitor.get(href)):
            assert response.status_code == 200
            assert find_dangers(response.content.decode()) == []


class TestTokens:
    def test_tokens_are_shown_to_their_owner(self, sign_in: Any) -> None:
        make_token("ada", last_used_at=timezone.now())
        make_token("mara", revoked_at=timezone.now())
        client = sign_in()
        words = main(client.get(PAGE)).words
        assert "ada" in words
        assert "mara" not in words

    def test_waiting_events_are_shown_to_the_owner(self, sign_in: Any) -> None:
        make_token("ada", waiting_events=2)
        make_token("ada", waiting_events=3, revoked_at=timezone.now())
        make_token("mara", waiting_events=4)
        page = sign_in().get(PAGE).content.decode()
        assert re.findall(r"(\d+) events? waiting on", page) == ["2"]

    def test_managers_of_tokens_see_all(self, sign_in: Any) -> None:
        make_token("ada")
        make_token("mara", revoked_at=timezone.now())
        words = main(sign_in("view_agenttoken").get(PAGE)).words
        assert "mara" in words
        assert "revoked" in words

    def test_owner_is_named_to_people_with_permission(
        self, sign_in: Any, remember: Remember, agent: Actor
    ) -> None:
        memory = remember(by=agent)
        make_token("mara")
        page = f"/memories/{memory.uid}/"
        assert "Claude Code (mara)" in main(sign_in("view_agenttoken", name="boss").get(page)).words
        assert "mara" not in main(sign_in().get(page)).words

    def test_name_that_several_people_use_has_no_owner(
        self, sign_in: Any, remember: Remember, agent: Actor
    ) -> None:
        memory = remember(by=agent)
        make_token("mara")
        make_token("ada")
        words = main(sign_in("view_agenttoken").get(f"/memories/{memory.uid}/")).words
        assert "Claude Code" in words
        assert "Claude Code (" not in words


class TestList:
    def test_agents_are_listed_with_counts(
        self, visitor: Client, remember: Remember, agent: Actor, session: Session
    ) -> None:
        remember("one", by=agent)
        remember("two", by=agent, sensitivity="private")
        Event.objects.create(session=session, event="tool:post")
        Event.objects.create(session=session, event="tool:post")
        page = main(visitor.get("/agents/"))
        assert PAGE in page.links()
        row = page.words.partition("Claude Code")[2]
        assert row.startswith("11")  # one visible memory, one session

    def test_last_seen_is_the_same_in_the_list_and_on_the_page(
        self, visitor: Client, remember: Remember, agent: Actor
    ) -> None:
        """Memories count, and tokens that were revoked since; a token that was never used does not."""

        def last_seen() -> set[datetime]:
            found = []
            for address in ("/agents/", PAGE):
                markup = visitor.get(address).content.decode()
                found += re.findall(r'(?:"Last seen">|<span>last seen )<time datetime="([^"]+)"', markup)
            assert len(found) == 2
            return set(map(datetime.fromisoformat, found))

        today = timezone.now().replace(microsecond=0)
        make_token("ada")
        assert "Claude Code (ada)00never" in main(visitor.get("/agents/")).words
        assert "never seen" in main(visitor.get(PAGE)).words
        memory = remember("one", by=agent)
        Memory.objects.filter(pk=memory.pk).update(created_at=today - timedelta(days=3))
        assert last_seen() == {today - timedelta(days=3)}
        make_token("ada", last_used_at=today - timedelta(days=2), revoked_at=today)
        assert last_seen() == {today - timedelta(days=2)}

    def test_revoked_tokens_leave_room_for_active_ones(
        self, visitor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(agents, "MAX_AGENTS", 1)
        make_token("ada")
        for name in ("abandoned", "zapped"):  # newer, before and after it in the alphabet
            AgentToken.objects.create(name=name, owner="ada", digest=name, revoked_at=timezone.now())
        assert main(visitor.get("/agents/")).words.count("Claude Code") == 1

    def test_empty_store_shows_an_empty_state(self, visitor: Client) -> None:
        assert "No agents yet" in main(visitor.get("/agents/")).words


@pytest.mark.parametrize("page", ["/agents/", PAGE])
def test_pages_take_few_statements(
    insider: Client, remember: Remember, agent: Actor, session: Session, page: str
) -> None:
    memory = remember(by=agent)
    make_token("ada")
    Event.objects.create(session=session, event="tool:post", handlers=[{"status": "failed"}])
    Injection.objects.create(session=session, project="p", injected=[{"id": memory.uid}])
    insider.get(page)
    with CaptureQueriesContext(connection) as queries:
        assert insider.get(page).status_code == 200
    selects = [query["sql"][:120] for query in queries if "SELECT" in query["sql"]]
    assert len(selects) <= 12, selects


def test_agents_are_listed_in_the_settings_and_lead_to_connecting_one(visitor: Client) -> None:
    links = visitor.get("/agents/").content.decode()
    assert re.search(r'<a href="/agents/"[^>]*aria-current[^>]*>Agents and tokens', links)
    shown = main(visitor.get("/agents/"))
    assert {"/connect/", "/you/#tokens"} <= set(shown.links())
    assert "/agents/" in main(visitor.get("/connect/")).links()

"""The page of a project in the browser: corrections with undo, access, and the preview of a session."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.facts.services import create_fact
from memoryhub.injection import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, Injection, JournalEntry, Membership, Memory, Project
from tests.api.conftest import Agent
from tests.cases import each
from tests.clients import signed_in_client
from tests.web.conftest import SignIn
from tests.web.test_projects import undo

ADMIN = system_actor("tests")
PAGE = "/project-page/shop/"
Remember = Callable[..., Memory]


@pytest.fixture(autouse=True)
def no_injection_deadline(configure: Callable[..., None]) -> None:
    configure(injection_deadline_ms=60_000)


@pytest.fixture
def curator(sign_in: SignIn) -> Client:
    return sign_in("add_memory", "change_memory", "delete_memory", "change_fact", "add_maintenancerun")


@pytest.fixture
def decision(remember: Remember) -> Memory:
    return remember("Use SQLite for the ledger", type="decision", project="shop")


def correct(client: Client, **fields: str) -> str:
    response = client.post(f"{PAGE}correct/", fields, follow=True)
    assert response.redirect_chain[0][0] == PAGE
    return response.content.decode()


def lines(client: Client) -> list[str]:
    text = client.get(PAGE).content.decode().partition('id="add"')[0]
    return [html.unescape(line) for line in re.findall(r'class="page-line"[^>]*><a [^>]*>([^<]*)<', text)]


def block(page: str) -> str:
    [found] = re.findall(r'aria-label="The block">(.*?)</pre>', page, re.S)
    return html.unescape(found)


def test_page_shows_each_line_with_its_reason_and_source(curator: Client, decision: Memory) -> None:
    page = curator.get(PAGE).content.decode()
    assert "Decisions in force" in page
    assert "A decision" in page
    assert f'href="/memories/{decision.uid}/"' in page


@each(
    "draft, reason",
    [
        ({"type": "context"}, "Background of the project"),
        ({"type": "session_summary", "session_id": "s"}, "Summary of a session"),
        ({"type": "general", "concepts": ["why-it-exists"]}, "Labelled “why-it-exists”"),
        ({"type": "general", "title": "Which port?"}, "Recognised by its wording"),
        ({"type": "general", "pinned": True}, "Pinned"),
        ({"type": "bugfix", "pinned": True}, "Pinned, a fix"),
    ],
)
def test_reason_of_a_line_is_in_plain_words(
    curator: Client, remember: Remember, draft: dict[str, Any], reason: str
) -> None:
    remember("The ledger needs a port.", project="shop", **draft)
    shown = re.search(r'page-meta"><p class="quiet small">([^<]*)<', curator.get(PAGE).content.decode())
    assert shown
    assert html.unescape(shown[1]).strip() == reason


def test_lines_are_shown_without_markdown_and_corrected_with_it(curator: Client, remember: Remember) -> None:
    remember("Use **SQLite** for `ledger_rows`, not *files*", type="decision", project="shop")
    page = curator.get(PAGE).content.decode()
    assert lines(curator) == ["Use SQLite for ledger_rows, not files"]
    assert ">Use **SQLite** for `ledger_rows`, not *files*</textarea>" in page
    preview = html.unescape(curator.get(f"{PAGE}preview/").content.decode())
    assert preview.count("Use SQLite for ledger_rows") == 1
    assert preview.count("**SQLite**") == 1  # the block, as the agent reads it


@each(
    "fields, after",
    [
        ({"action": "reword", "text": "Use PostgreSQL"}, ["Use PostgreSQL"]),
        ({"action": "leave_out"}, []),
        ({"action": "not_true"}, []),
    ],
)
def test_correction_of_a_memory_is_made_and_undone(
    curator: Client, decision: Memory, fields: dict[str, str], after: list[str]
) -> None:
    page = correct(curator, id=decision.uid, **fields)
    assert lines(curator)[: len(after)] == after
    undo(curator, page)
    assert lines(curator) == ["Use SQLite for the ledger"]


def test_memory_that_was_left_out_is_included_again(curator: Client, decision: Memory) -> None:
    correct(curator, id=decision.uid, action="leave_out")
    assert "Left out by a person" in curator.get(PAGE).content.decode()
    curator.post("/acts/", {"act": "untag", "tag": "off-page", "uid": decision.uid, "next": PAGE})
    assert lines(curator) == ["Use SQLite for the ledger"]


def test_pin_and_a_new_line(curator: Client, decision: Memory) -> None:
    correct(curator, id=decision.uid, action="pin")
    assert Memory.objects.get(uid=decision.uid).pinned
    correct(curator, action="add", section="pitfalls", text="Never edit the ledger by hand")
    assert Memory.objects.get(title="Never edit the ledger by hand").pinned


@pytest.mark.parametrize("action", ["add", "reword"])
def test_refused_line_keeps_its_text_next_to_the_error(
    curator: Client, decision: Memory, action: str
) -> None:
    long = "Never edit the ledger by hand. " * 20
    for text, error in (("  ", "Must not be empty."), (long, "Must have at most 500 characters;")):
        fields = {"action": action, "section": "pitfalls", "text": text}
        fields |= {"id": decision.uid} if action == "reword" else {}
        response = curator.post(f"{PAGE}correct/", fields)
        assert response.status_code == 422
        page = response.content.decode()
        assert f'aria-describedby="line-error" autofocus>{text}</textarea>' in page
        assert f'<p class="error" id="line-error">{error}' in page
    assert Memory.objects.get() == decision


def test_fact_is_left_out_and_ended_with_undo(curator: Client, db: None) -> None:
    draft = FactDraft(subject="shop", predicate="uses", object="tabs", project="shop")
    fact, _ = create_fact(draft, ADMIN)
    page = correct(curator, id=fact.uid, kind="fact", action="leave_out")
    assert Project.objects.get().off_page_facts == [fact.uid]
    undo(curator, page)
    page = correct(curator, id=fact.uid, kind="fact", action="not_true")
    assert Fact.objects.get().valid_until
    undo(curator, page)
    assert lines(curator) == ["shop uses tabs"]


def test_private_fact_is_not_left_out(curator: Client, remember: Remember) -> None:
    memory = remember("Tabs", project="shop", type="discovery", sensitivity="private")
    draft = FactDraft(subject="shop", predicate="uses", object="x", project="shop", memory_id=memory.uid)
    fact, _ = create_fact(draft, ADMIN)
    page = correct(curator, id=fact.uid, kind="fact", action="leave_out")
    assert "no longer on the page" in page
    assert not Project.objects.exists()


def test_reader_sees_the_page_without_forms(sign_in: SignIn, decision: Memory) -> None:
    reader = sign_in()
    page = reader.get(PAGE).content.decode()
    assert "Use SQLite" in page
    assert "No longer true" not in page
    for fields in (
        {"action": "add", "section": "purpose", "text": "x"},
        {"action": "pin", "id": decision.uid},
    ):
        assert reader.post(f"{PAGE}correct/", fields).status_code == 403
    assert reader.post(f"{PAGE}settings/", {"sends": "no"}).status_code == 403


@each("fields", [{}, {"action": "dance"}, {"action": "pin", "kind": "session"}])
def test_unknown_correction_is_a_bad_request(curator: Client, fields: dict[str, str]) -> None:
    assert curator.post(f"{PAGE}correct/", fields).status_code == 400


def test_secret_line_is_named_without_its_text(sign_in: SignIn, remember: Remember) -> None:
    secret = remember("Use quincewort keys", type="decision", project="shop", sensitivity="secret")
    permissions = ("view_private", "view_secret", "change_memory")
    assert lines(sign_in(*permissions, name="eve")) == []
    client = sign_in(*permissions, on=["secret"])
    assert lines(client) == [f"Secret memory {secret.uid[-6:]}"]
    assert "quincewort" not in client.get(PAGE).content.decode()
    assert "Use quincewort keys" in block(client.get(f"{PAGE}preview/?secret=on").content.decode())
    assert JournalEntry.objects.filter(operation="reveal", detail__page="session preview").exists()


def test_page_is_switched_off_and_on(curator: Client, decision: Memory) -> None:
    page = curator.post(f"{PAGE}settings/", {"sends": "no"}, follow=True).content.decode()
    assert "do not receive this page" in page
    undo(curator, page)
    assert Project.objects.get().sends_page


def test_preview_is_byte_for_byte_what_the_hook_answers(sign_in: SignIn, remember: Remember) -> None:
    remember("Deploy with `make ship` & <b>care</b>", project="shop", pinned=True)
    remember("Refunds need two people", project="shop", type="decision", importance=1)
    remember("Use tabs", project="shop", type="decision", importance=0.2)
    remember("Use private keys", project="shop", type="decision", sensitivity="private")
    token, raw = tokens.issue_token("bot", "ada", "private", actor=ADMIN)
    client = sign_in("view_private")
    preview = block(client.get(f"{PAGE}preview/?token={token.uid}").content.decode())
    assert not Injection.objects.exists()
    hook = {
        "hook_event_name": "SessionStart",
        "session_id": "s1",
        "source": "startup",
        "cwd": "/home/ada/shop",
    }
    answer = Agent(raw).post("/hooks/claude-code", hook).json()
    assert answer["hookSpecificOutput"]["additionalContext"] == preview
    assert "Use tabs" in preview
    assert "private" not in preview
    page = client.get(f"{PAGE}preview/?token={token.uid}&private=on").content.decode()
    assert "Show private memories in the Visibility menu" in page
    client = signed_in_client(User.objects.get(username="ada"), "private")
    page = client.get(f"{PAGE}preview/?token={token.uid}&private=on").content.decode()
    assert "Use private keys" in block(page)
    assert "Pinned, so every session opens with it" in page


def test_preview_does_not_depend_on_how_busy_the_hub_is(
    curator: Client, decision: Memory, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(injection_deadline_ms=10)
    find = services.find_at_session_start

    def find_slowly(*given: Any) -> Any:
        time.sleep(0.02)
        return find(*given)

    monkeypatch.setattr(services, "find_at_session_start", find_slowly)
    assert "Use SQLite for the ledger" in block(curator.get(f"{PAGE}preview/").content.decode())


def test_token_of_another_person_is_not_previewed(sign_in: SignIn, decision: Memory) -> None:
    token, _ = tokens.issue_token("bot", "eve", "secret", actor=ADMIN)
    assert sign_in("view_secret").get(f"{PAGE}preview/?token={token.uid}").status_code == 404


def test_preview_says_why_a_session_receives_nothing(sign_in: SignIn, decision: Memory) -> None:
    client = sign_in()
    writer, _ = tokens.issue_token("writer", "ada", rights=["write"], actor=ADMIN)
    docs, _ = tokens.issue_token("docs", "ada", projects=["docs"], actor=ADMIN)
    for token, text in ((writer, "lacks the right"), (docs, "no access to the project")):
        assert text in client.get(f"{PAGE}preview/?token={token.uid}").content.decode()
    Project.objects.create(name="shop", mode="off")
    assert "Memory is off in this project" in client.get(f"{PAGE}preview/").content.decode()


def test_page_of_a_closed_project_is_not_found(sign_in: SignIn, decision: Memory) -> None:
    client = sign_in("add_memory", "change_memory")
    Membership.objects.create(user=User.objects.get(username="ada"), project="docs")
    for address in (PAGE, f"{PAGE}preview/"):
        assert client.get(address).status_code == 404
    assert client.post(f"{PAGE}correct/", {"action": "pin", "id": decision.uid}).status_code == 404

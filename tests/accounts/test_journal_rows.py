"""Journal rows about an account or a token are visible to its owner and to people who manage them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.access.policy import Clearance, system_actor
from memoryhub.accounts import tokens
from memoryhub.models import JournalEntry
from memoryhub.web.templatetags.pages import detail_items
from tests.api.conftest import Agent
from tests.clients import signed_in_client

GOOD = "a good password"


@pytest.fixture
def curt(member: Any) -> User:
    return member("view_private", "view_secret", name="curt", farm="")


def signed_in(name: str) -> Client:
    client = Client()
    assert client.post("/login/", {"username": name, "password": GOOD}).status_code == 302
    return client


def test_confined_person_sees_only_their_own_logins(curt, member):
    member(name="millicent", farm="")  # longer than what a random token of the page may contain
    signed_in("millicent")
    text = signed_in("curt").get("/journal/?operation=login").content.decode()
    assert JournalEntry.objects.filter(operation="login").count() == 2
    assert text.count('data-label="Who"') == 1
    assert "millicent" not in text


def test_own_account_row_opens_and_others_do_not(member):
    member(name="mia", farm="")
    member("view_private", "view_secret", name="curt")
    client = signed_in("curt")
    row = JournalEntry.objects.get(operation="login")
    assert client.get(f"/journal/{row.seq}/").status_code == 200
    assert signed_in_client(User.objects.get(username="mia")).get(f"/journal/{row.seq}/").status_code == 404


def test_membership_without_level_is_not_shown_as_none():
    assert detail_items({"in_project": "farm", "level": ""}) == [
        ("in project", "farm"),
        ("level", "same as default"),
    ]


def test_turning_secrets_on_is_journaled_once(curt):
    client = signed_in_client(curt)
    for level in ("secret", "private", "secret"):
        client.post("/switch/", {"level": level, "on": "1", "next": "/"})
    row = JournalEntry.objects.get(operation="secrets_on")
    assert (row.actor, row.object_id) == ("user:curt", "curt")


def test_refused_switch_leaves_no_row(member):
    signed_in_client(member(name="mia")).post("/switch/", {"level": "secret", "on": "1", "next": "/"})
    assert not JournalEntry.objects.filter(operation="secrets_on").exists()


def test_admin_offers_no_operation_of_hidden_rows(member, remember):
    person = member("view_journalentry", "view_memory", name="mia", staff=True, farm="")
    remember("cows", project="farm")
    signed_in("mia")
    text = signed_in_client(person).get("/admin/memoryhub/journalentry/").content.decode()
    assert "operation=insert" in text
    assert "operation=login" not in text


LOOKING_AFTER = "view_agenttoken"


@pytest.fixture
def rows(member: Any) -> dict[str, JournalEntry]:
    """The rows of ada's and bob's tokens, by owner. Both accounts have no role."""
    for owner in ("ada", "bob"):
        member(name=owner)
        tokens.issue_token(f"{owner}-bot", owner, "public", actor=system_actor("tests"))
    return {row.detail["owner"]: row for row in JournalEntry.objects.filter(object_type="token")}


def test_person_without_role_sees_only_their_own_token_rows(rows):
    client = signed_in_client(User.objects.get(username="ada"))
    text = client.get("/journal/?operation=issue").content.decode()
    assert rows["ada"].object_id in text
    assert rows["bob"].object_id not in text
    assert client.get(f"/journal/{rows['bob'].seq}/").status_code == 404


def test_token_manager_sees_all_token_rows(rows, member):
    text = (
        signed_in_client(member(LOOKING_AFTER, name="chief"))
        .get("/journal/?operation=issue")
        .content.decode()
    )
    assert all(row.object_id in text for row in rows.values())


def test_admin_journal_shows_no_more(rows, member):
    for permissions, found in ((("view_journalentry",), False), (("view_journalentry", LOOKING_AFTER), True)):
        person = member(*permissions, name=f"staff{found}", staff=True)
        text = signed_in_client(person).get("/admin/memoryhub/journalentry/?operation=issue").content.decode()
        assert (rows["bob"].object_id in text) is found


def test_token_sees_only_rows_of_its_owners_tokens(rows):
    _, raw = tokens.issue_token("reader", "ada", "secret", actor=system_actor("tests"))
    items = Agent(raw).get("/journal", object_type="token", allow_secret="true").json()["items"]
    assert {item["detail"]["owner"] for item in items} == {"ada"}


def test_anonymous_caller_sees_no_token_rows(rows):
    assert not JournalEntry.objects.visible_to(Clearance()).filter(object_type="token").exists()

"""What the journal tells of a token is for its owner and for who looks after tokens, at every door."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from memoryhub.access.policy import Clearance, system
from memoryhub.accounts import tokens
from memoryhub.models import JournalEntry
from tests.api.conftest import Agent
from tests.visiting import enter

LOOKING_AFTER = "view_agenttoken"


@pytest.fixture
def rows(member: Any) -> dict[str, JournalEntry]:
    """The rows of ada's token and of bob's, by owner; both are accounts without a role."""
    for owner in ("ada", "bob"):
        member(name=owner)
        tokens.issue_token(f"{owner}-bot", owner, "public", actor=system("tests"))
    return {row.detail["owner"]: row for row in JournalEntry.objects.filter(object_type="token")}


def test_who_has_no_role_finds_their_own_and_nobody_elses(rows):
    client = enter(User.objects.get(username="ada"))
    told = client.get("/journal/?operation=issue").content.decode()
    assert f"/journal/{rows['ada'].seq}/" in told
    assert f"/journal/{rows['bob'].seq}/" not in told
    assert client.get(f"/journal/{rows['ada'].seq}/").status_code == 200
    assert client.get(f"/journal/{rows['bob'].seq}/").status_code == 404


def test_who_looks_after_tokens_finds_everyones(rows, member):
    told = enter(member(LOOKING_AFTER, name="chief")).get("/journal/?operation=issue").content.decode()
    assert all(f"/journal/{row.seq}/" in told for row in rows.values())


def test_the_admins_journal_tells_no_more(rows, member):
    for permissions, found in ((("view_journalentry",), False), (("view_journalentry", LOOKING_AFTER), True)):
        person = member(*permissions, name=f"staff{found}", staff=True)
        told = enter(person).get("/admin/memoryhub/journalentry/?operation=issue").content.decode()
        assert (rows["bob"].object_id in told) is found


def test_a_token_reads_of_its_owners_tokens_alone(rows):
    _, raw = tokens.issue_token("reader", "ada", "secret", actor=system("tests"))
    items = Agent(raw).get("/journal", object_type="token", allow_secret="true").json()["items"]
    assert {item["detail"]["owner"] for item in items} == {"ada"}


def test_who_is_nobody_reads_of_none(rows):
    assert not JournalEntry.objects.visible_to(Clearance()).filter(object_type="token").exists()

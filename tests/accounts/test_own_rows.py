"""What an account did is told to its owner, wherever they are confined to, and to nobody like them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from memoryhub.models import JournalEntry
from memoryhub.web.templatetags.pages import detail_items
from tests.visiting import enter

GOOD = "a good password"


@pytest.fixture
def curt(member: Any) -> User:
    return member("view_private", "view_secret", name="curt", farm="")


def signed_in(name: str) -> Client:
    client = Client()
    assert client.post("/login/", {"username": name, "password": GOOD}).status_code == 302
    return client


def test_a_confined_person_finds_their_own_logins_and_nobody_elses(curt, member):
    member(name="mia", farm="")
    signed_in("mia")
    told = signed_in("curt").get("/journal/?operation=login").content.decode()
    mine, theirs = (JournalEntry.objects.get(operation="login", object_id=name) for name in ("curt", "mia"))
    assert f"/journal/{mine.seq}/" in told
    assert f"/journal/{theirs.seq}/" not in told


def test_a_row_of_ones_own_account_opens_and_anothers_does_not(curt, member):
    member(name="mia", farm="")
    client = signed_in("curt")
    row = JournalEntry.objects.get(operation="login")
    assert client.get(f"/journal/{row.seq}/").status_code == 200
    assert enter(User.objects.get(username="mia")).get(f"/journal/{row.seq}/").status_code == 404


def test_a_membership_without_a_level_of_its_own_does_not_read_as_none():
    assert detail_items({"in_project": "farm", "level": ""}) == [
        ("in project", "farm"),
        ("level", "as elsewhere"),
    ]


def test_turning_secrets_on_is_journaled_once(curt):
    client = enter(curt)
    for level in ("secret", "private", "secret"):
        client.post("/switch/", {"level": level, "on": "1", "next": "/"})
    row = JournalEntry.objects.get(operation="secrets_on")
    assert (row.actor, row.object_id) == ("user:curt", "curt")


def test_a_switch_that_may_not_be_turned_leaves_no_row(member):
    enter(member(name="mia")).post("/switch/", {"level": "secret", "on": "1", "next": "/"})
    assert not JournalEntry.objects.filter(operation="secrets_on").exists()


def test_the_admin_offers_no_operation_of_rows_out_of_sight(member, remember):
    person = member("view_journalentry", "view_memory", name="mia", staff=True, farm="")
    remember("cows", project="farm")
    signed_in("mia")
    told = enter(person).get("/admin/memoryhub/journalentry/").content.decode()
    assert "operation=insert" in told
    assert "operation=login" not in told

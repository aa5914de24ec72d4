"""User names are never reused, because personal memories belong to a name."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from memoryhub.access.policy import Clearance, system_actor
from memoryhub.accounts import identities, people, tokens
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.clients import signed_in_client

PHRASE = "quite another phrase"


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def gone(remember: Any, db: None) -> str:
    """Ada had a personal memory, and her account was deleted."""
    ada = User.objects.create_user("ada")
    remember("what ada alone knows", scope="personal", owner="ada")
    assert Memory.objects.visible_to(Clearance(owner="ada")).exists()
    ada.delete()
    return "ada"


def names_now() -> list[str]:
    return list(User.objects.values_list("username", flat=True))


def test_deleted_account_is_journaled_once_however_it_was_deleted(gone, boss):
    User.objects.create_user("bob")
    signed_in_client(boss).post(
        f"/admin/auth/user/{User.objects.get(username='bob').pk}/delete/", {"post": "yes"}
    )
    entries = JournalEntry.objects.filter(operation="account_deleted").order_by("seq")
    assert list(entries.values_list("object_id", "actor")) == [
        ("ada", "system:accounts"),
        ("bob", "user:boss"),
    ]


def test_several_deleted_accounts_are_all_journaled(db):
    for name in ("bob", "dora"):
        User.objects.create_user(name)
    User.objects.all().delete()
    assert identities.is_former_username("bob")
    assert identities.is_former_username("Dora")


@each("name", ["ada", "Ada", " ada "])
def test_people_page_refuses_a_former_name(gone, boss, name):
    answer = signed_in_client(boss).post("/people/", {"username": name, "level": "public"})
    assert (answer.status_code, names_now()) == (422, ["boss"])
    assert "This name belonged to a deleted account" in answer.content.decode()


def test_admin_refuses_a_former_name(gone, boss):
    form = {"username": "ada", "usable_password": "true", "password1": PHRASE, "password2": PHRASE}
    answer = signed_in_client(boss).post("/admin/auth/user/add/", form)
    assert (answer.status_code, names_now()) == (200, ["boss"])
    assert "This name belonged to a deleted account" in answer.content.decode()


def test_commands_refuse_a_former_name(gone, monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PHRASE)
    with pytest.raises(CommandError, match="This name belonged to a deleted account"):
        call_command("createsuperuser", "--noinput", "--username", "ada", "--email", "a@example.org")
    with pytest.raises(CommandError, match="owner: the account with this name was deleted"):
        call_command("create_token", "agent", "--owner", "ada", stdout=io.StringIO())
    assert not names_now()


def test_bootstrap_refuses_a_former_administrator_name(db):
    User.objects.create_superuser("admin")
    User.objects.all().delete()
    text = io.StringIO()
    call_command("quickstart", "--no-demo", "--prepare-only", stdout=text)
    assert not names_now()
    assert "admin was another person" in text.getvalue()
    assert "none; to create one" in text.getvalue()


@pytest.mark.parametrize("make", [User.objects.create_user, User.objects.create_superuser])
def test_shell_refuses_a_former_name(gone, make):
    with pytest.raises(Conflict, match="this name belonged to a deleted account"):
        make("ada")
    with pytest.raises(Conflict, match="this name belonged to a deleted account"):
        User(username="ada").save()


def test_no_token_is_issued_for_a_former_name(gone):
    with pytest.raises(StoreError, match="was deleted"):
        tokens.issue_token("agent", " ada ", actor=system_actor("tests"))


def test_account_cannot_be_renamed_in_code(gone, db):
    bob = User.objects.create_user("bob")
    for name in ("ada", "bertha"):
        bob.username = name
        with pytest.raises(Conflict, match="cannot be renamed; this one is called bob"):
            bob.save()
    assert names_now() == ["bob"]


def test_new_name_is_accepted(gone, boss):
    assert people.create_account("dora", PHRASE, boss).username == "dora"
    dora = User.objects.get(username="dora")
    dora.first_name = "Dora"
    dora.save()
    assert not Memory.objects.visible_to(Clearance(owner="dora")).exists()
